package region

import (
	"cmp"
	"slices"

	"github.com/tandem-kafka/tandem/keyrange"
)

// Amend works out what to write to the fact log for new facts, under the stable offset that the primary has by then: first
// puts; once these are durable, deletes. The region does not change: see Stored and Deleted, and Add for facts that are to count
// before they are durable.
//
// A new fact is merged with the records of its key range that it touches and that end at or above the stable offset. Nothing is
// written for what lies below the stable offset or is in the log already, in whichever records. Deleted are records below the
// stable offset and those that one of the puts or another record covers.
//
// limit is the most deletes; 0: no limit. What is left over comes with the next call, which needs no facts for it.
func (r *Region) Amend(facts []Fact, stable int64, limit int) (puts, deletes []Fact) {
	stable = max(stable, r.stable)
	puts, put := r.puts(facts, stable)
	return puts, r.redundant(put, stable, limit)
}

// Puts are those of an Amend under the stable offset that the region has.
func (r *Region) Puts(facts []Fact) []Fact {
	puts, _ := r.puts(facts, r.stable)
	return puts
}

// puts works out the puts of an Amend, and the plane of them.
func (r *Region) puts(facts []Fact, stable int64) (puts []Fact, put *plane) {
	facts = slices.Clone(facts)
	facts = slices.DeleteFunc(facts, func(f Fact) bool { return !f.Valid() || f.Last < stable })
	slices.SortFunc(facts, func(a, b Fact) int { // the widest first: others may be part of them
		return cmp.Or(cmp.Compare(b.Keys.Len(), a.Keys.Len()), cmp.Compare(a.Keys.First, b.Keys.First), a.Offsets().compare(b.Offsets()))
	})
	put = new(plane)
	for len(facts) > 0 {
		keys := facts[0].Keys
		var run []OffsetRange
		for len(facts) > 0 && facts[0].Keys == keys {
			run = appendTouching(run, facts[0].Offsets())
			facts = facts[1:]
		}
		run = r.missing(keys, run, stable, put)
		if len(run) == 0 {
			continue
		}
		if l := r.records.find(keys); l != nil {
			run = l.widen(run, stable)
		}
		l := put.lane(keys)
		for _, o := range run {
			l.insert(place{len(l.chunks), 0}, o)
			puts = append(puts, Fact{keys, o.First, o.Last})
		}
	}
	return puts, put
}

// appendTouching appends o, which does not begin before the last of run, and makes one of the two if they touch.
func appendTouching(run []OffsetRange, o OffsetRange) []OffsetRange {
	if n := len(run); n > 0 && o.First <= run[n-1].Last+1 {
		run[n-1].Last = max(run[n-1].Last, o.Last)
		return run
	}
	return append(run, o)
}

// missing keeps those of run, which are sorted and disjoint, that records and put do not cover together.
func (r *Region) missing(keys keyrange.Range, run []OffsetRange, stable int64, put *plane) []OffsetRange {
	missing, n := make([]bool, len(run)), 0
	lanes := r.records.appendOver(nil, keys, run[0].First)
	lanes = put.appendOver(lanes, keys, run[0].First)
	slices.SortFunc(lanes, compareLanes)
	cut(keys, lanes, func(_ keyrange.Range, over []*lane) bool {
		r.climber.reset(over, max(run[0].First, stable))
		for i, o := range run {
			if !missing[i] && r.climber.after(max(o.First, stable), o.Last+1) <= o.Last {
				missing[i] = true
				n++
			}
		}
		return n < len(run)
	})
	kept := run[:0]
	for i, o := range run {
		if missing[i] {
			kept = append(kept, o)
		}
	}
	return kept
}

// widen extends offset ranges, which are sorted, by the lane's records that touch them and end at or above the stable offset.
func (l *lane) widen(run []OffsetRange, stable int64) []OffsetRange {
	wide := run[:0] // never ahead of the reading
	for _, o := range run {
		p := l.ending(max(o.First-1, stable))
		for q := p; l.in(q) && l.at(q).First <= o.Last+1; q = l.next(q) {
			o = OffsetRange{min(o.First, l.at(q).First), max(o.Last, l.at(q).Last)}
		}
		for q, ok := l.prev(p); ok && l.at(q).Last >= max(o.First-1, stable); q, ok = l.prev(q) {
			o.First = min(o.First, l.at(q).First)
		}
		wide = appendTouching(wide, o)
	}
	return wide
}
