package facts

import (
	"slices"
	"strconv"

	"github.com/tandem-kafka/tandem/internal/progress"
)

// rewind is a commit that goes back and is not acknowledged yet.
type rewind struct {
	s    *share
	from int64 // the position before
	to   int64
	done map[*record]bool // again, since the seek
	// began is where the gateway had said that it starts, and era the one that the commit was planned for.
	began, era int64
	exposed    bool // Plan.Exposed
	tries      int
	at         int64 // when the gateway has the broker's answer; 0: not yet
}

// seekBack goes back in a slice of a view and commits there. Only where no record is read twice: readers of the same records at the
// same time make each other's rewinds void. So do bases of which one does not know the other's.
func (m *member) seekBack() {
	w := m.w
	if m.busy != nil || m.rewind != nil || m.producer != nil || w.double || w.grown || w.quiet || w.untagged() {
		return
	}
	if slices.ContainsFunc(w.orphans, func(r *request) bool { return r.member == m.id }) {
		return // an older commit of its own that overtakes it makes a rewind void in Kafka, too
	}
	var ss []*share
	for _, s := range m.shares {
		if s.view >= 0 && !s.individually && s.begun && s.pos > 0 {
			ss = append(ss, s)
		}
	}
	if len(ss) == 0 {
		return
	}
	s := ss[w.rng.IntN(len(ss))]
	from := min(s.pos, s.committed)
	s.pos = w.rng.Int64N(s.pos)
	w.lower(s.keys, s.base, s.pos)
	m.rewind = &rewind{s: s, from: from, to: s.pos, began: s.began, done: map[*record]bool{}}
	w.logf("%v seeks back in %v to %d", m, s, s.pos)
	m.send(&request{m: m, base: s.base}, []*share{s})
	if m.busy == nil { // it has to wait, and does without
		m.rewind = nil
	}
}

// rewound: the broker has accepted a commit that goes back.
func (m *member) rewound() {
	w, r := m.w, m.rewind
	if at, seen := m.gw.signs[r.s.base]; (!seen || w.now-at > 2*lease) && !r.exposed {
		// It looks as if there was no other gateway. Should one commit for the first time just now, then its source row does
		// not know of this.
		m.rewind = nil
		w.reopen(r, true)
		return
	}
	r.at = w.now
}

// settleRewind answers a commit that goes back once no gateway can write from a picture of before: the source row must
// not count the slice where it was.
func (m *member) settleRewind() {
	w, r := m.w, m.rewind
	if r == nil || r.at == 0 || w.now < r.at+settle || m.gw.locked(r.s.base, false) {
		return
	}
	r.at = 0
	if row := w.broker.rows[source]; progress.SourceIsOurs(row.Metadata, row.Offset) && eraOf(row) != strconv.FormatInt(r.era, 10) {
		// Somebody has opened an era, in which what went back does not count.
		if r.tries == 3 {
			w.logf("%v: going back to %d fails", m, r.to)
			m.rewind = nil
			return
		}
		r.tries++
		w.logf("%v goes back in %v to %d once more", m, r.s, r.to)
		w.lower(r.s.keys, r.s.base, r.to)
		m.send(&request{m: m, base: r.s.base}, []*share{r.s})
		if m.busy == nil {
			r.at, r.tries = w.now-settle+1, r.tries-1 // it has to wait
		}
		return
	}
	acknowledged := func(ok, known bool) {
		m.busy, m.rewind = nil, nil
		switch {
		case ok && known:
			w.reopen(r, false)
			w.logf("%v: going back to %d is acknowledged", m, r.to)
		case !known:
			m.reconnect()
		}
	}
	if !m.writeSource(r.s.base, func(p *progress.Picture, stable int64) bool {
		offset, ours := p.Source()
		return ours && offset > stable
	}, acknowledged) {
		acknowledged(true, true)
	}
}

// reopen: what the member had passed is to be done again, but for what was since.
func (w *world) reopen(b *rewind, lenient bool) {
	w.changed = true
	b.s.began = b.to
	for _, r := range w.records {
		if r.offset >= b.to && r.offset < b.from && r.in(b.s.keys, b.s.base) {
			if !r.open {
				r.open, r.lenient = true, lenient
			}
			r.done = b.done[r]
			w.reopened(r)
		}
	}
}

// writeSource reads the rows afresh and writes the source row if that is wanted, in a request of the gateway's own with the member's
// generation. It is false where there is nothing to write; it waits for nothing.
func (m *member) writeSource(base int, wanted func(p *progress.Picture, stable int64) bool, answer func(ok, known bool)) bool {
	g := m.gw
	if m.busy != nil || g.locked(base, false) {
		return false
	}
	g.refresh(base)
	p := g.pictures[base].Clone()
	attach(p, g, base)
	if !wanted(p, p.Stable(0, g.next(base))) {
		return false
	}
	r := &request{m: m, base: base, answer: answer, reads: g.reads[base]}
	r.plan = p.Plan(nil, progress.Env{Next: g.next(base), NowMs: m.w.now + 1000, SourcePending: p.Foreign() && m.w.pending(source)})
	if r.plan.Opens && g.undecided() {
		return false // which era is next the transaction decides
	}
	m.busy = r
	m.w.stats.sources++
	g.send(r)
	return true
}

// heartbeat raises the source row of commits that have come to rest.
func (m *member) heartbeat() {
	g := m.gw
	if m.busy != nil || m.rewind != nil || len(m.shares) == 0 {
		return
	}
	base := m.shares[0].base
	if at, ok := g.unsettled[base]; !ok || m.w.now-at <= rest || g.locked(base, false) {
		return
	}
	if m.w.pending(source) {
		return
	}
	delete(g.unsettled, base)
	m.writeSource(base, func(p *progress.Picture, stable int64) bool {
		offset, ours := p.Source()
		return ours && offset >= 0 && offset < stable
	}, func(_, known bool) {
		m.busy = nil
		if !known {
			m.reconnect()
		}
	})
}
