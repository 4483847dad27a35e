package cases

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
)

// A worker stands still in the middle of its handlers, so that its heartbeats come too late and another has its keys. Then it goes on: its handlers end,
// and its commit is refused and changes nothing. Whoever has the keys later is given all of those records (case I10).
func TestCommitAfterDelayedHeartbeats(t *testing.T) {
	t.Parallel()
	ways(t, lateCommit)
	t.Run(pollers.name, func(t *testing.T) {
		t.Parallel()
		e := onKafka(t, harness.GatewayConfig{})
		lateCommit(t, e, harness.WorkerSpec{Bootstrap: e.gateway.Bootstrap, Poll: true})
	})
}

func lateCommit(t *testing.T, e engine, s harness.WorkerSpec) {
	const records = 10
	topic, l := e.orders(t, &s, 1), harness.NewLedger()
	s.Session, s.Concurrency, s.Begins = minSession, records, true
	harness.Produce(t, e.kafka, l, spread(topic, records, records))
	late := s.Named("late")
	late.Work = time.Second
	first := harness.StartWorker(t, late)
	awaitRunning(t, first, records)
	first.Pause()

	holds := s.Named("holds")
	for i := range int64(records) {
		holds.Hang = append(holds.Hang, i)
	}
	second := harness.StartWorker(t, holds)
	awaitRunning(t, second, records)
	first.Continue()
	harness.Eventually(t, 20*time.Second, func() error {
		if first.Handling(t) > 0 || !strings.Contains(first.Log(), "key ranges are lost") {
			return errors.New("the late worker does not know yet")
		}
		return nil
	})
	first.Kill()
	if at, ok := e.committed(t, s.Group, topic)[0]; ok && at > 0 {
		t.Errorf("the stable offset is %d, and nobody has done anything in time", at)
	}
	second.Kill()

	third := harness.StartWorker(t, s.Named("third"))
	harness.CollectUntil(t, 20*time.Second, l, third)
	e.awaitCommitted(t, s.Group, topic, records)
	if r := l.Check(t, nil); r.Deliveries != records {
		t.Errorf("%d deliveries", r.Deliveries)
	}
}
