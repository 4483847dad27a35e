package cases

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
)

// Three workers join one that has a backlog and is busy all the time. Each handles records within 10 s of its start, all of them stand still for less, and
// nothing is handled twice. It makes no difference whether commits are always under way or none is due for an hour: what is given up is
// committed at once (case I12).
func TestScalingOutUnderLoad(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, e engine, s harness.WorkerSpec) {
		for _, c := range []struct {
			name        string
			cooperative bool
			commits     time.Duration
		}{{"no commit is due", false, time.Hour}, {"commits are under way", false, time.Millisecond}, {"cooperative, commits are under way", true, time.Millisecond}} {
			t.Run(c.name, func(t *testing.T) {
				s := s
				s.Cooperative, s.CommitInterval = c.cooperative, c.commits
				scaleOut(t, e, s)
			})
		}
	})
}

func scaleOut(t *testing.T, e engine, s harness.WorkerSpec) {
	const handover = 10 * time.Second
	const records, keys, newcomers = 9000, 1000, 3
	topic, l := e.orders(t, &s, 1), harness.NewLedger()
	s.Concurrency, s.Work = 10, 10*time.Millisecond
	harness.Produce(t, e.kafka, l, spread(topic, records, keys))
	harness.WatchCommitted(t, e.kafka, s.Group, topic, l)
	workers := []*harness.Worker{harness.StartWorker(t, s.Named("worker-0"))}
	await(t, 30*time.Second, func() string {
		if n := workers[0].Collect(t, l) + l.Deliveries(); n < records/20 {
			return fmt.Sprintf("%d records are handled", n)
		}
		return ""
	})
	began := map[string]time.Time{}
	for i := range newcomers {
		name := fmt.Sprintf("worker-%d", 1+i)
		began[name] = time.Now()
		workers = append(workers, harness.StartWorker(t, s.Named(name)))
	}
	harness.CollectUntil(t, time.Minute, l, workers...)
	var runs []harness.WorkerRun
	for _, w := range workers {
		if err := w.Term(10 * time.Second); err != nil {
			t.Error(err)
		}
		w.Collect(t, l)
		runs = append(runs, w.Runs(t)...)
	}
	e.awaitCommitted(t, s.Group, topic, records)
	if r := l.Check(t, nil); r.Duplicates > 0 {
		t.Errorf("%d duplicates", r.Duplicates)
	}
	slices.SortFunc(runs, func(a, b harness.WorkerRun) int { return cmp.Compare(a.End, b.End) })
	still, first := time.Duration(0), map[string]time.Duration{}
	for i, r := range runs {
		if i > 0 {
			still = max(still, time.Duration(r.End-runs[i-1].End))
		}
		if _, ok := first[r.Member]; !ok && r.Member != "worker-0" {
			first[r.Member] = time.Unix(0, r.Start).Sub(began[r.Member])
		}
	}
	t.Logf("the newcomers' first records came after %v; nobody handled anything for %v", first, still)
	if still > handover {
		t.Errorf("nothing was handled for %v", still)
	}
	for name := range began {
		if d, ok := first[name]; !ok || d > handover {
			t.Errorf("%s got its first record after %v (%t)", name, d, ok)
		}
	}
}
