package cases

import (
	"fmt"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
)

// Processes share two partitions by record behind two gateways. One is frozen for longer than its session and goes on, one is killed, and each gateway is
// killed and comes back. Nothing is lost; only what the frozen and the killed one had, or what was done and not committed when a gateway died, is done again, and
// nothing is done by two while the first is in time.
func TestMembersThatShareByRecordFreezeDieAndLoseGateways(t *testing.T) {
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
	for i, e := range []engine{one, one, two, two} {
		s := spec.Named(fmt.Sprint("worker-", i))
		s.Bootstrap = e.gateway.Bootstrap
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
	for _, i := range []int{0, 1, 3} {
		if err := workers[i].Term(30 * time.Second); err != nil {
			t.Errorf("worker %d: %v", i, err)
		}
	}
	type run struct {
		harness.WorkerRun
		worker int
	}
	runs := map[[2]int64][]run{}
	again := 0
	for i, w := range workers {
		for _, r := range w.Runs(t) {
			at := [2]int64{int64(r.Partition), r.Offset}
			for _, before := range runs[at] {
				again++
				if before.worker != 0 && before.worker != 2 && i != 0 && i != 2 && before.Start < r.End && r.Start < before.End {
					t.Errorf("partition %d, offset %d is with worker %d and worker %d at once", r.Partition, r.Offset, before.worker, i)
				}
			}
			runs[at] = append(runs[at], run{r, i})
		}
	}
	t.Logf("%d of %d records were done again", again, records)
	if again > 400 {
		t.Errorf("%d records were done again", again)
	}
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

// ends are where the partitions of a topic end.
func ends(t testing.TB, bootstrap, topic string) map[int32]int64 {
	t.Helper()
	offsets, err := harness.AdminClient(t, bootstrap).ListEndOffsets(harness.Context(t, 20*time.Second), topic)
	if err != nil {
		t.Fatal(err)
	}
	all := map[int32]int64{}
	for _, o := range offsets[topic] {
		all[o.Partition] = o.Offset
	}
	return all
}
