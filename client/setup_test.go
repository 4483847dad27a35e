package client

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/tandem-kafka/tandem/client/internal/gatewaytest"
	"github.com/tandem-kafka/tandem/internal/gateway"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a cluster, a gateway, and the judge of what clients did.
type world struct {
	*gatewaytest.World
	t   *testing.T
	ctx context.Context // of Run

	mu      sync.Mutex
	done    map[string][]string // by topic and key: the values that were handled with success, in order
	busy    map[string]string   // by topic and key: who handles it
	faults  []string
	handled int
}

func newWorld(t *testing.T, change func(*gateway.Config)) *world {
	t.Helper()
	w := &world{t: t, ctx: context.Background(), done: map[string][]string{}, busy: map[string]string{}}
	w.World = gatewaytest.Start(t, change, kfake.GroupMinSessionTimeout(100*time.Millisecond))
	t.Cleanup(func() {
		for _, f := range w.faults {
			t.Error(f)
		}
	})
	return w
}

// produce writes n records, round robin over keys; of each key the values count up from 0.
func (w *world) produce(topic string, n, keys int) {
	w.t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "k%d", i%keys), Value: fmt.Appendf(nil, "%d", i/keys)}
	}
	w.ProduceRecords(records)
}

// judge is a handler that tells the judge, and calls next in between.
func (w *world) judge(name string, next Handler) Handler {
	return func(ctx context.Context, r *Record) error {
		k := r.Topic + "/" + string(r.Key)
		w.mu.Lock()
		if other, ok := w.busy[k]; ok {
			w.faults = append(w.faults, fmt.Sprintf("%s and %s handle %s at once", other, name, k))
		}
		w.busy[k] = name
		w.mu.Unlock()
		var err error
		if next != nil {
			err = next(ctx, r)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.busy, k)
		if err == nil {
			w.handled++
			w.done[k] = append(w.done[k], string(r.Value))
		}
		return err
	}
}

// wantOnce fails the test unless each of the n records of produce was handled once, and those of a key in order.
func (w *world) wantOnce(topic string, n, keys int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for k := range keys {
		name := fmt.Sprintf("%s/k%d", topic, k)
		want := (n - k + keys - 1) / keys
		got := w.done[name]
		if len(got) != want {
			w.t.Errorf("key %s: %d records handled, not %d: %v", name, len(got), want, got)
			continue
		}
		for i, v := range got {
			if v != fmt.Sprint(i) {
				w.t.Errorf("key %s: %v", name, got)
				break
			}
		}
	}
}

func (w *world) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.handled
}

// member is a client that runs.
type member struct {
	*Client
	t   *testing.T
	end chan error
}

// options are what clients of tests have in common.
func (w *world) options(opts ...Option) []Option {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return append([]Option{
		Bootstrap(w.Gateway.Addr()), Group("g"), Topics("t"), CommitInterval(20 * time.Millisecond), Logger(log),
		KgoOpts(kgo.HeartbeatInterval(20*time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond })),
	}, opts...)
}

func (w *world) run(handler Handler, opts ...Option) *member {
	w.t.Helper()
	c, err := New(w.options(opts...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	r := &member{Client: c, t: w.t, end: make(chan error, 1)}
	go func() {
		err := c.Run(w.ctx, handler)
		if err != nil {
			w.t.Log("Run:", err)
		}
		r.end <- err
	}()
	w.t.Cleanup(r.close)
	return r
}

func (r *member) close() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		r.t.Errorf("Close: %v", err)
	}
}

// result is what Run returned.
func (r *member) result() error {
	r.t.Helper()
	select {
	case err := <-r.end:
		return err
	case <-time.After(20 * time.Second):
		r.t.Fatal("Run does not return")
		return nil
	}
}

// until waits for a condition.
func (w *world) until(what string, condition func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) { // poll
		if time.Now().After(deadline) {
			w.t.Fatalf("not in 30 s: %s", what)
		}
	}
}

func (w *world) topicID(name string) string {
	w.t.Helper()
	topics, err := kadm.NewClient(w.Direct()).ListTopics(context.Background(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	return topics[name].ID.String()
}
