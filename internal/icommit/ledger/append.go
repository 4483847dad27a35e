package ledger

import (
	"github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/region"
)

// Append is what a commit writes to the log.
type Append struct {
	l       *Ledger
	of      *region.Region
	puts    []region.Fact
	deletes []region.Fact
	stale   []region.Fact
	topicID [16]byte
	era     int64
}

// Add takes in facts that the primary has accepted with this stable offset. They count from now on. It returns what is to be appended
// to the log, nil where a later era has begun: then they do not count any more.
func (l *Ledger) Add(topicID [16]byte, era int64, added []region.Fact, stable int64) *Append {
	if !l.begin(topicID, era) {
		return nil
	}
	l.region.Add(added...)
	l.region.SetStable(stable)
	a := &Append{l: l, of: l.region, stale: l.stale, topicID: topicID, era: era}
	a.puts, a.deletes = l.region.Amend(added, stable, MaxDeletes)
	l.stale = nil
	return a
}

// Puts are the records that add. The client is answered when they are durable.
func (a *Append) Puts() []record.Record { return a.records(a.puts, false) }

// Stored says that the puts are durable, and returns the records to delete now.
func (a *Append) Stored() []record.Record {
	a.of.Stored(a.puts)
	for _, old := range a.stale {
		if a.l.region == nil || !a.l.region.Holds(old) { // a record of the current era may have the same key
			a.deletes = append(a.deletes, old)
		}
	}
	return a.records(a.deletes, true)
}

// Deleted says that what Stored returned is durably gone.
func (a *Append) Deleted() { a.of.Deleted(a.deletes) }

func (a *Append) records(of []region.Fact, gone bool) []record.Record {
	p := a.l.place
	records := make([]record.Record, len(of))
	for i, fact := range of {
		r := &records[i]
		*r = record.Record{
			Group: p.Group, Topic: p.Topic, Partition: p.Partition, Base: p.Base,
			Fact: fact, Delete: gone,
		}
		if !gone {
			r.TopicID, r.Era = a.topicID, a.era
		}
	}
	return records
}
