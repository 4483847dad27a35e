package region

import (
	"fmt"
	"math"

	"github.com/tandem-kafka/tandem/keyrange"
)

// OffsetRange is the offsets First to Last of a partition, both inclusive, 0 <= First <= Last < 2^63-1.
type OffsetRange struct{ First, Last int64 }

func (r OffsetRange) String() string { return fmt.Sprintf("[%d-%d]", r.First, r.Last) }

func (r OffsetRange) valid() bool { return 0 <= r.First && r.First <= r.Last && r.Last < math.MaxInt64 }

func (r OffsetRange) covers(o OffsetRange) bool { return r.First <= o.First && o.Last <= r.Last }

// compare orders by First, then by Last.
func (r OffsetRange) compare(o OffsetRange) int {
	switch {
	case r.First < o.First || r.First == o.First && r.Last < o.Last:
		return -1
	case r == o:
		return 0
	}
	return 1
}

// Fact says that at the positions Keys the offsets First to Last, both inclusive, are done. That everything below an offset W is
// done, a watermark, is the fact [0, W-1].
type Fact struct {
	Keys        keyrange.Range
	First, Last int64
}

// Valid reports whether the key range is valid and 0 <= First <= Last < 2^63-1. A Region ignores facts that are not.
func (f Fact) Valid() bool { return f.Keys.Valid() && f.Offsets().valid() }

// Offsets are those of the fact.
func (f Fact) Offsets() OffsetRange { return OffsetRange{f.First, f.Last} }

func (f Fact) String() string { return f.Keys.String() + " x " + f.Offsets().String() }

// runs calls f with facts that follow each other, as long as they are of one key range and their offsets are sorted and disjoint. It
// leaves out those that are not valid or end below from.
func runs(facts []Fact, from int64, f func(keys keyrange.Range, run []OffsetRange)) {
	var keys keyrange.Range
	var run []OffsetRange
	for _, fact := range facts {
		if !fact.Valid() || fact.Last < from {
			continue
		}
		if n := len(run); n > 0 && (fact.Keys != keys || fact.First <= run[n-1].Last) {
			f(keys, run)
			run = run[:0]
		}
		keys, run = fact.Keys, append(run, fact.Offsets())
	}
	if len(run) > 0 {
		f(keys, run)
	}
}
