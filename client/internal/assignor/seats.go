package assignor

import (
	"cmp"
	"slices"

	"github.com/tandem-kafka/tandem/keyrange"
)

// axis is the number of positions on the key axis.
const axis = uint64(1) << 32

// deal puts the sharers of a topic onto the given partitions round robin: the first on the first partition and so on, beginning
// with the one that turn says. This is the proposal's result.
func (t *topic) deal(partitions []int, turn int) [][]int {
	groups := make([][]int, len(partitions))
	for i := range t.sharers {
		at := i % len(partitions)
		groups[at] = append(groups[at], t.sharers[(turn+i)%len(t.sharers)])
	}
	return groups
}

// seat puts the sharers of a topic onto the given partitions so that they keep most of what they had. As with deal, each
// partition has few or few+1 of them.
//
// A member counts where it had most, its home (all it had is there, unless it had whole partitions). How much the members of
// a partition keep depends only on how many seats it has, so the partitions that gain most by one seat more get it. With one home
// for each member that is the optimum.
func (t *topic) seat(partitions []int, turn int) [][]int {
	few, more := len(t.sharers)/len(partitions), len(t.sharers)%len(partitions)
	homes := t.homes(partitions)
	byGain := make([]int, len(partitions))
	gain := make([]int64, len(partitions))
	for i := range partitions {
		byGain[i] = i
		gain[i] = int64(keptBy(homes[i], few+1)) - int64(keptBy(homes[i], few))
	}
	slices.SortStableFunc(byGain, func(a, b int) int { return cmp.Compare(gain[b], gain[a]) })
	seats := make([]int, len(partitions))
	for rank, i := range byGain {
		seats[i] = few
		if rank < more {
			seats[i]++
		}
	}
	groups := make([][]int, len(partitions))
	seated := make(map[int]bool, len(t.sharers))
	for i, home := range homes {
		for _, h := range home[:min(len(home), seats[i])] {
			groups[i] = append(groups[i], h.member)
			seated[h.member] = true
		}
	}
	t.fill(groups, seats, seated, turn)
	return groups
}

// fill deals those without a seat, each to the partition with the fewest sharers.
func (t *topic) fill(groups [][]int, seats []int, seated map[int]bool, turn int) {
	var rest []int
	for i := range t.sharers {
		if m := t.sharers[(turn+i)%len(t.sharers)]; !seated[m] {
			rest = append(rest, m)
		}
	}
	for level := 0; len(rest) > 0; level++ {
		for i := 0; i < len(groups) && len(rest) > 0; i++ {
			if len(groups[i]) == level && level < seats[i] {
				groups[i] = append(groups[i], rest[0])
				rest = rest[1:]
			}
		}
	}
}

// home is a member that counts at a partition, of which it had n positions.
type home struct {
	member int
	n      uint64
}

// homes returns by partition the sharers that had most of what they had there, those with more first.
func (t *topic) homes(partitions []int) [][]home {
	type place struct {
		partition int
		n         uint64
	}
	best := map[int]place{}
	for i, partition := range partitions {
		for _, s := range t.owned[partition] {
			if _, sharer := slices.BinarySearch(t.sharers, s.member); sharer {
				if n := s.keys.Len(); n > best[s.member].n {
					best[s.member] = place{i, n}
				}
			}
		}
	}
	homes := make([][]home, len(partitions))
	for _, m := range t.sharers {
		if b, ok := best[m]; ok {
			homes[b.partition] = append(homes[b.partition], home{m, b.n})
		}
	}
	for _, h := range homes {
		slices.SortStableFunc(h, func(a, b home) int { return cmp.Compare(b.n, a.n) })
	}
	return homes
}

// keptBy is how many positions the members at home keep if the partition has that many seats.
func keptBy(homes []home, seats int) uint64 {
	if seats == 0 {
		return 0
	}
	var n uint64
	for _, h := range homes[:min(len(homes), seats)] {
		n += min(h.n, axis/uint64(seats))
	}
	return n
}

// split gives the group of a partition its shares.
func (t *topic) split(partition int, group []int, sticky bool) []share {
	had := make([]keyrange.Set, len(group))
	var lost uint64 // what those had that are not in the group; nobody else needs to let go of it if they left
	if sticky {
		in := make(map[int]int, len(group))
		for i, m := range group {
			in[m] = i
		}
		for _, s := range t.owned[partition] {
			if i, ok := in[s.member]; ok {
				had[i] = s.keys
			} else {
				lost += s.keys.Len()
			}
		}
	}
	shares := make([]share, len(group))
	for i, keys := range divide(had, lost > 0) {
		shares[i] = share{group[i], keys}
	}
	return shares
}
