package region

import (
	"slices"

	"github.com/tandem-kafka/tandem/keyrange"
)

// Whole is what of the facts' offsets is done at all positions of keys, as facts for keys. Those for the whole key axis hold however
// key positions are worked out. Facts below the stable offset are ignored.
func (r *Region) Whole(keys keyrange.Range, facts ...Fact) (whole []Fact) {
	runs(facts, r.stable, func(_ keyrange.Range, run []OffsetRange) {
		left, next := slices.Clone(run), []OffsetRange(nil)
		r.parts(keys, run[0].First, nil, func(_ keyrange.Range, low int64, over []*lane) bool {
			r.climber.reset(over, max(left[0].First, low))
			next = next[:0]
			for _, o := range left {
				next = r.appendDone(next, o, low)
			}
			left, next = next, left
			return len(left) > 0
		})
		for _, o := range left {
			whole = append(whole, Fact{keys, o.First, o.Last})
		}
	})
	return whole
}

// appendDone appends what of o is done in a part with this low, under the lanes of the climber.
func (r *Region) appendDone(dst []OffsetRange, o OffsetRange, low int64) []OffsetRange {
	for first := o.First; first <= o.Last; {
		if first >= low {
			if first = r.climber.begin(first); first > o.Last {
				break
			}
		}
		end := max(first, low)
		if end <= o.Last {
			end = r.climber.after(end, o.Last+1)
		}
		dst = append(dst, OffsetRange{first, min(end-1, o.Last)})
		first = end
	}
	return dst
}
