package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
)

func open(t *testing.T, opts Options) *Engine {
	t.Helper()
	e, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func client(t *testing.T, e *Engine, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(e.Addrs()...),
		kgo.AllowAutoTopicCreation(),
		kgo.FetchMaxWait(50 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func produce(t *testing.T, cl *kgo.Client, topic string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		r := &kgo.Record{Topic: topic, Key: []byte(fmt.Sprint("k", i%3)), Value: []byte(fmt.Sprint(i))}
		if err := cl.ProduceSync(testContext(t), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// offsets returns the start and the end of partition 0.
func offsets(t *testing.T, cl *kgo.Client, topic string) (start, end int64) {
	t.Helper()
	adm := kadm.NewClient(cl)
	starts, err := adm.ListStartOffsets(testContext(t), topic)
	if err == nil {
		err = starts.Error()
	}
	ends, err2 := adm.ListEndOffsets(testContext(t), topic)
	if err := errors.Join(err, err2, ends.Error()); err != nil {
		t.Fatal(err)
	}
	s, _ := starts.Lookup(topic, 0)
	n, _ := ends.Lookup(topic, 0)
	return s.Offset, n.Offset
}

// readAll returns the values of partition 0 from its start to its end.
func readAll(t *testing.T, e *Engine, topic string, opts ...kgo.Opt) []string {
	t.Helper()
	cl := client(t, e, append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))...)
	start, end := offsets(t, cl, topic)
	var values []string
	for next := start; next < end; {
		fetches := cl.PollFetches(testContext(t))
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			values = append(values, string(r.Value))
			next = r.Offset + 1
		})
	}
	return values
}

// afterCrash returns a folder with what a kill -9 of the process would leave
// in the engine's at this moment.
func afterCrash(t *testing.T, e *Engine) string {
	t.Helper()
	to := t.TempDir()
	err := filepath.WalkDir(e.Dir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(e.Dir(), path)
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		from, err := os.Open(path)
		if err != nil {
			return err
		}
		defer from.Close()
		f, err := os.Create(filepath.Join(to, rel))
		if err != nil {
			return err
		}
		_, err = io.Copy(f, from)
		return errors.Join(err, f.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func TestKeepsEverythingOverClose(t *testing.T) {
	dir := t.TempDir()
	e := open(t, Options{Dir: dir})
	cl := client(t, e)
	produce(t, cl, "orders", 0, 10)
	commit(t, cl, "g", "orders", 7)
	e.Close()

	e = open(t, Options{Dir: dir})
	if got := readAll(t, e, "orders"); fmt.Sprint(got) != "[0 1 2 3 4 5 6 7 8 9]" {
		t.Errorf("records %v", got)
	}
	if got := committed(t, client(t, e), "g", "orders"); got != 7 {
		t.Errorf("committed %d, want 7", got)
	}
}

func commit(t *testing.T, cl *kgo.Client, group, topic string, offset int64) {
	t.Helper()
	os := kadm.Offsets{}
	os.AddOffset(topic, 0, offset, -1)
	if err := kadm.NewClient(cl).CommitAllOffsets(testContext(t), group, os); err != nil {
		t.Fatal(err)
	}
}

// committed returns -1 when the group has no offset for partition 0.
func committed(t *testing.T, cl *kgo.Client, group, topic string) int64 {
	t.Helper()
	got, err := kadm.NewClient(cl).FetchOffsets(testContext(t), group)
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := got.Lookup(topic, 0); ok {
		return o.At
	}
	return -1
}

func TestFolderInUse(t *testing.T) {
	dir := t.TempDir()
	open(t, Options{Dir: dir})
	if _, err := Open(Options{Dir: dir}); !errors.Is(err, ErrInUse) {
		t.Fatalf("second Open: %v, want ErrInUse", err)
	}
}

func TestTemporaryFolderGoes(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	left := filepath.Join(os.TempDir(), temporaryPrefix+"left")
	os.Mkdir(left, 0o755)
	os.WriteFile(filepath.Join(left, lockFile), nil, 0o644) // of a process that was killed
	e := open(t, Options{})
	if !e.Temporary() {
		t.Error("not temporary")
	}
	other := open(t, Options{}) // must leave the first one's alone
	if _, err := os.Stat(e.Dir()); err != nil {
		t.Fatal(err)
	}
	e.Close()
	other.Close()
	if left, _ := os.ReadDir(os.TempDir()); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	e, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	e.Close()
}

func TestBusyPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	if _, err := Open(Options{Dir: dir, Port: l.Addr().(*net.TCPAddr).Port}); err == nil {
		t.Fatal("opened on a busy port")
	}
	open(t, Options{Dir: dir}) // the failed Open released the folder
}

func TestRefusesTopicsWithoutAutoCreate(t *testing.T) {
	e := open(t, Options{NoAutoCreate: true})
	cl := client(t, e, kgo.UnknownTopicRetries(0))
	err := cl.ProduceSync(testContext(t), &kgo.Record{Topic: "none", Value: []byte("x")}).FirstErr()
	if !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Fatalf("produce: %v", err)
	}
}

// Bytes that would end the process, or make it allocate what they say.
func TestHostileFrames(t *testing.T) {
	e := open(t, Options{})
	for name, frame := range map[string]string{
		"unknown API key": "\x00\x00\x00\x0a\x27\x0f\x00\x00\x00\x00\x00\x01\xff\xff",
		"huge":            "\x7f\xff\xff\xff\x00\x03\x00\x00\x00\x00\x00\x01",
		"negative":        "\xff\xff\xff\xff\x00\x03\x00\x00\x00\x00\x00\x01",
		"empty":           "\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x01",
		"HTTP":            "GET / HTTP/1.1\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", e.Addrs()[0])
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.Write([]byte(frame))
			c.SetReadDeadline(time.Now().Add(10 * time.Second))
			if n, err := c.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read %d, %v; want the connection closed", n, err)
			}
		})
	}
	produce(t, client(t, e), "alive", 0, 1)
}

// The control functions are replaced from time to time.
func TestControlsLast(t *testing.T) {
	e := open(t, Options{})
	cl := client(t, e)
	for i := range 2*maxControlUses + 10 {
		if got := committed(t, cl, "none", "orders"); got != -1 {
			t.Fatalf("request %d: offset %d", i, got)
		}
	}
	produce(t, cl, "orders", 0, 1)
	if start, end := offsets(t, cl, "orders"); start != 0 || end != 1 {
		t.Errorf("log [%d, %d)", start, end)
	}
}
