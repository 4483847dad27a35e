package split

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"sort"

	"github.com/tandem-kafka/tandem/keyrange"
)

// MaxLayoutSlices is the largest number of slices of a Layout.
const MaxLayoutSlices = 1<<16 - 2

// Layout cuts the key axis into slices of any key ranges. What lies in none of them is left out of the blocks and not
// copied. A Layout never changes; two of them are the same slicing only if they are the same Layout.
type Layout struct {
	k      int32
	starts []uint32 // interval i of the axis begins at starts[i] and ends where the next begins; starts[0] is 0
	owner  []uint16 // the slice of each interval, k: none
	cells  []uint16 // the slice by the low bits of x, which are the high bits of its position; mixedCell: they do not decide
}

const (
	mixedCell = 1<<16 - 1
	minCells  = 64
	maxCells  = 4096 // 8 KiB, a part of the first level cache
)

// NewLayout returns the layout whose slice i has the key ranges sets[i]; an empty set makes a slice without records. The
// sets are valid and disjoint, their number is 1 to MaxLayoutSlices; otherwise it returns an error.
func NewLayout(sets []keyrange.Set) (*Layout, error) {
	if len(sets) < 1 || len(sets) > MaxLayoutSlices {
		return nil, fmt.Errorf("split: a layout of %d slices, need 1 to %d", len(sets), MaxLayoutSlices)
	}
	type piece struct {
		keyrange.Range
		slice int
	}
	var pieces []piece
	for i, set := range sets {
		if err := set.Validate(); err != nil {
			return nil, fmt.Errorf("split: slice %d of a layout: %w", i, err)
		}
		for _, r := range set {
			pieces = append(pieces, piece{r, i})
		}
	}
	slices.SortFunc(pieces, func(a, b piece) int { return cmp.Compare(a.First, b.First) })
	l := &Layout{k: int32(len(sets)), starts: make([]uint32, 0, 2*len(pieces)+1), owner: make([]uint16, 0, 2*len(pieces)+1)}
	next := uint64(0) // what lies below has its interval
	for i, p := range pieces {
		if i > 0 && p.Overlaps(pieces[i-1].Range) {
			return nil, fmt.Errorf("split: slices %d and %d of a layout overlap: %v, %v", pieces[i-1].slice, p.slice, pieces[i-1].Range, p.Range)
		}
		if next < uint64(p.First) {
			l.interval(uint32(next), uint16(l.k))
		}
		l.interval(p.First, uint16(p.slice))
		next = uint64(p.Last) + 1
	}
	if next <= uint64(keyrange.Full.Last) {
		l.interval(uint32(next), uint16(l.k))
	}
	l.fillCells()
	return l, nil
}

func (l *Layout) interval(start uint32, owner uint16) {
	if n := len(l.owner); n > 0 && l.owner[n-1] == owner {
		return
	}
	l.starts, l.owner = append(l.starts, start), append(l.owner, owner)
}

// fillCells makes the table that decides for nearly all keys: with 16 cells for each bound only one key in 16 needs a search.
func (l *Layout) fillCells() {
	n := minCells
	for n < maxCells && n < 16*len(l.starts) {
		n *= 2
	}
	l.cells = make([]uint16, n)
	width := uint64(1) << 32 / uint64(n)
	i := 0 // the interval that holds first
	for first := uint64(0); first < 1<<32; first += width {
		for i+1 < len(l.starts) && uint64(l.starts[i+1]) <= first {
			i++
		}
		cell := l.owner[i]
		if i+1 < len(l.starts) && uint64(l.starts[i+1]) < first+width {
			cell = mixedCell
		}
		l.cells[keyrange.SliceOf(uint32(first), int32(n))] = cell
	}
}

// find returns the interval that holds position.
func (l *Layout) find(position uint32) int {
	return sort.Search(len(l.starts), func(i int) bool { return l.starts[i] > position }) - 1
}

// ofX is the slice of the bit-reversed position x, k: none.
func (l *Layout) ofX(x uint32) uint32 {
	if cell := l.cells[x&uint32(len(l.cells)-1)]; cell != mixedCell {
		return uint32(cell)
	}
	return uint32(l.owner[l.find(bits.Reverse32(x))])
}

// Slicing is the layout as a Slicing for keys that were partitioned by base.
func (l *Layout) Slicing(base int32) Slicing { return Slicing{Base: base, K: l.k, Layout: l} }

// SliceOf is the slice that holds position, false if none does.
func (l *Layout) SliceOf(position uint32) (int32, bool) {
	s := int32(l.owner[l.find(position)])
	return s, s < l.k
}

// Bytes is the memory that the layout holds.
func (l *Layout) Bytes() int { return 96 + 4*cap(l.starts) + 2*cap(l.owner) + 2*cap(l.cells) }
