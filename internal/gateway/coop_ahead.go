package gateway

import (
	"time"

	"github.com/tandem-kafka/tandem/internal/acquire"
)

// A turn of the log takes some milliseconds, which records would wait for. So at the end
// of a partition the next few offsets are acquired for the members that wait there before
// there are records: they are kept, and the member is told of them at once when
// their records are read. What a member does not come for is left to others. Whatever
// wins is kept first, also what was acquired for a fetch that may be answered meanwhile.

const (
	// aheadWindow is how many offsets are acquired ahead of the records, for all members together.
	aheadWindow = 64
	// comeWithin is how long, in ms, what is kept waits for its member when its records are there and somebody has nothing to do: longer than from an answer
	// to the next fetch; and stayFor when nobody waits for it.
	comeWithin, stayFor = 4, 500
	// releaseAfter is how long, in ms, what was left stays for members of this gateway before it is given back to all, and at most while that fails.
	releaseAfter, releaseAtMost = 50, 1000
)

// placeMember is a member as a place knows it by its fetches.
type placeMember struct {
	c       *conn
	timeout int32
}

// isAt takes note of the connection on which a member fetches. On another one it may have been elsewhere, where it did not say that it has what is kept for it
// here: so others may have that. p.mu is held.
func (p *place) isAt(w *waiter) {
	m := p.fetchers[w.ask.Member]
	if m == nil || m.c != w.c {
		p.leave(w.ask.Member, acquire.Everything)
		if len(p.fetchers) > maxSlices {
			for m := range p.fetchers {
				p.leave(m, acquire.Everything)
			}
			clear(p.fetchers)
		}
		m = &placeMember{c: w.c}
		p.fetchers[w.ask.Member] = m
	}
	if w.ask.SessionTimeout > 0 {
		m.timeout = w.ask.SessionTimeout
	}
}

// isHere reports whether the member of a fetch fetched here last: it may be elsewhere by now. p.mu is held.
func (p *place) isHere(w *waiting) bool {
	m := p.fetchers[w.ask.Member]
	return m != nil && m.c == w.c
}

// keep keeps an acquisition that has won for its member, or, if that fetches elsewhere by now or not at all, for others. p.mu is held.
func (p *place) keep(g *grant) {
	p.state.Keep(g.entry.ID)
	if m := p.fetchers[g.entry.Member]; m == nil || m.c != g.c {
		p.leave(g.entry.Member, acquire.Range{First: g.entry.First, Last: g.entry.Last})
	}
}

// forget leaves what is kept for a member to others, if it fetched on a connection last. p.mu is held.
func (p *place) forget(member string, c *conn) {
	if m := p.fetchers[member]; m != nil && m.c == c {
		delete(p.fetchers, member)
		p.leave(member, acquire.Everything)
	}
}

// leave leaves what is kept for a member to others: at first to those that fetch here, then to all. p.mu is held.
func (p *place) leave(member string, r acquire.Range) {
	if p.state.Leave(member, r) {
		p.left = nowMs()
		p.start()
	}
}

// leaveAll is leave for all that is kept: nobody has come for a while, and nobody would see here that there are records. p.mu is held.
func (p *place) leaveAll() {
	var members []string
	p.state.Kept(nowMs(), func(k acquire.Kept) bool {
		members = append(members, k.Member)
		return true
	})
	for _, m := range members {
		p.leave(m, acquire.Everything)
	}
}

// firstKept is the lowest offset that is kept. p.mu is held.
func (p *place) firstKept() (first int64, ok bool) {
	p.state.Kept(nowMs(), func(k acquire.Kept) bool {
		first, ok = k.First, true
		return false
	})
	return first, ok
}

