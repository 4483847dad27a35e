package slicecache

import (
	"sort"
	"sync"
	"time"

	"github.com/tandem-kafka/tandem/internal/split"
)

// partition is what is known of one source partition.
type partition struct {
	src         Source
	users       int       // under Cache.mu: calls that work on it
	used        time.Time // under Cache.mu: end of the last call
	mu          sync.Mutex
	logStart    int64 // -1: not known
	committed   *reader
	uncommitted *reader
}

// reader is a partition at one isolation level. All its fields are under partition.mu.
type reader struct {
	c             *Cache
	p             *partition
	readCommitted bool

	end      int64     // the source's end: high watermark, or last stable offset if readCommitted; -1: not known
	asOf     time.Time // when the last answer that told the end was asked for
	resets   int       // how often what was known proved void
	loads    []*load
	raws     []*rawAnswer
	slicings map[split.Slicing]*sliced

	perOffset float64   // bytes of the source per offset, 0: not known
	perBatch  float64   // bytes of a batch, 0: not known
	span      int64     // offsets in the last load
	loaded    int64     // bytes read for consumers
	searched  int64     // bytes read for fetches to find own ends
	retryAt   time.Time // no load before it: the last one failed

	scan     *tailScan
	listing  *listing
	nextList *listing
}

// sliced is a reader under one slicing.
type sliced struct {
	r       *reader
	slicing split.Slicing
	blocks  []*block // by start, not overlapping
	slices  []sliceState
	used    time.Time
}

// sliceState is what is known of a slice beyond the blocks in memory.
type sliceState struct {
	last int64 // offset of the highest record seen, -1: none
	gaps gapSet
}

// block is a split block in memory. It is asked for offsets in [start, End) only; start is raised where another
// block covers the beginning.
type block struct {
	entry
	*split.Block
	start  int64
	served bool
}

// rawAnswer is kept while other slicings may still want to split it.
type rawAnswer struct {
	entry
	start, end int64
	splits     int // slicings it was split for
	bytes      []byte
	aborted    []split.Aborted
}

func newPartition(c *Cache, src Source) *partition {
	p := &partition{src: src, logStart: -1, used: time.Now()}
	p.committed = &reader{c: c, p: p, readCommitted: true, end: -1, slicings: map[split.Slicing]*sliced{}}
	p.uncommitted = &reader{c: c, p: p, end: -1, slicings: map[split.Slicing]*sliced{}}
	return p
}

// activeFor is how long a slicing counts as read after its last fetch: that long raw answers are kept for it.
const activeFor = 30 * time.Second

func (r *reader) sliced(s split.Slicing) *sliced {
	sl := r.slicings[s]
	if sl == nil {
		sl = &sliced{r: r, slicing: s, slices: make([]sliceState, s.K)}
		for i := range sl.slices {
			sl.slices[i].last = -1
		}
		r.slicings[s] = sl
	}
	sl.used = time.Now()
	return sl
}

// active counts the slicings that were read lately.
func (r *reader) active() (n int) {
	now := time.Now()
	for _, sl := range r.slicings {
		if now.Sub(sl.used) < activeFor {
			n++
		}
	}
	return n
}

// find returns the block in memory that covers pos.
func (sl *sliced) find(pos int64) *block {
	i := sort.Search(len(sl.blocks), func(i int) bool { return sl.blocks[i].start > pos })
	if i == 0 || sl.blocks[i-1].End <= pos {
		return nil
	}
	return sl.blocks[i-1]
}

// from returns the index of the first piece of slice with a record at or after pos.
func (b *block) from(slice int32, pos int64) int {
	pieces := b.Slices[slice]
	return sort.Search(len(pieces), func(i int) bool { return pieces[i].Last >= pos })
}

