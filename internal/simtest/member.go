package simtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/tandem-kafka/tandem/internal/progress"
)

// slice is what a member owns: a slice of a view, or a whole source partition (k = 1).
type slice struct {
	key
	k         int32
	pos       int64 // next offset to do; -1: not known yet
	committed int64 // up to here its progress is stored, as far as the member knows
	began     int64 // where the gateway of this connection said it starts; -1: not known
}

// member is a consumer. Its input is a view, or the source (-1), which it commits directly on the broker.
type member struct {
	w          *world
	id, input  int
	generation int
	gw         *gateway
	slices     map[key]*slice
	read       map[key]bool // slices whose rows were read on this connection in this generation
	queue      []*request   // on the connection
	busy       bool         // waits for an answer
	txn        *txn
	rewind     *rewind
	failed     bool // its transaction has to be aborted
}

// rewind is a commit that goes back and is not acknowledged yet.
type rewind struct {
	s    *slice
	from int64 // the position before
	to   int64
	done map[*record]bool // again, since the seek
	at   int64            // when the broker accepted the commit; 0: not yet
}

func newMember(w *world, id, input int) *member {
	return &member{w: w, id: id, input: input, generation: w.broker.generation, gw: w.gateways[w.rng.IntN(len(w.gateways))],
		slices: map[key]*slice{}, read: map[key]bool{}}
}

// next is the member in the next generation.
func (m *member) next(generation int) *member {
	n := *m
	n.generation, n.read, n.rewind = generation, map[key]bool{}, nil
	if m.txn != nil {
		n.txn = nil
		m.w.leave(m, m.txn)
		for _, s := range m.slices {
			s.pos = -1
		}
	}
	n.busy, n.queue, n.failed = false, nil, false
	m.orphan()
	return &n
}

func (m *member) String() string { return fmt.Sprintf("m%d(%d)@g%d", m.id, m.input, m.gw.id) }

func (m *member) sorted() []*slice {
	return slices.SortedFunc(maps.Values(m.slices), func(a, b *slice) int {
		return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.slice, b.slice))
	})
}

// gone: the member crashed or left. Its requests may still arrive, its transaction ends some time.
func (m *member) gone() {
	m.orphan()
	if m.txn != nil {
		m.w.leave(m, m.txn)
	}
}

// leave: nobody waits for the transaction any more. Perhaps its end is on its way.
func (w *world) leave(m *member, t *txn) {
	t.late = t.sawRows && !w.broker.byTime && !m.failed && !m.busy && t.covered(m) && w.chance(60)
	if !t.late && (!t.sawRows || w.chance(50)) {
		w.decide(t, false)
	}
}

func (m *member) orphan() {
	for _, r := range m.queue {
		m.gw.answered(r, false)
		r.answer = func(bool, bool) {}
		m.w.orphans = append(m.w.orphans, r)
	}
	m.queue = nil
}

// reconnect moves the member to another connection, perhaps of another gateway.
func (m *member) reconnect() {
	m.orphan()
	m.busy, m.rewind, m.read = false, nil, map[key]bool{}
	m.gw = m.w.gateways[m.w.rng.IntN(len(m.w.gateways))]
	for _, s := range m.slices {
		s.began = -1
	}
	if m.txn != nil {
		m.w.decide(m.txn, false)
		m.afterAbort()
	}
}

// begin finds out where a slice starts.
func (m *member) begin(s *slice) {
	w := m.w
	if m.input < 0 {
		k := key{s.part, -1, 0}
		if w.exactly && w.broker.pending(k) {
			w.stats.waits++
			return
		}
		s.pos = 0
		if row, ok := w.broker.rows[k]; ok {
			s.pos = row.row.Offset
		}
	} else {
		pos, ok := m.gw.start(s.part, s.view, s.slice, w.exactly)
		if !ok {
			w.stats.waits++
			return
		}
		s.pos, s.began = pos, pos
	}
	s.committed = s.pos
	w.stats.starts++
	w.logf("%v begins part %d slice %d at %d", m, s.part, s.slice, s.pos)
	for _, t := range w.broker.undecided() {
		for _, r := range t.records {
			if t.sawRows && t.member != m.id && t.generation != w.mixedIn && w.parts[r.part].reset <= t.began && r.part == s.part && r.in(s.slice, s.k) && r.offset >= s.pos {
				t.unsafe = true
			}
		}
	}
}

// poll does some records of a slice.
func (m *member) poll() {
	ss := m.sorted()
	if len(ss) == 0 || m.failed {
		return
	}
	s := ss[m.w.rng.IntN(len(ss))]
	if s.pos < 0 {
		m.begin(s)
		return
	}
	m.do(s, 1+m.w.rng.IntN(5))
}

func (m *member) do(s *slice, n int) {
	p := m.w.parts[s.part]
	for _, r := range p.records {
		if n == 0 {
			return
		}
		if r.offset < s.pos || !r.in(s.slice, s.k) {
			continue
		}
		n--
		s.pos = r.offset + 1
		if m.w.exactly {
			if m.txn == nil {
				m.w.lastID++
				m.txn = &txn{id: m.w.lastID, member: m.id, rows: map[key]stored{}, generation: m.generation, began: m.w.broker.seq}
				m.w.broker.txns[m.txn.id] = m.txn
			}
			m.txn.records = append(m.txn.records, r)
		} else {
			r.open, r.lenient = false, false
		}
		if m.rewind != nil && m.rewind.s == s {
			m.rewind.done[r] = true
		}
	}
	if n > 0 && m.w.chance(30) { // at the end: clients' positions move over what is empty
		s.pos = max(s.pos, p.ownEnd(s.slice, s.k))
	}
}

