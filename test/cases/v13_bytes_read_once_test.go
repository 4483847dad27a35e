package cases

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Eight consumers near the tail of one partition: what the gateway process reads, from the broker and from the clients, is little more than
// what the consumers get (case V13).
func TestNearTheTailBytesAreReadOnce(t *testing.T) {
	harness.Need(t)
	e := onKafka(t, harness.GatewayConfig{}) // the embedded engine has no broker to spare
	const size, consumers = 8 << 10, 8
	source, view := e.source(t, 1, consumers)
	group, l := harness.Name(t, "group"), harness.NewLedger()
	var consumed atomic.Int64
	for i := range consumers {
		c := e.consumer(group, fmt.Sprintf("member-%d", i), view)
		c.Handle = func(r *kgo.Record) { consumed.Add(int64(len(r.Key) + len(r.Value))) }
		harness.Consume(t, l, c)
	}
	awaitMembers(t, e.gateway.Bootstrap, group, view, consumers, consumers)
	before, served := procNumber(t, e.gateway.Process().Pid(), "io", "rchar"), consumed.Load()
	harness.Produce(t, e.kafka, l, harness.Production{Topic: source, Records: 6000, Keys: 200, Bytes: size, Rate: 2000})
	l.AwaitDone(t, 20*time.Second)
	read, got := procNumber(t, e.gateway.Process().Pid(), "io", "rchar")-before, consumed.Load()-served
	t.Logf("read %d bytes for %d bytes consumed: %.3f", read, got, float64(read)/float64(got))
	if read > got*11/10 {
		t.Errorf("the gateway read %.2f times what was consumed", float64(read)/float64(got))
	}
	if r := l.Check(t, harness.View(1, consumers)); len(r.Members) != consumers {
		t.Errorf("only %d members got work", len(r.Members))
	}
}
