package ledger

import (
	"slices"

	"github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/region"
)

// Era is the latest era that any record names; -1: there is none.
func (l *Ledger) Era() int64 { return l.era }

// Remains returns up to n records to delete, for the group is gone: all that the log has up to an era, but for one. That one says which era was the last: what another gateway
// may still be about to write must not count in an era of the same number. last asks for that one as well, once nothing can be about to be written.
func (l *Ledger) Remains(era int64, n int, last bool) []record.Record {
	if l.era < 0 || l.era > era {
		return nil // who opened the later one deletes what was before
	}
	var ids []id
	for of := range l.stale {
		ids = append(ids, of)
		if len(ids) == n {
			return l.deletions(ids)
		}
	}
	for at := range l.marks {
		if at < l.mark || last {
			ids = append(ids, id{anyBase, l.era, markAt(at)})
		}
	}
	spare := !last && l.mark == 0
	for base, r := range l.regions {
		for fact := range r.Records() {
			switch {
			case spare:
				spare = false
			case len(ids) >= n:
				return l.deletions(ids)
			default:
				ids = append(ids, id{base, l.era, fact})
			}
		}
	}
	return l.deletions(ids)
}

func (l *Ledger) deletions(ids []id) []record.Record {
	slices.SortFunc(ids, id.compare)
	return (&Append{l: l}).records(ids, true)
}

// Left says that records of Remains are durably gone, and what they said with them.
func (l *Ledger) Left(era int64, gone []record.Record) {
	l.Replay(gone)
	if l.era != era {
		return
	}
	left := map[int32][]region.Fact{}
	for at := range l.marks {
		left[anyBase] = append(left[anyBase], markAt(at))
	}
	for base, r := range l.regions {
		left[base] = slices.AppendSeq(left[base], r.Records())
	}
	l.start(l.topicID, era)
	for base, facts := range left {
		l.stored(base, facts)
	}
}
