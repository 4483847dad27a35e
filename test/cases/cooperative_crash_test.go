package cases

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
)

// Processes share two partitions by record behind two gateways. One is frozen for longer than its session and goes on, one is killed, one takes longer for
// each record than a session is long, and each gateway is killed and comes back. Nothing is lost; only what the frozen and the killed one had is given to others, counted,
// and nothing that is with one who is alive and in time is given to another (case C12).
func TestMembersThatShareByRecordFreezeDieAndLoseGateways(t *testing.T) {
	t.Parallel()
	harness.Need(t)
	const records, session = 6000, 3 * time.Second
	k := cluster(t)
	one := front(t, k, harness.GatewayConfig{})
	two := front(t, k, harness.GatewayConfig{})
	topic, group := harness.Name(t, "orders"), harness.Name(t, "group")
	harness.CreateTopic(t, k.Bootstrap, topic, 2)
	harness.Produce(t, k.Bootstrap, harness.NewLedger(), harness.Production{Topic: topic, Records: records, Keys: 100, Bytes: 100})
	spec := harness.WorkerSpec{Group: group, Topics: []string{topic}, ByRecord: session, Concurrency: 4, Work: 10 * time.Millisecond, Session: 6 * time.Second}
	var workers []*harness.Worker
	for i, e := range []engine{one, one, two, two, two} {
		s := spec.Named(fmt.Sprint("worker-", i))
		s.Bootstrap = e.gateway.Bootstrap
		if i == 4 {
			s.Work, s.Drain = 2*session, 2*session
		}
		workers = append(workers, harness.StartWorker(t, s))
	}
	handled := func() (n int) {
		seen := map[[2]int64]bool{}
		for _, w := range workers {
			for _, r := range w.Runs(t) {
				seen[[2]int64{int64(r.Partition), r.Offset}] = true
			}
		}
		return len(seen)
	}
	reach := func(n int) {
		t.Helper()
		harness.Eventually(t, 2*time.Minute, func() error {
			if got := handled(); got < n {
				return fmt.Errorf("%d records are handled, not %d", got, n)
			}
			return nil
		})
	}
	reach(500)
	frozen := time.Now()
	workers[0].Pause()
	reach(1000)
	workers[2].Kill()
	reach(2000)
	one.gateway.Kill()
	one.gateway.Start(t)
	reach(2500)
	harness.Eventually(t, time.Minute, func() error {
		if time.Since(frozen) < 2*session {
			return fmt.Errorf("frozen for %v", time.Since(frozen))
		}
		return nil
	})
	workers[0].Continue()
	reach(3500)
	two.gateway.Kill()
	two.gateway.Start(t)
	reach(records)
	for _, i := range []int{0, 1, 3, 4} {
		if err := workers[i].Term(30 * time.Second); err != nil {
			t.Errorf("worker %d: %v", i, err)
		}
	}
	lost := map[int]bool{0: true, 2: true}
	for i, w := range workers { // on a busy machine a gateway may take longer to come back than a session is long
		if strings.Contains(w.Log(), "was not heard of for its session timeout") {
			t.Logf("worker %d was not in time", i)
			lost[i] = true
		}
	}
	judgeByRecord(t, workers, lost)
	w := one.wire(t, group)
	harness.Eventually(t, 20*time.Second, func() error {
		for p := range int32(2) {
			if got := w.committed(topic, p, whole).String(); got != fmt.Sprint(ends(t, k.Bootstrap, topic)[p]) {
				return fmt.Errorf("partition %d: committed are %s", p, got)
			}
		}
		return nil
	})
}

// judgeByRecord checks what workers that share by record did. Those in lost were frozen, killed, or otherwise not in time: what they had, others get. Nobody else's records are
// given to another, at any time, and each time that a record is given counts.
func judgeByRecord(t *testing.T, workers []*harness.Worker, lost map[int]bool) {
	t.Helper()
	type run struct {
		harness.WorkerRun
		worker int
	}
	runs := map[[2]int64][]run{}
	for i, w := range workers {
		for _, r := range w.Runs(t) {
			at := [2]int64{int64(r.Partition), r.Offset}
			runs[at] = append(runs[at], run{r, i})
		}
	}
	again, taken := 0, 0
	for at, list := range runs {
		slices.SortFunc(list, func(a, b run) int { return cmp.Compare(a.Start, b.Start) })
		if list[0].Attempt > 1 {
			taken++ // from one that had it, and had not begun with it or has not said so
		}
		for n, r := range list[1:] {
			before := list[n]
			again++
			if !lost[before.worker] {
				t.Errorf("partition %d, offset %d: worker %d was alive and in time, and then worker %d had it, too: %+v, %+v", at[0], at[1], before.worker, r.worker, before, r)
			}
			if r.Attempt <= before.Attempt {
				t.Errorf("partition %d, offset %d: attempt %d came after attempt %d", at[0], at[1], r.Attempt, before.Attempt)
			}
		}
	}
	t.Logf("of %d records %d were taken from one that was lost before it began, and %d were done again", len(runs), taken, again)
	if again+taken > 100*len(lost) {
		t.Errorf("%d records changed hands, which is more than %d workers have in hand", again+taken, len(lost))
	}
}

// ends are where the partitions of a topic end.
func ends(t testing.TB, bootstrap, topic string) map[int32]int64 {
	t.Helper()
	offsets, err := harness.Admin(t, bootstrap).ListEndOffsets(harness.Context(t, 20*time.Second), topic)
	if err != nil {
		t.Fatal(err)
	}
	all := map[int32]int64{}
	for _, o := range offsets[topic] {
		all[o.Partition] = o.Offset
	}
	return all
}
