package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/internal/config"
	"github.com/tandem-kafka/tandem/internal/gateway"
	"github.com/tandem-kafka/tandem/internal/upstream"
)

// run runs a command line to its end.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	code = execute(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

// serving is a `tandem serve` of this process.
type serving struct {
	bootstrap string
	stop      context.CancelFunc // as SIGTERM does
	code      chan int
	stderr    *syncBuffer
}

func startServing(t *testing.T, args ...string) *serving {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r, w := io.Pipe()
	s := &serving{stop: stop, code: make(chan int, 1), stderr: &syncBuffer{}}
	go func() {
		s.code <- execute(ctx, append([]string{"serve"}, args...), w, s.stderr)
		w.Close()
	}()
	t.Cleanup(func() { stop(); s.wait(t) })
	line := make([]byte, 200)
	n, _ := r.Read(line)
	addr, ok := strings.CutPrefix(strings.TrimSpace(string(line[:n])), "ready: bootstrap ")
	if !ok {
		t.Fatalf("serve says %q\n%s", line[:n], s.stderr)
	}
	s.bootstrap = addr
	return s
}

// wait returns the exit code.
func (s *serving) wait(t *testing.T) int {
	t.Helper()
	select {
	case code := <-s.code:
		s.code <- code
		return code
	case <-time.After(30 * time.Second):
		t.Fatalf("serve does not end\n%s", s.stderr)
		return -1
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// freePort returns the first of two ports that were free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		a, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := a.Addr().(*net.TCPAddr).Port
		b, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		a.Close()
		if err == nil {
			b.Close()
			return port
		}
	}
	t.Fatal("no two free ports beside each other")
	return 0
}

func TestServeKeepsItsData(t *testing.T) {
	dir, listen := t.TempDir(), fmt.Sprintf("127.0.0.1:%d", freePort(t))
	admin := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	for round := range 2 {
		s := startServing(t, "--listen", listen, "--data", dir, "--admin", admin)
		if s.bootstrap != listen {
			t.Errorf("bootstrap %s, want %s", s.bootstrap, listen)
		}
		for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ready", "/metrics": "tandem_connections"} {
			resp, err := http.Get("http://" + admin + path)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
				t.Errorf("%s: %d %.200s", path, resp.StatusCode, body)
			}
		}
		cl, err := kgo.NewClient(kgo.SeedBrokers(listen), kgo.AllowAutoTopicCreation())
		if err != nil {
			t.Fatal(err)
		}
		r, err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("x")}).First()
		if err != nil || r.Offset != int64(round) {
			t.Errorf("round %d: offset %d, %v", round, r.Offset, err)
		}
		cl.Close()
		s.stop()
		if code := s.wait(t); code != 0 {
			t.Errorf("exit code %d\n%s", code, s.stderr)
		}
	}
}

func TestServeErrorsAreOneLine(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	dir := t.TempDir()
	startServing(t, "--listen", fmt.Sprintf("127.0.0.1:%d", freePort(t)), "--data", dir)
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	free := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"busy port":        {[]string{"--listen", busy.Addr().String()}, "--listen"},
		"busy admin":       {[]string{"--listen", free, "--admin", busy.Addr().String()}, "admin address"},
		"folder in use":    {[]string{"--listen", free, "--data", dir}, "in use by another process"},
		"no cluster":       {[]string{"--listen", free, "--config", file("t.yaml", "limits: {start-timeout: 300ms}"), "--kafka", "127.0.0.1:1"}, "127.0.0.1:1"},
		"no file":          {[]string{"--config", "/none.yaml"}, "/none.yaml"},
		"unknown key":      {[]string{"--config", file("u.yaml", "lissen: a:1")}, `did you mean "listen"?`},
		"two problems":     {[]string{"--listen", "x", "--log-level", "y"}, "; log.level"},
		"data and cluster": {[]string{"--data", dir, "--kafka", "a:1"}, "embedded engine's folder"},
		"unknown flag":     {[]string{"--lissen", "x"}, "unknown flag: --lissen; tandem serve --help shows those there are"},
		"unknown letter":   {[]string{"-x"}, "unknown shorthand flag: 'x' in -x; tandem serve --help"},
		"data is a file":   {[]string{"--listen", free, "--data", file("data", "")}, "is a file, not a folder"},
		"argument":         {[]string{"orders"}, "orders"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, append([]string{"serve"}, c.args...)...)
			if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want one line with %q", code, stdout, stderr, c.want)
			}
		})
	}
}

