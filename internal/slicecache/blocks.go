package slicecache

import (
	"sort"

	"github.com/tandem-kafka/tandem/internal/split"
)

// block is a split block in memory. It is asked for offsets in [start, end) only, which is less than it holds where another block
// covers its beginning, or one of a newer version its end.
type block struct {
	entry
	*split.Block
	start   int64
	end     int64
	version int // of the layout
	served  bool
}

// rawAnswer is kept while other slicings may still want to split it.
type rawAnswer struct {
	entry
	start, end int64
	splits     int // slicings it was split for
	bytes      []byte
	aborted    []split.Aborted
}

// find returns the block in memory that covers pos and holds slice; any will do if slice is -1.
func (sl *sliced) find(slice int32, pos int64) *block {
	i := sort.Search(len(sl.blocks), func(i int) bool { return sl.blocks[i].start > pos })
	if i == 0 || sl.blocks[i-1].end <= pos || slice >= 0 && sl.blocks[i-1].version < sl.slices[slice].since {
		return nil
	}
	return sl.blocks[i-1]
}

// from returns the index of the first piece of slice with a record at or after pos.
func (b *block) from(slice int32, pos int64) int {
	pieces := b.Slices[slice]
	return sort.Search(len(pieces), func(i int) bool { return pieces[i].Last >= pos })
}

// insert puts a block, split by a version of the layout, into memory and notes what it shows. It returns what has to be dropped for it.
func (sl *sliced) insert(sb *split.Block, version int) (*block, []*entry) {
	b := &block{Block: sb, start: sb.Start, end: sb.End, version: version}
	b.entry.bytes = int64(sb.Bytes) + 256
	b.drop = func() {
		sl.r.p.mu.Lock()
		sl.removeBlock(b)
		sl.r.p.mu.Unlock()
	}
	sl.note(sb, version)
	i := sort.Search(len(sl.blocks), func(i int) bool { return sl.blocks[i].start >= b.start })
	if i > 0 && sl.blocks[i-1].end > b.start {
		if prev := sl.blocks[i-1]; prev.version >= version {
			b.start = prev.end
		} else {
			prev.end = b.start // what it holds beyond b is given up
		}
	}
	j := i
	for ; j < len(sl.blocks) && sl.blocks[j].start < b.end; j++ {
		next := sl.blocks[j]
		if next.version > version {
			b.end = next.start
			break
		}
		if next.end > b.end {
			next.start = b.end
			break
		}
		sl.r.c.budget.remove(&next.entry)
	}
	if b.start >= b.end {
		return nil, nil // all of it is there already
	}
	sl.blocks = append(sl.blocks[:i], append([]*block{b}, sl.blocks[j:]...)...)
	victims := sl.r.c.budget.add(&b.entry)
	if sl.index.on {
		sl.keepFew(b)
		victims = append(victims, sl.recount()...)
	}
	return b, victims
}

// clear takes all blocks out of memory.
func (sl *sliced) clear() {
	for _, b := range sl.blocks {
		sl.r.c.budget.remove(&b.entry)
	}
	sl.blocks = nil
}

func (sl *sliced) removeBlock(b *block) {
	i := sort.Search(len(sl.blocks), func(i int) bool { return sl.blocks[i].start >= b.start })
	if i < len(sl.blocks) && sl.blocks[i] == b {
		sl.blocks = append(sl.blocks[:i], sl.blocks[i+1:]...)
	}
}

func (r *reader) dropRaws() {
	for _, a := range r.raws {
		r.c.budget.remove(&a.entry)
	}
	r.raws = nil
}

func (r *reader) rawAt(pos int64) *rawAnswer {
	for _, a := range r.raws {
		if a.start <= pos && pos < a.end {
			return a
		}
	}
	return nil
}

func (r *reader) removeRaw(a *rawAnswer) {
	for i, x := range r.raws {
		if x == a {
			r.raws = append(r.raws[:i], r.raws[i+1:]...)
			return
		}
	}
}
