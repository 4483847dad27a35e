package balancer

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/client/internal/assignor"
)

// largeGroup is the size in bytes of a group's user data above which the leader warns.
const largeGroup = 512 << 10

// leadership is what a member remembers of leading its group.
type leadership struct {
	now     bool // it does
	target  map[string]assignor.Ranges
	sharing Sharing // the last answer
}

// group is the group in one generation, as its leader sees it. It implements kgo.GroupMemberBalancerOrError.
type group struct {
	b          *Balancer
	members    []assignor.Member
	topics     map[string]struct{}
	unreadable []string // members
	size       int      // bytes of what the members say
	generation int32
}

func newGroup(b *Balancer, members []kmsg.JoinGroupResponseMember) *group {
	g := &group{b: b, topics: map[string]struct{}{}}
	for i := range members {
		m, err := readMember(&members[i])
		if err != nil {
			// One member must not be able to stop the group: it counts as one that did not opt in.
			b.cfg.Log.Warn("a member of the group sends metadata that cannot be read; it gets whole partitions, if any", "member", m.ID, "error", err)
			g.unreadable = append(g.unreadable, m.ID)
		}
		g.members = append(g.members, m)
		g.size += len(members[i].ProtocolMetadata)
		for _, topic := range m.Topics {
			g.topics[topic] = struct{}{}
		}
	}
	return g
}

// readMember reads what a member said. A member without readable user data has what it names as its owned partitions.
func readMember(of *kmsg.JoinGroupResponseMember) (assignor.Member, error) {
	m := assignor.Member{ID: of.MemberID, Generation: -1}
	if of.InstanceID != nil {
		m.InstanceID = *of.InstanceID
	}
	meta := kmsg.NewConsumerMemberMetadata()
	if err := meta.ReadFrom(of.ProtocolMetadata); err != nil {
		return m, err
	}
	m.Topics = meta.Topics
	data, err := assignor.DecodeMember(meta.UserData)
	if err != nil {
		m.Owned = assignor.Ranges{}
		for _, t := range meta.OwnedPartitions {
			for topic, partitions := range wholes(map[string][]int32{t.Topic: t.Partitions}) {
				m.Owned[topic] = partitions
			}
		}
		m.Holds, m.Generation = len(m.Owned) > 0, meta.Generation
		if len(meta.UserData) == 0 {
			err = nil // it does not speak it, and says so
		}
		return m, err
	}
	m.Version, m.Share, m.Holds, m.Owned, m.Generation = data.Version, data.Share, data.Holds, data.Owned, data.Generation
	return m, nil
}

// SetBalanceInfo implements kgo.GroupMemberBalancerInfo.
func (g *group) SetBalanceInfo(info kgo.BalanceInfo) { g.generation = info.Generation }

// Balance implements kgo.GroupMemberBalancer; kgo calls BalanceOrError.
func (g *group) Balance(partitions map[string]int32) kgo.IntoSyncAssignment {
	into, _ := g.BalanceOrError(partitions)
	return into
}

// BalanceOrError implements kgo.GroupMemberBalancerOrError.
func (g *group) BalanceOrError(partitions map[string]int32) (kgo.IntoSyncAssignment, error) {
	sharing := g.sharing()
	in := assignor.Input{Members: g.members, Topics: map[string]assignor.Topic{}, IndividualCommits: sharing.IndividualCommits, Generation: g.generation}
	for topic, n := range partitions {
		in.Topics[topic] = assignor.Topic{Partitions: n, KeyRangeFetch: sharing.KeyRangeFetch[topic]}
	}
	g.b.mu.Lock()
	in.Last = g.b.lead.target
	g.b.mu.Unlock()
	out := assignor.Assign(in)
	g.b.mu.Lock()
	g.b.lead.target, g.b.lead.now = out.Target, true
	g.b.mu.Unlock()
	for _, id := range g.unreadable {
		out.Notes[id] = append(out.Notes[id], assignor.Note{Code: assignor.NoteUserData})
	}
	var list assignments
	for _, id := range slices.Sorted(maps.Keys(out.Assigned)) {
		list = append(list, assignment{id, encode(out.Assigned[id], out.Notes[id], g.generation)})
		g.size += len(list[len(list)-1].data)
	}
	if g.size > largeGroup {
		g.b.cfg.Log.Warn("the user data of this group is large: the coordinator keeps all of it in one record, whose size message.max.bytes limits",
			"bytes", g.size, "members", len(g.members))
	}
	g.b.cfg.Log.Debug("this member led a rebalance", "generation", g.generation, "members", len(g.members), "waiting", out.Waiting, "bytes", g.size)
	return list, nil
}

// sharing asks where sharing is allowed.
func (g *group) sharing() Sharing {
	if g.b.cfg.Sharing == nil {
		return Sharing{}
	}
	answer, err := g.b.cfg.Sharing(slices.Sorted(maps.Keys(g.topics)))
	if err == nil {
		g.b.mu.Lock()
		g.b.lead.sharing = Sharing{answer.IndividualCommits, maps.Clone(answer.KeyRangeFetch)}
		g.b.mu.Unlock()
		return answer
	}
	g.b.cfg.Log.Warn("cannot find out where partitions may be shared; what was allowed before, and what members share now, stays allowed", "error", err)
	g.b.mu.Lock()
	answer = Sharing{g.b.lead.sharing.IndividualCommits, maps.Clone(g.b.lead.sharing.KeyRangeFetch)}
	g.b.mu.Unlock()
	if answer.KeyRangeFetch == nil {
		answer.KeyRangeFetch = map[string]bool{}
	}
	for i := range g.members {
		for topic, partitions := range g.members[i].Owned {
			for _, part := range partitions {
				if !part.Whole() {
					answer.IndividualCommits, answer.KeyRangeFetch[topic] = true, true
				}
			}
		}
	}
	return answer
}

// encode writes a member's assignment.
func encode(ranges assignor.Ranges, notes []assignor.Note, generation int32) []byte {
	var a kmsg.ConsumerMemberAssignment
	data := assignor.AssignmentData{Generation: generation, Shared: assignor.Ranges{}, Notes: notes}
	for _, topic := range slices.Sorted(maps.Keys(ranges)) {
		t := kmsg.NewConsumerMemberAssignmentTopic()
		t.Topic, t.Partitions = topic, slices.Sorted(maps.Keys(ranges[topic]))
		a.Topics = append(a.Topics, t)
		for p, part := range ranges[topic] {
			if !part.Whole() {
				data.Shared.Put(topic, p, part.Keys, part.Base)
			}
		}
	}
	a.UserData = data.Append(nil)
	return a.AppendTo(nil)
}

type assignment struct {
	member string
	data   []byte
}

type assignments []assignment

// IntoSyncAssignment implements kgo.IntoSyncAssignment.
func (list assignments) IntoSyncAssignment() []kmsg.SyncGroupRequestGroupAssignment {
	out := make([]kmsg.SyncGroupRequestGroupAssignment, 0, len(list))
	for _, a := range list {
		s := kmsg.NewSyncGroupRequestGroupAssignment()
		s.MemberID, s.MemberAssignment = a.member, a.data
		out = append(out, s)
	}
	return out
}

var _ kgo.GroupMemberBalancerOrError = (*group)(nil)
var _ kgo.GroupMemberBalancerInfo = (*group)(nil)
