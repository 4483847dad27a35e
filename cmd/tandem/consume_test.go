package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// consuming is a `tandem consume` of this process.
type consuming struct {
	stop           context.CancelFunc // as SIGTERM does
	code           chan int
	stdout, stderr syncBuffer
}

func startConsuming(t *testing.T, args ...string) *consuming {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	c := &consuming{stop: stop, code: make(chan int, 1)}
	go func() { c.code <- execute(ctx, append([]string{"consume"}, args...), &c.stdout, &c.stderr) }()
	t.Cleanup(func() {
		stop()
		c.wait(t)
		if t.Failed() {
			t.Log(c.stderr.String())
		}
	})
	return c
}

// wait returns the exit code.
func (c *consuming) wait(t *testing.T) int {
	t.Helper()
	select {
	case code := <-c.code:
		c.code <- code
		return code
	case <-time.After(30 * time.Second):
		t.Fatalf("consume does not end\n%s", c.stderr.String())
		return -1
	}
}

// end ends it as SIGTERM does, and checks that it goes in order and how it sums up.
func (c *consuming) end(t *testing.T, summary string) {
	t.Helper()
	c.stop()
	if code := c.wait(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	lines := strings.Split(strings.TrimSpace(c.stderr.String()), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "tandem consume: topic orders, group ") || !strings.Contains(last, summary) {
		t.Errorf("the last line is %q, want %q", last, summary)
	}
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) { // poll
		if time.Now().After(deadline) {
			t.Fatalf("not in 30 s: %s", what)
		}
	}
}

// produceOrders writes n records to topic orders, round robin over keys k0, k1, ...; of each key the values count up from 0.
func produceOrders(t *testing.T, bootstrap string, n, keys int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: "orders", Key: fmt.Appendf(nil, "k%d", i%keys), Value: fmt.Appendf(nil, "%d", i/keys)}
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// letters reads n records of a topic.
func letters(t *testing.T, bootstrap, topic string, n int) (list []*kgo.Record) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for len(list) < n && ctx.Err() == nil {
		list = append(list, cl.PollFetches(ctx).Records()...)
	}
	if len(list) != n {
		t.Fatalf("%d records in %s, not %d", len(list), topic, n)
	}
	return list
}

// inOrder checks lines "KEY VALUE ...": each key's values count up from 0, to n-1, without those that miss says.
func inOrder(t *testing.T, out string, n, keys int, miss string) {
	t.Helper()
	next := map[string]int{}
	for line := range strings.Lines(out) {
		var key string
		var value int
		if _, err := fmt.Sscanf(line, "%s %d", &key, &value); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if fmt.Sprint(key, " ", next[key]) == miss {
			next[key]++
		}
		if value != next[key] {
			t.Fatalf("%q, not %d", line, next[key])
		}
		next[key]++
	}
	for k := range keys {
		if got := next[fmt.Sprintf("k%d", k)]; got != n/keys {
			t.Errorf("k%d ends before %d, not %d", k, got, n/keys)
		}
	}
}

// A script that cannot digest one record, and needs a second attempt for another.
const digest = `v=$(cat)
case "$TANDEM_KEY $v" in
"k3 3") echo cannot be digested >&2; exit 1 ;;
"k4 2") [ $TANDEM_ATTEMPT -gt 1 ] || exit 1 ;;
esac
echo "$TANDEM_KEY $v"`

func TestConsumeWithACommand(t *testing.T) {
	s := startServing(t, "--listen", fmt.Sprintf("127.0.0.1:%d", freePort(t)))
	produceOrders(t, s.bootstrap, 60, 6)
	c := startConsuming(t, "orders", "--kafka", s.bootstrap, "--group", "g", "--key-order", "--from-beginning",
		"--attempts", "3", "--backoff", "1ms", "--dead-letter", "orders.failed", "--", "/bin/sh", "-c", digest)
	letter := letters(t, s.bootstrap, "orders.failed", 1)[0]
	until(t, "59 records", func() bool { return strings.Count(c.stdout.String(), "\n") >= 59 })
	c.end(t, "59 done, 4 failed attempts, 1 dead letters, 0 skipped")
	inOrder(t, c.stdout.String(), 60, 6, "k3 3")
	var nexts []int // by attempt
	for line := range strings.Lines(c.stderr.String()) {
		if strings.Contains(line, `msg="a record failed"`) && strings.Contains(line, "key=k3") {
			nexts = append(nexts, strings.Count(line, fmt.Sprintf(" next=%d-", time.Now().Year())))
		}
	}
	if fmt.Sprint(nexts) != "[1 1 0]" {
		t.Errorf("the lines of 3 attempts say %v times when the next one is", nexts)
	}
	headers := map[string]string{}
	for _, h := range letter.Headers {
		headers[h.Key] = string(h.Value)
	}
	if string(letter.Key) != "k3" || string(letter.Value) != "3" || headers["tandem.dlq.attempts"] != "3" || headers["tandem.dlq.error"] != "exit status 1: cannot be digested" ||
		headers["tandem.dlq.topic"] != "orders" || headers["tandem.dlq.group"] != "g" {
		t.Errorf("dead letter %s %s, %v", letter.Key, letter.Value, headers)
	}

	// Everything was committed: the group goes on behind it.
	again := startConsuming(t, "orders", "--kafka", s.bootstrap, "--group", "g", "--key-order", "--from-beginning", "--", "/bin/sh", "-c", `echo "$TANDEM_KEY $(cat)"`)
	until(t, "it runs", func() bool { return strings.Contains(again.stderr.String(), "consuming through a gateway") })
	produceOrders(t, s.bootstrap, 6, 6)
	until(t, "6 records", func() bool { return strings.Count(again.stdout.String(), "\n") >= 6 })
	again.end(t, "6 done, 0 failed attempts")
	inOrder(t, again.stdout.String(), 6, 6, "")
}

