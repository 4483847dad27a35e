package ledger

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/region"
)

// Append is what a commit writes to the log. Exactly one of Stored and Failed follows, and after Stored exactly one Deleted.
type Append struct {
	l       *Ledger
	topicID [16]byte
	era     int64
	puts    []id
	deletes []id // of the era, and then those of eras that are over
}

// Add takes in facts of a base that the primary has accepted with this stable offset, or that there are none. They count from now on. It
// returns what is to be appended to the log; nil where there is nothing to do, or a later era has begun: then they do not count any more.
//
// settled says that no other commit can write a source row without knowing of these facts.
func (l *Ledger) Add(base int32, topicID [16]byte, era int64, added []region.Fact, stable int64, settled bool) *Append {
	if len(added) == 0 && (l.era < 0 || era > l.era && stable <= 0) { // there is nothing, or nothing that could say that it is over
		return nil
	}
	if !l.begin(topicID, era) {
		return nil
	}
	a := &Append{l: l, topicID: topicID, era: era}
	r := l.region(base)
	r.Add(added...)
	l.raise(stable)
	puts, deletes := r.Amend(added, l.stable, MaxDeletes)
	a.puts, a.deletes = l.ids(nil, base, puts), l.ids(nil, base, deletes)
	for _, other := range slices.Sorted(maps.Keys(l.regions)) {
		if n := MaxDeletes - len(a.deletes); other != base && n > 0 {
			_, deletes := l.regions[other].Amend(nil, l.stable, n)
			a.deletes = l.ids(a.deletes, other, deletes)
		}
	}
	if dropped := len(added) > 0 || len(a.deletes) > 0; l.stable > l.mark && (l.mark == 0 || !settled && dropped) {
		a.puts = append(a.puts, id{anyBase, era, markAt(l.stable)})
	}
	for _, of := range a.puts {
		l.pending[of]++
	}
	return a
}

func (l *Ledger) ids(dst []id, base int32, facts []region.Fact) []id {
	for _, f := range facts {
		dst = append(dst, id{base, l.era, f})
	}
	return dst
}

// Puts are the records that add. The client is answered when they are durable.
func (a *Append) Puts() []record.Record { return a.records(a.puts, false) }

// Failed says that it is not known whether the puts are in the log.
func (a *Append) Failed() {
	a.arrived()
	if l := a.l; l.era == a.era && len(l.pending) == 0 && !l.lasts() {
		l.forget()
	}
}

func (a *Append) arrived() {
	for _, of := range a.puts {
		if a.l.pending[of]--; a.l.pending[of] == 0 {
			delete(a.l.pending, of)
		}
	}
}

// Stored says that the puts are durable, and returns the records to delete now.
func (a *Append) Stored() []record.Record {
	a.arrived()
	l := a.l
	if l.era != a.era {
		for _, of := range a.puts {
			l.outlived(of)
		}
		a.deletes = nil // they are remembered as those of an era that is over
	} else {
		n := len(a.puts)
		if n > 0 && a.puts[n-1].base == anyBase {
			n--
			l.stored(anyBase, facts(a.puts[n:]))
		}
		if n > 0 {
			l.stored(a.puts[0].base, facts(a.puts[:n]))
		}
		for _, at := range slices.Sorted(maps.Keys(l.marks)) {
			if at < l.mark {
				a.deletes = append(a.deletes, id{anyBase, l.era, markAt(at)})
			}
		}
	}
	if len(l.stale) > 0 && l.lasts() {
		old := slices.SortedFunc(maps.Keys(l.stale), id.compare)
		clear(l.stale)
		a.deletes = append(a.deletes, old...)
	}
	return a.records(a.deletes, true)
}

// lasts reports whether the log holds a record of the era, so that those before it can go.
func (l *Ledger) lasts() bool {
	if len(l.marks) > 0 {
		return true
	}
	for _, r := range l.regions {
		for range r.Records() {
			return true
		}
	}
	return false
}

// Deleted says whether what Stored returned is durably gone.
func (a *Append) Deleted(ok bool) {
	for _, of := range a.deletes {
		switch {
		case of.era != a.l.era:
			if !ok {
				a.l.outlived(of)
			}
		case ok:
			a.l.gone(of)
		}
	}
}

func facts(of []id) []region.Fact {
	facts := make([]region.Fact, len(of))
	for i := range of {
		facts[i] = of[i].fact
	}
	return facts
}

func (a *Append) records(of []id, gone bool) []record.Record {
	p := a.l.place
	records := make([]record.Record, len(of))
	for i, o := range of {
		records[i] = record.Record{Group: p.Group, Topic: p.Topic, Partition: p.Partition, Base: o.base, Era: o.era, Fact: o.fact, Delete: gone}
		if !gone {
			records[i].TopicID = a.topicID
		}
	}
	return records
}

func (i id) compare(o id) int {
	return cmp.Or(cmp.Compare(i.era, o.era), cmp.Compare(i.base, o.base), cmp.Compare(i.fact.Keys.First, o.fact.Keys.First), cmp.Compare(i.fact.Keys.Last, o.fact.Keys.Last),
		cmp.Compare(i.fact.First, o.fact.First), cmp.Compare(i.fact.Last, o.fact.Last))
}
