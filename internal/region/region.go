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
	for _, f := range facts {
		changed = f.Valid() && f.Last >= r.stable && r.add(f) || changed
	}
	return changed
}

func (r *Region) add(f Fact) (changed bool) {
	apart := false // from what is done below it
	r.parts(f.Keys, max(f.First, r.stable), nil, func(_ keyrange.Range, low int64, over []*lane) bool {
		switch {
		case f.Last < low:
		case f.First <= low:
			changed = true
		default:
			r.climber.reset(over, f.First)
			apart = r.climber.after(f.First, never) <= f.Last
		}
		return !apart
	})
	if apart { // otherwise the lows say it all
		r.others.lane(f.Keys).merge(f.Offsets())
	}
	if changed || apart {
		r.lift(f.Keys, func(low int64) int64 {
			if f.First <= low && low <= f.Last {
				return f.Last + 1
			}
			return low
		})
	}
	return changed || apart
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