// deliver tells those who wait of what is kept for them and is in memory. It returns when to look again at what members have not come for. p.mu is held.
func (p *place) deliver(now int64) (until time.Duration) {
	until = time.Second
	if p.state.Doubtful() || p.disturbed {
		return until
	}
	held := p.coop.gw.facts.undecided(p.key)
	var told []acquire.Kept
	behind := make(map[string]bool) // members with more than they come for
	p.state.Kept(now, func(kept acquire.Kept) bool {
		member := kept.Member
		var w *waiting
		for _, o := range p.waiters {
			if o.ask.Member == member && kept.Timely {
				w = o
			}
		}
		committed := p.committed
		if w != nil {
			committed = w.readCommitted
		}
		for _, r := range without(kept.Range, held) {
			for r.First <= r.Last {
				b, k, ok := p.chunks.find(r.First, committed)
				if !ok { // nor is what comes behind it
					if w != nil || p.hungry {
						p.load(r.First, committed)
					}
					return false
				}
				last, n := min(r.Last, b.Last), int64(0)
				if w != nil && !behind[member] {
					kept.Range = acquire.Range{First: r.First, Last: last}
					n = w.give(kept, partBatch{b, k}, p.coop.memory, p.chunks.ends)
				}
				if n > 0 {
					kept.Last = r.First + n - 1
					told = append(told, kept)
				}
				if r.First += n; r.First <= last {
					behind[member] = true
					break
				}
			}
		}
		return true
	})
	for _, t := range told {
		p.state.Tell(t.Member, t.Range)
	}
	for m := range p.behind {
		if !behind[m] {
			delete(p.behind, m)
		}
	}
	for m := range behind {
		since, ok := p.behind[m]
		if !ok {
			since = now
			p.behind[m] = now
		}
		wait := int64(stayFor)
		if p.hungry {
			wait = comeWithin
		}
		if late := now - since; late < wait {
			until = min(until, time.Duration(wait-late)*time.Millisecond)
			continue
		}
		p.leave(m, acquire.Everything)
		delete(p.behind, m)
		until = 0
	}
	if len(told) > 0 && p.running {
		p.start() // for what comes next
	}
	return until
}

// kept is how many offsets are kept for each member, and of how many of them there may be records: the others lie behind the end. p.mu is held.
func (p *place) kept(now int64, committed bool) (all, due map[string]int64) {
	all, due = make(map[string]int64), make(map[string]int64)
	end, known := p.chunks.end(committed)
	p.state.Kept(now, func(k acquire.Kept) bool {
		all[k.Member] += k.Last - k.First + 1
		if known {
			k.Last = min(k.Last, end-1)
		}
		if k.First <= k.Last {
			due[k.Member] += k.Last - k.First + 1
		}
		return true
	})
	return all, due
}

// ahead acquires what comes next for those who still wait, when all that is there is acquired. p.mu is held.
func (p *place) ahead(open []*waiting, kept map[string]int64, from, now int64) (grants []*grant) {
	most := max(1, aheadWindow/int64(len(open)))
	need := make([]int64, len(open))
	total := int64(0)
	for i, w := range open {
		records, _ := w.wants()
		if want, has := min(records, most), kept[w.ask.Member]; 2*has <= want {
			need[i] = want - has
			total += need[i]
		}
	}
	for total > 0 {
		f, ok := p.state.Next(from, now)
		if !ok {
			break
		}
		if from = f.Last + 1; f.Again || f.Attempts > 0 {
			continue
		}
		for ; total > 0 && f.First <= f.Last; total-- {
			i := mostOf(need, p.turn)
			need[i]--
			m := open[i].ask.Member
			grants = p.acquire(grants, m, p.fetchers[m], &f, acquire.Range{First: f.First, Last: f.First})
			f.First++
		}
	}
	return grants
}

// mostOf is the index of the greatest number, of several the first one from a turn on.
func mostOf(numbers []int64, turn int) (at int) {
	at = turn % len(numbers)
	for i := range numbers {
		if j := (turn + i) % len(numbers); numbers[j] > numbers[at] {
			at = j
		}
	}
	return at
}

// releaseIn is how long, in ms, after it was left something is given back: longer while the log takes nothing. p.mu is held.
func (p *place) releaseIn() int64 { return min(int64(releaseAfter)<<min(p.refused, 10), releaseAtMost) }

// release gives back what members did not come for, or do not have, and nobody else here has taken. p.mu is held.
func (p *place) release(now int64) (entries []acquire.Entry) {
	if p.left == 0 || now-p.left < p.releaseIn() {
		return nil
	}
	p.left = 0
	return p.state.Release(p.coop.id)
}
