package cases

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Another program commits the group's offset on the topic, with a text of its own or with what is left of ours: that offset holds, the record
// there is given, nothing that was committed individually before it counts any more, and individual commits go on from there (case I2).
func TestForeignTextOfTheGroupsOffset(t *testing.T) {
	texts := map[string]func(own string) string{
		"none":          func(string) string { return "" },
		"Kafka Streams": func(string) string { return "AgAAAYtkq0jwAAAAAA==" },
		"random base64": func(string) string {
			return base64.StdEncoding.EncodeToString([]byte{0x9c, 0x11, 0xf7, 0x03, 0xaa, 0x5e, 0xd2})
		},
		"ours cut short":    func(own string) string { return own[:len(own)-1] },
		"half of ours":      func(own string) string { return own[:len(own)/2] },
		"ours copied":       func(own string) string { return own },
		"a text of ranges":  func(string) string { return "ranges=60-69" },
		"ours with an end":  func(own string) string { return own + "=" },
		"another's ranges=": func(string) string { return "ranges=[the blue one]" },
	}
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		topic := harness.Name(t, "orders")
		harness.CreateTopic(t, e.kafka, topic, 1)
		harness.Produce(t, e.kafka, harness.NewLedger(), harness.Production{Topic: topic, Records: 100, Keys: 10})
		direct, through := harness.AdminClient(t, e.kafka), harness.AdminClient(t, e.gateway.Bootstrap)
		for name, text := range texts {
			for _, a := range []*kadm.Client{direct, through} {
				if !e.real() && a == through || name == "a text of ranges" && (!e.real() || a == through) {
					continue // the same; and a gateway takes that text for an individual commit
				}
				t.Run(name+map[bool]string{true: " through the gateway"}[a == through], func(t *testing.T) {
					w := e.wire(t, harness.Name(t, "group"))
					w.mustCommit(topic, 0, tandemmsg.Commit{Keys: whole, Watermark: 50})
					w.mustCommit(topic, 0, rangesOf(nil, span(60, 69)))
					w.wantProgress(topic, "50 [00000000-ffffffff] [60-69]")
					ctx := harness.Context(t, 20*time.Second)
					for _, at := range []int64{50, 40, 62} { // where it is, below that, and in the middle of what is done
						own := w.text(e, topic)
						if !strings.HasPrefix(own, "tandem:1:") {
							t.Fatalf("the text of the group's offset is %q: none of ours", own)
						}
						if name == "ours copied" && at == 50 {
							continue // it is our own
						}
						var set kadm.Offsets
						set.Add(kadm.Offset{Topic: topic, At: at, LeaderEpoch: -1, Metadata: text(own)})
						if err := a.CommitAllOffsets(ctx, w.group, set); err != nil {
							t.Fatal(err)
						}
						w.wantProgress(topic, fmt.Sprint(at))
						if open := w.open(topic, 0, 1, whole, 100); int64(len(open)) != 100-at || open[0] != at {
							t.Errorf("after a commit of %d, %d records are given, from %v on", at, len(open), open[:min(1, len(open))])
						}
						w.mustCommit(topic, 0, rangesOf(nil, span(at+2, at+3)))
						w.wantProgress(topic, fmt.Sprintf("%d [00000000-ffffffff] [%d-%d]", at, at+2, at+3))
						w.mustCommit(topic, 0, rangesOf(nil, span(at, at+1)))
						w.wantProgress(topic, fmt.Sprint(at+4))
					}
					// And an ordinary consumer begins there too.
					c := harness.Client(t, e.gateway.Bootstrap, kgo.ConsumerGroup(w.group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())
					defer c.CloseAllowingRebalance()
					if got := c.PollRecords(ctx, 1).Records(); len(got) != 1 || got[0].Offset != 66 {
						t.Errorf("an ordinary consumer begins with %v", got)
					}
				})
			}
		}
	})
}
