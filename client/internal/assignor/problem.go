package assignor

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tandem-kafka/tandem/keyrange"
)

// problem is an Input in order: members and topics are numbers in it.
type problem struct {
	members           []Member // sorted, no id twice
	topics            []topic  // those with a subscriber, sorted by name
	individualCommits bool
}

type topic struct {
	name          string
	partitions    int
	base          int32 // of key positions
	keyRangeFetch bool
	shared        bool
	subscribers   []int // members, ascending
	sharers       []int // those of the subscribers that opted in

	owned [][]share // by partition: what members had, no two have a position in common
	held  [][]share // by partition: what members hold, as they say; several may hold the same
}

// share is a member's part of a partition.
type share struct {
	member int
	keys   keyrange.Set // not empty
}

// plan is by topic and partition who gets what: together each time the whole key axis, if there is anybody to get it.
type plan [][][]share

func (m *Member) shares() bool { return m.Share && m.Version >= 1 }

func newProblem(in *Input) *problem {
	p := &problem{members: ordered(in.Members), individualCommits: in.IndividualCommits}
	numbers := map[string]int{}
	for i := range p.members {
		for _, name := range p.members[i].Topics {
			numbers[name] = 0
		}
	}
	for i, name := range slices.Sorted(maps.Keys(numbers)) {
		of := in.Topics[name]
		partitions := max(0, int(of.Partitions))
		base := of.Base
		if base == 0 {
			base = of.Partitions
		}
		p.topics = append(p.topics, topic{name: name, partitions: partitions, base: base, keyRangeFetch: of.KeyRangeFetch})
		numbers[name] = i
	}
	for m := range p.members {
		for _, name := range p.members[m].Topics {
			t := &p.topics[numbers[name]]
			if n := len(t.subscribers); n > 0 && t.subscribers[n-1] == m {
				continue // it named the topic twice
			}
			t.subscribers = append(t.subscribers, m)
			if p.members[m].shares() {
				t.sharers = append(t.sharers, m)
			}
		}
	}
	for i := range p.topics {
		t := &p.topics[i]
		t.shared = t.partitions > 0 && len(t.sharers) > t.partitions && p.individualCommits && t.keyRangeFetch
	}
	p.resolve(in.Generation)
	return p
}

// ordered returns the members in the order of Kafka's assignors: static members first, by instance id, so that a restart of one
// changes nothing; then the others, by id.
func ordered(members []Member) []Member {
	seen := make(map[string]bool, len(members))
	list := make([]Member, 0, len(members))
	for _, m := range members {
		if !seen[m.ID] {
			seen[m.ID] = true
			list = append(list, m)
		}
	}
	slices.SortFunc(list, func(a, b Member) int {
		if (a.InstanceID == "") != (b.InstanceID == "") {
			return cmp.Compare(b.InstanceID, a.InstanceID)
		}
		return cmp.Or(cmp.Compare(a.InstanceID, b.InstanceID), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// kept is how much of the key axes, in positions, stays with its member.
func (p *problem) kept(pl plan) uint64 {
	var sum uint64
	var buf keyrange.Set
	for t := range p.topics {
		for partition, owned := range p.topics[t].owned {
			for _, had := range owned {
				for _, gets := range pl[t][partition] {
					if gets.member == had.member {
						buf = keyrange.AppendIntersect(buf, gets.keys, had.keys)
						sum += buf.Len()
					}
				}
			}
		}
	}
	return sum
}
