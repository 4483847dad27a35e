package cases

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// 1, 2, 4, 8 and 16 consumers on one partition: with handlers of 5 ms each doubling has many more of them at work at once, and with handlers
// that take no time, where the machine is the limit, more consumers cost nothing: the rate holds, or, where another process has the machine,
// the CPU time of a record does (case V3).
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
	measure := func() point {
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
		at, cpu := time.Now(), e.cpu(t)
		for _, c := range consumers {
			c.Client().ResumeFetchTopics(view)
		}
		for handled.Load() < todo {
			if time.Since(at) > stuckAfter {
				t.Fatalf("%d members handled %d of %d records", len(consumers), handled.Load(), todo)
			}
			time.Sleep(time.Millisecond)
		}
		p := pointOf(todo, time.Since(at), e.cpu(t)-cpu, time.Duration(working.Load()))
		t.Logf("%d consumers: %v", len(consumers), p)
		return p
	}
	last := point{}
	for n := 1; n <= most; n *= 2 {
		for len(consumers) < n {
			c := e.consumer(group, fmt.Sprintf("member-%d", len(consumers)), view)
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
		last = nextPoint(t, n, last, work > 0, factor, measure)
	}
	l.AwaitDone(t, stuckAfter) // the last ones are counted before the ledger has them
	l.Check(t, harness.View(1, most))
}

// stuckAfter ends a point that goes on no more; how long one takes counts only beside the one before.
const stuckAfter = 2 * time.Minute

// point is what some members did: records a second, how many handlers were at work at once, and the CPU time of a record.
type point struct {
	rate, atWork float64
	cost         time.Duration
}

func pointOf(records int64, took, cpu, working time.Duration) point {
	return point{float64(records) / took.Seconds(), working.Seconds() / took.Seconds(), cpu / time.Duration(records)}
}

func (p point) String() string {
	return fmt.Sprintf("%.0f records/s, %v of CPU each, %.1f at work", p.rate, p.cost, p.atWork)
}

// holds says whether the point is at least factor times another one: with handlers that wait, as many of them at work; else the rate, or what a record costs.
func (p point) holds(last point, waits bool, factor float64) bool {
	if waits {
		return p.atWork >= factor*last.atWork
	}
	return p.rate >= factor*last.rate || p.cost > 0 && factor*float64(p.cost) <= float64(last.cost)
}

// nextPoint measures the point of n members, again if need be, and wants it to be factor times the one before.
func nextPoint(t *testing.T, n int, last point, waits bool, factor float64, measure func() point) point {
	t.Helper()
	const tries = 3
	p := measure()
	for try := 1; !p.holds(last, waits, factor) && try < tries; try++ { // another process may have had the machine
		more := measure()
		p = point{max(p.rate, more.rate), max(p.atWork, more.atWork), min(p.cost, more.cost)}
	}
	if !p.holds(last, waits, factor) {
		t.Errorf("%d members: %v; half as many: %v; wanted %.2f times that", n, p, last, factor)
	}
	return p
}

// cpu is the CPU time so far of this process, in which the members are, and of the gateway.
func (e engine) cpu(t *testing.T) time.Duration {
	t.Helper()
	return harness.CPU(t, e.gateway.Process().Pid()) + harness.CPU(t, os.Getpid())
}
