package cases

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// 1, 2, 4, 8 and 16 consumers on one partition: with handlers of 5 ms each doubling has many more of them at work at once, and with handlers
// that take no time, where the machine is the limit, more consumers cost nothing (case V3).
func TestThroughputWithMoreConsumers(t *testing.T) {
	enginesAlone(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		t.Run("5 ms", func(t *testing.T) { scale(t, e, 5*time.Millisecond, func(n int) int { return 160 * n }, 1.4) })
		t.Run("0 ms", func(t *testing.T) { scale(t, e, 0, func(int) int { return 24_000 }, 0.7) })
	})
}

// scale measures a group of 1, 2, 4 ... members, each point with so many records, and wants each point to be factor times the one before. A
// point is the rate; with handlers that wait it is how many of them were at work at once, on average: the rate times what a handler took,
// which is more than asked for on a machine that has other work.
func scale(t *testing.T, e engine, work time.Duration, records func(members int) int, factor float64) {
	const most = 16
	source, view := e.source(t, 1, most)
	group, l, has := harness.Name(t, "group"), harness.NewLedger(), newAssignment(most)
	keys := keysOf(most, 20)
	var consumers []*harness.Consumer
	var handled, working atomic.Int64 // records, and nanoseconds at work
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
		working.Store(0)
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
		took := time.Since(at).Seconds()
		t.Logf("%d consumers: %.0f records/s, %.1f at work", len(consumers), float64(todo)/took, time.Duration(working.Load()).Seconds()/took)
		if work > 0 {
			return time.Duration(working.Load()).Seconds() / took
		}
		return float64(todo) / took
	}
	last := 0.0
	for n := 1; n <= most; n *= 2 {
		for len(consumers) < n {
			c := e.consumer(group, fmt.Sprintf("member-%d", len(consumers)), view)
			c.Session = 6 * time.Second
			c.Handle = func(*kgo.Record) {
				if work > 0 {
					at := time.Now()
					time.Sleep(work) // the work
					working.Add(int64(time.Since(at)))
				}
				handled.Add(1)
			}
			c.Opts = append(c.Opts, has.of(c.Member)...)
			if work > 0 {
				c.Opts = append(c.Opts, kgo.FetchMaxPartitionBytes(1<<10))
			}
			consumers = append(consumers, harness.Consume(t, l, c))
		}
		has.awaitEach(t, n, most/n)
		last = nextPoint(t, n, last, factor, measure)
	}
	l.AwaitDone(t, 10*time.Second) // the last ones are counted before the ledger has them
	l.Check(t, harness.View(1, most))
}

// nextPoint measures the point of n members, again if need be, and wants it to be factor times the one before.
func nextPoint(t *testing.T, n int, last, factor float64, measure func() float64) float64 {
	t.Helper()
	const tries = 3
	point := measure()
	for try := 1; point < factor*last && try < tries; try++ { // another process may have had the machine
		point = max(point, measure())
	}
	if point < factor*last {
		t.Errorf("%d members: %.2f, with half as many %.2f, wanted %.2f times that", n, point, last, factor)
	}
	return point
}
