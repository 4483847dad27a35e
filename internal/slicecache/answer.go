package slicecache

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// nothing ends a load that brought no complete batch. It unlocks partition.mu.
func (r *reader) nothing(l *load, bytes int) *load {
	defer r.p.mu.Unlock()
	r.endLoad(l)
	if bytes > 0 || l.start < r.end {
		// A broker that says there is more and gives nothing, or only a part of a batch. Do not ask again at once.
		r.retryAt = time.Now().Add(100 * time.Millisecond)
		if bytes > 0 {
			r.perBatch = max(r.perBatch, float64(r.c.cfg.LoadBytes)) // then exactly one batch is asked for
		}
	}
	if l.wait == 0 {
		// It only asked how things stand. Those who can wait come back for a long poll.
		for _, w := range l.waiters {
			w.wake(nil)
		}
		l.waiters = nil
		return nil
	}
	var carried []*waiter
	for _, w := range l.waiters {
		if w.hurried() {
			w.wake(nil)
			continue
		}
		w.loads++
		carried = append(carried, w)
	}
	return r.carry(carried, l.start)
}

// split splits an answer for one slicing, block by block, and wakes those who find a record in it.
func (r *reader) split(l *load, j *job, f Fetched) error {
	raw, from, aborted := f.Raw, l.start, f.Aborted
	r.p.mu.Lock()
	j.slicing, j.version = j.sl.version()
	gone := j.sl.gone()
	r.p.mu.Unlock()
	if gone {
		return nil
	}
	for first := true; ; first = false {
		b, err := r.c.split(raw, from, j.slicing, r.readCommitted, aborted)
		if err != nil && !first {
			return nil // the damaged batch is the next load's affair
		}
		if err != nil {
			return err
		}
		if b.Used == 0 {
			return nil
		}
		r.p.mu.Lock()
		if l.resets != r.resets || j.sl.gone() {
			r.p.mu.Unlock()
			return nil
		}
		in, victims := j.sl.insert(b, j.version)
		l.wakeAll(func(w *waiter) bool {
			if !j.saw(w) || !w.finds(b) {
				return false
			}
			if j.sl.index.on {
				w.block = in
			}
			return true
		})
		r.p.mu.Unlock()
		dropAll(victims)
		raw, from, aborted = raw[b.Used:], b.End, b.Aborted
		if n, _ := walk(raw); n == 0 {
			return nil
		}
	}
}

// finish ends a load whose blocks are in memory: waiters that found nothing move on.
func (r *reader) finish(l *load, f Fetched, end int64, done []job) *load {
	var victims []*entry
	defer func() { dropAll(victims) }()
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.endLoad(l)
	splits := 0
	for i := range done {
		if _, version := done[i].sl.version(); version == done[i].version && !done[i].sl.index.on {
			splits++
		}
	}
	if a := l.raw; a != nil {
		if a.splits += splits; a.splits >= r.active() {
			r.removeRaw(a)
			r.c.budget.remove(&a.entry)
		}
	} else if l.resets == r.resets && r.active() > splits {
		a := &rawAnswer{start: l.start, end: end, splits: splits, bytes: f.Raw, aborted: f.Aborted}
		a.entry.bytes = int64(cap(f.Raw)) + 128
		a.drop = func() {
			r.p.mu.Lock()
			r.removeRaw(a)
			r.p.mu.Unlock()
		}
		r.raws = append(r.raws, a)
		l.kept = true
		victims = r.c.budget.add(&a.entry)
	}
	var carried []*waiter
	for _, w := range l.waiters {
		seen := false
		for i := range done {
			seen = seen || done[i].saw(w)
		}
		if w.hurried() || !seen || w.pos > end || l.resets != r.resets || w.sl.gone() || w.sl.find(w.slice, end) != nil {
			w.wake(nil)
			continue
		}
		// Up to here every block was looked at, unless the last of them is damaged or was evicted already.
		if w.sl.jump(w.slice, w.pos) < end {
			w.wake(nil)
			continue
		}
		w.pos = end
		w.loads++
		carried = append(carried, w)
	}
	l.waiters = nil
	return r.carry(carried, end)
}

// carry moves waiters on to the load at pos and returns it if the caller has to do it.
func (r *reader) carry(ws []*waiter, pos int64) *load {
	if len(ws) == 0 || r.c.ctx.Err() != nil {
		for _, w := range ws {
			w.wake(kerr.NotLeaderForPartition)
		}
		return nil
	}
	l, mine := r.inFlight(pos), false
	if l == nil {
		mine = true
		l = &load{start: pos, resets: r.resets, seenEnd: r.end, want: []*sliced{ws[0].sl}}
		if pos >= r.end {
			l.wait = r.c.cfg.PollWait
		}
		r.loads = append(r.loads, l)
	}
	l.ahead = 0
	for _, w := range ws {
		w.attach(l)
	}
	if mine {
		return l
	}
	return nil
}

// retryDelay keeps a failing source from being asked as fast as it fails.
const retryDelay = 50 * time.Millisecond

// failed ends a load with an error for all that wait for it.
func (r *reader) failed(l *load, err error) {
	closing := r.c.ctx.Err() != nil
	if !closing {
		r.c.metrics.Errors.Add(1)
	}
	outOfRange := errors.Is(err, kerr.OffsetOutOfRange)
	log := r.c.cfg.Logger.With("topic", r.p.src.Topic, "partition", r.p.src.Partition, "offset", l.start)
	ke := kafkaError(err)
	switch {
	case closing:
	case outOfRange:
		log.Debug("a source was read at an offset that it does not have")
		r.checkRange(l)
	case errors.Is(ke, kerr.CorruptMessage):
		log.Error("a record batch of the source cannot be read; consumers of all its slices stop here until it is deleted or skipped", "cause", err)
	default:
		log.Warn("reading a source failed, consumers will try again", "cause", err)
	}
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.endLoad(l)
	if !outOfRange {
		r.retryAt = time.Now().Add(retryDelay)
	}
	for _, w := range l.waiters {
		if w.pos > l.start && (outOfRange || ke == kerr.CorruptMessage) {
			w.wake(nil) // it hoped to find its offset here; where it is itself may be all right
		} else {
			w.wake(ke)
		}
	}
	l.waiters = nil
}

// checkRange asks where the log begins and ends, after a load was out of range where it should not have been.
func (r *reader) checkRange(l *load) {
	r.p.mu.Lock()
	surprising := l.start <= r.end && l.start >= r.p.logStart
	r.p.mu.Unlock()
	if !surprising {
		return
	}
	ctx, cancel := context.WithTimeout(r.c.ctx, readTimeout)
	defer cancel()
	start, _, _, err := r.c.up.ListOffset(ctx, r.p.src, -2, r.readCommitted)
	if err != nil {
		return
	}
	end, _, _, err := r.c.up.ListOffset(ctx, r.p.src, -1, r.readCommitted)
	if err != nil {
		return
	}
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if end < l.seenEnd {
		r.truncated(end)
		r.p.logStart = start
	}
	r.setLogStart(start)
}
