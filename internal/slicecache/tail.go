package slicecache

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// tailScan is a search for own ends that is under way. A reader has one at a time.
type tailScan struct{ done chan struct{} }

// distance estimates the bytes between pos and the source's end.
func (r *reader) distance(pos int64) float64 {
	perOffset := r.perOffset
	if perOffset == 0 {
		perOffset = 1 << 10
	}
	return perOffset * float64(r.end-pos)
}

// search starts to look for the own ends of all slices from the source's end backward. What fetches may spend on that is a small part
// of what they read, so that the broker still gives each byte about once; limit bounds it further. It returns nil when
// it may not search now.
func (r *reader) search(sl *sliced, limit int64) *tailScan {
	if r.scan != nil {
		return r.scan
	}
	limit = min(limit, freeSearch+r.loaded/searchPart-r.searched)
	if r.end < 0 || limit < freeSearch/4 {
		return nil
	}
	end, scan := r.end, &tailScan{make(chan struct{})}
	if !r.c.start(func() {
		read := r.scanTail(r.c.ctx, sl, -1, end, limit)
		r.p.mu.Lock()
		// Without a result it counts as used up, or every fetch would try again.
		r.searched += max(read, freeSearch/4)
		r.p.mu.Unlock()
		r.endScan(scan)
	}) {
		return nil
	}
	r.scan = scan
	return scan
}

// Searches of fetches may read freeSearch bytes of a source, and one searchPart-th of what consumers read.
const (
	freeSearch = 512 << 10
	searchPart = 64
)

func (r *reader) endScan(scan *tailScan) {
	r.p.mu.Lock()
	r.scan = nil
	r.p.mu.Unlock()
	close(scan.done)
}

// scanTail reads windows of growing size from end backward until the own end of a slice (-1: of all) is known, the log start
// is reached, or limit bytes were read. Whatever it finds is noted for all slices.
func (r *reader) scanTail(ctx context.Context, sl *sliced, slice int32, end, limit int64) (read int64) {
	window, before := int64(64), int64(-1)
	for read < limit && ctx.Err() == nil {
		r.p.mu.Lock()
		hi := int64(-1)
		for s := range sl.slices {
			if (slice < 0 || slice == int32(s)) && !sl.knows(int32(s), end) {
				hi = max(hi, sl.back(int32(s), end))
			}
		}
		start := r.p.logStart
		if r.perOffset > 0 {
			bytes := min(256<<10+2*read, 8<<20, limit-read)
			window = max(1, int64(float64(bytes)/r.perOffset))
		}
		r.p.mu.Unlock()
		if hi <= max(start, 0) || hi == before {
			return read
		}
		before = hi
		n, ok := r.scanRange(ctx, sl, max(start, hi-window, 0), hi, read < nearBytes)
		read += n
		if !ok {
			return read
		}
		window *= 2
	}
	return read
}

// scanRange notes what [lo, hi) holds. keep says that the blocks shall stay in memory.
func (r *reader) scanRange(ctx context.Context, sl *sliced, lo, hi int64, keep bool) (read int64, ok bool) {
	for pos := lo; pos < hi; {
		if ctx.Err() != nil {
			return read, false
		}
		r.p.mu.Lock()
		if b := sl.find(-1, pos); b != nil {
			sl.note(b.Block, b.version)
			pos = b.End
			r.p.mu.Unlock()
			continue
		}
		size := int64(r.c.cfg.LoadBytes)
		if r.perOffset > 0 {
			size = min(size, max(64<<10, int64(r.perOffset*float64(hi-pos)*1.1)))
		}
		l := &load{start: pos, resets: r.resets, seenEnd: r.end}
		r.p.mu.Unlock()
		if r.c.budget.reserve(ctx, 2*size) != nil {
			return read, false
		}
		n, end := r.scanLoad(ctx, sl, l, int32(size), keep)
		r.c.budget.release(2 * size)
		if end <= pos {
			return read, false
		}
		read += n
		pos = end
	}
	return read, true
}

