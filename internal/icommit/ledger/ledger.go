package ledger

import (
	"github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/tandem-kafka/tandem/internal/region"
	"github.com/tandem-kafka/tandem/keyrange"
)

// Place is what a Ledger is of.
type Place struct {
	Group, Topic    string
	Partition, Base int32
}

// Ledger holds the facts of the highest era that any were told of.
type Ledger struct {
	place   Place
	topicID [16]byte
	era     int64
	region  *region.Region // nil: no facts yet
	stale   []region.Fact  // records of eras and topics that are over, to be deleted
}

// MaxDeletes bounds the records that one commit deletes, and those of former eras that are remembered at a time: the
// others stay in the log until it is read again.
const MaxDeletes = 60_000

// New returns an empty ledger.
func New(p Place) *Ledger { return &Ledger{place: p, era: -1} }

// Replay takes in records of the place that were read from the log, in its order.
func (l *Ledger) Replay(records []record.Record) {
	for i := range records {
		r := &records[i]
		fact := r.Fact
		switch {
		case r.Delete:
			if l.region != nil {
				l.region.ReplayDelete(fact)
			}
		case l.begin(r.TopicID, r.Era):
			l.region.Replay(fact)
		default:
			l.outlived(fact)
		}
	}
}

// same reports whether two topic ids can be of one topic: zero is that of a cluster without ids.
func same(a, b [16]byte) bool { return a == b || a == [16]byte{} || b == [16]byte{} }

// begin makes era of the topic the current one, unless it is over.
func (l *Ledger) begin(topicID [16]byte, era int64) bool {
	if same(l.topicID, topicID) && era < l.era {
		return false
	}
	if l.region != nil && same(l.topicID, topicID) && era == l.era {
		return true
	}
	if l.region != nil {
		for fact := range l.region.Records() {
			l.outlived(fact)
		}
	}
	l.topicID, l.era, l.region = topicID, era, region.New(0)
	return true
}

func (l *Ledger) outlived(fact region.Fact) {
	if len(l.stale) < MaxDeletes {
		l.stale = append(l.stale, fact)
	}
}

// is reports whether the facts are those of an era of the topic.
func (l *Ledger) is(topicID [16]byte, era int64) bool {
	return l.region != nil && l.era == era && same(l.topicID, topicID)
}

// Facts are those to tell a picture of, and their era; false: there are none of the topic. They follow what happens to the ledger.
func (l *Ledger) Facts(p *progress.Picture, topicID [16]byte) (era int64, facts progress.Facts, ok bool) {
	if l.region == nil || !same(l.topicID, topicID) {
		return 0, nil, false
	}
	if offset, ours := p.Source(); ours && p.Era() == l.era {
		l.region.SetStable(offset)
	}
	return l.era, l.region, true
}

// With is what counts in an era if these facts are added. It follows what happens to the ledger.
func (l *Ledger) With(topicID [16]byte, era int64, added []region.Fact) progress.Facts {
	if l.is(topicID, era) {
		return l.region.With(added)
	}
	return region.New(0).With(added)
}

// Ranges is the number of offset ranges in an era above the stable offset, about.
func (l *Ledger) Ranges(era int64) int {
	if l.region == nil || l.era != era {
		return 0
	}
	size := l.region.Size()
	return size.Records + size.Others
}

// Grows reports whether facts would add to the offset ranges of an era.
func (l *Ledger) Grows(era int64, added []region.Fact, stable int64) bool {
	if l.region == nil || l.era != era {
		return true
	}
	puts, deletes := l.region.Amend(added, stable, 0)
	return len(puts) > len(deletes)
}

// Committed is what is done above the stable offset of a picture: by facts, and by the rows of views. limit is the most offset ranges.
func (l *Ledger) Committed(p *progress.Picture, topicID [16]byte, keys keyrange.Set, stable int64, limit int) []region.Committed {
	all := region.New(stable)
	for j := range p.Width() {
		if done := p.Done(j); done > stable {
			all.Add(region.Fact{Keys: keyrange.OfSlice(j, p.Width()), Last: done - 1})
		}
	}
	if l != nil && p.HasFacts() && l.is(topicID, p.Era()) {
		of, _ := l.region.Committed(keys, stable, limit)
		for _, c := range of {
			for _, o := range c.Offsets {
				all.Add(region.Fact{Keys: c.Keys, First: o.First, Last: o.Last})
			}
		}
	}
	of, _ := all.Committed(keys, stable, limit)
	return of
}
