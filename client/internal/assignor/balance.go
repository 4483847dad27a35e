package assignor

import "slices"

// balance is what two plans must have in common to be as good as each other: numbers that do not say whose they are.
type balance struct {
	sharers   [][]int // by topic: of each partition that is shared, how many members share it, sorted
	ofTopic   [][]int // by topic: how many whole partitions each subscriber has that gets whole ones, sorted
	ofWhole   []int   // the same of all topics that are not shared, sorted
	ofShared  []int   // and of all that are
	irregular bool    // shares of a partition differ by more than a position, or a sharer is on several partitions
}

func (b balance) equal(other balance) bool {
	return !b.irregular && !other.irregular && slices.EqualFunc(b.sharers, other.sharers, slices.Equal) &&
		slices.EqualFunc(b.ofTopic, other.ofTopic, slices.Equal) && slices.Equal(b.ofWhole, other.ofWhole) && slices.Equal(b.ofShared, other.ofShared)
}

func (p *problem) balanceOf(pl plan) balance {
	b := balance{sharers: make([][]int, len(p.topics)), ofTopic: make([][]int, len(p.topics))}
	whole, shared := make([]int, len(p.members)), make([]int, len(p.members))
	for t := range p.topics {
		topic := &p.topics[t]
		total := whole
		if topic.shared {
			total = shared
		}
		count, seated := make([]int, len(p.members)), map[int]bool{}
		for _, shares := range pl[t] {
			if topic.shared && len(shares) > 0 && p.members[shares[0].member].shares() {
				b.sharers[t] = append(b.sharers[t], len(shares))
				b.irregular = b.irregular || !p.even(shares, seated)
				continue
			}
			for _, s := range shares {
				count[s.member]++
				total[s.member]++
			}
			b.irregular = b.irregular || len(shares) > 1
		}
		for _, m := range topic.subscribers {
			if !topic.shared || !p.members[m].shares() {
				b.ofTopic[t] = append(b.ofTopic[t], count[m])
			}
		}
		slices.Sort(b.sharers[t])
		slices.Sort(b.ofTopic[t])
	}
	slices.Sort(whole)
	slices.Sort(shared)
	b.ofWhole, b.ofShared = whole, shared
	return b
}

// even reports whether the shares of a partition are equal up to one position, and belong to sharers that are not seated yet.
func (p *problem) even(shares []share, seated map[int]bool) bool {
	for _, s := range shares {
		n := s.keys.Len()
		if size := axis / uint64(len(shares)); n < size || n > size+1 || seated[s.member] || !p.members[s.member].shares() {
			return false
		}
		seated[s.member] = true
	}
	return true
}
