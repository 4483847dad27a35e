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
	decided map[*txn]bool // those whose markers are in the log
}

func newLog(id int) *factLog { return &factLog{id: id, decided: map[*txn]bool{}} }

type entry struct {
	at     int // offset
	key    string
	rec    factrecord.Record
	of     *txn // nil: outside of transactions
	marker bool // it says that the transaction is decided, and nothing else
}

// open reports whether the log does not say what became of a record.
func (l *factLog) open(e *entry) bool { return e.of != nil && !l.decided[e.of] }

// aborted reports whether the log says that a record counts for nothing.
func (l *factLog) aborted(e *entry) bool { return e.of != nil && l.decided[e.of] && !e.of.committed }

func (l *factLog) append(of *txn, records []factrecord.Record) {
	for i := range records {
		l.records = append(l.records, &entry{at: l.n, key: string(factrecord.AppendKey(nil, &records[i])), rec: records[i], of: of})
		l.n++
	}
}

// mark appends the marker of a transaction.
func (l *factLog) mark(t *txn) {
	l.records = append(l.records, &entry{at: l.n, of: t, marker: true})
	l.n++
	l.decided[t] = true
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

// compact removes, up to the first record that is not decided: records that are aborted, those of which there is a later one, and tombstones and markers that
// everybody has read.
func (l *factLog) compact(read int) {
	stable := l.n
	last, left := map[string]int{}, map[*txn]bool{}
	for _, e := range l.records {
		if l.open(e) {
			stable = e.at
			break
		}
		if !e.marker && !l.aborted(e) {
			last[e.key] = e.at
		}
	}
	goes := func(e *entry) bool {
		switch {
		case e.at >= stable:
			return false
		case e.marker:
			return e.at < read && !left[e.of]
		}
		return l.aborted(e) || last[e.key] != e.at || e.rec.Delete && e.at < read
	}
	l.records = slices.DeleteFunc(l.records, func(e *entry) bool {
		if goes(e) {
			return true
		}
		left[e.of] = left[e.of] || !e.marker // its marker comes later
		return false
	})
}

// compacted is the log as a compaction leaves it.
func (l *factLog) compacted() *factLog {
	c := *l
	c.records = slices.Clone(l.records)
	c.compact(l.n)
	return &c
}

// live are the records that count, in the order of the log.
func (l *factLog) live() (records []factrecord.Record) {
	last := map[string]*entry{}
	for _, e := range l.records {
		if !e.marker && !l.open(e) && !l.aborted(e) {
			last[e.key] = e
		}
	}
	for _, e := range slices.SortedFunc(maps.Values(last), func(a, b *entry) int { return a.at - b.at }) {
		if !e.rec.Delete {
			records = append(records, e.rec)
		}
	}
	return records
}

// replay gives what is in the log from one offset to another to who reads it.
func (l *factLog) replay(to *ledger.Ledger, open *ledger.Undecided, from, end int) {
	for _, e := range l.records {
		switch of := []factrecord.Record{e.rec}; {
		case e.at < from || e.at >= end:
		case e.marker:
			to.Replay(open.Decide(e.of.producer.id, e.of.committed))
		case e.of != nil:
			open.Add(e.of.name(), of)
		default:
			open.Passed(of)
			to.Replay(of)
		}
	}
}

// reader is a gateway that has read a log, and knows nothing else.
func (w *world) reader(l *factLog) *gateway {
	g := &gateway{w: w, ledger: newLedger(), open: &ledger.Undecided{}}
	l.replay(g.ledger, g.open, 0, l.n)
	return g
}

// newLedger is what a gateway knows of the log that has read none of it.
func newLedger() *ledger.Ledger { return ledger.New(ledger.Place{Group: "g", Topic: "t"}) }

// topicID is the source topic's.
var topicID = [16]byte{7}

// baseOf is the base that the log has for one of the model's.
func baseOf(base int) int32 { return int32(base + 1) }

// attach tells a picture of the facts that a gateway knows.
func attach(p *progress.Picture, g *gateway, base int) {
	g.ledger.Attach(p, baseOf(base), topicID, func(f progress.Facts) progress.Facts { return f })
	p.SetUndecided(g.open.Over(baseOf(base)))
}
