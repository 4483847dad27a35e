package cases

import (
	"fmt"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
)

// ways is how workers reach Kafka: through a gateway in a process of its own, and each with one in its own process.
func ways(t *testing.T, run func(t *testing.T, e engine, s harness.WorkerSpec)) {
	t.Helper()
	harness.Need(t)
	t.Run("gateway", func(t *testing.T) {
		t.Parallel()
		e := onKafka(t, harness.GatewayConfig{})
		run(t, e, harness.WorkerSpec{Bootstrap: e.gateway.Bootstrap, Session: 3 * minSession})
	})
	t.Run("in process", func(t *testing.T) {
		t.Parallel()
		k := cluster(t)
		run(t, engine{name: "kafka", kafka: k.Bootstrap, cluster: k}, harness.WorkerSpec{Bootstrap: k.Bootstrap, InProcess: true, Session: 3 * minSession})
	})
}

// orders creates a topic, and says in s that it is to be handled, by a group of its own.
func (e engine) orders(t testing.TB, s *harness.WorkerSpec, partitions int32) (topic string) {
	t.Helper()
	topic = harness.Name(t, "orders")
	harness.CreateTopic(t, e.kafka, topic, partitions)
	s.Topics, s.Group = []string{topic}, harness.Name(t, "group")
	return topic
}

// stable is the group's offset of partition 0, as the cluster itself has it; -1: there is none yet, nor perhaps a coordinator.
func (e engine) stable(t testing.TB, group, topic string) int64 {
	t.Helper()
	offsets, err := harness.Admin(t, e.kafka).FetchOffsets(harness.Context(t, 10*time.Second), group)
	if o, ok := offsets.Lookup(topic, 0); err == nil && ok && o.Err == nil {
		return o.At
	}
	return -1
}

// awaitCommitted waits until the cluster itself has this stable offset of partition 0.
func (e engine) awaitCommitted(t *testing.T, group, topic string, want int64) {
	t.Helper()
	await(t, 30*time.Second, func() string {
		if at := e.stable(t, group, topic); at != want {
			return fmt.Sprintf("the stable offset is %d, not %d", at, want)
		}
		return ""
	})
}

// awaitRunning waits until so many handlers of a worker run.
func awaitRunning(t *testing.T, w *harness.Worker, n int) {
	t.Helper()
	await(t, 30*time.Second, func() string {
		if got := w.Handling(t); got != n {
			return fmt.Sprintf("%d of %d handlers run", got, n)
		}
		return ""
	})
}

// spread is a production of n records, round robin over keys, so that record i has key i mod keys.
func spread(topic string, n, keys int) harness.Production {
	return harness.Production{Topic: topic, Records: n, Key: func(i int) []byte { return fmt.Appendf(nil, "key-%d", i%keys) }}
}
