package cases

import (
	"fmt"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Three workers price the orders of one partition; one is killed and takes its place again under its id. Each order is priced once, those of a customer in order, and what is no order is a dead letter.
func transactionalWorker(t *testing.T, e engine) {
	const orders, customers = 600, 30
	topic, group := harness.Name(t, "orders"), harness.Name(t, "pricing")
	for _, name := range []string{topic, topic + ".priced", topic + ".failed"} {
		harness.CreateTopic(t, e.kafka, name, 1)
	}
	start := func(id int) *harness.Process {
		return harness.StartProgram(t, "transactional-worker", "./examples/transactional-worker", "-bootstrap", e.gateway.Bootstrap, "-topic", topic, "-group", group, "-id", fmt.Sprint(id))
	}
	workers := []*harness.Process{start(0), start(1), start(2)}
	half := func(from int) (records []*kgo.Record) {
		for i := from; i < from+orders/2; i++ {
			records = append(records, &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "c%d", i%customers), Value: fmt.Appendf(nil, `{"ID":"%d","Item":"gear","Pieces":%d}`, i/customers, 1+i%3)})
		}
		return records
	}
	produceAll(t, e, append(half(0), &kgo.Record{Topic: topic, Value: []byte("no order")})...)
	await(t, 30*time.Second, func() string {
		if n := e.stable(t, group, topic); n < 10 {
			return fmt.Sprintf("%d orders are priced", n)
		}
		return ""
	})
	workers[0].Kill()
	workers[0] = start(0)
	produceAll(t, e, half(orders/2)...)
	e.awaitCommitted(t, group, topic, orders+1)
	for i, w := range workers {
		if err := w.Term(20 * time.Second); err != nil {
			t.Errorf("worker %d after SIGTERM: %v", i, err)
		}
	}
	next := map[string]int{}
	for _, r := range readCommitted(t, e.kafka, topic+".priced") {
		i := next[string(r.Key)]
		next[string(r.Key)]++
		var customer int
		_, _ = fmt.Sscanf(string(r.Key), "c%d", &customer)
		pieces := 1 + (i*customers+customer)%3
		if want := fmt.Sprintf(`{"ID":"%d","Item":"gear","Pieces":%d,"Total":%v}`, i, pieces, 12.5*float64(pieces)); string(r.Value) != want {
			t.Errorf("order %d of %s is %s, not %s", i, r.Key, r.Value, want)
		}
	}
	for c := range customers {
		if n := next[fmt.Sprintf("c%d", c)]; n != orders/customers {
			t.Errorf("%d orders of customer %d are priced", n, c)
		}
	}
	if letters := readCommitted(t, e.kafka, topic+".failed"); len(letters) != 1 || string(letters[0].Value) != "no order" {
		t.Errorf("dead letters %v", letters)
	}
}

// readCommitted reads what is committed in a topic, when everything in it is decided.
func readCommitted(t *testing.T, kafka, topic string) (list []*kgo.Record) {
	t.Helper()
	caughtUp, stop := harness.FollowCommitted(t, kafka, topic, func(r *kgo.Record) { list = append(list, r) })
	harness.Eventually(t, 30*time.Second, caughtUp)
	stop()
	return list
}
