package slicecache

import (
	"context"
	"time"

	"github.com/tandem-kafka/tandem/internal/split"
)

// settle finds out the own end to answer. It reports false when nothing is known.
func (p *part) settle() bool {
	r := p.sl.r
	pos := p.jump()
	p.end = max(p.sl.slices[p.slice].last+1, p.next)
	p.known = r.end >= 0 && pos >= r.end && r.fresh() || p.end > p.next
	if !p.known {
		p.end = max(r.end, p.next)
	}
	return p.known
}

// search looks for the own ends of slices that found nothing so far.
func (f *fetch) search() {
	for i := range f.parts {
		if p := &f.parts[i]; p.sl != nil && p.failed == nil && p.keys == nil {
			r := p.sl.r
			r.p.mu.Lock()
			if !p.settle() && r.distance(p.pos) > nearBytes {
				r.search(p.sl, r.c.cfg.TailScanBytes)
			}
			r.p.mu.Unlock()
		}
	}
}

// resolve finds the own ends to answer, with a little reading where they are not known.
func (f *fetch) resolve(ctx context.Context) {
	for i := range f.parts {
		f.parts[i].known = false
	}
	var timer *time.Timer
	since, longest := time.Now(), resolveWait
	if f.bytes > 0 {
		longest = resolveDataWait
	}
	for {
		var scan <-chan struct{}
		unknown := false
		for i := range f.parts {
			p := &f.parts[i]
			if p.failed != nil || p.known {
				continue
			}
			again, s := f.resolvePart(p)
			unknown = unknown || again
			if s != nil {
				scan = s
			}
		}
		if !unknown {
			break
		}
		if timer == nil {
			timer = time.NewTimer(min(pollAge, longest))
			defer timer.Stop()
		}
		select {
		case <-f.notify:
			continue
		case <-scan:
			continue
		case <-timer.C:
			if time.Since(since) < longest {
				timer.Reset(pollAge)
				continue
			}
		case <-ctx.Done():
		case <-f.c.ctx.Done():
		}
		break
	}
	for i := range f.parts {
		f.parts[i].park()
	}
}

// resolvePart settles p, or says what to wait for before trying again: a load, or a search of the tail.
func (f *fetch) resolvePart(p *part) (again bool, scan <-chan struct{}) {
	r := p.r
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if p.keys != nil {
		p.look()
		return false, nil
	}
	known := p.settle()
	if p.load != nil && !known {
		return true, nil
	}
	if known || r.end < 0 || p.err != nil {
		return false, nil
	}
	pos, record := p.sl.next(p.slice, p.pos)
	if record {
		// In memory, but not given for want of room.
		p.end, p.known = pos+1, true
		return false, nil
	}
	if !p.closed {
		p.pos = pos
	}
	if r.distance(pos) <= nearBytes {
		p.each = true
		p.attach(r.loadAt(pos, &p.waiter, false))
		return true, nil
	}
	if s := r.search(p.sl, 2*nearBytes); s != nil {
		return true, s.done
	}
	return false, nil
}

// result is the answer for p.
func (p *part) result() SliceResult {
	res := SliceResult{Err: p.failed, LogStart: -1, HighWatermark: -1, LastStableOffset: -1, End: -1, Scanned: p.asked}
	if p.r == nil {
		return res
	}
	p.r.p.mu.Lock()
	res.LogStart = p.r.p.logStart
	highWatermark, lastStable := p.r.ends()
	res.Far = p.keys == nil && !p.known && p.r.distance(p.pos) > nearBytes
	p.leave()
	p.r.p.mu.Unlock()
	if p.failed != nil {
		return res
	}
	res.Data, res.End, res.EndKnown, res.Scanned = p.data, p.end, p.known, p.pos
	res.LogStart = min(res.LogStart, p.asked)
	res.HighWatermark, res.LastStableOffset = max(highWatermark, p.next), lastStable
	if p.cut.Data != nil {
		if cut, ok := split.Trim(p.cut, p.asked); ok {
			res.Data[0] = cut.Data
		}
	}
	return res
}
