package slicecache

import (
	"context"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tandem-kafka/tandem/internal/split"
)

// Kafka's timestamps of ListOffsets with a meaning of their own.
const (
	latestTimestamp = -1
	maxTimestamp    = -3
)

// End answers ListOffsets(latest): the own end of a slice, after looking through everything up to the source's end of
// the moment of the call. It is the offset after the slice's last record, and not below the log start. known is false, and end the
// source's end, when ctx or the bound of the search ended first; a later call goes on where this one stopped.
// Errors are *kerr.Error, or ctx's.
func (c *Cache) End(ctx context.Context, src Source, slicing split.Slicing, slice int32, readCommitted bool) (end int64, known bool, err error) {
	sl, err := c.slice(src, slicing, slice, readCommitted)
	if err != nil {
		return 0, false, err
	}
	defer c.done(sl.r)
	return sl.ownEnd(ctx, slice)
}

func (c *Cache) slice(src Source, slicing split.Slicing, slice int32, readCommitted bool) (*sliced, error) {
	if slicing.K < 1 || slicing.K > split.MaxK || slicing.Base < 1 || slice < 0 || slice >= slicing.K {
		return nil, kerr.UnknownTopicOrPartition
	}
	r := c.use(src, readCommitted)
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.sliced(slicing), nil
}

func (sl *sliced) ownEnd(ctx context.Context, slice int32) (int64, bool, error) {
	r := sl.r
	end, err := r.latest(ctx)
	if err != nil {
		return 0, false, err
	}
	w := wakeful(sl, slice)
	for scanned := false; ; {
		r.p.mu.Lock()
		if sl.knows(slice, end) {
			low := sl.low(slice)
			r.p.mu.Unlock()
			return low, true, nil
		}
		pos, _ := sl.next(slice, sl.low(slice))
		near := r.distance(pos)-r.distance(end) <= nearBytes
		if !near {
			r.p.mu.Unlock()
			if scanned || ctx.Err() != nil {
				return end, false, nil
			}
			scanned = r.scanAlone(ctx, sl, slice, end)
			continue
		}
		// The rest is read forward: it is what consumers read next, and one load serves all.
		w.attach(r.loadAt(pos, w, false))
		r.p.mu.Unlock()
		if err := w.sleep(ctx); err != nil {
			if isCanceled(err) {
				return end, false, nil
			}
			return 0, false, err
		}
	}
}

// scanAlone runs a search for one slice, unless another one runs: then it waits for that. It says whether it did the search.
func (r *reader) scanAlone(ctx context.Context, sl *sliced, slice int32, end int64) bool {
	r.p.mu.Lock()
	if other := r.scan; other != nil {
		r.p.mu.Unlock()
		select {
		case <-other.done:
		case <-ctx.Done():
		}
		return false
	}
	scan := &tailScan{make(chan struct{})}
	r.scan = scan
	r.p.mu.Unlock()
	r.scanTail(ctx, sl, slice, end, r.c.cfg.TailScanBytes)
	r.endScan(scan)
	return true
}

// AtTime answers ListOffsets by time (ms): the slice's first record with a timestamp not below, or -1, -1. Of Kafka's
// constants, latest (-1) is End, and max timestamp (-3) is the slice's record with the source's highest timestamp, or else
// the slice's last record; the others are answered for the source. Errors are *kerr.Error, or ctx's when it ended first.
func (c *Cache) AtTime(ctx context.Context, src Source, slicing split.Slicing, slice int32, readCommitted bool, timestamp int64) (offset, ts int64, err error) {
	sl, err := c.slice(src, slicing, slice, readCommitted)
	if err != nil {
		return -1, -1, err
	}
	defer c.done(sl.r)
	if timestamp == latestTimestamp {
		offset, _, err = sl.ownEnd(ctx, slice)
		return offset, -1, err
	}
	offset, ts, _, err = c.up.ListOffset(ctx, src, timestamp, readCommitted)
	if err != nil {
		if isCanceled(err) {
			return -1, -1, err
		}
		return -1, -1, kafkaError(err)
	}
	if timestamp < 0 && timestamp != maxTimestamp || offset < 0 {
		return offset, ts, nil
	}
	if timestamp == maxTimestamp {
		return sl.newest(ctx, slice, offset)
	}
	end, err := sl.r.latest(ctx)
	if err != nil {
		return -1, -1, err
	}
	return sl.first(ctx, slice, offset, end, timestamp)
}

// newest finds the record to answer for the max timestamp, which the source has at offset.
func (sl *sliced) newest(ctx context.Context, slice int32, offset int64) (int64, int64, error) {
	o, ts, err := sl.first(ctx, slice, offset, offset+1, math.MinInt64)
	if err != nil || o == offset {
		return o, ts, err
	}
	if _, _, err := sl.ownEnd(ctx, slice); err != nil {
		return -1, -1, err
	}
	sl.r.p.mu.Lock()
	last := sl.slices[slice].last
	sl.r.p.mu.Unlock()
	if last < 0 {
		return -1, -1, nil
	}
	return sl.first(ctx, slice, last, last+1, math.MinInt64)
}

// first finds the first record of the slice in [pos, end) with a timestamp not below.
func (sl *sliced) first(ctx context.Context, slice int32, pos, end, timestamp int64) (int64, int64, error) {
	r, w := sl.r, wakeful(sl, slice)
	for {
		r.p.mu.Lock()
		if pos = sl.jump(slice, pos); pos >= end {
			r.p.mu.Unlock()
			return -1, -1, nil
		}
		b := sl.find(slice, pos)
		if b == nil {
			w.attach(r.loadAt(pos, w, false))
			r.p.mu.Unlock()
			if err := w.sleep(ctx); err != nil {
				return -1, -1, err
			}
			continue
		}
		pieces := b.Slices[slice][b.from(slice, pos):]
		r.c.budget.use(&b.entry)
		r.readAhead(sl, slice, b.End, 1)
		r.p.mu.Unlock()
		for _, p := range pieces {
			if o, ts, ok := split.FirstAtOrAfter(p, pos, timestamp); ok {
				if o >= end {
					return -1, -1, nil
				}
				return o, ts, nil
			}
		}
		pos = b.End
	}
}

// NextRecord moves from over what is known to hold no record of the slice. It does no I/O, and returns from if nothing
// is known. While the block of from is in memory the answer is exact, also between two records of one source batch: consumers commit there.
func (c *Cache) NextRecord(src Source, slicing split.Slicing, slice int32, readCommitted bool, from int64) int64 {
	c.mu.Lock()
	p := c.partitions[src]
	c.mu.Unlock()
	if p == nil || slice < 0 || slice >= slicing.K {
		return from
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if readCommitted {
		if sl := p.committed.slicings[slicing]; sl != nil {
			from = sl.nextExact(slice, from)
		}
	}
	// What is empty read uncommitted is empty read committed too.
	if sl := p.uncommitted.slicings[slicing]; sl != nil {
		from = sl.nextExact(slice, from)
	}
	return from
}

// nextExact is next that goes on within a piece.
func (sl *sliced) nextExact(slice int32, pos int64) int64 {
	n, p, _ := sl.nextPiece(slice, pos)
	if p != nil && p.First < n {
		if first, _, ok := split.FirstAtOrAfter(*p, n, math.MinInt64); ok {
			return first
		}
	}
	return n
}
