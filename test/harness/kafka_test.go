package harness

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func TestMain(m *testing.M) { Main(m, 1) }

// A consumer that crashes and one that stays, on Kafka itself: the ledger is right and the watched offsets are never ahead.
func TestConsumersOnKafka(t *testing.T) {
	k := SharedKafka(t, KafkaConfig{})
	topic, group, l := Name(t, "orders"), Name(t, "group"), NewLedger()
	CreateTopic(t, k.Bootstrap, topic, 4)
	WatchCommitted(t, k.Bootstrap, group, topic, l)
	Produce(t, k.Bootstrap, l, Production{Topic: topic, Records: 1000, Keys: 50, Batch: 50})
	c := ConsumerConfig{Bootstrap: k.Bootstrap, Topics: []string{topic}, Group: group, Work: time.Millisecond, Session: time.Second}
	c.Member = "first"
	first := Consume(t, l, c)
	c.Member = "second"
	second := Consume(t, l, c)
	Eventually(t, 20*time.Second, func() error {
		if l.Deliveries() < 300 {
			return fmt.Errorf("%d deliveries", l.Deliveries())
		}
		return nil
	})
	first.Crash()
	l.AwaitDone(t, 30*time.Second)
	second.Close()
	l.Check(t, func(p Produced) (int32, bool) { return p.Partition, true })
	for p, o := range CommittedOffsets(t, k.Bootstrap, group, topic) {
		l.Committed(topic, p, o, time.Now())
	}
	if r := l.Report(nil); r.Ahead > 0 || len(r.Members) != 2 {
		t.Error(r)
	}
}

func TestSecuredKafka(t *testing.T) {
	k := StartKafka(t, KafkaConfig{Users: "admin:admin-secret alice:alice-secret"})
	topic := Name(t, "orders")
	CreateTopic(t, k.Bootstrap, topic, 1)
	login := func(user, password string) kgo.Opt {
		return kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism())
	}
	admin := AdminClient(t, k.SASL, login("admin", "admin-secret"))
	if topics, err := admin.ListTopics(Context(t, 10*time.Second)); err != nil || !topics.Has(topic) {
		t.Errorf("admin sees %v: %v", topics.Names(), err)
	}
	alice := AdminClient(t, k.SASL, login("alice", "alice-secret"))
	if topics, err := alice.ListTopics(Context(t, 10*time.Second)); err != nil || topics.Has(topic) {
		t.Errorf("alice sees %v without an ACL: %v", topics.Names(), err)
	}
}
