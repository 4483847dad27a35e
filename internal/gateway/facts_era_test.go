package gateway

import (
	"fmt"
	"sync"
	"testing"

	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Several connections, to two gateways, commit individually for the first time at the same moment, after the group was moved with plain Kafka: they open one era
// together, and what each was told is committed stays so.
func TestOneEraIsOpenedByManyAtOnce(t *testing.T) {
	t.Parallel()
	w := ranged(t, nil)
	other := ranged(t, func(c *Config) { c.Upstream.Bootstrap = w.gw.cfg.Upstream.Bootstrap })
	topic, _ := w.names(t)
	w.topic(topic, 1)
	const groups, members = 25, 6
	for n := range groups {
		group := fmt.Sprintf("group-%d", n)
		w.commit(group, topic, map[int32]int64{0: 100})
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.Version, find.CoordinatorKey = 3, group
		coordinator := w.dial(anyBroker).ask(find).(*kmsg.FindCoordinatorResponse).NodeID
		var wg sync.WaitGroup
		for m := range int64(members) {
			req := kmsg.NewPtrOffsetCommitRequest()
			req.Version, req.Group, req.Generation = 9, group, -1
			rt, rp := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
			rt.Topic = topic
			if err := tandemmsg.WriteCommit(&rp, rangesOf(whole, 100+2*m, 100+2*m)); err != nil {
				t.Fatal(err)
			}
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			c := []*world{w, other}[m%2].dial(coordinator)
			wg.Go(func() {
				if code := c.ask(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
					t.Errorf("%s, member %d: %v", group, m, kerr.ErrorForCode(code))
				}
			})
		}
		wg.Wait()
		w.wantCommitted(group, topic, 101, "[00000000-ffffffff] [102-102 104-104 106-106 108-108 110-110]")
	}
}
