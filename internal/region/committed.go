package region

import (
	"slices"

	"github.com/tandem-kafka/tandem/keyrange"
)

// Committed is what is done at the positions of a key range: sorted offset ranges that do not touch.
type Committed struct {
	Keys    keyrange.Range
	Offsets []OffsetRange
}

// Committed is what is done of keys from offset from on: sorted by key range, disjoint, without key ranges of which nothing is done. What
// lies below the stable offset is done, too. Neighbours with the same offset ranges are one.
//
// limit is the most offset ranges, all key ranges together; 0: no limit. If there are more, isCut is true: what is left out are then
// the higher offsets, and of each key range about equally many are given.
func (r *Region) Committed(keys keyrange.Set, from int64, limit int) (committed []Committed, isCut bool) {
	return r.fair(keys, max(from, 0), limit, nil)
}

// Committed is Region.Committed with the preview's facts.
func (p *Preview) Committed(keys keyrange.Set, from int64, limit int) (committed []Committed, isCut bool) {
	return p.region.fair(keys, max(from, 0), limit, &p.extra)
}

func (r *Region) fair(keys keyrange.Set, from int64, limit int, extra *plane) (committed []Committed, isCut bool) {
	if committed, isCut = r.committed(keys, from, limit, 0, extra); !isCut {
		return committed, false
	}
	parts := 0
	for _, k := range keys {
		r.parts(k, from, extra, func(keyrange.Range, int64, []*lane) bool { parts++; return true })
	}
	return r.committed(keys, from, limit, parts, extra)
}

// committed shares what the limit allows among parts, or gives it to those that come first if that is 0.
func (r *Region) committed(keys keyrange.Set, from int64, limit, parts int, extra *plane) (committed []Committed, isCut bool) {
	fair, left := parts > 0, limit
	var buffer []OffsetRange
	for _, k := range keys {
		r.parts(k, from, extra, func(part keyrange.Range, low int64, over []*lane) bool {
			var before *Committed // the neighbour: more of the same costs nothing
			if n := len(committed) - 1; n >= 0 && committed[n].Keys.Last+1 == part.First {
				before = &committed[n]
			}
			share, most := left, -1
			if fair {
				share = min(left, max(1, left/parts))
				parts--
			}
			if limit > 0 {
				if most = share; before != nil {
					most = max(most, len(before.Offsets))
				}
			}
			var more bool
			buffer, more = r.done(buffer[:0], low, from, over, most)
			switch {
			case before != nil && slices.Equal(before.Offsets, buffer):
				before.Keys.Last = part.Last
				isCut = isCut || more
				return fair || !isCut
			case limit > 0 && len(buffer) > share:
				buffer, more = buffer[:share], true
			}
			if len(buffer) > 0 {
				committed = append(committed, Committed{part, slices.Clone(buffer)})
				left -= len(buffer)
			}
			isCut = isCut || more
			return fair || !isCut
		})
		if isCut && !fair {
			break
		}
	}
	return committed, isCut
}

// done appends what is done from from on, in a part with this low under these lanes. It stops at limit, unless that is negative, and
// reports whether there is more.
func (r *Region) done(dst []OffsetRange, low, from int64, over []*lane, limit int) (done []OffsetRange, more bool) {
	r.climber.reset(over, max(from, low))
	for {
		first, end := from, low
		if end <= first {
			if first = r.climber.begin(from); first == never {
				return dst, false
			}
			end = first
		}
		if len(dst) == limit {
			return dst, true
		}
		from = r.climber.after(end, never) // a preview's facts may go on at low
		dst = append(dst, OffsetRange{first, from - 1})
	}
}
