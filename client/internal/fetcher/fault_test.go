package fetcher

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/client/internal/gatewaytest"
	"github.com/tandem-kafka/tandem/internal/gateway"
	"github.com/tandem-kafka/tandem/keyrange"
)

// The leader moves while consumers wait on an empty partition; then a record is there in 2 s (case V12).
func TestLeaderMoves(t *testing.T) {
	t.Parallel()
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 1)
	for name, f := range map[string]struct {
		*Fetcher
		Stream
	}{
		"direct":     {fetching(t, w.Direct, nil), Stream{Topic: "orders"}},
		"gateway":    {fetching(t, w.Client, nil), Stream{Topic: "orders"}},
		"key ranges": {fetching(t, w.Client, nil), Stream{Topic: "orders", Keys: keyrange.Set{{First: 0, Last: 1<<32 - 2}}}},
	} {
		t.Run(name, func(t *testing.T) {
			of := f.Stream
			for of.Offset = w.Fake.PartitionInfo("orders", 0).HighWatermark; of.Offset < 6; of.Offset++ {
				token := add(t, f.Fetcher, of)
				until(t, "the long poll", func() bool { return f.Stats().Requests == 1 })
				if err := w.Fake.MoveTopicPartition("orders", 0, 1-w.Fake.LeaderFor("orders", 0)); err != nil {
					t.Fatal(err)
				}
				w.ProduceRecords([]*kgo.Record{{Topic: "orders", Key: []byte("k")}})
				start := time.Now()
				b := next(t, f.Fetcher)
				if d := time.Since(start); d > 2*time.Second || b.Err != nil || len(b.Records) != 1 {
					t.Fatalf("%+v after %v", b, d)
				}
				f.Remove(token...)
				if name != "key ranges" && of.Offset%2 == 1 {
					return // the rest is for the others
				}
			}
		})
	}
}

// A broker that refuses everything for a while is asked again soon, but not without pause.
func TestLeadersThatDoNotKnow(t *testing.T) {
	t.Parallel()
	for _, code := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.UnknownTopicID, kerr.UnknownTopicOrPartition,
		kerr.KafkaStorageError, kerr.ReplicaNotAvailable, kerr.OffsetNotAvailable, kerr.UnknownServerError} {
		t.Run(code.Message, func(t *testing.T) {
			w := gatewaytest.Start(t, nil)
			w.Topic("orders", 1)
			w.Produce("orders", 10)
			w.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: code, Count: 3})
			f := fetching(t, w.Direct, nil)
			start := time.Now()
			add(t, f, Stream{Topic: "orders"})
			if code == kerr.UnknownServerError { // does not pass by itself
				if b := next(t, f); !errors.Is(b.Err, code) || b.Next != 0 {
					t.Fatalf("%+v", b)
				}
				nothing(t, f, 100*time.Millisecond)
				return
			}
			take(t, f, make(seen), 10)
			if d := time.Since(start); d < 3*backoffFrom || d > 3*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

// The gateway goes and comes back: the same streams go on.
func TestGatewayRestarts(t *testing.T) {
	t.Parallel()
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 1)
	w.Produce("orders", 10)
	f := fetching(t, w.Client, nil)
	add(t, f, Stream{Topic: "orders", Keys: thirds[0], Base: 1}, Stream{Topic: "orders", Keys: thirds[1], Base: 1}, Stream{Topic: "orders", Keys: thirds[2], Base: 1})
	all := make(seen)
	take(t, f, all, 10)
	w.Stop()
	until(t, "that nobody leads", func() bool { return f.Stats().Homeless == 3 })
	w.Produce("orders", 10)
	cfg := w.Config
	cfg.Listen = w.Gateway.Addr()
	var err error
	if w.Gateway, err = gateway.Start(context.Background(), cfg); err != nil {
		t.Skipf("the port was taken: %v", err)
	}
	for len(all) < 20 {
		if b := next(t, f); b.Err == nil { // the outage may have been reported
			all.add(t, b)
		}
	}
	all.once(t, 20)
}

