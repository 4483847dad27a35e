package slicecache

import (
	"slices"
	"sort"
)

// maxGaps bounds the gaps remembered for one slice; keepGaps of the highest ones are never given up, because the
// stable offset of a group and the slice's own end depend on them.
const (
	maxGaps  = 64
	keepGaps = 8
)

// gap is a stretch of offsets [from, to) that holds no record of a slice.
type gap struct{ from, to int64 }

// gapSet holds disjoint, not touching gaps in order. Forgetting a gap is always right: it only costs a scan.
type gapSet []gap

// add notes that [from, to) is empty. Of more than limit gaps the smallest is forgotten.
func (g *gapSet) add(from, to int64, limit int) {
	if from >= to {
		return
	}
	s := *g
	// [i, j) are the gaps that touch the new one. Additions are mostly at the end.
	j := len(s)
	for j > 0 && s[j-1].from > to {
		j--
	}
	i := j
	for i > 0 && s[i-1].to >= from {
		i--
		from = min(from, s[i].from)
		to = max(to, s[i].to)
	}
	if i < j {
		s[i] = gap{from, to}
		*g = append(s[:i+1], s[j:]...)
		return
	}
	s = slices.Insert(s, i, gap{from, to})
	if len(s) > limit {
		k := 0
		for n := range s[:len(s)-keepGaps] {
			if s[n].to-s[n].from < s[k].to-s[k].from {
				k = n
			}
		}
		s = slices.Delete(s, k, k+1)
	}
	*g = s
}

// jump moves pos to the end of the gap it lies in.
func (g gapSet) jump(pos int64) int64 {
	i := sort.Search(len(g), func(i int) bool { return g[i].to > pos })
	if i < len(g) && g[i].from <= pos {
		return g[i].to
	}
	return pos
}

// after returns where the first gap after pos begins, 0: there is none.
func (g gapSet) after(pos int64) int64 {
	if i := sort.Search(len(g), func(i int) bool { return g[i].from > pos }); i < len(g) {
		return g[i].from
	}
	return 0
}

// back returns the lowest offset from which everything below end is known to be empty, or end.
func (g gapSet) back(end int64) int64 {
	for i := len(g) - 1; i >= 0 && g[i].to >= end; i-- {
		if g[i].from < end {
			return g[i].from
		}
	}
	return end
}

// cut forgets everything at and above end.
func (g *gapSet) cut(end int64) {
	s := *g
	for len(s) > 0 && s[len(s)-1].from >= end {
		s = s[:len(s)-1]
	}
	if n := len(s); n > 0 && s[n-1].to > end {
		s[n-1].to = end
	}
	*g = s
}
