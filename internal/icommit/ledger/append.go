package ledger

import (
	"cmp"
	"errors"
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

// ErrOver says that facts are of an era that is over, or of a topic that is gone: they do not count, and are to be committed again.
var ErrOver = errors.New("a later era of the group's progress has begun")

// Add takes in facts of a base that the primary has accepted with this stable offset, or that there are none. They count from now on. It
// returns what is to be appended to the log, nil where there is nothing to do, or ErrOver.
func (l *Ledger) Add(base int32, topicID [16]byte, era int64, added []region.Fact, stable int64) (*Append, error) {
	if len(added) == 0 && (l.era < 0 || era > l.era && stable <= 0) { // there is nothing, or nothing that could say that it is over
		return nil, nil
	}
	switch {
	case l.begin(topicID, era):
	case len(added) == 0:
		return nil, nil
	default:
		return nil, ErrOver
	}
	a := &Append{l: l, topicID: topicID, era: era}
	l.raise(stable)
	if len(added) > 0 {
		r := l.region(base)
		r.Add(added...)
		l.share(base, added)
		puts, deletes := r.Amend(added, l.stable, MaxDeletes)
		a.puts, a.deletes = ids(nil, base, era, puts), ids(nil, base, era, deletes)
	}
	for _, other := range slices.Sorted(maps.Keys(l.regions)) {
		if n := MaxDeletes - len(a.deletes); (other != base || len(added) == 0) && n > 0 {
			_, deletes := l.regions[other].Amend(nil, l.stable, n)
			a.deletes = ids(a.deletes, other, era, deletes)
		}
	}
	if dropped := len(added) > 0 || len(a.deletes) > 0; l.stable > l.mark && (l.mark == 0 || dropped) {
		a.puts = append(a.puts, id{anyBase, era, markAt(l.stable)})
	}
	a.deletes = slices.DeleteFunc(a.deletes, l.leaves)
	for _, of := range a.puts {
		l.pending[of]++
	}
	return a, nil
}

// leaves reports whether the deletion of a record is under way.
func (l *Ledger) leaves(of id) bool { _, is := l.leaving[of]; return is }

func ids(dst []id, base int32, era int64, facts []region.Fact) []id {
	for _, f := range facts {
		dst = append(dst, id{base, era, f})
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
			if of := (id{anyBase, l.era, markAt(at)}); at < l.mark && !l.leaves(of) {
				a.deletes = append(a.deletes, of)
			}
		}
		a.deletes = slices.DeleteFunc(a.deletes, l.leaves) // of another commit that was under way
		for _, of := range a.deletes {
			l.leaving[of] = false
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
		seen := a.l.leaving[of]
		delete(a.l.leaving, of)
		switch {
		case of.era != a.l.era:
			if !ok {
				a.l.outlived(of)
			}
		case ok && !seen: // else the log has said so, and perhaps since that the record is back
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