// SIGTERM lets a command end that runs, commits its record, and begins no other.
func TestConsumeDrains(t *testing.T) {
	s := startServing(t, "--listen", fmt.Sprintf("127.0.0.1:%d", freePort(t)))
	produceOrders(t, s.bootstrap, 3, 1)
	dir := t.TempDir()
	t.Setenv("GATE", dir)
	args := []string{"orders", "--kafka", s.bootstrap, "--group", "g", "--from-beginning", "--"}
	c := startConsuming(t, append(args, "/bin/sh", "-c", `touch $GATE/began; until [ -e $GATE/open ]; do sleep 0.01; done; echo "k0 $(cat)"`)...)
	exists := func(name string) bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
	until(t, "a command runs", func() bool { return exists("began") })
	c.stop()
	if err := os.WriteFile(filepath.Join(dir, "open"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.end(t, "1 done, 0 failed attempts")
	rest := startConsuming(t, append(args, "/bin/sh", "-c", `echo "k0 $(cat)"`)...)
	until(t, "2 records", func() bool { return strings.Count(rest.stdout.String(), "\n") >= 2 })
	rest.end(t, "2 done, 0 failed attempts")
	inOrder(t, c.stdout.String()+rest.stdout.String(), 3, 1, "")
}

// On a plain cluster it carries the gateway itself.
func TestConsumePostsFromAPlainCluster(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.AllowAutoTopicCreation(), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	bootstrap := fake.ListenAddrs()[0]
	produceOrders(t, bootstrap, 40, 4)
	var mu sync.Mutex
	var out strings.Builder
	attempts := 0
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if r.Header.Get("Tandem-Key") == "k1" && string(body) == "4" && r.Header.Get("Tandem-Attempt") == "1" {
			attempts++
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		if r.Header.Get("X-Token") != "t: 1" || r.Header.Get("Tandem-Group") != "g" {
			t.Errorf("headers %v", r.Header)
		}
		fmt.Fprintf(&out, "%s %s\n", r.Header.Get("Tandem-Key"), body)
	}))
	defer endpoint.Close()
	c := startConsuming(t, "orders", "--kafka", bootstrap, "--group", "g", "--key-order", "--from-beginning", "--backoff", "1h", "--max-backoff", "1h",
		"--post", endpoint.URL, "--header", "X-Token: t: 1")
	until(t, "40 records", func() bool { mu.Lock(); defer mu.Unlock(); return strings.Count(out.String(), "\n") >= 40 })
	c.end(t, "40 done, 1 failed attempts")
	inOrder(t, out.String(), 40, 4, "")
	if attempts != 1 || !strings.Contains(c.stderr.String(), "with a gateway in this process") {
		t.Errorf("%d failed attempts", attempts)
	}
}

