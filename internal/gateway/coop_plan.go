package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/tandem-kafka/tandem/internal/acquire"
)

// prepare reads what is done, where that has to be known before anything is given
// out. It reports whether that failed.
func (p *place) prepare(ctx context.Context, open []*waiting) (again bool) {
	if len(open) == 0 {
		return false
	}
	p.mu.Lock()
	f, ok := p.state.Next(0, nowMs())
	needed := p.state.Doubtful() || ok && f.Again
	p.mu.Unlock()
	return needed && !p.refresh(ctx, open)
}

// free is a range that can be given out, with the batch that holds it.
type free struct {
	acquire.Free
	batch partBatch
}

// plan plans for those who wait. idle is for how long there is nothing to do.
func (p *place) plan(open []*waiting) (grants []*grant, entries []acquire.Entry, idle time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := nowMs()
	idle = p.deliver(now)
	if at, ok := p.state.Expires(now); ok {
		idle = min(idle, max(time.Millisecond, time.Duration(at-now)*time.Millisecond))
	}
	if p.left != 0 {
		idle = min(idle, time.Duration(p.releaseIn())*time.Millisecond)
	}
	open = slices.DeleteFunc(open, func(w *waiting) bool { return !p.isHere(w) })
	entries, p.outbox = append(p.outbox, p.release(now)...), nil
	if len(open) == 0 || p.state.Doubtful() {
		return nil, entries, idle
	}
	p.turn++
	total := int64(0)
	for _, w := range open {
		records, _ := w.wants()
		total = min(total+records, 1<<40)
	}
	kept, due := p.kept(now, open[0].readCommitted)
	list, available, all := p.available(open[0], now, total)
	share := (available + int64(len(open)) - 1) / int64(len(open))
	next := int64(0)
	p.hungry = false
	for i := range open {
		w := open[(i+p.turn)%len(open)]
		records, bytes := w.wants()
		quota := min(records-due[w.ask.Member], max(share, 1))
		p.hungry = p.hungry || len(list) == 0 && quota > 0
		for quota > 0 && bytes > 0 && len(list) > 0 {
			f := &list[0]
			r := acquire.Range{First: f.First, Last: min(f.Last, f.First+quota-1)}
			n, size := r.Last-r.First+1, f.batch.share(r)
			if !w.reserve(n, size) {
				break
			}
			grants = p.acquire(grants, w.ask.Member, p.fetchers[w.ask.Member], &f.Free, r)
			g := grants[len(grants)-1]
			g.w, g.records, g.bytes = w.waiter, g.records+n, g.bytes+size
			bytes -= size
			quota -= n
			kept[w.ask.Member] += n
			next = r.Last + 1
			if f.First = r.Last + 1; f.First > f.Last {
				list = list[1:]
			}
		}
	}
	if end, known := p.chunks.end(open[0].readCommitted); known && all && len(list) == 0 {
		grants = append(grants, p.ahead(open, kept, max(next, end), now)...)
	}
	acquisitions := make([]acquire.Entry, len(grants))
	for i, g := range grants {
		acquisitions[i] = g.entry
	}
	// Acquisitions first: a session entry behind the position that they know of their own member would void them.
	return grants, append(acquisitions, entries...), idle
}

// acquire adds a range to the last grant, if that is for the same member and the range goes on where it ends, or else a grant.
func (p *place) acquire(grants []*grant, member string, m *placeMember, f *acquire.Free, r acquire.Range) []*grant {
	if n := len(grants) - 1; n >= 0 {
		g := grants[n]
		if g.entry.Member == member && g.entry.Last+1 == r.First && !f.Again && !f.Untold && len(g.entry.Over) == 0 && g.entry.Attempt == f.Attempts+1 {
			g.entry.Last = r.Last
			return grants
		}
	}
	return append(grants, &grant{c: m.c, read: p.read, entry: f.Acquire(p.state, p.coop.id(), r, member, m.timeout)})
}

// available lists what can be given out and is in memory, lowest first, about most
// offsets of it; it has read what is not. all says that there is no more, in memory or not. p.mu is held.
func (p *place) available(w *waiting, now, most int64) (list []free, n int64, all bool) {
	held := p.coop.gw.facts.undecided(p.key)
	for from := int64(0); n < most && len(list) < 10_000; {
		f, ok := p.state.Next(from, now)
		if !ok {
			break
		}
		left := without(f.Range, held)
		if len(left) == 0 {
			from = f.Last + 1
			continue
		}
		f.Range = left[0]
		batch, of, ok := p.chunks.find(f.First, w.readCommitted)
		if !ok {
			end, known := p.chunks.end(w.readCommitted)
			all = known && f.First >= end
			p.load(f.First, w.readCommitted)
			break
		}
		// Offsets before the batch, and behind the last of a chunk, hold nothing.
		f.Last = min(f.Last, batch.Last)
		list = append(list, free{f, partBatch{batch, of}})
		n += f.Last - f.First + 1
		from = f.Last + 1
	}
	p.readOn(w.readCommitted) // while this is on its way through the log
	return list, n, all
}
