package facts

import (
	"maps"
	"slices"

	"github.com/tandem-kafka/tandem/internal/icommit/ledger"
	factrecord "github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/progress"
)

// factLog is the partition of the fact log: records in the order in which they were appended. Compaction leaves holes.
type factLog struct {
	id      int // another one after the topic was deleted
	n       int // how many were ever appended
	records []*entry
}

type entry struct {
	at  int // offset
	key string
	rec factrecord.Record
}

func (l *factLog) append(records []factrecord.Record) {
	for i := range records {
		l.records = append(l.records, &entry{l.n, string(factrecord.AppendKey(nil, &records[i])), records[i]})
		l.n++
	}
}

// drop removes all that was appended with the keys of some records, as compaction does in the end, and reports whether any other was.
func (l *factLog) drop(records []factrecord.Record) (others bool) {
	for i := range records {
		key := string(factrecord.AppendKey(nil, &records[i]))
		l.records = slices.DeleteFunc(l.records, func(e *entry) bool {
			others = others || e.key == key && !e.rec.Delete
			return e.key == key
		})
	}
	return others
}

// compact removes records of which there is a later one, and tombstones that everybody has read.
func (l *factLog) compact(read int) {
	last := map[string]int{}
	for _, e := range l.records {
		last[e.key] = e.at
	}
	l.records = slices.DeleteFunc(l.records, func(e *entry) bool { return last[e.key] != e.at || e.rec.Delete && e.at < read })
}

// live are the records that are not deleted, in the order of the log.
func (l *factLog) live() (records []factrecord.Record) {
	last := map[string]*entry{}
	for _, e := range l.records {
		last[e.key] = e
	}
	for _, e := range slices.SortedFunc(maps.Values(last), func(a, b *entry) int { return a.at - b.at }) {
		if !e.rec.Delete {
			records = append(records, e.rec)
		}
	}
	return records
}

// from are the records at or behind an offset.
func (l *factLog) from(at int) (records []factrecord.Record) {
	for _, e := range l.records {
		if e.at >= at {
			records = append(records, e.rec)
		}
	}
	return records
}

// newLedger is what a gateway knows of the log that has read none of it.
func newLedger() *ledger.Ledger { return ledger.New(ledger.Place{Group: "g", Topic: "t"}) }

// topicID is the source topic's.
var topicID = [16]byte{7}

// baseOf is the base that the log has for one of the model's.
func baseOf(base int) int32 { return int32(base + 1) }

// attach tells a picture of the facts.
func attach(p *progress.Picture, l *ledger.Ledger, base int) {
	l.Attach(p, baseOf(base), topicID, func(f progress.Facts) progress.Facts { return f })
}
