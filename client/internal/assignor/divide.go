package assignor

import (
	"cmp"
	"slices"

	"github.com/tandem-kafka/tandem/keyrange"
)

// segment is a key range of a member of the group, or of nobody (free).
type segment struct {
	member int
	keyrange.Range
}

const free = -1

// divide splits the key axis among a group evenly, up to one position, and leaves with each member as much as possible of what
// it had: had[i] are disjoint. moving says that something of the partition moves in any case.
func divide(had []keyrange.Set, moving bool) []keyrange.Set {
	size := sizes(had)
	segments, surplus := shed(had, size)
	segments = withFree(segments)
	lack := slices.Clone(size)
	for _, s := range segments {
		if s.member != free {
			lack[s.member] -= s.Len()
		}
	}
	segments = fillBeside(segments, lack)
	segments = fillRest(segments, lack)
	return sets(slide(segments, len(had), moving || surplus), len(had))
}

// sizes are the shares' sizes. The positions that are left over go first to those that had more, then to those that get something
// in any case, and each time in the order of the group.
func sizes(had []keyrange.Set) []uint64 {
	size, rest := axis/uint64(len(had)), axis%uint64(len(had))
	list := make([]uint64, len(had))
	for i := range list {
		list[i] = size
	}
	for _, compared := range []int{1, -1, 0} {
		for i := range list {
			if rest > 0 && cmp.Compare(had[i].Len(), size) == compared {
				list[i]++
				rest--
			}
		}
	}
	return list
}

// shed returns in the order of the axis what members keep. Who has too much sheds its smallest ranges, and the last of those in
// part: at the end that lies beside something free, so that what gets free lies together.
func shed(had []keyrange.Set, size []uint64) (kept []segment, surplus bool) {
	cut := map[segment]uint64{}
	for i, set := range had {
		n := set.Len()
		bySize := slices.SortedStableFunc(slices.Values(set), func(a, b keyrange.Range) int { return cmp.Compare(a.Len(), b.Len()) })
		for _, r := range bySize {
			over := n - min(n, size[i])
			surplus = surplus || over > 0
			if r.Len() <= over {
				n -= r.Len()
				continue
			}
			n -= over
			s := segment{i, r}
			kept = append(kept, s)
			if over > 0 {
				cut[s] = over
			}
		}
	}
	slices.SortFunc(kept, func(a, b segment) int { return cmp.Compare(a.First, b.First) })
	end := uint64(0) // of what is kept so far
	for i := range kept {
		s := &kept[i]
		if n := cut[*s]; n > 0 && uint64(s.First) > end {
			s.First += uint32(n)
		} else {
			s.Last -= uint32(n)
		}
		end = uint64(s.Last) + 1
	}
	return kept, surplus
}

// withFree fills the gaps with free segments.
func withFree(kept []segment) []segment {
	all := make([]segment, 0, 2*len(kept)+1)
	end := uint64(0)
	for _, s := range kept {
		if uint64(s.First) > end {
			all = append(all, segment{free, keyrange.Range{First: uint32(end), Last: s.First - 1}})
		}
		all = append(all, s)
		end = uint64(s.Last) + 1
	}
	if end < axis {
		all = append(all, segment{free, keyrange.Range{First: uint32(end), Last: keyrange.Full.Last}})
	}
	return all
}

// fillBeside gives free segments to their neighbours, as far as they lack something.
func fillBeside(segments []segment, lack []uint64) []segment {
	out := make([]segment, 0, len(segments)+len(lack))
	for i, s := range segments {
		if s.member != free {
			out = append(out, s)
			continue
		}
		left, n := uint64(s.First), s.Len()
		take := func(neighbour int) uint64 {
			if neighbour < 0 || neighbour >= len(segments) || segments[neighbour].member == free {
				return 0
			}
			m := segments[neighbour].member
			taken := min(lack[m], n)
			lack[m] -= taken
			n -= taken
			return taken
		}
		add := func(member int, size uint64) {
			if size > 0 {
				out = append(out, segment{member, keyrange.Range{First: uint32(left), Last: uint32(left + size - 1)}})
				left += size
			}
		}
		before, after := take(i-1), take(i+1)
		if before > 0 {
			add(segments[i-1].member, before)
		}
		add(free, n)
		if after > 0 {
			add(segments[i+1].member, after)
		}
	}
	return out
}

// fillRest gives what is free to those that lack something, one after the other along the axis.
func fillRest(segments []segment, lack []uint64) []segment {
	out := make([]segment, 0, len(segments)+len(lack))
	m := 0
	for _, s := range segments {
		for s.member == free {
			for lack[m] == 0 {
				m++
			}
			taken := min(lack[m], s.Len())
			lack[m] -= taken
			part := segment{m, keyrange.Range{First: s.First, Last: uint32(uint64(s.First) + taken - 1)}}
			out = append(out, part)
			if part.Last == s.Last {
				break
			}
			s.First = part.Last + 1
		}
		if s.member != free {
			out = append(out, s)
		}
	}
	return out
}

func sets(segments []segment, members int) []keyrange.Set {
	list := make([][]keyrange.Range, members)
	for _, s := range segments {
		list[s.member] = append(list[s.member], s.Range)
	}
	out := make([]keyrange.Set, members)
	for m, ranges := range list {
		out[m] = keyrange.Normalize(ranges)
	}
	return out
}
