package cases

import (
	"fmt"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// kafka-consumer-groups on a group whose member has the whole view and has committed individually only: its virtual partitions have no offset of their own, and
// show "-"; the source shows the stable offset (case V10).
func TestStockToolsOnIndividualCommits(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		const k, records = 4, 40
		source, view := e.source(t, 1, k)
		group := harness.Name(t, "group")
		keys := keysOf(k, 1)
		harness.Produce(t, e.gateway.Bootstrap, harness.NewLedger(), harness.Production{Topic: source, Records: records, Key: func(i int) []byte { return keys[i%k] }})
		member := harness.Client(t, e.gateway.Bootstrap, kgo.ConsumerGroup(group), kgo.ConsumeTopics(view), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		for ctx := harness.Context(t, 30*time.Second); member.PollFetches(ctx).Empty(); {
			if ctx.Err() != nil {
				t.Fatal("the member gets no records")
			}
		}
		w := e.wire(t, group)
		w.member, w.generation = member.GroupMetadata()
		w.mustCommit(view, 1, rangesOf(nil, each(1, records-1, k)...)) // all of one virtual partition
		w.mustCommit(view, 0, rangesOf(nil, span(0, 0), span(8, 8)))   // the first record of another, and a later one
		rows := describe(t, e.gateway.Bootstrap, group)
		for vp := range k {
			end := int64(records - k + vp + 1)
			if row, want := rows[fmt.Sprintf("%s/%d", view, vp)], (describedRow{-1, end, -1}); row != want {
				t.Errorf("virtual partition %d shows %+v, want %+v", vp, row, want)
			}
		}
		// Offset 1 is done, and holds nothing of virtual partition 0, as the gateway knows that has read it. The next one is of a virtual partition of which nothing is done.
		if row, want := rows[source+"/0"], (describedRow{2, records, records - 2}); row != want {
			t.Errorf("the source shows %+v, want %+v", row, want)
		}
	})
}

// Where individual commits are off, a command shows what the group has not done from the offsets of its views, asked through the gateway and without
// one (case I14).
func TestDescribeWithoutIndividualCommits(t *testing.T) {
	engines(t, harness.GatewayConfig{YAML: "individual.commit.enable: false\n"}, func(t *testing.T, e engine) {
		const k, records, bad = 4, 200, 100
		source, view := e.source(t, 1, k)
		group := harness.Name(t, "group")
		keys := keysOf(k, 1)
		harness.Produce(t, e.gateway.Bootstrap, harness.NewLedger(), harness.Production{Topic: source, Records: records, Key: func(i int) []byte {
			if i == bad { // the last of its key
				return keys[0]
			}
			return keys[1+i%(k-1)]
		}})
		defer consumeAllBut(t, e, group, view, bad, records)()
		addresses := []string{e.gateway.Bootstrap}
		if e.real() {
			addresses = append(addresses, e.kafka)
		}
		for _, at := range addresses {
			d := describeGroup(t, at, group, "")
			if len(d.Partitions) != 1 || len(d.Members) != 1 || len(d.Notes) > 0 {
				t.Fatalf("%+v", d)
			}
			p := d.Partitions[0]
			if p.Stable != bad || p.LogEnd != records || fmt.Sprint(p.Open) != fmt.Sprintf("[{%d %d}]", bad, records-1) || len(p.Records) != 1 || p.Records[0].Offset != bad ||
				p.Records[0].key() != string(keys[0]) || p.Records[0].View != view || p.Records[0].Virtual == nil || *p.Records[0].Virtual != 0 {
				t.Errorf("%s: %+v", at, p)
			}
			if len(p.Views) != 1 || len(p.Views[0].Partitions) != k {
				t.Fatalf("%s: %+v", at, p.Views)
			}
			for _, v := range p.Views[0].Partitions {
				if done := v.Partition != 0; done != (v.Committed == v.End) || v.Owner == nil {
					t.Errorf("%s: %+v", at, v)
				}
			}
		}
	})
}
