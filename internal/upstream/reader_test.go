package upstream

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/slicecache"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func source(t Topic, p int32) slicecache.Source {
	return slicecache.Source{Topic: t.Name, TopicID: t.ID, Partition: p}
}

func fetch(t *testing.T, r *Reader, src slicecache.Source, offset int64, wait time.Duration) (slicecache.Fetched, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return r.Fetch(ctx, src, offset, false, wait, 1, 1<<20)
}

func TestReaderFollowsTheLeader(t *testing.T) {
	c := newCluster(t)
	src := source(c.topic("orders", 1), 0)
	c.produce("orders", 0, "a", "b")
	r := c.Reader()
	defer r.Close()
	for range 8 { // three brokers: some of these move the leader
		f, err := fetch(t, r, src, 0, 0)
		if err != nil || len(f.Raw) == 0 || f.HighWatermark != 2 {
			t.Fatalf("%d bytes, high watermark %d, %v", len(f.Raw), f.HighWatermark, err)
		}
		if end, _, _, err := r.ListOffset(t.Context(), src, -1, false); err != nil || end != 2 {
			t.Fatalf("end %d, %v", end, err)
		}
		c.fake.ShufflePartitionLeaders()
	}
}

func TestReaderSurvivesABrokerThatLeaves(t *testing.T) {
	c := newCluster(t)
	src := source(c.topic("orders", 1), 0)
	c.produce("orders", 0, "a")
	r := c.Reader()
	defer r.Close()
	for left := 3; left > 1; left-- {
		if _, err := fetch(t, r, src, 0, 0); err != nil {
			t.Fatal(err)
		}
		if err := c.fake.RemoveNode(c.fake.LeaderFor("orders", 0)); err != nil {
			t.Fatal(err)
		}
	}
	if f, err := fetch(t, r, src, 0, 0); err != nil || len(f.Raw) == 0 {
		t.Fatalf("%d bytes, %v", len(f.Raw), err)
	}
}

// Long polls have connections to themselves, and give them back.
func TestReaderPoolsConnections(t *testing.T) {
	c := newCluster(t, kfake.NumBrokers(1))
	topic := c.topic("orders", 4)
	r := c.Reader()
	defer r.Close()
	var polls sync.WaitGroup
	for p := range int32(4) {
		polls.Go(func() {
			if _, err := fetch(t, r, source(topic, p), 0, 300*time.Millisecond); err != nil {
				t.Error(err)
			}
		})
	}
	polls.Wait()
	idle := func() (n int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, conns := range r.idle {
			n += len(conns)
		}
		return n
	}
	if n := idle(); n < 1 || n > 4 {
		t.Fatalf("%d idle connections after 4 reads", n)
	}
	if _, err := fetch(t, r, source(topic, 0), 0, 0); err != nil {
		t.Fatal(err)
	}
	if n := idle(); n > 4 {
		t.Errorf("%d idle connections: one more was made", n)
	}
	r.mu.Lock()
	r.pruned = time.Time{}
	r.prune(time.Now().Add(2 * idleFor))
	r.mu.Unlock()
	if n := idle(); n != 0 {
		t.Errorf("%d connections are kept however long they were idle", n)
	}
}

// A pooled connection may have been closed by the broker meanwhile.
func TestReaderTriesAgainOnAStaleConnection(t *testing.T) {
	c := newCluster(t, kfake.NumBrokers(1))
	src := source(c.topic("orders", 1), 0)
	r := c.Reader()
	defer r.Close()
	if _, err := fetch(t, r, src, 0, 0); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	for _, conns := range r.idle {
		for _, conn := range conns {
			_ = conn.raw.Close()
		}
	}
	r.mu.Unlock()
	if _, err := fetch(t, r, src, 0, 0); err != nil {
		t.Fatal(err)
	}
}

func TestReaderErrors(t *testing.T) {
	c := newCluster(t)
	topic := c.topic("orders", 1)
	c.produce("orders", 0, "a")
	r := c.Reader()
	defer r.Close()
	if _, err := fetch(t, r, source(topic, 0), 99, 0); !errors.Is(err, kerr.OffsetOutOfRange) {
		t.Errorf("beyond the end: %v", err)
	}
	c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "orders", Err: kerr.NotLeaderForPartition, Count: 2})
	if _, err := fetch(t, r, source(topic, 0), 0, 0); err != nil {
		t.Errorf("a leader that moves: %v", err)
	}
	old := source(topic, 0)
	if _, err := c.user.DeleteTopic(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	c.topic("orders", 1)
	c.kgo.PurgeTopicsFromProducing("orders")
	c.produce("orders", 0, "b")
	if _, err := fetch(t, r, old, 0, 0); !errors.Is(err, kerr.UnknownTopicOrPartition) && !errors.Is(err, kerr.UnknownTopicID) {
		t.Errorf("a topic made anew is read as the old one: %v", err)
	}
	if _, _, _, err := r.ListOffset(t.Context(), old, -1, false); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("end of the old topic: %v", err)
	}
}

// A broker that accepts and says nothing must not hold a read for ever.
func TestSilentBroker(t *testing.T) {
	cfg := Config{DialTimeout: 200 * time.Millisecond}
	start := time.Now()
	if _, err := cfg.Connect(t.Context(), silent(t), "x"); err == nil {
		t.Fatal("connected")
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestRoundTripEndsWithItsContext(t *testing.T) {
	c := newCluster(t, kfake.NumBrokers(1))
	cfg := Config{}
	conn, err := cfg.Connect(t.Context(), c.fake.ListenAddrs()[0], "x")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	wake := make(chan struct{})
	defer close(wake)
	c.fake.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.fake.SleepControl(func() { <-wake })
		return nil, nil, false
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	if _, err := conn.RoundTrip(ctx, req); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
	if _, err := conn.RoundTrip(t.Context(), req); err == nil {
		t.Fatal("the connection still works: its answers are out of step")
	}
}
