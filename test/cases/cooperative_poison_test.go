package cases

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
)

// One record of 50 that are in hand together kills each process that handles it, and at most 5 attempts are allowed. It becomes the one dead letter, with the cause.
// The others are done, however often they were given out beside it (case C11).
func TestPoisonRecordKillsProcessesThatShareByRecord(t *testing.T) {
	t.Parallel()
	harness.Need(t)
	e := onKafka(t, harness.GatewayConfig{})
	const records, poison, attempts = 50, 23, 5
	s := harness.WorkerSpec{Bootstrap: e.gateway.Bootstrap, Session: 3 * minSession, ByRecord: minSession, Instance: "only", Concurrency: records, Begins: true,
		Attempts: attempts, First: 20 * time.Millisecond, Work: 20 * time.Millisecond, Kill: []int64{poison}, Fail: map[int64]int{10: 2, 40: 2}}
	topic, l := e.orders(t, &s, 1), harness.NewLedger().AnyOrder()
	s.DeadLetter = topic + ".failed"
	harness.CreateTopic(t, e.kafka, s.DeadLetter, 1)
	harness.Produce(t, e.kafka, l, spread(topic, records, records))
	var begun []int // attempts of the poison
	for process := 0; ; process++ {
		w := harness.StartWorker(t, s.Named("worker-"+strconv.Itoa(process)))
		done := false
		await(t, 30*time.Second, func() string {
			if done = e.stable(t, s.Group, topic) == records; done || !w.Running() {
				return ""
			}
			return "the worker neither ends nor does everything"
		})
		if done {
			if err := w.Term(10 * time.Second); err != nil {
				t.Fatal(err)
			}
		}
		w.Collect(t, l)
		for _, r := range w.Lines(t) {
			if r.Offset == poison && r.Event == "" {
				begun = append(begun, r.Attempt)
			}
		}
		if done {
			break
		}
		if process > 2*attempts {
			t.Fatalf("%d crashes; the poison's attempts were %v", process, begun)
		}
	}
	// One may be missing: of a process that lost what it had before it began with it.
	if n := len(begun); n < 3 || begun[n-1] != attempts || !slices.IsSorted(begun) || len(slices.Compact(slices.Clone(begun))) != n {
		t.Errorf("the poison's attempts were %v: they are to rise to %d", begun, attempts)
	}
	letters := readAll(t, e.kafka, s.DeadLetter)
	if len(letters) != 1 {
		t.Fatalf("%d dead letters: %v", len(letters), letters)
	}
	has := map[string]string{}
	for _, h := range letters[0].Headers {
		has[h.Key] = string(h.Value)
	}
	if has["tandem.dlq.offset"] != strconv.Itoa(poison) || has["tandem.dlq.attempts"] != strconv.Itoa(attempts) || has["tandem.dlq.error"] != "unknown: the process ended while it handled the record" {
		t.Errorf("the dead letter says %v", has)
	}
	if r := l.Report(nil); r.Missing != 1 || l.Open() != 1 {
		t.Errorf("all but the poison are to be done: %s", r)
	}
}