func TestCommandErrorsAreOneLine(t *testing.T) {
	for want, args := range map[string][]string{
		`unknown command "srve"; tandem --help`:           {"srve"},
		`unknown command "drop"; tandem view --help`:      {"view", "drop", "x"},
		"one NAME of a view is needed, not 0: tandem":     {"view", "describe"},
		"not 2: tandem view create NAME --source TOPIC":   {"view", "create", "a", "b", "--source", "o", "--partitions", "2"},
		`required flag(s) "partitions", "source" not set`: {"view", "create", "a"},
	} {
		code, stdout, stderr := run(t, args...)
		if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q; want one line with %q", args, code, stdout, stderr, want)
		}
	}
	for _, args := range [][]string{{}, {"view"}, {"--help"}} {
		if code, stdout, stderr := run(t, args...); code != 0 || !strings.Contains(stdout, "Available Commands") || stderr != "" {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

// While a cluster does not answer there is one line that says so, soon. SIGTERM ends the wait: what runs until then ends in order.
func TestWaitingForACluster(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		last string
	}{
		{"serve", 0, "ended before clients could connect"},
		{"consume orders --group g -- cat", 0, "tandem consume: topic orders, group g: 0 done, 0 failed attempts, 0 dead letters, 0 skipped, in "},
		{"view list", 1, "no answer from 127.0.0.1:1: "},
		{"group describe g", 1, "no answer from 127.0.0.1:1: "},
		{"demo", 1, "no answer from 127.0.0.1:1: "},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(t.Context())
			code, stderr := make(chan int), &syncBuffer{}
			name, rest, _ := strings.Cut(c.args, " -- ")
			args := append(strings.Fields(name), "--kafka", "127.0.0.1:1")
			if rest != "" {
				args = append(args, "--", rest)
			}
			go func() { code <- execute(ctx, args, io.Discard, stderr) }()
			until(t, "it says that it waits", func() bool { return strings.Count(stderr.String(), "\n") == 1 })
			if got := stderr.String(); !strings.Contains(got, "still trying") || !strings.Contains(got, "dial tcp 127.0.0.1:1: connect: connection refused") {
				t.Errorf("it says %q", got)
			}
			stop()
			got := <-code
			lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
			if got != c.code || len(lines) != 2 || !strings.Contains(lines[1], c.last) {
				t.Errorf("exit code %d, %q; want %d, %q", got, lines, c.code, c.last)
			}
		})
	}
}

func TestCommandsSayHowToNameACluster(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tandem.yaml")
	if err := os.WriteFile(file, []byte("limits: {start-timeout: 300ms}\nlisten: 127.0.0.1:1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"view", "list"}, {"group", "describe", "g"}} {
		code, _, stderr := run(t, append(args, "--config", file)...)
		if want := "tandem: no answer from 127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused; name a cluster, or a gateway, with --kafka\n"; code != 1 || stderr != want {
			t.Errorf("%q: exit code %d, %q; want %q", args, code, stderr, want)
		}
	}
}

func TestFlagsWinOverTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tandem.yaml")
	os.WriteFile(path, []byte("listen: a:1\nadvertise: file\nkafka: {bootstrap.servers: b:1}"), 0o600)
	var flags settingFlags
	cmd := newServeWith(&flags)
	if err := cmd.ParseFlags([]string{"--kafka", "c:1, d:2", "--config", path, "--listen", "e:1"}); err != nil {
		t.Fatal(err)
	}
	c, err := flags.load()
	if err != nil || c.Listen != "e:1" || c.Advertise != "file" || fmt.Sprint(c.Kafka.Bootstrap) != "[c:1 d:2]" {
		t.Errorf("%+v, %v", c, err)
	}
	if err := newServe().ParseFlags([]string{"--listen", ""}); err == nil {
		t.Error("an empty --listen is taken")
	}
}