// With --no-order two processes share one partition, each record is with one of them, and one that fails for ever holds up nothing, not even its own key; with
// a gateway, and on a plain cluster.
func TestConsumeWithoutOrder(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close) // after the gateway
	cluster := fake.ListenAddrs()[0]
	s := startServing(t, "--kafka", cluster, "--listen", fmt.Sprintf("127.0.0.1:%d", freePort(t)))
	produceOrders(t, cluster, 40, 4)
	t.Setenv("GATE", t.TempDir())
	const script = `v=$(cat); [ "$TANDEM_KEY $v" != "k3 3" ] || exit 1; touch $GATE/$$; until [ -e $GATE/open ]; do sleep 0.01; done; echo "$TANDEM_KEY $v"`
	var all []*consuming
	for _, bootstrap := range []string{s.bootstrap, cluster} {
		all = append(all, startConsuming(t, "orders", "--kafka", bootstrap, "--group", "g", "--no-order", "--from-beginning", "--concurrency", "3", "--backoff", "1ms", "--max-backoff", "1ms", "--", "/bin/sh", "-c", script))
	}
	until(t, "6 commands run, 3 of each", func() bool {
		began, err := os.ReadDir(os.Getenv("GATE"))
		return err == nil && len(began) == 6
	})
	if err := os.WriteFile(filepath.Join(os.Getenv("GATE"), "open"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "39 records", func() bool { return strings.Count(all[0].stdout.String()+all[1].stdout.String(), "\n") >= 39 })
	seen := map[string]bool{}
	for _, c := range all {
		c.end(t, " done, ")
		for line := range strings.Lines(c.stdout.String()) {
			if seen[line] {
				t.Errorf("%q is done twice", line)
			}
			seen[line] = true
		}
		if n := strings.Count(c.stdout.String(), "\n"); n < 3 {
			t.Errorf("one of them did %d records", n)
		}
	}
	if len(seen) != 39 || seen["k3 3\n"] {
		t.Errorf("%d records are done, want all of 40 but one", len(seen))
	}
	if out := all[1].stderr.String(); !strings.Contains(out, "with a gateway in this process") {
		t.Errorf("stderr %s", out)
	}
}

// The cluster goes away while a process has records in hand that it shares by record: it ends all the same, and so does the gateway.
func TestConsumeAndServeEndWithoutTheirCluster(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	cluster := fake.ListenAddrs()[0]
	file := filepath.Join(t.TempDir(), "tandem.yaml")
	if err := os.WriteFile(file, []byte("limits: {drain-timeout: 500ms}"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServing(t, "--kafka", cluster, "--listen", fmt.Sprintf("127.0.0.1:%d", freePort(t)), "--config", file)
	produceOrders(t, cluster, 40, 4)
	dir := t.TempDir()
	t.Setenv("GATE", dir)
	c := startConsuming(t, "orders", "--kafka", s.bootstrap, "--config", file, "--group", "g", "--no-order", "--from-beginning", "--", "/bin/sh", "-c", `touch $GATE/$$; until [ -e $GATE/open ]; do sleep 0.01; done`)
	until(t, "commands run", func() bool {
		began, err := os.ReadDir(dir)
		return err == nil && len(began) > 0
	})
	fake.Close()
	c.stop()
	s.stop()
	for _, ended := range []int{c.wait(t), s.wait(t)} {
		if ended != 0 {
			t.Errorf("exit code %d", ended)
		}
	}
}

// What is not allowed, or not possible, is said, and nobody waits for it.
func TestConsumeWithoutOrderIsRefused(t *testing.T) {
	start := func(yaml string) string {
		file := filepath.Join(t.TempDir(), "tandem.yaml")
		if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		s := startServing(t, "--listen", fmt.Sprintf("127.0.0.1:%d", freePort(t)), "--config", file)
		produceOrders(t, s.bootstrap, 1, 1)
		return s.bootstrap
	}
	off, byTopic := start("cooperative.fetch.enable: false"), start("topics: {orders: {cooperative.fetch.enable: false}}\ncooperative.fetch.enable: true")
	for _, c := range []struct{ bootstrap, topic, want string }{
		{off, "orders", "--no-order: the gateway behind " + off + " has cooperative.fetch.enable or individual.commit.enable off"},
		{byTopic, "orders", "does not allow it (cooperative.fetch.enable): topic orders: "},
		{byTopic, "orders.view4", "not for views"},
	} {
		code, _, stderr := run(t, "consume", c.topic, "--group", "g", "--no-order", "--from-beginning", "--kafka", c.bootstrap, "--log-level", "error", "--", "cat")
		if code != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d, %s", c.topic, code, stderr)
		}
	}
}

func TestConsumeStopsOnFailure(t *testing.T) {
	s := startServing(t, "--listen", fmt.Sprintf("127.0.0.1:%d", freePort(t)))
	produceOrders(t, s.bootstrap, 1, 1)
	c := startConsuming(t, "orders", "--kafka", s.bootstrap, "--group", "g", "--from-beginning", "--attempts", "2", "--backoff", "1ms", "--stop-on-failure", "--", "false")
	if code := c.wait(t); code != 1 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"offset 0", `key "k0"`, "after 2 attempts", "exit status 1", "0 done, 2 failed attempts"} {
		if !strings.Contains(c.stderr.String(), want) {
			t.Errorf("stderr lacks %q", want)
		}
	}
}

