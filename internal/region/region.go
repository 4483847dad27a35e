package region

import "github.com/tandem-kafka/tandem/keyrange"

// Region is what is done of a source partition for a group in one era. It is not safe for concurrent use.
type Region struct {
	stable  int64
	records plane // of the fact log
	others  plane // what is done, above the stable offset, without a record of its own
	strips  strips

	climber      climber // memory that is used again
	lanes, above []*lane
}

// New returns a region in which everything below the stable offset is done, and nothing else.
func New(stable int64) *Region {
	stable = max(stable, 0)
	return &Region{stable: stable, strips: strips{{0, stable}}}
}

// Stable is the highest stable offset that the region was told.
func (r *Region) Stable() int64 { return r.stable }

// Add adds facts that have no record in the fact log, or none yet. It reports whether anything is done now that was not.
func (r *Region) Add(facts ...Fact) (changed bool) {
	runs(facts, r.stable, func(keys keyrange.Range, run []OffsetRange) {
		changed = r.add(keys, run) || changed
	})
	return changed
}

// add adds sorted, disjoint offset ranges of one key range.
func (r *Region) add(keys keyrange.Range, run []OffsetRange) (changed bool) {
	apart, n := make([]bool, len(run)), 0 // at some position from what is done below, where the low cannot say it
	r.parts(keys, run[0].First, nil, func(_ keyrange.Range, low int64, over []*lane) bool {
		r.climber.reset(over, max(run[0].First, low))
		for i, o := range run {
			switch {
			case apart[i] || o.Last < low:
			case o.First <= low:
				changed = true
			case r.climber.after(o.First, o.Last+1) <= o.Last:
				apart[i], changed = true, true
				n++
			}
		}
		return n < len(run)
	})
	if n > 0 {
		l := r.others.lane(keys)
		for i, o := range run {
			if apart[i] {
				l.merge(o)
			}
		}
	}
	if changed {
		r.reach(keys, run)
	}
	return changed
}

// SetStable says that everything below offset is done. An offset below the one that the region has changes nothing: it
// only comes from somebody who knows less. Records below it stay known until they are deleted.
func (r *Region) SetStable(offset int64) {
	if offset <= r.stable {
		return
	}
	r.stable = offset
	n := 0
	for _, l := range r.others.lanes {
		for p := (place{}); l.in(p) && l.at(p).Last < offset; {
			p = l.remove(p)
		}
		if !l.empty() {
			r.others.lanes[n] = l
			n++
		}
	}
	clear(r.others.lanes[n:])
	r.others.lanes = r.others.lanes[:n]
	r.lift(keyrange.Full, func(int64) int64 { return offset })
}

// Size says how much a Region holds.
type Size struct {
	Records int   // known to be in the fact log, those that are to be deleted included
	Others  int   // offset ranges that are done without a record, above the stable offset
	Strips  int   // key ranges that are done up to different offsets
	Bytes   int64 // of memory, about
}

// Size takes time with the number of different key ranges, and that of records / 512.
func (r *Region) Size() Size {
	s := Size{Strips: len(r.strips), Bytes: int64(cap(r.strips)) * 16}
	for _, l := range r.records.lanes {
		s.Records += l.n + l.covered.n
		s.Bytes += l.bytes()
	}
	for _, l := range r.others.lanes {
		s.Others += l.n
		s.Bytes += l.bytes()
	}
	return s
}
