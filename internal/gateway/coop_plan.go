package gateway

import (
	"context"
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
	batch wholeBatch
}

// plan plans for those who wait. idle is for how long there is nothing to do.
func (p *place) plan(ctx context.Context, open []*waiting) (grants []*grant, entries []acquire.Entry, idle time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle = time.Second
	if !p.unclean && len(open) == 0 {
		idle = 0
	}
	now := nowMs()
	if at, ok := p.state.Expires(now); ok {
		idle = min(idle, max(time.Millisecond, time.Duration(at-now)*time.Millisecond))
	}
	entries, p.outbox = p.outbox, nil
	if len(open) == 0 || p.state.Doubtful() {
		return nil, entries, idle
	}
	p.turn++
	total := int64(0)
	for _, w := range open {
		records, _ := w.wants()
		total = min(total+records, 1<<40)
	}
	list, available := p.available(open[0], now, total)
	share := (available + int64(len(open)) - 1) / int64(len(open))
	var acquisitions []acquire.Entry
	for i := range open {
		w := open[(i+p.turn)%len(open)]
		records, bytes := w.wants()
		quota := min(records, max(share, 1))
		for quota > 0 && bytes > 0 && len(list) > 0 {
			f := &list[0]
			r := acquire.Range{First: f.First, Last: min(f.Last, f.First+quota-1)}
			g := p.extend(grants, w, f, r)
			if g == nil {
				g = &grant{w: w.waiter, part: w.part, read: p.read, entry: f.Acquire(p.state, p.coop.id(), r, w.ask.Member, w.ask.SessionTimeout)}
				grants = append(grants, g)
			} else {
				g.entry.Last = r.Last
			}
			bytes -= g.add(f.batch)
			quota -= r.Last - r.First + 1
			if f.First = r.Last + 1; f.First > f.Last {
				list = list[1:]
			}
		}
	}
	kept := grants[:0]
	for _, g := range grants {
		if g.w.reserve(g) {
			kept = append(kept, g)
			acquisitions = append(acquisitions, g.entry)
		}
	}
	// Acquisitions first: a session entry behind the position that they know of their own member would void them.
	return kept, append(acquisitions, entries...), idle
}

// extend returns the last grant, if it is the waiter's own and r goes on where it ends.
func (p *place) extend(grants []*grant, w *waiting, f *free, r acquire.Range) *grant {
	if len(grants) == 0 {
		return nil
	}
	g := grants[len(grants)-1]
	if g.w == w.waiter && g.part == w.part && g.entry.Last+1 == r.First && !f.Again && len(g.entry.Over) == 0 && g.entry.Attempt == f.Attempts+1 {
		return g
	}
	return nil
}

// add adds a batch to those of a grant, and returns how many bytes that are.
func (g *grant) add(b wholeBatch) int64 {
	n := len(g.batches)
	if len(b.Data) == 0 || n > 0 && &g.batches[n-1][0] == &b.Data[0] {
		return 0
	}
	g.batches = append(g.batches, b.Data)
	g.bytes += int64(len(b.Data))
	return int64(len(b.Data))
}

// available lists what can be given out and is in memory, lowest first, about most
// offsets of it; it has read what is not. p.mu is held.
func (p *place) available(w *waiting, now, most int64) (list []free, n int64) {
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
		whole := f.Last
		batch, ok := p.chunks.find(f.First, w.readCommitted)
		if !ok {
			p.load(f.First, w.readCommitted)
			break
		}
		// Offsets before the batch, and behind the last of a chunk, hold nothing.
		f.Last = min(f.Last, batch.Last)
		list = append(list, free{f, batch})
		n += f.Last - f.First + 1
		if from = f.Last + 1; f.Last == whole && f.Again {
			continue
		}
	}
	// What comes next is read while this is on its way through the log.
	if at := p.state.Marker(); len(list) > 0 {
		if end, n := p.chunks.behind(at, w.readCommitted); n < readAhead {
			p.load(end, w.readCommitted)
		}
	}
	return list, n
}
