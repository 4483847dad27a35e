package cases

import (
	"fmt"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
)

// Processes that share one partition by keys copy it in transactions, while they are killed, replaced under their transactional ids, join and leave: whoever reads the
// output with read_committed has each record once, and those of each key in order.
func TestExactlyOnceUnderKills(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, e engine, s harness.WorkerSpec) {
		const rate, keys, rounds = 200, 200, 3
		topic := e.orders(t, &s, 1)
		s.Out = harness.Name(t, "copies")
		harness.CreateTopic(t, e.kafka, s.Out, 3)
		s.Work, s.Concurrency, s.Transaction = 2*time.Millisecond, 20, 2*minSession
		l := harness.NewLedger()
		caughtUp := harness.FollowOutput(t, e.kafka, s.Out, l)
		harness.WatchCommitted(t, e.kafka, s.Group, topic, l)
		started := 0
		start := func(id int) *harness.Worker {
			started++
			of := s.Named(fmt.Sprintf("worker-%d", started))
			of.Transactional = fmt.Sprintf("%s-%d", s.Group, id)
			return harness.StartWorker(t, of)
		}
		stop := load(t, e, l, harness.Production{Topic: topic, Rate: rate, Keys: keys})
		workers := []*harness.Worker{start(0), start(1), start(2)}
		goesOn := func() { // by as many as are written in a quarter of a second
			t.Helper()
			from := l.Deliveries()
			await(t, 30*time.Second, func() string {
				if n := l.Deliveries() - from; n < rate/4 {
					return fmt.Sprintf("%d records are written", n)
				}
				return ""
			})
		}
		for round := range rounds {
			goesOn()
			id := round % len(workers)
			switch round % 2 {
			case 0: // dies in the middle of its work; the next one takes its transactional id over
				workers[id].Kill()
				workers[id] = start(id)
			default: // one comes, and another leaves
				extra := start(len(workers))
				goesOn()
				if err := workers[id].Term(20 * time.Second); err != nil {
					t.Errorf("%s after SIGTERM: %v", workers[id].Name, err)
				}
				workers[id] = start(id)
				if err := extra.Term(20 * time.Second); err != nil {
					t.Errorf("%s after SIGTERM: %v", extra.Name, err)
				}
			}
		}
		stop()
		l.AwaitDone(t, 40*time.Second)
		e.awaitCommitted(t, s.Group, topic, l.Ends(topic)[0])
		for _, w := range workers {
			if err := w.Term(20 * time.Second); err != nil {
				t.Errorf("%s after SIGTERM: %v", w.Name, err)
			}
		}
		harness.Eventually(t, 20*time.Second, caughtUp)
		if r := l.Check(t, nil); r.Duplicates > 0 {
			t.Errorf("%d records are in the output twice", r.Duplicates)
		}
	})
}
