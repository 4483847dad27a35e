package region

import (
	"slices"
	"sort"

	"github.com/tandem-kafka/tandem/keyrange"
)

// strip is a part of the key axis, from first to where the next one begins. Below low, and not at low, all of it is done.
type strip struct {
	first uint32
	low   int64
}

// strips tile the key axis; neighbours have different lows.
type strips []strip

// over are the indexes [i, j) of the strips that have positions in common with keys.
func (s strips) over(keys keyrange.Range) (i, j int) {
	i = sort.Search(len(s), func(i int) bool { return s[i].first > keys.First }) - 1
	for j = i + 1; j < len(s) && s[j].first <= keys.Last; j++ {
	}
	return i, j
}

// keys are those of strip i.
func (s strips) keys(i int) keyrange.Range {
	if i+1 < len(s) {
		return keyrange.Range{First: s[i].first, Last: s[i+1].first - 1}
	}
	return keyrange.Range{First: s[i].first, Last: keyrange.Full.Last}
}

// append appends a strip, which is one with the last if that has the same low.
func (s strips) append(first uint32, low int64) strips {
	if n := len(s); n > 0 && s[n-1].low == low {
		return s
	}
	return append(s, strip{first, low})
}

// replace puts others in the place of the strips [i, j).
func (s strips) replace(i, j int, others strips) strips {
	if j < len(s) && others[len(others)-1].low == s[j].low {
		j++
	}
	if i > 0 && others[0].low == s[i-1].low {
		others = others[1:]
	}
	return slices.Replace(s, i, j, others...)
}

// lift moves lows of keys up: of a strip with this low, everything below to(low) is done; what comes then is looked up.
// A result that is not above low leaves the strip as it is.
func (r *Region) lift(keys keyrange.Range, to func(low int64) int64) {
	i, j := r.strips.over(keys)
	k := i
	for k < j && to(r.strips[k].low) <= r.strips[k].low {
		k++
	}
	if k == j {
		return
	}
	var out strips
	for k = i; k < j; k++ {
		whole, low := r.strips.keys(k), r.strips[k].low
		offset := to(low)
		if offset <= low {
			out = out.append(whole.First, low)
			continue
		}
		part, _ := whole.Intersect(keys)
		if whole.First < part.First {
			out = out.append(whole.First, low)
		}
		lanes := r.over(part, offset, nil)
		slices.SortFunc(lanes, compareLanes)
		cut(part, lanes, func(part keyrange.Range, over []*lane) bool {
			r.climber.reset(over, offset)
			out = out.append(part.First, r.climber.after(offset, never))
			return true
		})
		if part.Last < whole.Last {
			out = out.append(part.Last+1, low)
		}
	}
	r.strips = r.strips.replace(i, j, out)
}

// reach moves the lows of keys up where they lie in run, which is sorted, disjoint, and done.
func (r *Region) reach(keys keyrange.Range, run []OffsetRange) {
	r.lift(keys, func(low int64) int64 {
		if i := sort.Search(len(run), func(i int) bool { return run[i].Last >= low }); i < len(run) && run[i].First <= low {
			return run[i].Last + 1
		}
		return low
	})
}

// over are the lanes that have positions in common with keys and something at or behind offset; extra may be nil. The next call
// uses the same memory.
func (r *Region) over(keys keyrange.Range, offset int64, extra *plane) []*lane {
	r.lanes = r.records.appendOver(r.lanes[:0], keys, offset)
	r.lanes = r.others.appendOver(r.lanes, keys, offset)
	if extra != nil {
		r.lanes = extra.appendOver(r.lanes, keys, offset)
	}
	return r.lanes
}

// parts calls f with the parts of keys that differ in their low or in the lanes over them, from the first to the last, until it
// returns false. Lanes without anything at or behind both from and low are left out.
func (r *Region) parts(keys keyrange.Range, from int64, extra *plane, f func(part keyrange.Range, low int64, over []*lane) bool) {
	lanes := r.over(keys, from, extra)
	slices.SortFunc(lanes, compareLanes)
	near, next := 0, 0 // lanes[:near] may lie over the strip, those from next on begin behind it
	i, j := r.strips.over(keys)
	for ; i < j; i++ {
		part, _ := r.strips.keys(i).Intersect(keys)
		low := r.strips[i].low
		for ; next < len(lanes) && lanes[next].keys.First <= part.Last; next++ {
			lanes[near] = lanes[next]
			near++
		}
		n := 0
		r.above = r.above[:0]
		for _, l := range lanes[:near] {
			if l.keys.Last >= part.First {
				lanes[n] = l
				n++
				if l.top() >= low {
					r.above = append(r.above, l)
				}
			}
		}
		near = n
		more := true
		cut(part, r.above, func(part keyrange.Range, over []*lane) bool {
			more = f(part, low, over)
			return more
		})
		if !more {
			return
		}
	}
}
