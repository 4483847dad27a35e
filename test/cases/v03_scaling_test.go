package cases

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// 1, 2, 4, 8 and 16 consumers on one partition: with handlers of 5 ms each doubling brings much more, and with handlers that take no time,
// where the machine is the limit, more consumers cost nothing (case V3).
func TestThroughputWithMoreConsumers(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		t.Run("5 ms", func(t *testing.T) { scale(t, e, 5*time.Millisecond, func(n int) int { return 160 * n }, 1.4) })
		t.Run("0 ms", func(t *testing.T) { scale(t, e, 0, func(int) int { return 24_000 }, 0.7) })
	})
}

// scale measures a group of 1, 2, 4 ... members, each point with so many records, and wants each rate to be factor times the one before.
func scale(t *testing.T, e engine, work time.Duration, records func(members int) int, factor float64) {
	const most, tries = 16, 3
	source, view := e.source(t, 1, most)
	group, l, has := harness.Name(t, "group"), harness.NewLedger(), newAssignment()
	keys := keysOf(most, 20)
	var consumers []*harness.Consumer
	var handled atomic.Int64
	measure := func() float64 {
		for _, c := range consumers {
			c.Client().PauseFetchTopics(view)
		}
		batch := 0
		if work > 0 { // small pieces, for many fetches: members wait for theirs at the same time
			batch = 4 * most
		}
		harness.Produce(t, e.gateway.Bootstrap, l, harness.Production{Topic: source, Records: records(len(consumers)), Batch: batch, Key: func(i int) []byte { return keys[i%len(keys)] }})
		todo := int64(records(len(consumers)))
		handled.Store(0)
		at := time.Now()
		for _, c := range consumers {
			c.Client().ResumeFetchTopics(view)
		}
		for handled.Load() < todo {
			if time.Since(at) > 30*time.Second {
				t.Fatalf("%d members handled %d of %d records", len(consumers), handled.Load(), todo)
			}
			time.Sleep(time.Millisecond)
		}
		return float64(todo) / time.Since(at).Seconds()
	}
	last := 0.0
	for n := 1; n <= most; n *= 2 {
		for len(consumers) < n {
			c := e.consumer(group, fmt.Sprintf("member-%d", len(consumers)), view)
			c.Work, c.Session = work, 6*time.Second
			c.Handle = func(*kgo.Record) { handled.Add(1) }
			c.Opts = append(c.Opts, has.of(c.Member)...)
			if work > 0 {
				c.Opts = append(c.Opts, kgo.FetchMaxPartitionBytes(1<<10))
			}
			consumers = append(consumers, harness.Consume(t, l, c))
		}
		await(t, 20*time.Second, func() string {
			for i := range n {
				if got := has.count(fmt.Sprintf("member-%d", i)); got != most/n {
					return fmt.Sprintf("member %d of %d has %d partitions", i, n, got)
				}
			}
			return ""
		})
		rate := measure()
		for try := 1; rate < factor*last && try < tries; try++ { // another process may have had the machine
			rate = max(rate, measure())
		}
		t.Logf("%d consumers: %.0f records/s", n, rate)
		if rate < factor*last {
			t.Errorf("%d consumers: %.0f records/s, with half as many %.0f, wanted %.2f times that", n, rate, last, factor)
		}
		last = rate
	}
	l.AwaitDone(t, 10*time.Second) // the last ones have been counted before their handlers' end
	l.Check(t, harness.View(1, most))
}
