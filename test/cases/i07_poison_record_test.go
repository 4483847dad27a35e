package cases

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
)

// One record in a batch of 50 kills the process that handles it, on and on, and at most 5 attempts are allowed. It goes to the dead-letter topic
// with the cause, and the other 49 are done. None of them is charged with a crash: those that succeed do so in their first attempt, and two that fail
// twice of their own do so in their third (case I7).
func TestPoisonRecordKillsTheProcess(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, e engine, s harness.WorkerSpec) {
		const records, poison, attempts = 50, 23, 5
		topic, l := e.orders(t, &s, 1), harness.NewLedger()
		s.DeadLetter, s.Attempts, s.First = topic+".failed", attempts, 20*time.Millisecond
		harness.CreateTopic(t, e.kafka, s.DeadLetter, 1)
		s.Instance, s.Concurrency, s.Begins, s.Work = "only", records, true, 20*time.Millisecond
		s.Kill, s.Fail = []int64{poison}, map[int64]int{10: 2, 40: 2}
		harness.Produce(t, e.kafka, l, spread(topic, records, records))

		var runs []harness.WorkerRun
		var begun []int // attempts of the poison
		crashes := 0
		for done := false; !done; {
			w := harness.StartWorker(t, s.Named("worker-"+strconv.Itoa(crashes)))
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
			runs = append(runs, w.Runs(t)...)
			for _, r := range w.Lines(t) {
				if r.Offset == poison && r.Event == "" {
					begun = append(begun, r.Attempt)
				}
			}
			if !done {
				crashes++
			}
			if crashes > 2*attempts {
				t.Fatalf("%d crashes; the poison's attempts were %v", crashes, begun)
			}
		}
		// The first crash is not counted: it is what makes the next process look.
		if want := []int{1, 1, 2, 3, 4, 5}; !slices.Equal(begun, want) {
			t.Errorf("the poison's attempts were %v, not %v", begun, want)
		}
		done := map[int64]int{}
		for _, r := range runs {
			last := s.Fail[r.Offset] + 1
			if r.Attempt > last {
				t.Errorf("offset %d had attempt %d", r.Offset, r.Attempt)
			}
			if r.Err == "" {
				done[r.Offset]++
				if r.Attempt != last {
					t.Errorf("offset %d succeeded in attempt %d, not %d", r.Offset, r.Attempt, last)
				}
			}
		}
		if done[poison] > 0 || len(done) != records-1 {
			t.Errorf("%d records are done, the poison %d times", len(done), done[poison])
		}
		letters := readAll(t, e.kafka, s.DeadLetter)
		if len(letters) != 1 {
			t.Fatalf("%d dead letters", len(letters))
		}
		has := map[string]string{}
		for _, h := range letters[0].Headers {
			has[h.Key] = string(h.Value)
		}
		for name, want := range map[string]string{"topic": topic, "partition": "0", "offset": strconv.Itoa(poison), "group": s.Group, "attempts": strconv.Itoa(attempts),
			"error": "unknown: the process ended while it handled the record"} {
			if got := has["tandem.dlq."+name]; got != want {
				t.Errorf("the dead letter's header %s is %q, not %q", name, got, want)
			}
		}
	})
}
