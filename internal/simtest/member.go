package simtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// slice is what a member owns: a slice of a view, or a whole source partition (k = 1).
type slice struct {
	key
	shape
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
	failed     bool         // its transaction has to be aborted
	exactly    bool         // it commits in transactions, and reads what is stable
	refused    map[key]bool // slices whose last commit the cluster refused, on this connection
}

func newMember(w *world, id, input int) *member {
	return &member{w: w, id: id, input: input, generation: w.broker.generation, exactly: w.exactly && !w.loose, gw: w.gateways[w.rng.IntN(len(w.gateways))],
		slices: map[key]*slice{}, read: map[key]bool{}, refused: map[key]bool{}}
}

// next is the member in the next generation.
func (m *member) next(generation int) *member {
	n := *m
	n.exactly = m.w.exactly && !m.w.loose
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

func (m *member) orphan() {
	for _, r := range m.queue {
		if r.corrects != nil {
			m.gw.answered(r.corrects, false)
			m.w.settleDebts(r.corrects, false)
		}
		m.gw.answered(r, false)
		r.answer = func(bool, bool) {}
		m.w.orphans = append(m.w.orphans, r)
	}
	m.queue = nil
}

// reconnect moves the member to another connection, perhaps of another gateway.
func (m *member) reconnect() {
	m.orphan()
	m.busy, m.rewind, m.read, m.refused = false, nil, map[key]bool{}, map[key]bool{}
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
		if m.exactly && w.broker.pending(k) {
			w.stats.waits++
			return
		}
		s.pos = 0
		if row, ok := w.broker.rows[k]; ok {
			s.pos = row.row.Offset
		}
	} else {
		pos, ok := m.gw.start(s.part, s.view, s.slice, m.exactly)
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
			if m.exactly && t.sawRows && t.member != m.id && t.generation != w.mixedIn && w.parts[r.part].reset <= t.began && r.part == s.part && r.in(s.slice, s.shape) && r.offset >= s.pos {
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
		if r.offset < s.pos || !r.in(s.slice, s.shape) {
			continue
		}
		n--
		s.pos = r.offset + 1
		if m.exactly {
			if m.txn == nil {
				m.w.lastID++
				m.txn = &txn{id: m.w.lastID, member: m.id, rows: map[key]stored{}, generation: m.generation, began: m.w.broker.seq}
				m.w.broker.txns[m.txn.id] = m.txn
			}
			m.txn.records = append(m.txn.records, r)
		} else {
			r.done = true
		}
		if m.rewind != nil && m.rewind.s == s {
			m.rewind.done[r] = true
		}
	}
	if n > 0 && m.w.chance(30) { // at the end: clients' positions move over what is empty
		s.pos = max(s.pos, p.ownEnd(s.slice, s.shape))
	}
}