// insert puts a block into memory and notes what it shows. It returns what has to be dropped for it.
func (sl *sliced) insert(sb *split.Block) (*block, []*entry) {
	b := &block{Block: sb, start: sb.Start}
	b.entry.bytes = int64(sb.Bytes) + 256
	b.drop = func() {
		sl.r.p.mu.Lock()
		sl.removeBlock(b)
		sl.r.p.mu.Unlock()
	}
	sl.note(sb)
	i := sort.Search(len(sl.blocks), func(i int) bool { return sl.blocks[i].start >= b.start })
	if i > 0 && sl.blocks[i-1].End > b.start {
		b.start = sl.blocks[i-1].End
	}
	if b.start >= b.End {
		return nil, nil // all of it is there already
	}
	j := i
	for j < len(sl.blocks) && sl.blocks[j].End <= b.End {
		sl.r.c.budget.remove(&sl.blocks[j].entry)
		j++
	}
	if j < len(sl.blocks) && sl.blocks[j].start < b.End {
		sl.blocks[j].start = b.End
	}
	sl.blocks = append(sl.blocks[:i], append([]*block{b}, sl.blocks[j:]...)...)
	return b, sl.r.c.budget.add(&b.entry)
}

func (sl *sliced) removeBlock(b *block) {
	i := sort.Search(len(sl.blocks), func(i int) bool { return sl.blocks[i].start >= b.start })
	if i < len(sl.blocks) && sl.blocks[i] == b {
		sl.blocks = append(sl.blocks[:i], sl.blocks[i+1:]...)
	}
}

// note remembers last records and gaps that a block shows. Gaps between the pieces of a block are left out: they are
// short, and while the block is in memory it is asked itself.
func (sl *sliced) note(b *split.Block) {
	for i := range sl.slices {
		s, pieces := &sl.slices[i], b.Slices[i]
		if len(pieces) == 0 {
			s.gaps.add(b.Start, b.End)
			continue
		}
		last := pieces[len(pieces)-1].Last
		s.gaps.add(b.Start, pieces[0].First)
		s.gaps.add(last+1, b.End)
		s.last = max(s.last, last)
	}
}

// jump moves pos over what is known to hold no record of the slice.
func (sl *sliced) jump(slice int32, pos int64) int64 {
	for {
		n := sl.slices[slice].gaps.jump(pos)
		if sl.r.readCommitted {
			// What is empty read uncommitted is empty read committed too.
			if u := sl.r.p.uncommitted.slicings[sl.slicing]; u != nil {
				n = u.slices[slice].gaps.jump(n)
			}
		}
		if n == pos {
			return n
		}
		pos = n
	}
}

// back is the lowest offset from which everything below end is known to hold no record of the slice.
func (sl *sliced) back(slice int32, end int64) int64 {
	for {
		n := sl.slices[slice].gaps.back(end)
		if sl.r.readCommitted {
			if u := sl.r.p.uncommitted.slicings[sl.slicing]; u != nil {
				n = u.slices[slice].gaps.back(n)
			}
		}
		if n == end {
			return n
		}
		end = n
	}
}

// next is jump with the help of the blocks in memory; record says that it knows of a record of the slice at or after it.
func (sl *sliced) next(slice int32, pos int64) (n int64, record bool) {
	for {
		pos = sl.jump(slice, pos)
		b := sl.find(pos)
		if b == nil {
			return pos, sl.slices[slice].last >= pos
		}
		if i := b.from(slice, pos); i < len(b.Slices[slice]) {
			return max(pos, b.Slices[slice][i].First), true
		}
		pos = b.End
	}
}

// low is the slice's own end as far as it is known: after its highest record seen, and not below the log start.
func (sl *sliced) low(slice int32) int64 {
	return max(sl.slices[slice].last+1, sl.r.p.logStart, 0)
}

// knows says that the slice's own end is low: from there to end no record is left.
func (sl *sliced) knows(slice int32, end int64) bool {
	if end < 0 || sl.r.p.logStart < 0 {
		return false
	}
	n, _ := sl.next(slice, sl.low(slice))
	return n >= end
}

func (r *reader) dropRaws() {
	for _, a := range r.raws {
		r.c.budget.remove(&a.entry)
	}
	r.raws = nil
}

// reset forgets everything.
func (r *reader) reset() {
	r.resets++
	r.end = -1
	for _, sl := range r.slicings {
		for _, b := range sl.blocks {
			r.c.budget.remove(&b.entry)
		}
	}
	r.slicings = map[split.Slicing]*sliced{}
	r.dropRaws()
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