func TestViewCommands(t *testing.T) {
	s := startServing(t, "--listen", fmt.Sprintf("127.0.0.1:%d", freePort(t)))
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 4, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	view := func(args ...string) (int, string, string) {
		t.Helper()
		return run(t, append(append([]string{"view"}, args...), "--kafka", s.bootstrap)...)
	}
	for _, c := range []struct{ args, want string }{
		{"create orders-odd --source orders --partitions 6", "4 or 8"},
		{"create w --source none --partitions 4", "none"},
		{"create orders --source orders --partitions 8", "own source"},
		{"create w", `required flag(s) "partitions", "source"`},
		{"describe w", "there is no view w"},
		{"delete w", "there is no view w"},
		{"delete", "one NAME"},
	} {
		code, stdout, stderr := view(strings.Fields(c.args)...)
		if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("view %s: exit code %d, stdout %q, stderr %q; want one line with %q", c.args, code, stdout, stderr, c.want)
		}
	}
	for range 2 { // a second time is the same
		code, stdout, stderr := view("create", "orders-wide", "--source", "orders", "--partitions", "16")
		if code != 0 || !strings.Contains(stdout, "view orders-wide shows topic orders in 16 virtual partitions") {
			t.Fatalf("create: %d %q %q", code, stdout, stderr)
		}
	}
	_, stdout, _ := view("list", "--json")
	var list []viewJSON
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || len(list) != 1 {
		t.Fatalf("list: %v\n%s", err, stdout)
	}
	w := list[0]
	if w.Name != "orders-wide" || w.Source != "orders" || w.Partitions != 16 || w.SourcePartitions != 4 || w.Slices != 4 || w.State != "ready" || w.TopicID == "" ||
		fmt.Sprint(w.Slots[1]) != "{1 [1 5 9 13]}" {
		t.Errorf("list: %+v", w)
	}
	if _, stdout, _ := view("list"); !strings.Contains(stdout, "orders-wide  orders  16") {
		t.Errorf("list: %s", stdout)
	}
	if _, stdout, _ := view("describe", "orders-wide"); !strings.Contains(stdout, "orders-1 is in         1 5 9 13") {
		t.Errorf("describe: %s", stdout)
	}
	if code, stdout, stderr := view("delete", "orders-wide", "--json"); code != 0 || !strings.Contains(stdout, `"deleted": "orders-wide"`) {
		t.Errorf("delete: %d %q %q", code, stdout, stderr)
	}
	if _, stdout, _ := view("list", "--json"); strings.TrimSpace(stdout) != "[]" {
		t.Errorf("after delete: %s", stdout)
	}
}

func TestViewsOfTheFile(t *testing.T) {
	listen := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	dir := t.TempDir()
	s := startServing(t, "--listen", listen, "--data", dir)
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	s.stop()
	s.wait(t)
	path := filepath.Join(t.TempDir(), "tandem.yaml")
	os.WriteFile(path, fmt.Appendf(nil, "listen: %s\ndata: %s\nviews: {orders-wide: {source: orders, partitions: 16}}\n", listen, dir), 0o600)
	startServing(t, "--config", path)
	if code, stdout, stderr := run(t, "view", "list", "--config", path); code != 0 || !strings.Contains(stdout, "orders-wide  orders  16") {
		t.Errorf("view list with the gateway's file: %d %q %q", code, stdout, stderr)
	}
}

func TestSettingsOfTopicsReachTheGateway(t *testing.T) {
	c, err := config.Parse([]byte("key.range.fetch.enable: false\ntopics: {orders: {key.range.fetch.enable: true, key.range.hashing.load: key}, plain: {}}"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := gatewayConfig(c, upstream.Config{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	orders, plain := g.Topics["orders"], g.Topics["plain"]
	if !g.IndividualCommits || g.KeyRangeFetch || orders.KeyRangeFetch == nil || !*orders.KeyRangeFetch || orders.HashingLoad != gateway.LoadKey || plain != (gateway.TopicConfig{}) {
		t.Errorf("%+v", g)
	}
}

func TestDemoJSON(t *testing.T) {
	code, stdout, stderr := run(t, "demo", "--json", "--consumers", "2", "--records", "2000", "--keys", "100", "--work", "2ms")
	var got map[string]float64
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v\n%s\n%s", err, stdout, stderr)
	}
	for _, key := range []string{"consumers", "records", "plain_records_per_second", "view_records_per_second", "speedup", "lost", "duplicates", "order_violations"} {
		if _, ok := got[key]; !ok {
			t.Errorf("the summary lacks %q", key)
		}
	}
	if code != 0 || len(got) != 8 || got["records"] != 2000 || got["lost"] != 0 || got["order_violations"] != 0 {
		t.Errorf("exit code %d, %v\n%s", code, got, stderr)
	}
}

func TestVersion(t *testing.T) {
	if code, stdout, _ := run(t, "version"); code != 0 || !strings.HasPrefix(stdout, "tandem ") {
		t.Errorf("%d %q", code, stdout)
	}
	if code, stdout, _ := run(t, "--version"); code != 0 || !strings.HasPrefix(stdout, "tandem ") {
		t.Errorf("--version: exit code %d, %q", code, stdout)
	}
	_, stdout, _ := run(t, "version", "--json")
	var v versionJSON
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || v.Go == "" {
		t.Errorf("%v %q", err, stdout)
	}
}
