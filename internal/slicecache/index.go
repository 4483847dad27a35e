package slicecache

import "unsafe"

// Under key.range.hashing.load=key what was read for key ranges does not stay in memory, but where each of them has no record does: many
// more gaps than otherwise. A member that comes after the others jumps over them and reads the rest from the cluster again.
const (
	// indexBlocks stay in memory for each layout, for members that go on side by side.
	indexBlocks = 4
	// indexGaps bounds the gaps remembered for one slice.
	indexGaps = 4096
)

// keyIndex is what a sliced needs for that.
type keyIndex struct {
	on     bool
	recent []*block // the blocks in memory, oldest first
	bytes  int64    // charged for gaps
}

// setIndexOnly says how sl is read from now on.
func (sl *sliced) setIndexOnly(on bool) {
	if sl.index.on != on {
		sl.index.on, sl.index.recent = on, nil
	}
}

// gaps is the number of gaps that sl remembers for a slice.
func (sl *sliced) maxGaps() int {
	if sl.index.on {
		return indexGaps
	}
	return maxGaps
}

// keepFew makes room for b, which was put into memory. Who waited for the load of an older one was given it (waiter.block).
func (sl *sliced) keepFew(b *block) {
	x := &sl.index
	x.recent = append(x.recent, b)
	if len(x.recent) > indexBlocks {
		old := x.recent[0]
		x.recent = append(x.recent[:0], x.recent[1:]...)
		sl.r.c.budget.remove(&old.entry)
		sl.removeBlock(old)
	}
}

// recount counts the memory of the gaps. It returns what has to go for it.
func (sl *sliced) recount() []*entry {
	n := int64(0)
	for i := range sl.slices {
		n += int64(cap(sl.slices[i].gaps)) * int64(unsafe.Sizeof(gap{}))
	}
	grown := n - sl.index.bytes
	if grown == 0 {
		return nil
	}
	sl.index.bytes = n
	return sl.r.c.budget.charge(grown)
}
