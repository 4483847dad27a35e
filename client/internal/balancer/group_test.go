package balancer

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/tandem-kafka/tandem/client/internal/assignor"
	"github.com/tandem-kafka/tandem/keyrange"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// owners is the judge: it knows who works on what at each moment.
type owners struct {
	t  *testing.T
	mu sync.Mutex

	has     map[string]assignor.Ranges // by client
	gave    map[string]uint64          // by client: positions that it gave up, since the last reset
	crossed []string                   // where two worked on one position
}

func (o *owners) begin(client string, ranges assignor.Ranges) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for other, has := range o.has {
		if both := ranges.Overlap(has); other != client && len(both) > 0 {
			o.crossed = append(o.crossed, fmt.Sprintf("%s begins with %v while %s works on it", client, both, other))
		}
	}
	if twice := ranges.Overlap(o.has[client]); len(twice) > 0 {
		o.crossed = append(o.crossed, fmt.Sprintf("%s is given %v, which it has", client, twice))
	}
	if o.has[client] == nil {
		o.has[client] = assignor.Ranges{}
	}
	for topic, partitions := range ranges {
		for p, part := range partitions {
			all := keyrange.AppendUnion(nil, o.has[client].Set(topic, p), part.Set())
			o.has[client].Put(topic, p, all, part.Base)
		}
	}
}

func (o *owners) end(client string, ranges assignor.Ranges) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if foreign := ranges.Minus(o.has[client]); len(foreign) > 0 {
		o.crossed = append(o.crossed, fmt.Sprintf("%s ends with %v, which it was never given", client, foreign))
	}
	for topic, partitions := range ranges {
		for p := range partitions {
			o.gave[client] += ranges.Set(topic, p).Len()
		}
	}
	o.has[client] = o.has[client].Minus(ranges)
}

func (o *owners) moved() (axes float64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.gave {
		axes += float64(n) / (1 << 32)
	}
	clear(o.gave)
	return axes
}

// shares describes who has what: by partition how many members have a part of it, sorted; false if not everything is with somebody,
// or shares of a partition are uneven.
func (o *owners) shares(topic string, partitions int32) ([]int, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var counts []int
	for p := range partitions {
		var sizes []uint64
		var sum uint64
		for _, has := range o.has {
			if set := has.Set(topic, p); len(set) > 0 {
				sizes = append(sizes, set.Len())
				sum += set.Len()
			}
		}
		if sum != 1<<32 || slices.Max(sizes)-slices.Min(sizes) > 1 {
			return nil, false
		}
		counts = append(counts, len(sizes))
	}
	slices.Sort(counts)
	return counts, true
}

// cluster is a kfake cluster and the clients of a test's group.
type cluster struct {
	t       *testing.T
	addrs   []string
	fake    *kfake.Cluster
	owners  *owners
	clients map[string]*client
	work    time.Duration // how long a client needs to give up something
	lost    atomic.Int32  // calls of Lost
	doubted atomic.Int32
	kept    atomic.Int32
}

type client struct {
	*kgo.Client
	balancer *Balancer
}

func newCluster(t *testing.T, partitions map[string]int32) *cluster {
	opts := []kfake.Opt{kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(100 * time.Millisecond)}
	for topic, n := range partitions {
		opts = append(opts, kfake.SeedTopics(n, topic))
	}
	fake, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, fake: fake, addrs: fake.ListenAddrs(), clients: map[string]*client{}, work: 20 * time.Millisecond,
		owners: &owners{t: t, has: map[string]assignor.Ranges{}, gave: map[string]uint64{}}}
	t.Cleanup(func() {
		for name := range c.clients {
			c.leave(name)
		}
		fake.Close()
		for _, what := range c.owners.crossed {
			t.Error(what)
		}
	})
	return c
}

// allowed allows everything on the topics.
func allowed(topics ...string) func([]string) (Sharing, error) {
	return func([]string) (Sharing, error) {
		s := Sharing{IndividualCommits: true, KeyRangeFetch: map[string]bool{}}
		for _, topic := range topics {
			s.KeyRangeFetch[topic] = true
		}
		return s, nil
	}
}

func (c *cluster) join(name string, cfg Config, opts ...kgo.Opt) *client {
	c.t.Helper()
	cfg.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	cfg.Assigned = func(_ context.Context, _ *kgo.Client, ranges assignor.Ranges) { c.owners.begin(name, ranges) }
	cfg.Revoked = func(_ context.Context, _ *kgo.Client, ranges assignor.Ranges) {
		time.Sleep(c.work) // what is in flight is worked off
		c.owners.end(name, ranges)
	}
	cfg.Lost = func(_ context.Context, _ *kgo.Client, ranges assignor.Ranges) {
		c.owners.end(name, ranges)
		c.lost.Add(1)
	}
	cfg.Doubted = func(context.Context, *kgo.Client, assignor.Ranges) { c.doubted.Add(1) }
	cfg.Kept = func(context.Context, *kgo.Client, assignor.Ranges) { c.kept.Add(1) }
	b, err := New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	opts = append(append(b.Opts(), c.options(name)...), opts...)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.clients[name] = &client{cl, b}
	return c.clients[name]
}

func (c *cluster) options(name string) []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(c.addrs...), kgo.ConsumerGroup("g"), kgo.ClientID(name), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(20 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond })}
}

func (c *cluster) leave(name string) {
	c.clients[name].Close()
	delete(c.clients, name)
}

// until waits until the partitions of topic t have so many members each (sorted), evenly.
func (c *cluster) until(partitions int32, want ...int) {
	c.t.Helper()
	c.wait(func() error {
		if got, ok := c.owners.shares("t", partitions); !ok || !slices.Equal(got, want) {
			return fmt.Errorf("members of the partitions: %v (%v), want %v", got, ok, want)
		}
		return nil
	})
}

// wait waits until a condition holds for all clients at rest.
func (c *cluster) wait(condition func() error) {
	c.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond) // poll
	}
}

// count counts the calls of a callback.
func count(n *int) Callback {
	return func(context.Context, *kgo.Client, assignor.Ranges) { *n++ }
}

func (c *cluster) names() []string { return slices.Sorted(maps.Keys(c.clients)) }