// commit commits the positions of some slices.
func (m *member) commit() {
	if m.busy || m.failed || m.rewind != nil {
		return
	}
	var some []*slice
	for _, s := range m.sorted() {
		if s.pos >= 0 && (m.w.quiet || m.w.exactly || m.w.chance(60)) {
			some = append(some, s)
		}
	}
	if len(some) == 0 || m.w.exactly && m.txn == nil && !m.w.quiet {
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
				if t == nil && a.s.began > a.pos {
					a.s.began = a.pos // it has gone back, once
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
			if late, vague := r.late, w.mixed || w.parts[a.s.part].vague; t == nil {
				w.raise(a.s, a.pos, late)
			} else {
				t.raise = append(t.raise, func() {
					if w.parts[a.s.part].reset <= t.began {
						w.raise(a.s, a.pos, late || vague)
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
		commits[a.s.part] = append(commits[a.s.part], progress.Commit{View: a.s.view, Slice: a.s.slice, Offset: a.pos, LeaderEpoch: -1, Metadata: &text, Began: a.s.began})
	}
	if !m.gw.commit(m, commits, t, answer) {
		m.busy, m.rewind = false, nil
		return
	}
	m.queue[len(m.queue)-1].accepted = accepted
}

// lower notes that a slice may begin at pos again.
func (p *part) lower(slice, k int32, pos int64) {
	for j := slice; j < positions; j += k {
		p.acked[j] = min(p.acked[j], pos)
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
		p.lower(s.slice, s.k, pos)
	}
	if p.vague || late {
		return
	}
	for j := s.slice; j < positions; j += s.k {
		p.acked[j] = max(p.acked[j], pos)
		if s.view < 0 {
			p.acked[j] = pos
		}
	}
}

// seekBack goes back in a slice and commits there. Only where the whole group reads one input: readers of the same
// records at the same time make each other's rewinds void.
func (m *member) seekBack() {
	if m.busy || m.failed || m.rewind != nil || m.w.mixed || m.w.quiet || m.txn != nil && !m.w.chance(50) {
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
	if m.w.exactly {
		if m.txn != nil {
			return // after its transaction
		}
		m.w.lastID++
		m.txn = &txn{id: m.w.lastID, member: m.id, rows: map[key]stored{}, generation: m.generation, began: m.w.broker.seq}
		m.w.broker.txns[m.txn.id] = m.txn
	}
	from := min(s.pos, s.committed)
	s.pos = m.w.rng.Int64N(s.pos)
	p.lower(s.slice, s.k, s.pos)
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
		began, p := m.txn.began, w.parts[r.s.part]
		m.txn.raise = append(m.txn.raise, func() {
			if p.touched <= began {
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
	r.at = w.now
}

// settleRewind answers a commit that goes back once no gateway can write from a picture of before: the source row must
// not count the slice where it was.
func (m *member) settleRewind() {
	w, r := m.w, m.rewind
	if r == nil || r.at == 0 || w.now < r.at+settle {
		return
	}
	p := w.broker.fetch(r.s.part, w.views, false)
	stable := p.Stable(0, w.parts[r.s.part].truth(w.views))
	if offset, ours := p.Source(); ours && offset <= stable {
		m.rewind = nil
		w.reopen(r, false)
		w.logf("%v: going back to %d is acknowledged", m, r.to)
		return
	}
	r.at = 0
	at := *r.s
	at.pos = r.to
	m.send([]*slice{&at}, m.rewound)
}

func (p *part) truth(views []progress.View) progress.NextRecord {
	return func(v int, s int32, from int64) int64 { return p.nextRecord(s, views[v].K, from) }
}

// reopen: what the member had passed is to be done again, but for what was since.
func (w *world) reopen(b *rewind, lenient bool) {
	w.stats.acknowledgedBacks++
	w.changed = true
	for _, r := range w.parts[b.s.part].records {
		if r.offset >= b.to && r.offset < b.from && r.in(b.s.slice, b.s.k) && !b.done[r] && !r.open {
			r.open, r.lenient = true, lenient
		}
	}
}

// decide ends the member's transaction.
func (m *member) decide(commit bool) {
	if m.txn == nil || m.busy {
		return
	}
	if commit && !m.failed && m.txn.covered(m) {
		t := m.txn
		m.txn = nil
		m.w.decide(t, true)
		return
	}
	m.w.decide(m.txn, false)
	m.afterAbort()
}

// covered reports whether all records of the transaction are below offsets in it.
func (t *txn) covered(m *member) bool {
	for _, r := range t.records {
		ok := false
		for k, s := range t.rows {
			if k.view == m.input && k.part == r.part && s.row.Offset > r.offset {
				ok = ok || m.input < 0 || r.in(k.slice, m.w.views[k.view].K)
			}
		}
		if !ok {
			return false
		}
	}
	return true
}

// afterAbort goes back to what is committed.
func (m *member) afterAbort() {
	m.txn, m.failed, m.rewind = nil, false, nil
	for _, s := range m.slices {
		s.pos = -1
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