func TestUnknownTopicComes(t *testing.T) {
	t.Parallel()
	w := gatewaytest.Start(t, nil)
	f := fetching(t, w.Client, func(c *Config) { c.reportAfter = time.Minute })
	add(t, f, Stream{Topic: "orders"})
	nothing(t, f, 100*time.Millisecond)
	w.Topic("orders", 1)
	w.Produce("orders", 10)
	take(t, f, make(seen), 10)
	f = fetching(t, w.Client, func(c *Config) { c.reportAfter = time.Second })
	add(t, f, Stream{Topic: "orders", Partition: 1})
	if b := next(t, f); b.Err == nil || b.Partition != 1 { // it lasts
		t.Errorf("of a partition that does not exist: %+v", b)
	}
}

func TestOutOfRange(t *testing.T) {
	t.Parallel()
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 1)
	w.Produce("orders", 100)
	if err := w.Fake.DeleteRecords("orders", 0, 40); err != nil {
		t.Fatal(err)
	}
	for _, keys := range []keyrange.Set{nil, {{First: 0, Last: 1<<32 - 2}}} {
		for from, want := range map[int64]map[Reset]int64{10: {ResetEarliest: 40, ResetLatest: 100}, 1000: {ResetEarliest: 40, ResetLatest: 100}} {
			for policy, want := range want {
				f := fetching(t, w.Client, func(c *Config) { c.Reset = policy })
				token := add(t, f, Stream{Topic: "orders", Offset: from, Keys: keys})
				b := next(t, f)
				if !b.Reset || b.From != from || b.Next != want || len(b.Records) > 0 || b.Err != nil || b.Token != token[0] {
					t.Errorf("from %d with policy %d: %+v", from, policy, b)
				}
				if want == 40 {
					take(t, f, make(seen), 60)
				}
				nothing(t, f, 10*time.Millisecond)
				f.Close()
			}
			n := fetches(w)
			f := fetching(t, w.Client, func(c *Config) { c.Reset = ResetNone })
			add(t, f, Stream{Topic: "orders", Offset: from, Keys: keys})
			if b := next(t, f); !errors.Is(b.Err, kerr.OffsetOutOfRange) || b.Next != from {
				t.Errorf("from %d without a policy: %+v", from, b)
			}
			nothing(t, f, 200*time.Millisecond)
			if len(keys) == 0 && n.Load() > 3 {
				t.Errorf("%d fetches", n.Load())
			}
		}
	}
}

// Errors that stay are reported once for a while, and do not keep the cluster busy.
func TestRefused(t *testing.T) {
	t.Parallel()
	off := false
	w := gatewaytest.Start(t, func(c *gateway.Config) {
		c.Topics = map[string]gateway.TopicConfig{"closed": {KeyRangeFetch: &off}}
	})
	w.Topic("closed", 1)
	w.Topic("open", 1)
	w.Produce("open", 10)
	w.Produce("closed", 10)
	n := fetches(w)
	for want, f := range map[error]*Fetcher{kerr.PolicyViolation: fetching(t, w.Client, nil), ErrKeyRanges: fetching(t, w.Direct, nil)} {
		add(t, f, Stream{Topic: "closed", Keys: thirds[0]})
		if b := next(t, f); !errors.Is(b.Err, want) || len(b.Records) > 0 {
			t.Errorf("%v, not %v", b.Err, want)
		}
		add(t, f, Stream{Topic: "open"}) // is not concerned
		take(t, f, make(seen), 10)
		before := n.Load()
		nothing(t, f, 300*time.Millisecond)
		if more := n.Load() - before; more > 5 {
			t.Errorf("%d fetches", more)
		}
	}
}

// An answer without a partition, as throttled ones are, loses nothing.
func TestAnswersWithoutThePartition(t *testing.T) {
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 1)
	w.Produce("orders", 10)
	left := 3
	w.Fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		w.Fake.KeepControl()
		if left--; left < 0 {
			return nil, nil, false
		}
		return req.ResponseKind(), nil, true
	})
	f := fetching(t, w.Direct, nil)
	add(t, f, Stream{Topic: "orders"})
	take(t, f, make(seen), 10)
}
