package keyrange

import (
	"cmp"
	"fmt"
	"slices"
)

// Set is a set of positions as key ranges: each valid, sorted, disjoint. Ranges that touch need not be merged, but the
// functions here merge them. The nil Set is empty.
type Set []Range

// Validate returns an error that names the first range which is reversed, out of order or overlapping.
func (s Set) Validate() error {
	for i, r := range s {
		if !r.Valid() {
			return fmt.Errorf("key range %d of %d: %v ends before it begins", i, len(s), r)
		}
		if i > 0 && r.First <= s[i-1].Last {
			return fmt.Errorf("key range %d of %d: %v is not after %v", i, len(s), r, s[i-1])
		}
	}
	return nil
}

// Contains reports whether position lies in one of the ranges.
func (s Set) Contains(position uint32) bool {
	i := s.from(position)
	return i < len(s) && s[i].First <= position
}

// Covers reports whether all of r lies in the set, in one range or in several that touch.
func (s Set) Covers(r Range) bool {
	for i := s.from(r.First); i < len(s) && s[i].First <= r.First; i++ {
		if s[i].Last >= r.Last {
			return true
		}
		r.First = s[i].Last + 1
	}
	return false
}

// Overlaps reports whether r has a position in common with the set.
func (s Set) Overlaps(r Range) bool {
	i := s.from(r.First)
	return i < len(s) && s[i].First <= r.Last
}

// Len is the number of positions in the set, 0 to 2^32.
func (s Set) Len() uint64 {
	var n uint64
	for _, r := range s {
		n += r.Len()
	}
	return n
}

// from is the index of the first range that does not end before position.
func (s Set) from(position uint32) int {
	i, _ := slices.BinarySearchFunc(s, position, func(r Range, p uint32) int { return cmp.Compare(r.Last, p) })
	return i
}

// Normalize sorts and merges any valid ranges in place and returns them as a Set.
func Normalize(ranges []Range) Set {
	slices.SortFunc(ranges, func(a, b Range) int { return cmp.Compare(a.First, b.First) })
	s := ranges[:0]
	for _, r := range ranges {
		s = appendMerged(s, r)
	}
	return s
}

// AppendIntersect appends what a and b have in common to dst[:0] and returns it. dst must not share memory with a or b.
func AppendIntersect(dst, a, b Set) Set {
	dst = dst[:0]
	for len(a) > 0 && len(b) > 0 {
		if r, ok := a[0].Intersect(b[0]); ok {
			dst = appendMerged(dst, r)
		}
		if a[0].Last < b[0].Last {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return dst
}

// AppendUnion appends what is in a or in b to dst[:0] and returns it. dst must not share memory with a or b.
func AppendUnion(dst, a, b Set) Set {
	dst = dst[:0]
	for len(a) > 0 || len(b) > 0 {
		if len(b) == 0 || len(a) > 0 && a[0].First <= b[0].First {
			dst, a = appendMerged(dst, a[0]), a[1:]
		} else {
			dst, b = appendMerged(dst, b[0]), b[1:]
		}
	}
	return dst
}

// AppendSubtract appends what is in a but not in b to dst[:0] and returns it. dst must not share memory with a or b.
func AppendSubtract(dst, a, b Set) Set {
	dst = dst[:0]
	for _, r := range a {
		for len(b) > 0 && b[0].Last < r.First {
			b = b[1:]
		}
		rest := true
		for i := 0; rest && i < len(b) && b[i].First <= r.Last; i++ {
			if b[i].First > r.First {
				dst = appendMerged(dst, Range{r.First, b[i].First - 1})
			}
			if rest = b[i].Last < r.Last; rest {
				r.First = b[i].Last + 1
			}
		}
		if rest {
			dst = appendMerged(dst, r)
		}
	}
	return dst
}

// appendMerged appends r, which begins at or after the last range of s, and merges the two if they touch.
func appendMerged(s Set, r Range) Set {
	if n := len(s); n > 0 && uint64(r.First) <= uint64(s[n-1].Last)+1 {
		s[n-1].Last = max(s[n-1].Last, r.Last)
		return s
	}
	return append(s, r)
}
