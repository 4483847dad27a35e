package inspect

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tandem-kafka/tandem/client/internal/balancer"
)

// dead is the state of a group that does not exist.
const dead = "Dead"

// members fills in who is in the group.
func (in *inspection) members(ctx context.Context) error {
	groups, err := in.admin.DescribeGroups(ctx, in.Group)
	if err != nil {
		return fmt.Errorf("group %s: %w", in.Group, err)
	}
	g, ok := groups[in.Group]
	if !ok || g.Err != nil || g.State == dead {
		in.out.State = dead
		in.consumers(ctx) // or it is of the newer protocol
		return nil
	}
	in.out.State, in.out.Assignor = g.State, g.Protocol
	for i := range g.Members {
		m := &g.Members[i]
		to := memberOf(m.MemberID, m.InstanceID, m.ClientID, m.ClientHost)
		if err := to.owns(m, g.Protocol); err != nil {
			in.note("what member %s owns is not known: %v", m.MemberID, err)
		}
		in.out.Members = append(in.out.Members, to)
	}
	return nil
}

func memberOf(id string, instance *string, client, host string) Member {
	m := Member{ID: id, ClientID: client, Host: host}
	if instance != nil {
		m.InstanceID = *instance
	}
	return m
}

// owns fills in what a member of the classic protocol was given. Only this project's assignor says key ranges.
func (to *Member) owns(m *kadm.DescribedGroupMember, assignor string) error {
	a, ok := m.Assigned.AsConsumer()
	if !ok {
		return nil
	}
	if assignor != balancer.ProtocolName {
		for _, t := range a.Topics {
			for _, p := range t.Partitions {
				to.Parts = append(to.Parts, Part{Topic: t.Topic, Partition: p})
			}
		}
		return nil
	}
	if len(a.Topics) == 0 {
		return nil
	}
	ranges, err := balancer.ReadAssignment(a.AppendTo(nil))
	if err != nil {
		return err
	}
	for _, topic := range slices.Sorted(maps.Keys(ranges)) {
		for _, p := range slices.Sorted(maps.Keys(ranges[topic])) {
			part := ranges[topic][p]
			to.Parts = append(to.Parts, Part{Topic: topic, Partition: p, Keys: part.Keys, Base: part.Base})
		}
	}
	return nil
}

// consumers fills in the members of a group of the newer protocol (KIP-848), if it is one.
func (in *inspection) consumers(ctx context.Context) {
	groups, err := in.admin.DescribeConsumerGroups(ctx, in.Group)
	g, ok := groups[in.Group]
	if err != nil || !ok || g.Err != nil {
		return
	}
	in.out.State, in.out.Assignor = g.State, g.AssignorName
	for i := range g.Members {
		m := &g.Members[i]
		to := memberOf(m.MemberID, m.InstanceID, m.ClientID, m.ClientHost)
		for _, t := range m.Assignment.Sorted() {
			for _, p := range t.Partitions {
				to.Parts = append(to.Parts, Part{Topic: t.Topic, Partition: p})
			}
		}
		in.out.Members = append(in.out.Members, to)
	}
}

// baseOf is the base of the key ranges that members have of a topic; 0: the topic's partition count.
func (in *inspection) baseOf(topic string) int32 {
	base := int32(len(in.topics[topic].Partitions))
	for i := range in.out.Members {
		for _, p := range in.out.Members[i].Parts {
			if p.Topic == topic && p.Base > 0 {
				base = p.Base
			}
		}
	}
	return base
}

// owned reports whether some member owns something of a topic.
func (in *inspection) owned(topic string) bool {
	return slices.ContainsFunc(in.out.Members, func(m Member) bool {
		return slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Topic == topic })
	})
}

// ownerOf is who owns a partition, or the key range with the position that position works out for a base. position nil: only who owns all of it. Where
// several do, in groups that share by record, it is none of them.
func (in *inspection) ownerOf(topic string, partition int32, position func(base int32) uint32) (owner *Member) {
	for i := range in.out.Members {
		for _, p := range in.out.Members[i].Parts {
			if p.Topic != topic || p.Partition != partition || len(p.Keys) > 0 && (position == nil || !p.Keys.Contains(position(p.Base))) {
				continue
			}
			if owner != nil {
				return nil
			}
			owner = &in.out.Members[i]
		}
	}
	return owner
}