// Where nothing is said of what comes after the last attempt there is none.
func TestConsumeTriesForever(t *testing.T) {
	s := startServing(t, "--listen", fmt.Sprintf("127.0.0.1:%d", freePort(t)))
	produceOrders(t, s.bootstrap, 1, 1)
	c := startConsuming(t, "orders", "--kafka", s.bootstrap, "--group", "g", "--from-beginning", "--backoff", "1ms", "--max-backoff", "1ms", "--",
		"/bin/sh", "-c", `[ $TANDEM_ATTEMPT -gt 15 ] && echo "$TANDEM_KEY $(cat)"`)
	until(t, "the record", func() bool { return c.stdout.String() != "" })
	c.end(t, "1 done, 15 failed attempts")
}

// The topic of a view is empty: without its gateway nothing would ever come.
func TestConsumeRefusesAViewWithoutItsGateway(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	bootstrap := fake.ListenAddrs()[0]
	if code, _, stderr := run(t, "view", "create", "orders-wide", "--source", "orders", "--partitions", "4", "--kafka", bootstrap); code != 0 {
		t.Fatal(stderr)
	}
	for _, more := range []string{"--key-order", "--no-order", "--in-process", "--concurrency=1"} {
		code, _, stderr := run(t, "consume", "orders-wide", "--group", "g", "--kafka", bootstrap, more, "--", "cat")
		if code != 1 || !strings.Contains(stderr, "orders-wide is a view, and only a gateway shows its records") {
			t.Errorf("%s: %d %s", more, code, stderr)
		}
	}
}

// Apache Kafka says that a topic does not exist, and creates it then: it may be asked for several times.
func TestConsumeWaitsForADeadLetterTopicThatTheClusterCreates(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	const created = 4 // with this question
	asked, creates := 0, make(chan struct{}, 1)
	fake.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if topics := kreq.(*kmsg.MetadataRequest).Topics; len(topics) == 1 && topics[0].Topic != nil && *topics[0].Topic == "orders.failed" {
			if asked++; asked == created {
				creates <- struct{}{}
			}
		}
		return nil, nil, false
	})
	c := startConsuming(t, "orders", "--group", "g", "--kafka", fake.ListenAddrs()[0], "--dead-letter", "orders.failed", "--", "cat")
	select {
	case <-creates:
	case code := <-c.code:
		c.code <- code
		t.Fatalf("exit code %d: %s", code, c.stderr.String())
	}
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, "orders.failed"); err != nil {
		t.Fatal(err)
	}
	until(t, "it consumes", func() bool { return strings.Contains(c.stderr.String(), "consuming from a cluster") })
	c.end(t, "0 done")
}

func TestConsumeErrorsAreOneLine(t *testing.T) {
	quick := filepath.Join(t.TempDir(), "tandem.yaml")
	os.WriteFile(quick, []byte("limits: {start-timeout: 300ms}\nlisten: 127.0.0.1:1"), 0o600)
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	cluster := " --log-level error --kafka " + fake.ListenAddrs()[0]
	for args, want := range map[string]string{
		"":                     "a TOPIC is missing",
		"--group g":            "a TOPIC is missing",
		"--group g -- cat":     "a TOPIC is missing",
		"orders -- cat":        "no consumer group: add --group",
		"orders --group g":     "add -- COMMAND, or --post URL",
		"orders cat --group g": "put -- before the command",
		"orders --group g --post http://a -- cat":                            "exclude each other",
		"orders --group g --skip-failed --dead-letter x -- cat":              "exclude each other",
		"orders --group g --key-order --no-order -- cat":                     "--key-order and --no-order exclude each other",
		"orders --group g --dead-letter orders -- cat":                       "the topic itself",
		"orders --group g --concurrency 0 -- cat":                            "--concurrency",
		"orders --group g --attempts -1 -- cat":                              "--attempts",
		"orders --group g --backoff 1m -- cat":                               "--max-backoff",
		"orders --group g --timeout -1s -- cat":                              "--timeout",
		"orders --group g --header a:b -- cat":                               "--header is for --post",
		"orders --group g --post http://a --prefix":                          "--prefix",
		"orders --group g --post http://a --header a":                        "NAME:VALUE",
		"orders --group g --post localhost":                                  "http://",
		"orders --group g -- no-such-command":                                "no-such-command",
		"orders --group g --kafka 127.0.0.1:2 --config " + quick + " -- cat": "no answer from 127.0.0.1:2: dial tcp 127.0.0.1:2: connect: connection refused\n",
		"orders --group g --config " + quick + " -- cat":                     "no answer from 127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused; name a cluster, or a gateway, with --kafka\n",
		"orders --group g --dead-letter none" + cluster + " -- cat":          "create it",
		"orders.view4 --group g" + cluster + " -- cat":                       "only a gateway shows its records",
	} {
		t.Run(args, func(t *testing.T) {
			code, stdout, stderr := run(t, append([]string{"consume"}, strings.Fields(args)...)...)
			if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want one line with %q", code, stdout, stderr, want)
			}
		})
	}
}
