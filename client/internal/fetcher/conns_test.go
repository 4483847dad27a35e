package fetcher

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/client/internal/gatewaytest"
	"github.com/tandem-kafka/tandem/keyrange"
)

// Who is added or resumed while a request waits at the broker does not wait for its end; then all wait in one request.
func TestLongPollsHoldUpNobody(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]Stream{"whole": {Topic: "orders"}, "key ranges": {Topic: "orders", Keys: keyrange.Set{{First: 0, Last: 1<<32 - 2}}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := gatewaytest.Start(t, nil)
			w.Topic("idle", 1)
			w.Topic("orders", 3)
			for w.Fake.LeaderFor("idle", 0) != w.Fake.LeaderFor("orders", 0) {
				if err := w.Fake.MoveTopicPartition("idle", 0, w.Fake.LeaderFor("orders", 0)); err != nil {
					t.Fatal(err)
				}
			}
			for p := range int32(3) {
				if err := w.Fake.MoveTopicPartition("orders", p, w.Fake.LeaderFor("idle", 0)); err != nil {
					t.Fatal(err)
				}
			}
			produce := func(p int32) {
				w.ProduceRecords([]*kgo.Record{{Topic: "orders", Partition: p, Key: []byte("k")}}, kgo.RecordPartitioner(kgo.ManualPartitioner()))
			}
			const wait = time.Minute // longer than next waits: what has to wait for the end of such a poll does not come
			f := fetching(t, w.Client, func(c *Config) { c.MaxWait = wait })
			idle := Stream{Topic: "idle", Keys: of.Keys}
			add(t, f, idle)
			until(t, "the long poll", func() bool { return f.Stats().Requests == 1 })
			comes := func(what, topic string, p int32) {
				t.Helper()
				if b := next(t, f); b.Topic != topic || b.Partition != p || len(b.Records) != 1 {
					t.Fatalf("%s: %+v", what, b)
				}
			}
			produce(0)
			tokens := add(t, f, of)
			comes("a stream that is added", of.Topic, 0)
			for p := int32(1); p < 3; p++ { // others, during short polls of the second connection
				of.Partition = p
				produce(p)
				tokens = append(tokens, add(t, f, of)...)
				comes("a stream that is added later", of.Topic, p)
			}
			f.Pause(tokens...)
			for p := range int32(3) {
				produce(p)
			}
			nothing(t, f, 2*shortWait) // or it was fetched before
			for p := range int32(3) {
				f.Resume(tokens[p])
				comes("a stream that is resumed", of.Topic, p)
			}
			for p := range int32(3) { // and those that wait in short polls are served as well as others
				produce(p)
				comes("a record at the end", of.Topic, p)
			}
			if len(of.Keys) > 0 {
				return // their requests do not reach the cluster
			}
			var requests, partitions, waits atomic.Int64 // of the last request
			w.Fake.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				w.Fake.KeepControl()
				n := 0
				for _, rt := range kreq.(*kmsg.FetchRequest).Topics {
					n += len(rt.Partitions)
				}
				partitions.Store(int64(n))
				waits.Store(int64(kreq.(*kmsg.FetchRequest).MaxWaitMillis))
				requests.Add(1)
				return nil, nil, false
			})
			w.Produce(idle.Topic, 1) // ends the long poll
			comes("a record that the long poll waits for", idle.Topic, 0)
			until(t, "one request of all", func() bool { return partitions.Load() == 4 && waits.Load() == wait.Milliseconds() })
			before := requests.Load()
			nothing(t, f, 10*shortWait)
			if more := requests.Load() - before; more > 0 {
				t.Errorf("%d requests while all wait in one", more)
			}
		})
	}
}

// One client alone polls shortly while somebody may come.
func TestOneConnection(t *testing.T) {
	w := gatewaytest.Start(t, nil)
	w.Topic("idle", 1)
	w.Topic("orders", 1)
	f := fetching(t, w.Client, func(c *Config) { c.Second = nil; c.MaxWait = 30 * time.Second })
	tokens := add(t, f, Stream{Topic: "orders", Keys: thirds[0], Base: 1}, Stream{Topic: "orders", Keys: thirds[1], Base: 1}, Stream{Topic: "idle"})
	until(t, "the long poll", func() bool { return f.Stats().Requests > 0 })
	f.Pause(tokens[0])
	w.Produce("orders", 30)
	for got := int64(0); got < 30; {
		if b := next(t, f); b.Token == tokens[1] {
			got = b.Next
		}
	}
	start := time.Now()
	f.Resume(tokens[0])
	for got := int64(0); got < 30; {
		if b := next(t, f); b.Token == tokens[0] {
			got = b.Next
		}
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("a stream that is resumed took %v", d)
	}
}

// A record at the end of the log is there at once, also while others are given in bulk.
func TestLatencyBesideBulk(t *testing.T) {
	w := gatewaytest.Start(t, nil)
	w.Topic("bulk", 1)
	w.Topic("tail", 1)
	if err := w.Fake.MoveTopicPartition("tail", 0, w.Fake.LeaderFor("bulk", 0)); err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 10_000)
	var records []*kgo.Record
	for range 3000 {
		records = append(records, &kgo.Record{Topic: "bulk", Value: value})
	}
	w.ProduceRecords(records)
	f := fetching(t, w.Client, func(c *Config) { c.MaxWait = 10 * time.Second; c.PartitionMaxBytes = 100_000 })
	add(t, f, Stream{Topic: "bulk"}, Stream{Topic: "tail"})
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	var producers sync.WaitGroup
	defer producers.Wait()
	bulk, sent, slowest := 0, time.Time{}, time.Duration(0)
	for tail := 0; tail < 10 || bulk < 3000; {
		if sent.IsZero() && tail < 10 {
			sent = time.Now()
			producers.Go(func() { w.ProduceRecords([]*kgo.Record{{Topic: "tail"}}) })
		}
		b, err := f.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if b.Topic == "bulk" {
			bulk += len(b.Records)
			continue
		}
		slowest = max(slowest, time.Since(sent))
		sent = time.Time{}
		tail += len(b.Records)
	}
	if slowest > time.Second {
		t.Errorf("the slowest record took %v", slowest)
	}
}
