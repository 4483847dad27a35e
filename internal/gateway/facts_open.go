package gateway

import (
	"cmp"
	"slices"
	"time"

	"github.com/tandem-kafka/tandem/internal/acquire"
	"github.com/tandem-kafka/tandem/internal/icommit"
	"github.com/tandem-kafka/tandem/internal/icommit/ledger"
	factrecord "github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/tandem-kafka/tandem/internal/region"
	"github.com/tandem-kafka/tandem/keyrange"
)

// This file holds the facts of transactions that are not decided. They count for
// nobody but the transaction itself, until its marker comes in the fact log.

// openIn is a producer's transaction in a partition of the fact log.
type openIn struct {
	log int32
	id  int64
}

// ApplyOpen implements icommit.TransactionHandler.
func (f *facts) ApplyOpen(partition int32, producer icommit.Producer, records []factrecord.Record) {
	runs(records, placeOf, func(k factKey, run []factrecord.Record) {
		s := f.ensure(k, partition)
		f.mu.Lock()
		at := openIn{partition, producer.ID}
		if !slices.Contains(f.open[at], k) {
			f.open[at] = append(f.open[at], k)
		}
		f.mu.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open.Add(ledger.Producer(producer), run)
	})
}

// Decide implements icommit.TransactionHandler.
func (f *facts) Decide(partition int32, id int64, commit bool) {
	f.mu.Lock()
	of := f.open[openIn{partition, id}]
	delete(f.open, openIn{partition, id})
	f.mu.Unlock()
	for _, k := range of {
		s := f.state(k)
		if s == nil {
			continue
		}
		s.mu.Lock()
		decided := s.open.Decide(id, commit)
		s.take(decided)
		s.mu.Unlock()
		f.gw.coop.facts(k, decided)
		f.gw.coop.decided(k)
	}
}

// own are the facts that the transaction of a producer has written already, for a
// base, and their era; -1: none.
func (f *facts) own(k partKey, producer icommit.Producer) (of []region.Fact, era int64) {
	s := f.state(k.facts())
	if s == nil {
		return nil, -1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open.Of(ledger.Producer(producer), k.base)
}

// propose is what a transaction has to append for facts, beside what it has
// appended already.
func (f *facts) propose(k partKey, producer icommit.Producer, era int64, added []region.Fact) ([]factrecord.Record, error) {
	s := f.ensure(k.facts(), -1)
	s.mu.Lock()
	defer s.mu.Unlock()
	records, err := s.ledger.Propose(k.base, k.source.TopicID, era, added)
	return s.open.Missing(ledger.Producer(producer), records), err
}

// written is how many of the records, of one group, a transaction has appended and
// not taken back.
func (f *facts) written(producer icommit.Producer, records []factrecord.Record) int {
	n := len(records)
	runs(records, placeOf, func(k factKey, run []factrecord.Record) {
		s := f.state(k)
		if s == nil {
			n -= len(run)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		n -= len(s.open.Missing(ledger.Producer(producer), run))
	})
	return n
}

// lockedUndecided are what a ledger.Undecided tells a picture, while others change it.
type lockedUndecided struct {
	s  *factState
	of progress.Undecided
}

func (l lockedUndecided) Eras() []int64 {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.of.Eras()
}

func (l lockedUndecided) Touches(era int64, keys keyrange.Range) bool {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.of.Touches(era, keys)
}

// undecided are the offsets that open transactions say are done, sorted and disjoint:
// nobody is to work on them meanwhile.
func (f *facts) undecided(k factKey) (of []acquire.Range) {
	s := f.state(k)
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open.Offsets(func(o region.OffsetRange) { of = append(of, acquire.Range{First: o.First, Last: o.Last}) })
	slices.SortFunc(of, func(a, b acquire.Range) int { return cmp.Compare(a.First, b.First) })
	n := 0
	for i, r := range of {
		if i > 0 && r.First <= of[n-1].Last+1 {
			of[n-1].Last = max(of[n-1].Last, r.Last)
			continue
		}
		of[n] = r
		n++
	}
	return of[:n]
}

// without is what is left of a range without those of a sorted list of disjoint ones.
func without(r acquire.Range, held []acquire.Range) (left []acquire.Range) {
	i, _ := slices.BinarySearchFunc(held, r.First, func(h acquire.Range, at int64) int { return cmp.Compare(h.Last, at) })
	for ; i < len(held) && held[i].First <= r.Last; i++ {
		if h := held[i]; h.First > r.First {
			left = append(left, acquire.Range{First: r.First, Last: h.First - 1})
		}
		r.First = held[i].Last + 1
	}
	if r.First <= r.Last {
		left = append(left, r)
	}
	return left
}

// take takes in decided records. s.mu is held.
func (s *factState) take(records []factrecord.Record) {
	before := s.ledger.Others()
	if s.ledger.Replay(records); s.ledger.Others() != before {
		s.others = time.Now()
	}
}

// pruneEvery is how often what transactions made redundant is deleted, at most.
const pruneEvery = time.Second

// pruneDue reports whether it is time for that, and takes it for done.
func (f *facts) pruneDue(k factKey) bool {
	s := f.state(k)
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	due := time.Since(s.pruned) > pruneEvery
	if due {
		s.pruned = time.Now()
	}
	return due
}
