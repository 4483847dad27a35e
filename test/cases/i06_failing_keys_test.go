package cases

import (
	"fmt"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
)

// Two groups handle the same records side by side; in one of them 1 % of the keys fail for ever. Its other records keep 95 % of their throughput, with fewer
// records in memory than wait behind those keys. More attempts than an hour of the usual backoff has, made with a shorter one, take no memory (case I6). Other load of the machine slows both groups, so that it may run beside other cases;
// client/internal/run measures the same on a clock of its own.
func TestKeysThatFailForEver(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, e engine, s harness.WorkerSpec) {
		const records, keys, failing, hour = 12_000, 1000, 10, 1300 // an hour has about 130 attempts of each failing key
		topic := e.orders(t, &s, 1)
		key := func(i int) []byte {
			if i%keys%(keys/failing) == 0 {
				return fmt.Appendf(nil, "failing-%d", i%keys)
			}
			return fmt.Appendf(nil, "key-%d", i%keys)
		}
		harness.Produce(t, e.kafka, harness.NewLedger(), harness.Production{Topic: topic, Records: records, Key: key})
		s.Concurrency, s.Work, s.Buffered = 20, 10*time.Millisecond, 100
		s.Counts = 200 * time.Millisecond
		others := int64(records / keys * (keys - failing))
		var took [2]time.Duration
		for range 3 { // the other load of the machine may disturb one more than the other
			workers := [2]*harness.Worker{}
			for i, fail := range []string{"", "failing"} {
				s.Group, s.FailKeys = harness.Name(t, "group"), fail
				workers[i] = harness.StartWorker(t, s.Named(fmt.Sprint("worker-", i)))
			}
			for i, want := range []int64{records, others} {
				await(t, 60*time.Second, func() string {
					c := workers[i].LastCounts(t)
					if took[i] = time.Duration(c.End-c.Start) * time.Duration(others) / time.Duration(want); c.Done != want {
						return fmt.Sprintf("%d of %d records are done", c.Done, want)
					}
					return ""
				})
			}
			for _, w := range workers {
				if err := w.Term(10 * time.Second); err != nil {
					t.Error(err)
				}
			}
			t.Logf("%d records of the others took %v, and %v where none fails: %.1f %%", others, took[1], took[0], 100*float64(took[0])/float64(took[1]))
			if took[0] >= took[1]*95/100 {
				break
			}
		}
		if took[0] < took[1]*95/100 {
			t.Errorf("the others took %v, and %v where none fails", took[1], took[0])
		}
		s.First, s.Max, s.Work = time.Millisecond, 5*time.Millisecond, 0 // the last group has only those left that fail
		flat(t, harness.StartWorker(t, s.Named("worker-2")), hour)
	})
}

// flat waits until a worker has made so many attempts, and as many more four times, and looks whether its heap has grown meanwhile.
func flat(t *testing.T, w *harness.Worker, attempts int64) {
	t.Helper()
	var from, to harness.WorkerRun
	await(t, 30*time.Second, func() string {
		if from = w.LastCounts(t); from.Failed < attempts {
			return fmt.Sprintf("%d of %d attempts", from.Failed, attempts)
		}
		return ""
	})
	attempts *= 4
	await(t, 60*time.Second, func() string {
		if to = w.LastCounts(t); to.Failed < from.Failed+attempts {
			return fmt.Sprintf("%d of %d attempts", to.Failed-from.Failed, attempts)
		}
		return ""
	})
	t.Logf("the heap had %d KiB, and after %d more attempts %d", from.Heap>>10, to.Failed-from.Failed, to.Heap>>10)
	if to.Heap > from.Heap+from.Heap/10+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes in %d attempts", from.Heap, to.Heap, to.Failed-from.Failed)
	}
}
