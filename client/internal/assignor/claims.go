package assignor

import (
	"cmp"
	"slices"

	"github.com/tandem-kafka/tandem/keyrange"
)

// resolve fills in what members had and what they hold. Members may claim the same: one that was away while the group went on
// still claims what it had before. The claim from the latest generation wins. A generation that is not before the present one comes
// from an earlier life of the group (the coordinator counts anew when it has forgotten the group), and loses against all others.
func (p *problem) resolve(generation int32) {
	numbers := make(map[string]int, len(p.topics))
	for t := range p.topics {
		numbers[p.topics[t].name] = t
		p.topics[t].owned = make([][]share, p.topics[t].partitions)
		p.topics[t].held = make([][]share, p.topics[t].partitions)
	}
	byRank := make([]int, len(p.members))
	for m := range byRank {
		byRank[m] = m
	}
	rank := func(m int) (int, int32) {
		g := p.members[m].Generation
		if generation > 0 && g >= generation {
			return 0, g
		}
		return 1, g
	}
	slices.SortStableFunc(byRank, func(a, b int) int {
		la, ga := rank(a)
		lb, gb := rank(b)
		return cmp.Or(cmp.Compare(lb, la), cmp.Compare(gb, ga))
	})
	taken := make([][]keyrange.Set, len(p.topics))
	for _, m := range byRank {
		for name, partitions := range p.members[m].Owned {
			t, ok := numbers[name]
			if !ok {
				continue // nobody wants it any more
			}
			if taken[t] == nil {
				taken[t] = make([]keyrange.Set, p.topics[t].partitions)
			}
			for partition, part := range partitions {
				if 0 <= partition && int(partition) < p.topics[t].partitions && part.Keys.Validate() == nil {
					p.claim(&p.topics[t], int(partition), m, part, &taken[t][partition])
				}
			}
		}
	}
}

// claim adds a member's claim to a part of a partition of which the set taken is claimed already. A part of another base than the
// topic now has cannot be kept, and any key of the partition may be in it.
func (p *problem) claim(t *topic, partition, m int, part Part, taken *keyrange.Set) {
	keys, kept := part.Set(), true
	if !part.Whole() && part.Base != t.base {
		keys, kept = keyrange.Set{keyrange.Full}, false
	}
	if p.members[m].Holds {
		t.held[partition] = append(t.held[partition], share{m, keys})
	}
	rest := keyrange.AppendSubtract(nil, keys, *taken)
	if kept && len(rest) > 0 {
		t.owned[partition] = append(t.owned[partition], share{m, rest})
	}
	*taken = keyrange.AppendUnion(nil, *taken, rest)
}

// ownedBy returns what a member had of a partition.
func (t *topic) ownedBy(partition, member int) keyrange.Set {
	for _, s := range t.owned[partition] {
		if s.member == member {
			return s.keys
		}
	}
	return nil
}
