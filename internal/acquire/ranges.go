package acquire

import "slices"

// Range is the offsets First to Last, both inclusive.
type Range struct{ First, Last int64 }

// Everything is all offsets.
var Everything = Range{Last: MaxOffset}

// set is offsets as sorted ranges that neither overlap nor touch.
type set []Range

// search returns the index of the first range that ends at or behind an offset.
func (s set) search(at int64) int {
	i, _ := slices.BinarySearchFunc(s, at, func(r Range, at int64) int {
		if r.Last < at {
			return -1
		}
		return 1
	})
	return i
}

func (s *set) add(r Range) {
	i := s.search(r.First - 1)
	j := i
	for j < len(*s) && (*s)[j].First <= r.Last+1 {
		r.First, r.Last = min(r.First, (*s)[j].First), max(r.Last, (*s)[j].Last)
		j++
	}
	*s = slices.Replace(*s, i, j, r)
}

// outside calls f for the parts of r that are not in s, in order.
func (s set) outside(r Range, f func(Range)) {
	for i := s.search(r.First); i < len(s) && s[i].First <= r.Last; i++ {
		if s[i].First > r.First {
			f(Range{r.First, s[i].First - 1})
		}
		r.First = s[i].Last + 1
	}
	if r.First <= r.Last {
		f(r)
	}
}
