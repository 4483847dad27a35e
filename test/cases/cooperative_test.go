package cases

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Two members of a group work on one partition, each on offsets of its own. What a member that leaves had not done goes to the other,
// counted, before anything new, and so, uncounted, does what got lost on its way to one (case C13).
func TestMembersFetchOnePartitionCooperatively(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		topic := harness.Name(t, "orders")
		harness.CreateTopic(t, e.kafka, topic, 1)
		harness.Produce(t, e.kafka, harness.NewLedger(), harness.Production{Topic: topic, Records: 100, Keys: 10, Bytes: 50})
		group := harness.Name(t, "group")
		m := e.cooperate([]*wire{e.wire(t, group), e.wire(t, group)}, topic, 30_000)
		a, b := m[0].mustAsk(10), m[1].mustAsk(10)
		if shown(a.ranges) != "0-9#1 " || shown(b.ranges) != "10-19#1 " || len(a.records) != 10 || b.records[0].Offset != 10 {
			t.Fatalf("given %s with %d records and %s with %d", shown(a.ranges), len(a.records), shown(b.ranges), len(b.records))
		}
		if err := m[1].finish(b.ranges...); err != nil {
			t.Fatal(err)
		}
		m[0].wantProgress(topic, "0 [00000000-ffffffff] [10-19]")
		// It gives back all but what it has done.
		if err := m[0].finish(tandemmsg.AcquiredRange{OffsetRange: span(0, 3)}); err != nil {
			t.Fatal(err)
		}
		if _, err := m[0].askWith(tandemmsg.Cooperative{Group: group, Generation: m[0].generation, Member: m[0].member}, 0); err != nil {
			t.Fatal(err)
		}
		m[0].leave()
		m[1].join(topic, 1)
		if c := m[1].mustAsk(8); shown(c.ranges) != "4-9#2 20-21#1 " || fmt.Sprint(c.offsets()) != "[4 5 6 7 8 9 20 21]" {
			t.Errorf("then given %s with %v", shown(c.ranges), c.offsets())
		}
		if _, err := m[0].ask(0, 0); !errors.Is(err, kerr.UnknownMemberID) && !errors.Is(err, kerr.IllegalGeneration) {
			t.Errorf("who has left, and is not in the generation of the other, is answered %v", err)
		}
		// What it does not have it is given again, as what never came to it.
		m[1].hand = nil
		if c := m[1].mustAsk(3); shown(c.ranges) != "4-6#2 " {
			t.Errorf("what got lost on its way comes again as %s", shown(c.ranges))
		}
	})
}

// A member that is not heard of for its session timeout loses what it has, and no sooner (case C13).
func TestSessionsOfCooperativeMembersExpire(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		topic := harness.Name(t, "orders")
		harness.CreateTopic(t, e.kafka, topic, 1)
		harness.Produce(t, e.kafka, harness.NewLedger(), harness.Production{Topic: topic, Records: 20, Keys: 10, Bytes: 50})
		group := harness.Name(t, "group")
		m := e.cooperate([]*wire{e.wire(t, group), e.wire(t, group)}, topic, 1500)
		a := m[0].mustAsk(20)
		began := time.Now()
		b := m[1].mustAsk(5)
		if d := time.Since(began); d < 1500*time.Millisecond || d > 10*time.Second || shown(a.ranges) != "0-19#1 " || shown(b.ranges) != "0-4#2 " {
			t.Errorf("%s, and %v later %s", shown(a.ranges), d, shown(b.ranges))
		}
		// Who says that it is there keeps what it has.
		until := time.Now().Add(4 * time.Second)
		for time.Now().Before(until) {
			if _, err := m[1].ask(0, 0); err != nil {
				t.Fatal(err)
			}
			g, err := m[0].ask(100, 200*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range g.records {
				if r.Offset < 5 {
					t.Fatalf("offset %d is with two", r.Offset)
				}
			}
		}
	})
}
