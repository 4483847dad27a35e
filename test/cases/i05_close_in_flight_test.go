package cases

import (
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
)

// A worker is ended while 100 handlers run, or so many records are polled and worked on, and another takes its place. With time to drain the 100 end; without, or by kill -9, they are
// handled by the other. What was done and committed before never comes again, and nothing is lost (case I5; with workers that share by record case C8).
func TestCloseWithRecordsInFlight(t *testing.T) {
	t.Parallel()
	ways(t, closeInFlight)
	t.Run(recordSharers.name, func(t *testing.T) {
		t.Parallel()
		e := onKafka(t, harness.GatewayConfig{})
		closeInFlight(t, e, harness.WorkerSpec{Bootstrap: e.gateway.Bootstrap, Session: 3 * minSession, ByRecord: 3 * minSession})
	})
	t.Run(pollers.name, func(t *testing.T) {
		t.Parallel()
		e := onKafka(t, harness.GatewayConfig{})
		closeInFlight(t, e, harness.WorkerSpec{Bootstrap: e.gateway.Bootstrap, Session: 3 * minSession, Poll: true})
	})
}

func closeInFlight(t *testing.T, e engine, s harness.WorkerSpec) {
	const inFlight, keys, records = 100, 200, 600
	for _, end := range []struct {
		name  string
		drain time.Duration
		kill  bool
		done  int // by the first
	}{{"drained", 0, false, 2 * inFlight}, {"cut short", 50 * time.Millisecond, false, inFlight}, {"killed", 0, true, inFlight}} {
		t.Run(end.name, func(t *testing.T) {
			s := s
			topic, l := e.orders(t, &s, 1), harness.NewLedger()
			s.Concurrency, s.Begins, s.Work, s.Drain = inFlight, true, time.Second, end.drain
			harness.Produce(t, e.kafka, l, spread(topic, records, keys))
			if s.ByRecord > 0 || s.Poll { // so many at once keep none
				l.AnyOrder()
			}
			harness.WatchCommitted(t, e.kafka, s.Group, topic, l)
			s.Hold = inFlight // however late we see that the second round is under way, it is
			first := harness.StartWorker(t, s.Named("first"))
			e.awaitCommitted(t, s.Group, topic, inFlight)
			awaitRunning(t, first, inFlight)
			if end.kill {
				first.Kill()
			} else if err := first.Term(10 * time.Second); err != nil {
				t.Fatalf("SIGTERM: %v\n%s", err, first.Log())
			}
			if done := first.Collect(t, l); done != end.done || !end.kill && first.Handling(t) > 0 {
				t.Errorf("the first handled %d records, not %d, and left %d in the middle", done, end.done, first.Handling(t))
			}
			s.Work, s.Hold = 0, 0
			second := harness.StartWorker(t, s.Named("second"))
			harness.CollectUntil(t, 20*time.Second, l, second)
			e.awaitCommitted(t, s.Group, topic, records)
			if err := second.Term(10 * time.Second); err != nil {
				t.Fatal(err)
			}
			second.Collect(t, l)
			if r := l.Check(t, nil); r.Duplicates > 0 {
				t.Errorf("%d duplicates", r.Duplicates)
			}
		})
	}
}
