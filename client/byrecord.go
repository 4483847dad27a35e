package client

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// byRecordProtocol is the name of the group protocol of ShareByRecord: the coordinator lets nobody into a group who has no protocol in common with the others.
const byRecordProtocol = "tandem-by-record"

// joinByRecord joins the group, of which every member has every partition.
func (s *session) joinByRecord(opts []kgo.Opt) (err error) {
	opts = append(opts, kgo.ConsumerGroup(s.cfg.group), kgo.ConsumeTopics(s.cfg.topics...), kgo.DisableAutoCommit(), kgo.Balancers(byRecordBalancer{}))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err = s.enter(opts); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	s.group.PauseFetchTopics(s.cfg.topics...) // the gateway says what is this member's
	s.work.Go(s.watchGroup)
	s.startCooperation()
	return nil
}

// byRecordBalancer gives every member every partition of its topics.
type byRecordBalancer struct{}

var _ kgo.GroupBalancer = byRecordBalancer{}

func (byRecordBalancer) ProtocolName() string { return byRecordProtocol }

func (byRecordBalancer) IsCooperative() bool { return true } // nobody gives anything up in a rebalance

func (byRecordBalancer) JoinGroupMetadata(topics []string, _ map[string][]int32, _ int32) []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = topics
	return m.AppendTo(nil)
}

func (byRecordBalancer) ParseSyncAssignment(assignment []byte) (map[string][]int32, error) {
	return kgo.ParseConsumerSyncAssignment(assignment)
}

func (b byRecordBalancer) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	balancer, err := kgo.NewConsumerBalancer(b, members)
	return balancer, balancer.MemberTopics(), err
}

// Balance implements kgo.ConsumerBalancerBalance.
func (byRecordBalancer) Balance(b *kgo.ConsumerBalancer, partitions map[string]int32) kgo.IntoSyncAssignment {
	plan := b.NewPlan()
	b.EachMember(func(member *kmsg.JoinGroupResponseMember, meta *kmsg.ConsumerMemberMetadata) {
		for _, topic := range meta.Topics {
			for p := range partitions[topic] {
				plan.AddPartition(member, topic, p)
			}
		}
	})
	return plan
}
