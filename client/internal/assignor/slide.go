package assignor

// The numbers of key ranges that a member's share of a partition consists of. Each is work: in every fetch, in what is committed.
const (
	fewRanges  = 8         // where something of a partition moves anyway, ranges beyond it are joined, for at most tidyBudget
	mostRanges = 64        // ranges beyond it are joined at any price
	tidyBudget = axis / 32 // positions of a partition that change their member for nothing but fewer ranges, at most
)

// slide makes the ranges of members with too many of them fewer, and leaves the size of every share as it is. One range is
// taken out, all ranges between it and another of the same member move into its place, and the other one grows by its length at
// the end where they left. Of all ranges the one is taken whose removal moves least: its length for each border that moves.
//
// A member that joins c others gets a piece from each pair of neighbours, in all 1/(c+1) of the axis. Taking out pieces until n are
// left moves about 1/4n of the axis: each of the n that stay collects, from either side, the pieces of c/n members, which pass
// them on along the axis. That is the budget for n = fewRanges.
func slide(segments []segment, members int, tidy bool) []segment {
	segments = merge(segments)
	count := make([]int, members)
	for _, s := range segments {
		count[s.member]++
	}
	budget := uint64(0)
	if tidy {
		budget = tidyBudget
	}
	last := make([]int, members)
	for {
		out, into, cost := cheapest(segments, count, last, fewRanges)
		if out >= 0 && cost > budget {
			out, into, cost = cheapest(segments, count, last, mostRanges)
		}
		if out < 0 {
			return segments
		}
		budget -= min(budget, cost)
		n := uint32(segments[out].Len() - 1) // n+1 positions
		if into > out {
			for i := out + 1; i < into; i++ {
				segments[i].First -= n + 1
				segments[i].Last -= n + 1
			}
			segments[into].First -= n + 1
		} else {
			segments[into].Last += n + 1
			for i := into + 1; i < out; i++ {
				segments[i].First += n + 1
				segments[i].Last += n + 1
			}
		}
		count[segments[out].member]--
		segments = append(segments[:out], segments[out+1:]...)
		if out > 0 && out < len(segments) && segments[out-1].member == segments[out].member {
			count[segments[out].member]--
			segments[out-1].Last = segments[out].Last
			segments = append(segments[:out], segments[out+1:]...)
		}
	}
}

// cheapest returns the segment to take out and the one to grow, and the price, or -1 if no member has more than limit.
func cheapest(segments []segment, count, last []int, limit int) (out, into int, best uint64) {
	out, into = -1, -1
	for i := range last {
		last[i] = -1
	}
	for i, s := range segments {
		if before := last[s.member]; before >= 0 && count[s.member] > limit {
			borders := uint64(i - before)
			small, other := i, before
			if segments[before].Len() < s.Len() {
				small, other = before, i
			}
			if cost := borders * segments[small].Len(); out < 0 || cost < best {
				out, into, best = small, other, cost
			}
		}
		last[s.member] = i
	}
	return out, into, best
}

// merge joins neighbours of one member.
func merge(segments []segment) []segment {
	out := segments[:0]
	for _, s := range segments {
		if n := len(out); n > 0 && out[n-1].member == s.member {
			out[n-1].Last = s.Last
			continue
		}
		out = append(out, s)
	}
	return out
}
