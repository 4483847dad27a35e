package region

import "github.com/tandem-kafka/tandem/keyrange"

// Next is the lowest offset from from on that is not done at some position of keys. It is never below the stable offset.
//
// empty moves an offset over what is known to hold no record of keys, and returns it unchanged where nothing is known; nil: nothing is
// known anywhere. What is done and what is empty are followed in turns, at each position on its own, and count alike. empty
// must not use the region. Next does not remember what it was told: a caller for whom it holds for good can Add the
// result as a watermark of keys, so that the next call begins there.
func (r *Region) Next(keys keyrange.Range, from int64, empty func(from int64) int64) int64 {
	return r.next(keys, from, empty, nil)
}

func (r *Region) next(keys keyrange.Range, from int64, empty func(int64) int64, extra *plane) int64 {
	from = max(from, r.stable)
	// The strip that is furthest behind first: the others need not be followed beyond its offset.
	i, j := r.strips.over(keys)
	behind := i
	for k := i; k < j; k++ {
		if r.strips[k].low < r.strips[behind].low {
			behind = k
		}
	}
	part, _ := r.strips.keys(behind).Intersect(keys)
	next := r.lowest(part, from, empty, extra, never)
	for k := i; k < j; k++ {
		if k != behind && max(from, r.strips[k].low) < next {
			return r.lowest(keys, from, empty, extra, next)
		}
	}
	return next
}

// lowest is the lowest next offset of keys, or bound if none is lower.
func (r *Region) lowest(keys keyrange.Range, from int64, empty func(int64) int64, extra *plane, bound int64) int64 {
	if i, j := r.strips.over(keys); j == i+1 && from <= r.strips[i].low && extra == nil {
		low := r.strips[i].low
		if low >= bound || empty == nil || empty(low) <= low {
			return min(low, bound)
		}
	}
	r.parts(keys, from, extra, func(_ keyrange.Range, low int64, over []*lane) bool {
		if start := max(from, low); start < bound {
			r.climber.reset(over, start)
			bound = min(bound, r.climber.over(start, bound, empty))
		}
		return bound > from
	})
	return bound
}

// Preview is a region with facts that are not in it: what it would be like with them. It follows what happens to the region.
type Preview struct {
	region *Region
	extra  plane
}

// With returns a preview of the region with these facts, for the stable offset that is to be stored before they are.
func (r *Region) With(facts []Fact) *Preview {
	p := &Preview{region: r}
	for _, f := range facts {
		if f.Valid() {
			p.extra.lane(f.Keys).merge(f.Offsets())
		}
	}
	return p
}

// Next is Region.Next with the preview's facts.
func (p *Preview) Next(keys keyrange.Range, from int64, empty func(from int64) int64) int64 {
	return p.region.next(keys, from, empty, &p.extra)
}
