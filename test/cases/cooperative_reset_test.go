package cases

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/client"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Members that share by record have done all but one record and stop; then the group's offset is reset on the cluster: forward, and then back again and
// again. Members that start after it do all that lies above the reset, once, and nothing else: neither what was committed individually before counts any more, nor
// who had what (case C6).
func TestMembersThatShareByRecordBeginWhereAResetSays(t *testing.T) {
	t.Parallel()
	harness.Need(t)
	e := onKafka(t, harness.GatewayConfig{})
	const records, bad = 300, 100
	topic, _ := e.source(t, 1, 1)
	group := harness.Name(t, "group")
	harness.Produce(t, e.kafka, harness.NewLedger(), harness.Production{Topic: topic, Records: records})
	all := readAll(t, e.kafka, topic)
	run := func(from int64, fails func(*kgo.Record) bool) {
		t.Helper()
		l := ledgerOf(t, slices.DeleteFunc(slices.Clone(all), func(r *kgo.Record) bool { return r.Offset < from || fails != nil && fails(r) })).AnyOrder()
		var members []harness.Member
		for _, name := range []string{"one", "other"} {
			c := e.consumer(group, name, topic)
			c.Fails, c.Session = fails, 20*time.Second // nobody is to fall out of the group
			members = append(members, recordSharers.start(t, l, c, nil, client.Retry(client.Backoff{First: 50 * time.Millisecond, Max: 200 * time.Millisecond}, 0)))
		}
		l.AwaitDone(t, 30*time.Second)
		for _, m := range members {
			m.Close()
		}
		if r := l.Check(t, nil); r.Duplicates > 0 {
			t.Errorf("from %d: %s", from, r)
		}
	}
	run(0, func(r *kgo.Record) bool { return r.Offset == bad })
	if at := e.committed(t, group, topic)[0]; at != bad {
		t.Fatalf("the stable offset is %d, not %d", at, bad)
	}
	for _, to := range []int64{250, 50, 50, 250, 0} {
		offsets := kadm.Offsets{}
		offsets.AddOffset(topic, 0, to, -1)
		if err := harness.AdminClient(t, e.kafka).CommitAllOffsets(harness.Context(t, 10*time.Second), group, offsets); err != nil {
			t.Fatal(err)
		}
		run(to, nil)
		e.awaitAllDone(t, group, topic, records)
	}
}

// The first commit after a reset opens an era of the group's progress. What each of two members has in hand at that moment stays its own: neither is given it again, by this commit
// or a later one. So it is after a reset back, ahead or to where the group is, and where plain consumers had committed before (case C6).
func TestWhatIsInHandStaysWithItsMemberAfterAReset(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		const records = 200
		topic := harness.Name(t, "orders")
		harness.CreateTopic(t, e.kafka, topic, 1)
		harness.Produce(t, e.kafka, harness.NewLedger(), harness.Production{Topic: topic, Records: records, Bytes: 50})
		group := harness.Name(t, "group")
		reset := func(to int64) error {
			at := kadm.Offsets{}
			at.AddOffset(topic, 0, to, -1)
			return harness.AdminClient(t, e.kafka).CommitAllOffsets(harness.Context(t, 10*time.Second), group, at)
		}
		for _, to := range []int64{20, 0, 150, 40, 40} { // in the first one plain consumers have committed
			if err := reset(to); err != nil {
				t.Fatal(err)
			}
			m := e.cooperate([]*wire{e.wire(t, group), e.wire(t, group)}, topic, 30_000)
			times := map[int64]int{}
			take := func(m *coopMember, n int32) []tandemmsg.AcquiredRange {
				t.Helper()
				g := m.mustAsk(n)
				for _, o := range g.offsets() {
					times[o]++
				}
				return g.ranges
			}
			a, b := take(m[0], 10), take(m[1], 10)
			if reset(to) == nil {
				t.Error("a group is reset while it has members: then nobody can say who has what")
			}
			if a[0].First != to || a[0].Attempt != 1 {
				t.Errorf("after a reset to %d %s are given first", to, shown(a))
			}
			if err := m[0].finish(a...); err != nil {
				t.Fatal(err)
			}
			take(m[0], 5)
			take(m[1], 5)
			if err := m[1].finish(b...); err != nil {
				t.Fatal(err)
			}
			take(m[0], 5)
			take(m[1], 5)
			for o, n := range times {
				if n > 1 || o < to {
					t.Errorf("after a reset to %d offset %d is given %d times", to, o, n)
				}
			}
			if len(times) != 40 {
				t.Errorf("after a reset to %d %d records are given, not 40", to, len(times))
			}
			for _, m := range m {
				m.leave()
			}
		}
	})
}

// A group that has done all there is, and is then deleted on the cluster, past the gateway, begins anew, as a group of that name of which the gateway has never heard. So does one that
// is reset back twice, and did nothing between (case C6).
func TestCooperativeGroupsBeginAnewWhateverTheGatewayKnows(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		topic := harness.Name(t, "orders")
		harness.CreateTopic(t, e.kafka, topic, 1)
		harness.Produce(t, e.kafka, harness.NewLedger(), harness.Production{Topic: topic, Records: 30, Bytes: 50})
		for name, first := range map[string]string{"": "0-29#1 ", "20": "20-29#1 "} {
			group := harness.Name(t, "group"+name)
			admin := harness.AdminClient(t, e.kafka)
			reset := func(to int64) {
				t.Helper()
				at := kadm.Offsets{}
				at.AddOffset(topic, 0, to, -1)
				if err := admin.CommitAllOffsets(harness.Context(t, 10*time.Second), group, at); err != nil {
					t.Fatal(err)
				}
			}
			once := func(want string, finish bool) {
				t.Helper()
				m := e.cooperate([]*wire{e.wire(t, group)}, topic, 30_000)[0]
				defer m.leave()
				if g := m.mustAsk(30); shown(g.ranges) != want {
					t.Errorf("given are %s, want %s", shown(g.ranges), want)
				} else if finish {
					if err := m.finish(g.ranges...); err != nil {
						t.Fatal(err)
					}
				}
			}
			for range 2 {
				if name != "" {
					reset(20)
				}
				once(first, true)
				if _, err := admin.DeleteGroup(harness.Context(t, 10*time.Second), group); err != nil {
					t.Fatal(err)
				}
			}
			for _, to := range []int64{20, 5, 10, 10} {
				reset(to)
				once(fmt.Sprintf("%d-29#1 ", to), false)
			}
		}
	})
}
