package ledger

import (
	"slices"

	"github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/tandem-kafka/tandem/internal/region"
	"github.com/tandem-kafka/tandem/keyrange"
)

// Undecided holds the records of one place that transactions have appended which are not decided. They say nothing yet. Its methods are to be called in the
// order of the log. The zero value is empty; one is not safe for concurrent use.
//
// What a transaction that is committed has appended counts from its place in the log on, not from that of its marker: so it is with compaction, which keeps the last record of
// a key. What was appended later with the same key, and was decided before, stands.
type Undecided struct {
	arrived int64 // records, in the order of the log
	open    map[int64]*transaction
	keys    map[id]*contended
	facts   int // that would count if all were committed: those of contended.facts
}

// Producer names a producer, as its batches do. Kafka has no more than one open transaction of one in a partition; its epoch tells it from those of before, whose markers may still be on
// their way when it begins.
type Producer struct {
	ID    int64
	Epoch int16
}

// transaction is what a producer has appended, in the order of the log.
type transaction struct {
	epoch   int16
	records []arrival
	last    map[id]int // the index of the last of each key
}

type arrival struct {
	record.Record
	at int64 // 0: the transaction itself has replaced it
}

// contended is a key of which transactions that are not decided have records.
type contended struct {
	open    int     // how many do
	decided int64   // when the last record arrived that is decided; 0: none
	facts   []int64 // when those arrived that say it is done, and later than that
}

// forget drops facts of a key.
func (u *Undecided) forget(k *contended, of func(at int64) bool) {
	n := len(k.facts)
	k.facts = slices.DeleteFunc(k.facts, of)
	u.facts -= n - len(k.facts)
}

func idOf(r *record.Record) id { return id{r.Base, r.Era, r.Fact} }

// Add takes in records that were read in a batch of a transaction.
func (u *Undecided) Add(p Producer, records []record.Record) {
	if u.open == nil {
		u.open, u.keys = map[int64]*transaction{}, map[id]*contended{}
	}
	t := u.open[p.ID]
	if t != nil && t.epoch != p.Epoch { // its marker could not be read
		u.Decide(p.ID, false)
		t = nil
	}
	if t == nil {
		t = &transaction{epoch: p.Epoch, last: map[id]int{}}
		u.open[p.ID] = t
	}
	for _, r := range records {
		of := idOf(&r)
		k := u.keys[of]
		if k == nil {
			k = &contended{}
			u.keys[of] = k
		}
		if i, ok := t.last[of]; ok {
			replaced := t.records[i].at
			u.forget(k, func(at int64) bool { return at == replaced })
			t.records[i].at = 0
		} else {
			k.open++
		}
		t.last[of] = len(t.records)
		u.arrived++
		t.records = append(t.records, arrival{r, u.arrived})
		if !r.Delete {
			k.facts = append(k.facts, u.arrived)
			u.facts++
		}
	}
}

// Decide takes in that the transaction of a producer is committed, or aborted. It returns what Ledger.Replay is to be given now, in the order of the log.
func (u *Undecided) Decide(producer int64, commit bool) (decided []record.Record) {
	t := u.open[producer]
	if t == nil {
		return nil
	}
	delete(u.open, producer)
	for i := range t.records {
		r := &t.records[i]
		if r.at == 0 {
			continue
		}
		of := idOf(&r.Record)
		k := u.keys[of]
		if commit && r.at > k.decided {
			k.decided = r.at
			decided = append(decided, r.Record)
		}
		u.forget(k, func(at int64) bool { return at <= k.decided || at == r.at })
		if k.open--; k.open == 0 {
			delete(u.keys, of)
		}
	}
	return decided
}

// Passed takes in records that were read outside of transactions: they stand, whatever becomes of those of the same keys that were read before.
func (u *Undecided) Passed(records []record.Record) {
	for i := range records {
		u.arrived++
		if k := u.keys[idOf(&records[i])]; k != nil {
			k.decided = u.arrived
			u.forget(k, func(int64) bool { return true })
		}
	}
}

// puts calls f with what would say that something is done if its transaction were committed now, until that is false.
func (u *Undecided) puts(f func(r *record.Record) bool) {
	for _, t := range u.open {
		for i := range t.records {
			if r := &t.records[i]; r.at > 0 && !r.Delete && r.at > u.keys[idOf(&r.Record)].decided && !f(&r.Record) {
				return
			}
		}
	}
}

// Len is the number of facts that are not decided.
func (u *Undecided) Len() int { return u.facts }

// Offsets calls f with the offsets of each fact that is not decided, in no order.
func (u *Undecided) Offsets(f func(region.OffsetRange)) {
	u.puts(func(r *record.Record) bool { f(r.Fact.Offsets()); return true })
}

// Of is what the transaction that a producer has open at this epoch says is done, for a base, in the highest era of all that it has appended, and that era; -1: it has appended
// nothing.
func (u *Undecided) Of(p Producer, base int32) (facts []region.Fact, era int64) {
	era = -1
	u.of(p, func(r *record.Record) {
		if r.Era > era {
			era, facts = r.Era, nil
		}
		if r.Era == era && r.Base == base {
			facts = append(facts, r.Fact)
		}
	})
	return facts, era
}

// Missing are those of the records that the transaction which a producer has open at this epoch has not appended.
func (u *Undecided) Missing(p Producer, records []record.Record) (missing []record.Record) {
	has := map[id]bool{}
	u.of(p, func(r *record.Record) { has[idOf(r)] = true })
	for i := range records {
		if !has[idOf(&records[i])] {
			missing = append(missing, records[i])
		}
	}
	return missing
}

// of calls f with what the transaction says is done.
func (u *Undecided) of(p Producer, f func(r *record.Record)) {
	t := u.open[p.ID]
	if t == nil || t.epoch != p.Epoch {
		return
	}
	for i := range t.records {
		if r := &t.records[i]; r.at > 0 && !r.Delete {
			f(&r.Record)
		}
	}
}

// Deletions are to be appended where a group is gone, outside of transactions: otherwise what is not decided would count in a group of the same name.
func (u *Undecided) Deletions() []record.Record {
	var ids []id
	of := map[id]record.Record{}
	u.puts(func(r *record.Record) bool {
		if _, ok := of[idOf(r)]; !ok {
			ids = append(ids, idOf(r))
		}
		of[idOf(r)] = *r
		return true
	})
	slices.SortFunc(ids, id.compare)
	records := make([]record.Record, len(ids))
	for i := range ids {
		records[i] = of[ids[i]]
		records[i].Delete, records[i].TopicID = true, [16]byte{}
	}
	return records
}

// Over is what a picture of a base is to be told.
func (u *Undecided) Over(base int32) progress.Undecided { return undecidedOf{u, base} }

type undecidedOf struct {
	u    *Undecided
	base int32
}

// Eras implements progress.Undecided.
func (o undecidedOf) Eras() (eras []int64) {
	o.u.puts(func(r *record.Record) bool {
		if !slices.Contains(eras, r.Era) {
			eras = append(eras, r.Era)
		}
		return true
	})
	return eras
}

// Touches implements progress.Undecided. Positions of another base cannot be compared.
func (o undecidedOf) Touches(era int64, keys keyrange.Range) (touches bool) {
	o.u.puts(func(r *record.Record) bool {
		touches = r.Era == era && (r.Base != o.base || r.Fact.Keys.Overlaps(keys))
		return !touches
	})
	return touches
}
