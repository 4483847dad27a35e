package cases

import (
	"slices"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/client"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Members that share by record have done all but one record and stop; then the group's offset is reset on the cluster: forward, and then back again and
// again. Members that start after it do all that lies above the reset, and nothing else: neither what was committed individually before counts any more, nor
// who had what (case C6). Once, but for a reset back: until the group's first commit after it, some may be given to two (DESIGN.md, known limits of cooperative fetch).
func TestMembersThatShareByRecordBeginWhereAResetSays(t *testing.T) {
	t.Parallel()
	harness.Need(t)
	e := onKafka(t, harness.GatewayConfig{})
	const records, bad = 300, 100
	topic, _ := e.source(t, 1, 1)
	group := harness.Name(t, "group")
	harness.Produce(t, e.kafka, harness.NewLedger(), harness.Production{Topic: topic, Records: records})
	all := readAll(t, e.kafka, topic)
	run := func(from int64, back bool, fails func(*kgo.Record) bool) {
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
		if r := l.Check(t, nil); r.Duplicates > 0 && !back {
			t.Errorf("from %d: %s", from, r)
		}
	}
	run(0, false, func(r *kgo.Record) bool { return r.Offset == bad })
	if at := e.committed(t, group, topic)[0]; at != bad {
		t.Fatalf("the stable offset is %d, not %d", at, bad)
	}
	for _, to := range []int64{250, 50, 250, 0} {
		at := e.committed(t, group, topic)[0]
		offsets := kadm.Offsets{}
		offsets.AddOffset(topic, 0, to, -1)
		if err := harness.AdminClient(t, e.kafka).CommitAllOffsets(harness.Context(t, 10*time.Second), group, offsets); err != nil {
			t.Fatal(err)
		}
		run(to, to < at, nil)
		e.awaitAllDone(t, group, topic, records)
	}
}
