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
func (r *Region) ReplayDelete(f Fact) { r.Deleted([]Fact{f}) }

// Deleted says that these records are durably gone from the fact log: the deletes of an Amend, all or some.
func (r *Region) Deleted(deletes []Fact) {
	var open []Fact // what no other record of the lane covers
	for _, f := range deletes {
		l := r.records.find(f.Keys)
		if l == nil || !l.drop(f.Offsets()) {
			continue
		}
		if l.empty() {
			r.records.tidy(f.Keys)
		}
		if f.Last >= r.stable && !l.hides(f.Offsets()) {
			open = append(open, f)
		}
	}
	r.Add(open...)
}

// Stored says that these records are durable in the fact log: the puts of an Amend, all or some.
func (r *Region) Stored(puts []Fact) { runs(puts, 0, r.store) }

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
	r.reach(keys, run)
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
