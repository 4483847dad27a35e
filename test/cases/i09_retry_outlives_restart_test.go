package cases

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
)

// Two records ask to be tried again, one after a few seconds, one after an hour; then worker, gateway and broker are killed. The worker that takes
// over tries the one not earlier than asked, counts on from its first attempt, and does not try the other; 2,001 later records flow meanwhile, and those
// of their keys wait for them (case I9).
func TestRetryDelayOutlivesRestart(t *testing.T) {
	t.Parallel()
	harness.Need(t)
	const later, behind, delay = 2001, 5, 8 * time.Second
	k := harness.StartKafka(t, harness.KafkaConfig{Properties: "broker.heartbeat.interval.ms=500\nbroker.session.timeout.ms=2000"})
	e := front(t, k, harness.GatewayConfig{})
	s := harness.WorkerSpec{Bootstrap: e.gateway.Bootstrap, Session: 3 * minSession, Instance: "only", Attempts: 5}
	topic, l := e.orders(t, &s, 1), harness.NewLedger()
	s.Later = map[int64]time.Duration{0: delay, 1: time.Hour}
	of := func(key string, records int) harness.Production {
		return harness.Production{Topic: topic, Records: records, Key: func(int) []byte { return []byte(key) }}
	}
	stuck := harness.NewLedger()
	harness.Produce(t, e.kafka, l, of("failing", 1))
	harness.Produce(t, e.kafka, stuck, of("stuck", 1))
	first := harness.StartWorker(t, s.Named("first"))
	await(t, 30*time.Second, func() string {
		if n := len(first.Runs(t)); n < 2 {
			return fmt.Sprintf("%d of 2 records are attempted", n)
		}
		return ""
	})
	await(t, 10*time.Second, func() string { // it is durable
		n := 0
		for _, r := range readAll(t, e.kafka, "__tandem_retries") {
			n += bytes.Count(r.Value, []byte(`"attempts":1,`))
		}
		if n < 2 {
			return fmt.Sprintf("the attempts of %d of 2 records are kept", n)
		}
		return ""
	})
	first.Kill()
	e.gateway.Kill()
	k.Kill(t, 1)
	k.Resume(t, 1)
	e.gateway.Start(t)
	harness.Produce(t, e.kafka, l, spread(topic, later, 50))
	harness.Produce(t, e.kafka, l, of("failing", behind))
	harness.Produce(t, e.kafka, stuck, of("stuck", behind))
	second := harness.StartWorker(t, s.Named("second"))
	harness.CollectUntil(t, 30*time.Second, l, second)
	e.awaitCommitted(t, s.Group, topic, 1)
	if err := second.Term(10 * time.Second); err != nil {
		t.Error(err)
	}
	if r := l.Check(t, nil); r.Duplicates > 0 {
		t.Errorf("%d duplicates", r.Duplicates)
	}
	asked := int64(0)
	for _, r := range first.Runs(t) {
		if r.Offset == 0 {
			asked = r.End + int64(delay)
		}
	}
	for _, r := range second.Runs(t) {
		switch {
		case r.Key == "stuck":
			t.Errorf("offset %d is attempted, an hour too early", r.Offset)
		case r.Offset == 0:
			if late := time.Duration(r.Start - asked); r.Attempt != 2 || late < 0 {
				t.Errorf("attempt %d began %v after the time asked for", r.Attempt, late)
			}
		}
	}
}
