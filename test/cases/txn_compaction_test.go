package cases

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit"
	"github.com/tandem-kafka/tandem/test/harness"
)

// Of a log of transactions that was compacted little is left, of markers too, and it says the same.
func TestLogWithTransactionsIsCompacted(t *testing.T) {
	t.Parallel()
	harness.Need(t)
	k := harness.StartKafka(t, harness.KafkaConfig{Properties: "log.cleaner.backoff.ms=100\n"})
	e := engine{name: "kafka", kafka: k.Bootstrap, cluster: k, gateway: harness.StartGateway(t, harness.GatewayConfig{Kafka: k.Bootstrap})}
	topic, _ := e.source(t, 1, 2)
	group := harness.Name(t, "group")
	w := e.wires(t, group, false, 1)[0]
	joinAll(topic, w)
	w.mustCommit(topic, 0, rangesOf(upper, span(3, 3)))
	for name, value := range map[string]string{"segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "100"} {
		alterTopic(t, k.Bootstrap, icommit.TopicName, name, value)
	}
	p := initProducer(w, group, false, time.Minute)
	next, decided := int64(1), 0
	transaction := func(commit bool) {
		p.commit(w, topic, 0, rangesOf(lower, span(next, next+4)))
		p.end(w, commit)
		if decided++; commit {
			next += 5
		}
	}
	for round := range 60 {
		transaction(round%4 != 3)
	}
	await(t, time.Minute, func() string {
		transaction(decided%4 != 3) // begins the next segment, and has what is redundant deleted now and then
		markers, records := 0, 0
		for _, r := range readAll(t, k.Bootstrap, icommit.TopicName) {
			if r.Attrs.IsControl() {
				markers++
			} else if strings.Contains(string(r.Key), group) {
				records++
			}
		}
		if records > 15 || markers > 15 {
			return fmt.Sprintf("after %d transactions there are %d records and %d markers", decided, records, markers)
		}
		return ""
	})
	want := fmt.Sprintf("0 [00000000-7fffffff] [1-%d] [80000000-ffffffff] [3-3]", next-1)
	w.awaitStable(topic, want)
	e.gateway.Kill()
	e.gateway.Start(t)
	w.awaitStable(topic, want)
}
