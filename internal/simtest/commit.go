package simtest

import (
	"github.com/tandem-kafka/tandem/internal/progress"
)

// commit commits the positions of some slices.
func (m *member) commit() {
	if m.busy || m.failed || m.rewind != nil {
		return
	}
	var some []*slice
	for _, s := range m.sorted() {
		if s.pos >= 0 && (m.w.quiet || m.exactly || m.w.chance(60)) {
			some = append(some, s)
		}
	}
	if len(some) == 0 || m.exactly && m.txn == nil && !m.w.quiet {
		return
	}
	m.send(some, nil)
}

// send puts a commit on its way. done is called when the broker has accepted it.
func (m *member) send(some []*slice, done func()) {
	w := m.w
	t := m.txn
	type at struct {
		s   *slice
		pos int64
	}
	var ats []at
	for _, s := range some {
		ats = append(ats, at{s, s.pos})
	}
	m.busy = true
	answer := func(ok, known bool) {
		m.busy = false
		if ok && known {
			for _, a := range ats {
				a.s.committed = a.pos
				if t == nil {
					a.s.began = a.pos
				}
			}
		}
		switch {
		case !known:
			w.stats.lost++
			m.reconnect()
		case !ok:
			m.failed = t != nil
			m.rewind = nil
		case done != nil:
			done()
		}
	}
	accepted := func(r *request) {
		w.stats.commits++
		for _, a := range ats {
			if r.refused[a.s.key] {
				continue
			}
			if len(r.refused) > 0 && t == nil {
				w.close(a.s, a.pos) // nothing is promised for it if what belongs to it was refused
				continue
			}
			if late, vague := r.late, w.mixed || w.parts[a.s.part].vague; t == nil {
				w.close(a.s, a.pos)
				w.raise(a.s, a.pos, late)
			} else {
				t.raise = append(t.raise, func() {
					if w.parts[a.s.part].reset <= t.began {
						w.close(a.s, a.pos)                             // done before in a generation without transactions
						w.raise(a.s, a.pos, late || vague || w.changes) // a row of a later commit may stand
					}
				})
			}
		}
	}
	if m.input < 0 {
		text := ""
		r := &request{member: m.id, generation: m.generation, txn: t, writes: map[int][]progress.Write{}, sent: w.now, answer: answer, accepted: accepted}
		for _, a := range ats {
			r.writes[a.s.part] = []progress.Write{{View: -1, Offset: a.pos, LeaderEpoch: -1, Metadata: &text}}
		}
		m.queue = append(m.queue, r)
		return
	}
	commits := map[int][]progress.Commit{}
	for _, a := range ats {
		text := "text"
		commits[a.s.part] = append(commits[a.s.part], progress.Commit{View: w.local[a.s.view], Slice: a.s.slice, Offset: a.pos, LeaderEpoch: -1, Metadata: &text, Began: a.s.began})
	}
	if !m.gw.commit(m, commits, t, answer) {
		m.busy, m.rewind = false, nil
		return
	}
	m.queue[len(m.queue)-1].accepted = accepted
}

// lower notes that a slice may begin at pos again.
func (p *part) lower(slice int32, sh shape, pos int64) {
	for b := range p.acked {
		for j := slice; j < positions && (b == sh.base || sh.k == 1); j += sh.k {
			p.acked[b][j] = min(p.acked[b][j], pos)
		}
	}
}

// close: what was done is committed. That a record was done does not count without: another client may be meant to do it
// again, and with other results. Nor does a commit for a record that was skipped.
func (w *world) close(s *slice, pos int64) {
	for _, r := range w.parts[s.part].records {
		if r.done && r.offset < pos && r.in(s.slice, s.shape) {
			r.open, r.lenient, r.done = false, false, false
		}
	}
}

// raise notes that a commit was accepted.
func (w *world) raise(s *slice, pos int64, late bool) {
	p := w.parts[s.part]
	for _, r := range p.records { // a tool's wish for a view is nothing to a plain consumer
		if s.view < 0 && r.lenient && r.offset < pos {
			r.open = false
		}
	}
	if late || s.view < 0 { // as in Kafka, a row goes back when an older commit overtakes a newer one, and with a plain one all does
		p.lower(s.slice, s.shape, pos)
	}
	if p.vague || late {
		return
	}
	for b := range p.acked {
		for j := s.slice; j < positions; j += s.k {
			if s.view < 0 {
				p.acked[b][j] = pos
			} else if b == s.base {
				p.acked[b][j] = max(p.acked[b][j], pos)
			}
		}
	}
}

// flush is a graceful stop: commit and wait for the answer.
func (m *member) flush() {
	for len(m.queue) > 0 {
		m.w.handle(m, true)
	}
	m.commit()
	for len(m.queue) > 0 {
		m.w.handle(m, true)
	}
	m.decide(true)
}
