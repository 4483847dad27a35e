package slicecache

import (
	"sync"
	"time"

	"github.com/tandem-kafka/tandem/internal/split"
)

// partition is what is known of one source partition.
type partition struct {
	c           *Cache
	src         Source
	users       int       // under Cache.mu: calls that work on it
	used        time.Time // under Cache.mu: end of the last call
	mu          sync.Mutex
	logStart    int64 // -1: not known
	committed   *reader
	uncommitted *reader
	layouts     []*layout // of key-range fetches, at both isolation levels
	placed      time.Time // when a new set came last
	packed      time.Time // when the layouts were last looked through
}

func (p *partition) readers() [2]*reader { return [2]*reader{p.committed, p.uncommitted} }

// reader is a partition at one isolation level. All its fields are under partition.mu.
type reader struct {
	c             *Cache
	p             *partition
	readCommitted bool

	end      int64     // the source's end: high watermark, or last stable offset if readCommitted; -1: not known
	other    int64     // the other one of the two, as the last answer had it; -1: not known
	asOf     time.Time // when the last answer that told the end was asked for
	resets   int       // how often what was known proved void
	loads    []*load
	raws     []*rawAnswer
	slicings map[split.Slicing]*sliced
	layouts  map[*layout]*sliced

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

// sliced is a reader under one slicing, or one layout.
type sliced struct {
	r       *reader
	slicing split.Slicing // not that of a layout: it changes
	layout  *layout
	blocks  []*block // by start, not overlapping
	slices  []sliceState
	used    time.Time
	index   keyIndex
}

// sliceState is what is known of a slice beyond the blocks in memory.
type sliceState struct {
	last  int64 // offset of the highest record seen, -1: none
	gaps  gapSet
	since int // version of the layout that has it; blocks of older ones do not hold it
}

func newPartition(c *Cache, src Source) *partition {
	p := &partition{c: c, src: src, logStart: -1, used: time.Now(), packed: time.Now()}
	p.committed = &reader{c: c, p: p, readCommitted: true, end: -1, other: -1, slicings: map[split.Slicing]*sliced{}, layouts: map[*layout]*sliced{}}
	p.uncommitted = &reader{c: c, p: p, end: -1, other: -1, slicings: map[split.Slicing]*sliced{}, layouts: map[*layout]*sliced{}}
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

// ofLayout is what sliced is for a layout.
func (r *reader) ofLayout(l *layout) *sliced {
	sl := r.layouts[l]
	if sl == nil {
		sl = &sliced{r: r, layout: l}
		for i := range l.slots {
			sl.slot(i, 0)
		}
		r.layouts[l] = sl
	}
	sl.used = time.Now()
	return sl
}

// all goes through the slicings and the layouts.
func (r *reader) all(yield func(*sliced) bool) {
	for _, sl := range r.slicings {
		if !yield(sl) {
			return
		}
	}
	for _, sl := range r.layouts {
		if !yield(sl) {
			return
		}
	}
}

// active counts the slicings and layouts that were read lately and keep what they read.
func (r *reader) active() (n int) {
	now := time.Now()
	for sl := range r.all {
		if now.Sub(sl.used) < activeFor && !sl.index.on {
			n++
		}
	}
	return n
}

// version is what to split for sl by now.
func (sl *sliced) version() (split.Slicing, int) {
	if sl.layout == nil {
		return sl.slicing, 0
	}
	return sl.layout.slicing, sl.layout.version
}

// gone says that sl's layout was dropped.
func (sl *sliced) gone() bool { return sl.layout != nil && sl.layout.gone }

// lax is sl for read uncommitted, where sl is read committed: what is empty there is empty here too.
func (sl *sliced) lax() *sliced {
	switch {
	case !sl.r.readCommitted:
		return nil
	case sl.layout != nil:
		return sl.r.p.uncommitted.layouts[sl.layout]
	}
	return sl.r.p.uncommitted.slicings[sl.slicing]
}

// note remembers last records and gaps that a block shows. Gaps between the pieces of a block are left out: they are
// short, and while the block is in memory it is asked itself.
func (sl *sliced) note(b *split.Block, version int) {
	limit := sl.maxGaps()
	for i := range sl.slices {
		s := &sl.slices[i]
		if version < s.since {
			continue
		}
		pieces := b.Slices[i]
		if len(pieces) == 0 {
			s.gaps.add(b.Start, b.End, limit)
			continue
		}
		last := pieces[len(pieces)-1].Last
		s.gaps.add(b.Start, pieces[0].First, limit)
		s.gaps.add(last+1, b.End, limit)
		s.last = max(s.last, last)
	}
}

// jump moves pos over what is known to hold no record of the slice.
func (sl *sliced) jump(slice int32, pos int64) int64 {
	for {
		n := sl.slices[slice].gaps.jump(pos)
		if u := sl.lax(); u != nil {
			n = u.slices[slice].gaps.jump(n)
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
		if u := sl.lax(); u != nil {
			n = u.slices[slice].gaps.back(n)
		}
		if n == end {
			return n
		}
		end = n
	}
}

// next is jump with the help of the blocks in memory; record says that it knows of a record of the slice at or after it.
func (sl *sliced) next(slice int32, pos int64) (n int64, record bool) {
	n, _, record = sl.nextPiece(slice, pos)
	return n, record
}

// nextPiece is next with the piece that has the record, nil where it is not in memory. n may lie between two of its records.
func (sl *sliced) nextPiece(slice int32, pos int64) (n int64, p *split.Piece, record bool) {
	for {
		pos = sl.jump(slice, pos)
		b := sl.find(slice, pos)
		if b == nil {
			return pos, nil, sl.slices[slice].last >= pos
		}
		if i := b.from(slice, pos); i < len(b.Slices[slice]) {
			p = &b.Slices[slice][i]
			return max(pos, p.First), p, true
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

// reset forgets everything.
func (r *reader) reset() {
	r.resets++
	r.end, r.other = -1, -1
	for _, sl := range r.slicings {
		sl.clear()
	}
	r.slicings = map[split.Slicing]*sliced{}
	r.dropRaws()
}