// scanLoad reads at l.start for a scan and returns the offset after what it noted, or -1.
func (r *reader) scanLoad(ctx context.Context, sl *sliced, l *load, size int32, keep bool) (read, end int64) {
	m := &r.c.metrics
	m.Loads.Add(1)
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	f, err := r.c.up.Fetch(ctx, r.p.src, l.start, r.readCommitted, 0, 1, size)
	if err != nil {
		return 0, -1
	}
	m.BytesLoaded.Add(int64(len(f.Raw)))
	m.ScanBytes.Add(int64(len(f.Raw)))
	end, batches := walk(f.Raw)
	if batches == 0 {
		return 0, -1
	}
	r.p.mu.Lock()
	r.answered(f, l.seenEnd, asked)
	if r.perOffset == 0 && end > l.start {
		r.perOffset = float64(len(f.Raw)) / float64(end-l.start)
	}
	r.p.mu.Unlock()
	raw, from, aborted := f.Raw, l.start, f.Aborted
	r.p.mu.Lock()
	slicing, version := sl.version()
	r.p.mu.Unlock()
	for {
		b, err := r.c.split(raw, from, slicing, r.readCommitted, aborted)
		if err != nil || b.Used == 0 {
			return 0, -1
		}
		var victims []*entry
		r.p.mu.Lock()
		if l.resets != r.resets {
			r.p.mu.Unlock()
			return 0, -1
		}
		if keep {
			_, victims = sl.insert(b, version)
		} else {
			sl.note(b, version)
		}
		r.p.mu.Unlock()
		dropAll(victims)
		raw, from, aborted = raw[b.Used:], b.End, b.Aborted
		if n, _ := walk(raw); n == 0 {
			return int64(len(f.Raw)), end
		}
	}
}

// listing is a ListOffset(latest) that several callers share.
type listing struct {
	done chan struct{}
	end  int64
	err  error
}

// latest asks for the source's end. Callers that come while a request is on its way share the next one: the answer must be of
// a moment after the call.
func (r *reader) latest(ctx context.Context) (int64, error) {
	r.p.mu.Lock()
	next := r.nextList
	if next == nil {
		next = &listing{done: make(chan struct{}), err: kerr.NotLeaderForPartition}
		before := r.listing
		if before == nil {
			r.listing = next
		} else {
			r.nextList = next
		}
		if !r.c.start(func() { r.list(next, before) }) {
			r.listing, r.nextList = nil, nil
			close(next.done)
		}
	}
	r.p.mu.Unlock()
	select {
	case <-next.done:
		return next.end, next.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (r *reader) list(l, before *listing) {
	if before != nil {
		<-before.done
		r.p.mu.Lock()
		r.listing, r.nextList = l, nil
		r.p.mu.Unlock()
	}
	defer close(l.done)
	r.p.mu.Lock()
	seenEnd := r.end
	r.p.mu.Unlock()
	asked := time.Now()
	var start int64
	ctx, cancel := context.WithTimeout(r.c.ctx, readTimeout)
	defer cancel()
	l.end, _, _, l.err = r.c.up.ListOffset(ctx, r.p.src, -1, r.readCommitted)
	if l.err == nil {
		// Records may have been deleted; an end below the log start would make a negative lag.
		start, _, _, l.err = r.c.up.ListOffset(ctx, r.p.src, -2, r.readCommitted)
	}
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if r.listing == l {
		r.listing = nil
	}
	if l.err != nil {
		l.err = kafkaError(l.err)
		return
	}
	if l.end < seenEnd {
		r.truncated(l.end)
		r.p.logStart = start
	}
	r.setLogStart(start)
	r.asOf = asked
	r.end = max(r.end, l.end)
}

// wakeful makes a waiter that wakes after each load.
func wakeful(sl *sliced, slice int32) *waiter {
	return &waiter{sl: sl, slice: slice, notify: make(chan struct{}, 1), each: true}
}

// sleep waits, without the partition's lock, for the load that w is attached to.
func (w *waiter) sleep(ctx context.Context) error {
	c := w.sl.r.c
	select {
	case <-w.notify:
		return w.err
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
	w.sl.r.p.mu.Lock()
	w.detach()
	w.sl.r.p.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return kerr.NotLeaderForPartition
}
