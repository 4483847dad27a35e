package ledger

import (
	"github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/tandem-kafka/tandem/internal/region"
	"github.com/tandem-kafka/tandem/keyrange"
)

// Place is what a Ledger is of.
type Place struct {
	Group, Topic string
	Partition    int32
}

// Ledger holds the facts of the highest era that any record names.
type Ledger struct {
	place   Place
	era     int64    // -1: there never was a record
	topicID [16]byte // of the facts
	stable  int64    // below it everything is done
	regions map[int32]*region.Region
	// shared is what the facts of each base say of all positions: it counts for every base. nil: nobody needed it yet.
	shared  *region.Region
	marks   map[int64]bool // the stable offsets of marks, for the era
	mark    int64          // the highest of them; 0: none
	stale   map[id]bool    // records of eras that are over, to be deleted
	pending map[id]int     // records on their way to the log
	leaving map[id]bool    // records whose deletion is on its way, and whether the log has said meanwhile that they are gone
	others  int
}

// id tells the records of a place apart.
type id struct {
	base int32
	era  int64
	fact region.Fact
}

// anyBase is the base of marks.
const anyBase = 0

// MaxDeletes bounds the records that one commit deletes, and those of former eras that are remembered at a time: the
// others stay in the log until it is read again.
const MaxDeletes = 60_000

// New returns an empty ledger.
func New(p Place) *Ledger {
	return &Ledger{place: p, era: -1, regions: map[int32]*region.Region{}, marks: map[int64]bool{}, stale: map[id]bool{}, pending: map[id]int{}, leaving: map[id]bool{}}
}

// Replay takes in records of the place that were read from the log, in its order.
func (l *Ledger) Replay(records []record.Record) {
	for i := range records {
		r := &records[i]
		of := id{r.Base, r.Era, r.Fact}
		if r.Delete && l.leaves(of) {
			l.leaving[of] = true
		}
		switch {
		case r.Delete && r.Era != l.era:
			delete(l.stale, of)
		case r.Delete:
			l.gone(of)
		case l.begin(r.TopicID, r.Era):
			if l.pending[of] == 0 && !l.has(of) {
				l.others++
			}
			l.stored(of.base, []region.Fact{of.fact})
		default:
			l.outlived(of)
		}
		if r.Delete && len(l.pending) == 0 && !l.lasts() {
			l.forget() // the group is gone, see Remains: who reads the log after its compaction knows no such era
		}
	}
}

// Others is how many records others than this ledger have added so far: it rises while another gateway writes for the group.
func (l *Ledger) Others() int { return l.others }

// same reports whether two topic ids can be of one topic: zero is that of a cluster without ids.
func same(a, b [16]byte) bool { return a == b || a == [16]byte{} || b == [16]byte{} }

// begin makes era the latest one, unless it is over.
func (l *Ledger) begin(topicID [16]byte, era int64) bool {
	if era <= l.era {
		return era == l.era && same(l.topicID, topicID)
	}
	for base, r := range l.regions {
		for fact := range r.Records() {
			l.outlived(id{base, l.era, fact})
		}
	}
	for stable := range l.marks {
		l.outlived(id{anyBase, l.era, markAt(stable)})
	}
	l.start(topicID, era)
	return true
}

func (l *Ledger) start(topicID [16]byte, era int64) {
	clear(l.regions)
	clear(l.marks)
	l.shared = nil
	l.topicID, l.era, l.stable, l.mark = topicID, era, 0, 0
}

// forget goes back to what the log has: no record of the era got there. Otherwise another gateway might open an era of the same
// number, after a reset, and what is known here would count in that.
func (l *Ledger) forget() {
	l.start(l.topicID, -1)
	for of := range l.stale {
		l.era = max(l.era, of.era)
	}
	for of := range l.stale {
		if of.era == l.era {
			l.stored(of.base, []region.Fact{of.fact})
			delete(l.stale, of)
		}
	}
}

func (l *Ledger) outlived(of id) {
	if len(l.stale) < MaxDeletes {
		l.stale[of] = true
	}
}

// markAt is the mark of a stable offset.
func markAt(stable int64) region.Fact { return region.Fact{Keys: keyrange.Full, Last: stable - 1} }

// factsOf are the facts of a base. They follow what happens to the ledger within its era.
type factsOf struct {
	l    *Ledger
	era  int64
	base int32
}

// Next implements progress.Facts.
func (f factsOf) Next(keys keyrange.Range, from int64, empty func(int64) int64) int64 {
	if f.l.era != f.era {
		return region.New(0).Next(keys, from, empty)
	}
	return f.l.look(f.base).Next(keys, from, empty)
}

