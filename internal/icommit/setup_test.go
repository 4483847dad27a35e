package icommit_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit"
	"github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/upstream"
	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// holder is a handler that keeps what it gets.
type holder struct {
	mu      sync.Mutex
	records map[int32][]record.Record // by partition of the log
	open    map[int64][]record.Record // by producer id; all are of one partition
	resets  int
	busy    map[int32]bool
	overlap bool // two calls for a partition at once
}

func newHolder() *holder {
	return &holder{records: make(map[int32][]record.Record), open: make(map[int64][]record.Record), busy: make(map[int32]bool)}
}

// enter and leave bracket a call for a partition.
func (h *holder) enter(p int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.overlap = h.overlap || h.busy[p]
	h.busy[p] = true
}

func (h *holder) Apply(p int32, records []record.Record) {
	h.enter(p)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records[p] = append(h.records[p], records...)
	h.busy[p] = false
}

func (h *holder) ApplyOpen(p int32, producer icommit.Producer, records []record.Record) {
	h.enter(p)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open[producer.ID] = append(h.open[producer.ID], records...)
	h.busy[p] = false
}

func (h *holder) Decide(p int32, id int64, commit bool) {
	h.enter(p)
	h.mu.Lock()
	defer h.mu.Unlock()
	if commit {
		h.records[p] = append(h.records[p], h.open[id]...)
	}
	delete(h.open, id)
	h.busy[p] = false
}

// undecided is how many records wait for a marker.
func (h *holder) undecided() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, rs := range h.open {
		n += len(rs)
	}
	return n
}

func (h *holder) Reset(p int32) {
	h.enter(p)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.records, p)
	clear(h.open)
	h.resets++
	h.busy[p] = false
}

// of is what the holder has of a group, "-" before deletions.
func (h *holder) of(group string) (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, rs := range h.records {
		for _, r := range rs {
			if r.Group == group {
				out = append(out, show(r))
			}
		}
	}
	return out
}

func (h *holder) resetCount() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.resets
}

func show(r record.Record) string {
	if r.Delete {
		return fmt.Sprintf("-%d..%d", r.Fact.First, r.Fact.Last)
	}
	return fmt.Sprintf("%d..%d", r.Fact.First, r.Fact.Last)
}

func put(group string, first, last int64) record.Record {
	return record.Record{Group: group, Topic: "orders", Partition: 2, Fact: record.Fact{Keys: keyrange.Full, First: first, Last: last}, TopicID: [16]byte{9}, Era: 1}
}

func drop(group string, first, last int64) record.Record {
	r := put(group, first, last)
	r.TopicID, r.Delete = [16]byte{}, true
	return r
}

// cluster is an in-process cluster.
type cluster struct {
	t       testing.TB
	fake    *kfake.Cluster
	cluster *upstream.Cluster
	user    *kadm.Client
	kgo     *kgo.Client
}

func newCluster(t testing.TB, opts ...kfake.Opt) *cluster {
	t.Helper()
	fake, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	up, err := upstream.Open(ctx, upstream.Config{Bootstrap: fake.ListenAddrs()}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	return &cluster{t: t, fake: fake, cluster: up, user: kadm.NewClient(cl), kgo: cl}
}

// gateway is one user of the log.
type gateway struct {
	*icommit.Log
	holder *holder
	t      testing.TB
}

func (c *cluster) gateway(cfg icommit.Config) *gateway {
	c.t.Helper()
	facts := c.cluster.Facts()
	if cfg.Logger == nil {
		cfg.Logger = quiet
	}
	h := newHolder()
	g := &gateway{Log: icommit.New(facts, h, cfg.Hasty()), holder: h, t: c.t}
	c.t.Cleanup(func() {
		g.Close()
		facts.Close()
		if h.overlap {
			c.t.Error("the handler was called twice at once for a partition")
		}
	})
	return g
}

func (g *gateway) append(group string, records ...record.Record) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), 20*time.Second)
	defer cancel()
	if err := g.Append(ctx, group, records); err != nil {
		g.t.Fatal(err)
	}
}

// sees catches up and checks what the holder then has of a group.
func (g *gateway) sees(group string, want ...string) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), 20*time.Second)
	defer cancel()
	if err := g.CatchUp(ctx, group); err != nil {
		g.t.Fatal(err)
	}
	if got := g.holder.of(group); !slices.Equal(got, want) {
		g.t.Fatalf("%s has %v, want %v", group, got, want)
	}
}

// await polls until ok holds.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// home is the partition of a group's records.
func home(group string) int32 { return record.PartitionOf(group, 50) }
