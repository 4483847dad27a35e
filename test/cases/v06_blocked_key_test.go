package cases

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A key blocks its consumer for ever, and 200,000 more records of that key come. The virtual partitions of the other consumers go on: 1,000
// records behind those arrive within seconds, at consumers that were there and at a new group that starts from the beginning, though the
// blocked records do not fit into the gateway's memory for records (case V6).
func TestBlockedKey(t *testing.T) {
	const limit = 4 << 20
	enginesAlone(t, harness.GatewayConfig{YAML: fmt.Sprintf("limits: {max.bytes.key.range.hashing: %d}\n", limit)}, func(t *testing.T, e engine) {
		const k, blocked, others = 4, 200_000, 1000
		source, view := e.source(t, 1, k)
		keys := keysOf(k, 10)
		hang := make(chan struct{})
		defer close(hang) // consumers can end then
		// A group with a partition for each member reads when it is stable: a rebalance would wait for the consumer that hangs.
		group := func(name string, l *harness.Ledger) (read func()) {
			var consumers []*harness.Consumer
			for i := range k {
				c := e.consumer(name, fmt.Sprintf("member-%d", i), view)
				c.Handle = func(r *kgo.Record) {
					if r.Partition == 0 {
						<-hang
					}
				}
				consumer := harness.Consume(t, l, c)
				consumer.Client().PauseFetchTopics(view)
				consumers = append(consumers, consumer)
			}
			awaitMembers(t, e.gateway.Bootstrap, name, view, k, k)
			return func() {
				for _, c := range consumers {
					c.Client().ResumeFetchTopics(view)
				}
			}
		}

		l, name := harness.NewLedger(), harness.Name(t, "group")
		group(name, l)()
		harness.Produce(t, e.gateway.Bootstrap, harness.NewLedger(), harness.Production{Topic: source, Records: blocked, Key: func(int) []byte { return keys[0] }})
		harness.Produce(t, e.gateway.Bootstrap, l, harness.Production{Topic: source, Records: others, Key: func(i int) []byte { return keys[1+i%3+k*(i/3%10)] }})
		at := time.Now()
		l.AwaitDone(t, 10*time.Second)
		t.Logf("consumers that were there: after %v", time.Since(at))
		if r := l.Check(t, harness.View(1, k)); r.Duplicates > 0 {
			t.Errorf("%d duplicates", r.Duplicates)
		}

		if at := e.committed(t, name, source)[0]; at != 0 {
			t.Errorf("the group's offset on the source is %d, and the record at 0 is not done", at)
		}

		// A new group reads everything from the start.
		cold := ledgerOf(t, slices.DeleteFunc(readAll(t, e.kafka, source), func(r *kgo.Record) bool { return string(r.Key) == string(keys[0]) }))
		read := group(harness.Name(t, "group"), cold)
		at = time.Now()
		read()
		cold.AwaitDone(t, 20*time.Second)
		t.Logf("a new group: after %v", time.Since(at))
		cold.Check(t, harness.View(1, k))
	})
}
