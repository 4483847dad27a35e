package simtest

import (
	"slices"

	"github.com/tandem-kafka/tandem/internal/progress"
)

// rewind is a commit that goes back and is not acknowledged yet.
type rewind struct {
	s    *slice
	from int64 // the position before
	to   int64
	done map[*record]bool // again, since the seek
	at   int64            // when the broker accepted the commit; 0: not yet
}

// seekBack goes back in a slice and commits there. Only where the whole group reads one input: readers of the same
// records at the same time make each other's rewinds void.
func (m *member) seekBack() {
	if m.busy || m.failed || m.rewind != nil || m.w.mixed || len(m.w.byBase) > 1 || m.w.quiet || m.txn != nil && !m.w.chance(50) {
		return
	}
	if slices.ContainsFunc(m.w.orphans, func(r *request) bool { return r.member == m.id }) {
		return // an older commit of its own that overtakes it makes a rewind void in Kafka, too
	}
	ss := m.sorted()
	if len(ss) == 0 {
		return
	}
	s := ss[m.w.rng.IntN(len(ss))]
	if s.pos < 1 {
		return
	}
	p := m.w.parts[s.part]
	if p.vague {
		return // a row of a tool, too, that another gateway adopts at the same time makes a rewind void
	}
	if m.exactly {
		if m.txn != nil {
			return // after its transaction
		}
		m.w.lastID++
		m.txn = &txn{id: m.w.lastID, member: m.id, rows: map[key]stored{}, generation: m.generation, began: m.w.broker.seq}
		m.w.broker.txns[m.txn.id] = m.txn
	}
	from := min(s.pos, s.committed)
	s.pos = m.w.rng.Int64N(s.pos)
	p.lower(s.slice, s.shape, s.pos)
	m.rewind = &rewind{s: s, from: from, to: s.pos, done: map[*record]bool{}}
	m.w.logf("%v seeks back in part %d slice %d to %d", m, s.part, s.slice, s.pos)
	m.send([]*slice{s}, m.rewound)
}

// rewound: the broker has accepted a commit that goes back.
func (m *member) rewound() {
	w, r := m.w, m.rewind
	if r == nil {
		return
	}
	if m.txn != nil {
		// It counts when the transaction is decided.
		m.rewind = nil
		began, generation, p := m.txn.began, m.txn.generation, w.parts[r.s.part]
		m.txn.raise = append(m.txn.raise, func() {
			// A member that does not wait for transactions may have begun where the slice was, and commit that: as in Kafka.
			overtaken := w.changes && generation != w.broker.generation
			if p.touched <= began && !overtaken {
				w.reopen(r, true)
			}
		})
		return
	}
	if m.input < 0 {
		m.rewind = nil
		w.reopen(r, false)
		return
	}
	if at, seen := m.gw.others[pic{r.s.part, r.s.base}]; !seen || w.now-at > 2*lease {
		// It looks as if there was no other gateway. Should one commit for the first time just now, then its source row does
		// not know of this.
		m.rewind = nil
		w.reopen(r, true)
		w.logf("%v: going back to %d is acknowledged at once", m, r.to)
		return
	}
	r.at = w.now
}

// settleRewind answers a commit that goes back once no gateway can write from a picture of before: the source row must
// not count the slice where it was.
func (m *member) settleRewind() {
	w, r := m.w, m.rewind
	if r == nil || r.at == 0 || w.now < r.at+settle {
		return
	}
	pc := pic{r.s.part, r.s.base}
	if m.gw.locked(pc, false) {
		return
	}
	r.at = 0
	acknowledged := func() {
		m.rewind = nil
		w.reopen(r, false)
		w.logf("%v: going back to %d is acknowledged", m, r.to)
	}
	m.busy = m.gw.writeSources(m, []pic{pc}, func(p *progress.Picture, stable int64) bool {
		offset, ours := p.Source()
		return ours && offset > stable
	}, func(ok, known bool) {
		m.busy = false
		switch {
		case ok && known:
			acknowledged()
		case known:
			m.rewind = nil // fenced
		default:
			m.reconnect()
		}
	})
	if !m.busy {
		acknowledged()
	}
}

// reopen: what the member had passed is to be done again, but for what was since.
func (w *world) reopen(b *rewind, lenient bool) {
	w.stats.acknowledgedBacks++
	w.changed = true
	for _, r := range w.parts[b.s.part].records {
		if r.offset >= b.to && r.offset < b.from && r.in(b.s.slice, b.s.shape) {
			if !r.open {
				r.open, r.lenient = true, lenient
			}
			r.done = b.done[r]
		}
	}
}
