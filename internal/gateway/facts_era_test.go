package gateway

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Several connections, to two gateways, commit individually for the first time at the same moment, after the group was moved with plain Kafka: they open one era
// together, and what each was told is committed stays so. Members of the consumer protocol do, too, each with an epoch of its own.
func TestOneEraIsOpenedByManyAtOnce(t *testing.T) {
	for name, kip848 := range map[string]bool{"without members": false, "consumer protocol": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := ranged(t, nil)
			other := w.another()
			topic, _ := w.source(1)
			const groups, members = 25, 6
			for n := range groups {
				group := fmt.Sprintf("group-%d", n)
				w.commit(group, topic, map[int32]int64{0: 100})
				find := kmsg.NewPtrFindCoordinatorRequest()
				find.Version, find.CoordinatorKey = 3, group
				coordinator := w.dial(anyBroker).ask(find).(*kmsg.FindCoordinatorResponse).NodeID
				var wg sync.WaitGroup
				var epochs []int32
				var send []func()
				for m := range int64(members) {
					req := kmsg.NewPtrOffsetCommitRequest()
					req.Version, req.Group, req.Generation = 9, group, -1
					if kip848 {
						req.MemberID = fmt.Sprintf("member-%d", m)
						req.Generation = w.dial(coordinator).joinConsumers(group, req.MemberID, topic)
						epochs = append(epochs, req.Generation)
					}
					rt, rp := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
					rt.Topic = topic
					if err := tandemmsg.WriteCommit(&rp, rangesOf(whole, 100+2*m, 100+2*m)); err != nil {
						t.Fatal(err)
					}
					rt.Partitions = append(rt.Partitions, rp)
					req.Topics = append(req.Topics, rt)
					c := []*world{w, other}[m%2].dial(coordinator)
					send = append(send, func() {
						if code := c.ask(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
							t.Errorf("%s, member %d: %v", group, m, kerr.ErrorForCode(code))
						}
					})
				}
				if kip848 && slices.Max(epochs) == slices.Min(epochs) {
					t.Fatalf("all members have epoch %d", epochs[0])
				}
				for _, f := range send {
					wg.Go(f)
				}
				wg.Wait()
				w.wantCommitted(group, topic, 101, "[00000000-ffffffff] [102-102 104-104 106-106 108-108 110-110]")
			}
		})
	}
}

// joinConsumers joins a group of the consumer protocol, and returns the member's epoch.
func (r *raw) joinConsumers(group, member, topic string) int32 {
	r.t.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.RebalanceTimeoutMillis = 0, group, member, 60_000
	req.SubscribedTopicNames, req.Topics = []string{topic}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	resp := r.ask(req).(*kmsg.ConsumerGroupHeartbeatResponse)
	if resp.ErrorCode != 0 {
		r.t.Fatalf("joining: %v", kerr.ErrorForCode(resp.ErrorCode))
	}
	return resp.MemberEpoch
}
