package region

import (
	"iter"
	"slices"

	"github.com/tandem-kafka/tandem/keyrange"
)

// Replay takes in a record that was read from the fact log. Records can come in any order and repeatedly, except that what is put and
// deleted of one and the same fact is told in the order of the log.
func (r *Region) Replay(f Fact) {
	if f.Valid() {
		r.store(f.Keys, []OffsetRange{f.Offsets()})
	}
}

// ReplayDelete takes in that a record was deleted, by whomever. What it said stays done: somebody saw it covered, or
// below the stable offset.
func (r *Region) ReplayDelete(f Fact) {
	l := r.records.find(f.Keys)
	if l == nil || !l.drop(f.Offsets()) {
		return
	}
	if l.empty() {
		r.records.tidy(f.Keys)
	} else if l.hides(f.Offsets()) {
		return
	}
	r.Add(f)
}

// Stored says that these records are durable in the fact log: the puts of an Amend, all or some.
func (r *Region) Stored(puts []Fact) {
	var keys keyrange.Range
	var run []OffsetRange // of keys, sorted and disjoint
	for _, f := range puts {
		if !f.Valid() {
			continue
		}
		if n := len(run); n > 0 && (f.Keys != keys || f.First <= run[n-1].Last) {
			r.store(keys, run)
			run = run[:0]
		}
		keys, run = f.Keys, append(run, f.Offsets())
	}
	if len(run) > 0 {
		r.store(keys, run)
	}
}

// Deleted says that these records are durably gone from the fact log: the deletes of an Amend, all or some.
func (r *Region) Deleted(deletes []Fact) {
	for _, f := range deletes {
		r.ReplayDelete(f)
	}
}

// store adds records of one key range; they are sorted and disjoint.
func (r *Region) store(keys keyrange.Range, run []OffsetRange) {
	l := r.records.lane(keys)
	for _, o := range run {
		l.add(o)
	}
	l.note(run)
	idle := false
	for n := range r.others.within(keys) {
		for _, o := range run {
			n.clear(o)
		}
		idle = idle || n.empty()
	}
	if idle {
		r.others.lanes = slices.DeleteFunc(r.others.lanes, (*lane).empty)
	}
	r.lift(keys, func(low int64) int64 {
		if o, ok := holding(run, low); ok {
			return o.Last + 1
		}
		return low
	})
}

// holding is the one of sorted, disjoint offset ranges that offset lies in.
func holding(run []OffsetRange, offset int64) (OffsetRange, bool) {
	i, ok := slices.BinarySearchFunc(run, offset, func(o OffsetRange, offset int64) int {
		switch {
		case o.Last < offset:
			return -1
		case o.First > offset:
			return 1
		}
		return 0
	})
	if !ok {
		return OffsetRange{}, false
	}
	return run[i], true
}

// Holds reports whether the fact log is known to have exactly this record.
func (r *Region) Holds(f Fact) bool {
	l := r.records.find(f.Keys)
	return l != nil && (l.has(f.Offsets()) || l.covered.has(f.Offsets()))
}

// Records are all records that the fact log is known to have, those that are to be deleted included. The region must not change
// meanwhile.
func (r *Region) Records() iter.Seq[Fact] {
	return func(yield func(Fact) bool) {
		for _, l := range r.records.lanes {
			for _, elements := range []*list{&l.list, &l.covered} {
				for p := (place{}); elements.in(p); p = elements.next(p) {
					if o := elements.at(p); !yield(Fact{l.keys, o.First, o.Last}) {
						return
					}
				}
			}
		}
	}
}