// has reports whether the log is known to hold a record of the era.
func (l *Ledger) has(of id) bool {
	if of.base == anyBase {
		return l.marks[of.fact.Last+1]
	}
	r := l.regions[of.base]
	return r != nil && r.Holds(of.fact)
}

// stored takes in records of the era that are in the log.
func (l *Ledger) stored(base int32, facts []region.Fact) {
	if base != anyBase {
		l.region(base).Stored(facts)
		l.share(base, facts)
		return
	}
	for _, f := range facts {
		if f.First == 0 && f.Keys == keyrange.Full { // others are not ours
			l.marks[f.Last+1] = true
			l.mark = max(l.mark, f.Last+1)
			l.raise(f.Last + 1)
		}
	}
}

// raise says that everything below an offset is done.
func (l *Ledger) raise(stable int64) {
	if stable <= l.stable {
		return
	}
	l.stable = stable
	for _, r := range l.regions {
		r.SetStable(stable)
	}
	if l.shared != nil {
		l.shared.SetStable(stable)
	}
}

// gone takes in that a record of the era was deleted. What it said holds.
func (l *Ledger) gone(of id) {
	if of.base != anyBase {
		if r := l.regions[of.base]; r != nil {
			r.ReplayDelete(of.fact)
		}
		return
	}
	delete(l.marks, of.fact.Last+1)
	l.mark = 0
	for at := range l.marks {
		l.mark = max(l.mark, at)
	}
}

// is reports whether the facts are those of an era of the topic.
func (l *Ledger) is(topicID [16]byte, era int64) bool {
	return l.era == era && same(l.topicID, topicID)
}

// Attach tells a picture, whose facts are of this base, of what the log says. The facts follow what happens to the ledger; what the
// picture gets is what wrap makes of them.
func (l *Ledger) Attach(p *progress.Picture, base int32, topicID [16]byte, wrap func(progress.Facts) progress.Facts) {
	switch {
	case l.era < 0:
		return
	case !same(l.topicID, topicID):
		p.SetFacts(l.era+1, nil) // of a topic of the same name that is gone: the eras of this one are above
		return
	}
	p.SetFacts(l.era, wrap(factsOf{l, l.era, base}))
	if p.HasFacts() {
		offset, _ := p.Source()
		l.raise(offset)
	}
}

// With is what counts in an era if these facts are added. It follows what happens to the ledger.
func (l *Ledger) With(base int32, topicID [16]byte, era int64, added []region.Fact) progress.Facts {
	if l.is(topicID, era) {
		return l.look(base).With(added)
	}
	return region.New(0).With(added)
}

// Ranges is the number of offset ranges of an era above the stable offset, about.
func (l *Ledger) Ranges(era int64) (n int) {
	if l.era != era {
		return 0
	}
	copies := 0
	if l.shared != nil {
		copies = l.shared.Size().Others
	}
	for _, r := range l.regions {
		size := r.Size()
		n += size.Records + max(0, size.Others-copies)
	}
	return n
}

// Grows reports whether facts would add to the offset ranges of an era.
func (l *Ledger) Grows(base int32, era int64, added []region.Fact, stable int64) bool {
	if l.era != era {
		return true
	}
	puts, deletes := l.look(base).Amend(added, stable, 0)
	return len(puts) > len(deletes)
}

// Committed is what is done above the stable offset of a picture, whose facts are of this base: by facts, and by the rows of views. limit is
// the most offset ranges.
func (l *Ledger) Committed(p *progress.Picture, base int32, keys keyrange.Set, stable int64, limit int) []region.Committed {
	of, _ := l.above(p, base, keys, stable, limit).Committed(keys, stable, limit)
	return of
}

// Whole is what of that is done at all positions.
func (l *Ledger) Whole(p *progress.Picture, base int32, stable int64) []region.Fact {
	return l.above(p, base, keyrange.Set{keyrange.Full}, stable, 0).Whole(keyrange.Full, everything)
}

func (l *Ledger) above(p *progress.Picture, base int32, keys keyrange.Set, stable int64, limit int) *region.Region {
	all := region.New(stable)
	for j := range p.Width() {
		if done := p.Done(j); done > stable {
			all.Add(region.Fact{Keys: keyrange.OfSlice(j, p.Width()), Last: done - 1})
		}
	}
	if l != nil && p.HasFacts() {
		of, _ := l.look(base).Committed(keys, stable, limit)
		for _, c := range of {
			for _, o := range c.Offsets {
				all.Add(region.Fact{Keys: c.Keys, First: o.First, Last: o.Last})
			}
		}
	}
	return all
}
