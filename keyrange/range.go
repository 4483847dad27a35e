package keyrange

import "fmt"

// Range is a key range: the positions First to Last, both inclusive, First <= Last.
type Range struct{ First, Last uint32 }

// Full is the whole key axis.
var Full = Range{0, 1<<32 - 1}

// Valid reports whether First <= Last.
func (r Range) Valid() bool { return r.First <= r.Last }

// Contains reports whether position lies in r.
func (r Range) Contains(position uint32) bool { return r.First <= position && position <= r.Last }

// Covers reports whether all of other lies in r.
func (r Range) Covers(other Range) bool { return r.First <= other.First && other.Last <= r.Last }

// Overlaps reports whether r and other have a position in common.
func (r Range) Overlaps(other Range) bool { return r.First <= other.Last && other.First <= r.Last }

// Intersect returns what r and other have in common; false if nothing.
func (r Range) Intersect(other Range) (Range, bool) {
	i := Range{max(r.First, other.First), min(r.Last, other.Last)}
	return i, i.Valid()
}

// Len is the number of positions in r, 1 to 2^32.
func (r Range) Len() uint64 { return uint64(r.Last) - uint64(r.First) + 1 }

func (r Range) String() string { return fmt.Sprintf("[%08x-%08x]", r.First, r.Last) }
