package cases

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/client"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// 1, 2, 4, 8 and 16 members that share one partition by keys, one record at a time each: with handlers of 5 ms each doubling has many more of
// them at work at once, and with handlers that take no time more members cost nothing (case V3).
func TestThroughputWithMoreSharers(t *testing.T) {
	harness.Need(t)
	t.Run("5 ms", func(t *testing.T) { scaleSharers(t, 5*time.Millisecond, func(n int) int { return 160 * n }, 1.4) })
	t.Run("0 ms", func(t *testing.T) { scaleSharers(t, 0, func(int) int { return 60_000 }, 0.7) })
}

// scaleSharers is scale for members that share the source itself. They are never paused: what is measured goes from the first record that is
// handled to the last.
func scaleSharers(t *testing.T, work time.Duration, records func(members int) int, factor float64) {
	const most = 16
	e := onKafka(t, harness.GatewayConfig{})
	source, _ := e.source(t, 1, most)
	group, l, has := harness.Name(t, "group"), harness.NewLedger(), newAssignment(most)
	keys := keysOf(most, 20)
	var members int
	var handled, working, began, ended atomic.Int64 // records, nanoseconds at work, and when the first record of a point came and the last was done
	measure := func() point {
		todo := int64(records(members))
		handled.Store(0)
		working.Store(0)
		began.Store(0)
		cpu := e.cpu(t)
		harness.Produce(t, e.gateway.Bootstrap, l, harness.Production{Topic: source, Records: int(todo), Key: func(i int) []byte { return keys[i%len(keys)] }})
		await(t, stuckAfter, func() string {
			if n := handled.Load(); n < todo {
				return fmt.Sprintf("%d members handled %d of %d records", members, n, todo)
			}
			return ""
		})
		p := pointOf(todo, time.Duration(ended.Load()-began.Load()), e.cpu(t)-cpu, time.Duration(working.Load()))
		t.Logf("%d members: %v", members, p)
		return p
	}
	last := point{}
	for n := 1; n <= most; n *= 2 {
		for ; members < n; members++ {
			c := e.consumer(group, fmt.Sprintf("member-%d", members), source)
			c.Handle = func(*kgo.Record) {
				at := time.Now()
				began.CompareAndSwap(0, at.UnixNano())
				if work > 0 {
					time.Sleep(work) // the work
					working.Add(int64(time.Since(at)))
				}
				ended.Store(time.Now().UnixNano())
				handled.Add(1)
			}
			sharers.start(t, l, c, has, client.Concurrency(1))
		}
		has.awaitEach(t, n, most/n)
		last = nextPoint(t, n, last, work > 0, factor, measure)
	}
	l.AwaitDone(t, stuckAfter) // the last ones are counted before the ledger has them
	l.Check(t, sharers.where(1, most))
}
