package facts

import (
	"fmt"
	"slices"

	"github.com/tandem-kafka/tandem/keyrange"
)

// share is what a member owns: a key range of the source, or a slice of a view.
type share struct {
	key          // of the view's row; view -1: a key range of the source
	keys         keyrange.Range
	base         int
	individually bool // it commits what is done, otherwise a position below which everything is
	begun        bool
	from         int64            // where it began
	pos          int64            // next offset to do, where it commits positions
	committed    int64            // up to here its position is stored, as far as the member knows
	began        int64            // what the gateway of this connection said; -1: it did not ask
	skip, did    map[*record]bool // not to be done, and done
	said         map[*record]bool // of those: committed
}

func (s *share) plain() bool { return s.view < 0 && !s.individually }

func (s *share) String() string {
	if s.plain() {
		return "all"
	}
	if s.view < 0 {
		return fmt.Sprintf("%v/%d", s.keys, s.base)
	}
	return fmt.Sprintf("v%d/%d(%v)", s.view, s.slice, s.individually)
}

// same reports whether two shares are of the same thing.
func (s *share) same(o *share) bool {
	return s.key == o.key && s.keys == o.keys && s.base == o.base && s.individually == o.individually
}

// member is a consumer.
type member struct {
	w              *world
	id, generation int
	gw             *gateway
	shares         []*share
	read           map[key]bool // what it committed on this connection in this generation
	queue          []*request   // on the connection
	busy           *request     // waits for an answer
	producer       *producer    // nil: it does not commit in transactions
	txn            *txn         // its own, as far as it knows; nil: none
	rewind         *rewind
}

func (m *member) String() string { return fmt.Sprintf("m%d@g%d", m.id, m.gw.id) }

func newMember(w *world) *member {
	w.lastID++
	m := &member{w: w, id: w.lastID, generation: w.broker.generation, gw: w.gateways[w.rng.IntN(len(w.gateways))], read: map[key]bool{}}
	if w.kind == exactly || w.kind == mixed && w.chance(50) {
		m.producer = &producer{id: int64(m.id)}
	}
	return m
}

// next is the member in the next generation.
func (m *member) next(generation int) *member {
	n := *m
	m.orphan()
	n.generation, n.read, n.rewind, n.busy, n.queue = generation, map[key]bool{}, nil, nil, nil
	return &n
}

// orphan: nobody waits for the member's requests any more. They may still arrive.
func (m *member) orphan() {
	if r := m.busy; r != nil {
		r.gone = true
		if r.gw != nil && r.gw.life == r.life {
			r.gw.ended(r, false)
		}
	}
	for _, r := range m.queue {
		r.gone = true
		m.w.orphans = append(m.w.orphans, r)
	}
	m.queue, m.busy = nil, nil
}

// reconnect moves the member to another connection, perhaps of another gateway.
func (m *member) reconnect() {
	m.orphan()
	m.rewind, m.read = nil, map[key]bool{}
	m.gw = m.w.gateways[m.w.rng.IntN(len(m.w.gateways))]
	for _, s := range m.shares {
		s.began = -1
	}
}

// act has the member do one random thing.
func (m *member) act() {
	w := m.w
	switch n := w.rng.IntN(92); {
	case n < 40 && len(m.shares) > 0:
		s := m.shares[w.rng.IntN(len(m.shares))]
		if !s.begun {
			m.begin(s)
		} else {
			m.do(s, 1+w.rng.IntN(5))
		}
	case n < 70:
		m.commit()
	case n < 76 && m.producer != nil:
		m.end()
	case n < 76 && m.generation == w.broker.generation:
		m.seekBack()
	case n < 83:
		w.produce()
	case n < 85:
		w.expire()
	case n < 88:
		m.reconnect()
	default:
		m.heartbeat()
	}
}

// regroup begins a new generation with a random way to deal the partition.
func (w *world) regroup() {
	base := 0
	if w.grown && w.chance(50) {
		base = 1
		w.stats.grown++
	}
	n := w.rng.IntN(100)
	if w.kind == exactly {
		n = n * 82 / 100
	}
	switch {
	case n < 48:
		w.rebalance(1+w.rng.IntN(3), func() []*share { return w.ranges(base) })
	case n < 60:
		if v := w.viewOf(base); v >= 0 {
			w.rebalance(1+w.rng.IntN(3), func() []*share { return w.slices(v) })
		}
	case n < 82:
		w.rebalance(1+w.rng.IntN(3), func() []*share { return w.tree(base, 0, grains-1, true) })
	case n < 89:
		w.rebalance(2+w.rng.IntN(2), func() []*share {
			w.double = true
			if v := w.viewOf(base); v >= 0 {
				return append(w.tree(base, 0, grains-1, true), w.slices(v)...)
			}
			return w.ranges(base)
		})
	case n < 96:
		w.rebalance(1, w.whole)
	default:
		w.rebalance(2, func() []*share {
			w.double, w.mixed = true, true
			return append(w.whole(), w.ranges(base)...)
		})
	}
}

// viewOf is a view of a base, -1 where there is none.
func (w *world) viewOf(base int) int {
	var of []int
	for v, b := range w.bases {
		if b == base {
			of = append(of, v)
		}
	}
	if len(of) == 0 {
		return -1
	}
	return of[w.rng.IntN(len(of))]
}

// whole is the partition as a plain consumer has it.
func (w *world) whole() []*share { return []*share{{key: source, keys: keyrange.Full}} }

// ranges cuts the key axis into key ranges.
func (w *world) ranges(base int) (ss []*share) {
	for first := 0; first < grains; {
		last := first + w.rng.IntN(grains-first)
		ss = append(ss, &share{key: source, keys: grainsOf(first, last), base: base, individually: true})
		first = last + 1
	}
	return ss
}

func (w *world) slices(v int) (ss []*share) {
	individually := w.chance(25)
	for s := range w.views[v].K {
		k := key{v, s}
		ss = append(ss, &share{key: k, keys: w.keys(k), base: w.bases[v], individually: individually})
	}
	return ss
}

// tree cuts the key axis into key ranges and into slices of views of different sizes.
func (w *world) tree(base, first, last int, top bool) []*share {
	keys := grainsOf(first, last)
	// The first facts of a group of transactions are the limit: no positions are committed beside them.
	both := w.kind == direct || len(w.log.live()) > 0
	if v := w.viewOf(base); v >= 0 && w.chance(60) && both {
		for s := range w.views[v].K {
			if k := (key{v, s}); w.keys(k) == keys {
				return []*share{{key: k, keys: keys, base: base, individually: w.chance(25)}}
			}
		}
	}
	if first == last || !top && w.chance(30) {
		return []*share{{key: source, keys: keys, base: base, individually: true}}
	}
	mid := (first + last) / 2
	return append(w.tree(base, first, mid, false), w.tree(base, mid+1, last, false)...)
}

// rebalance begins a new generation. Members that stay may keep what they had, with their positions.
func (w *world) rebalance(count int, deal func() []*share) {
	if w.chance(40) {
		for _, m := range w.members {
			m.flush()
		}
	}
	old := w.members
	w.members = nil
	w.broker.generation++
	w.broker.live = map[int]bool{}
	w.double, w.mixed = false, false
	for i := range count {
		if i < len(old) && w.chance(60) {
			w.members = append(w.members, old[i].next(w.broker.generation))
		} else {
			w.members = append(w.members, newMember(w))
		}
	}
	for _, m := range old {
		switch {
		case w.quiet, slices.ContainsFunc(w.members, func(n *member) bool { return n.id == m.id }):
		case w.chance(40): // it does not know yet
			m.rewind = nil
			w.zombies = append(w.zombies, m)
			continue
		}
		m.orphan()
	}
	for len(w.zombies) > 3 || w.quiet && len(w.zombies) > 0 {
		w.zombies[0].orphan()
		w.zombies = w.zombies[1:]
	}
	had := map[int][]*share{}
	for _, m := range w.members {
		w.broker.live[m.id] = true
		had[m.id] = m.shares
		m.shares = nil
	}
	if count == 0 {
		w.logf("the group is empty")
		return
	}
	for _, s := range deal() {
		m := w.members[w.rng.IntN(len(w.members))]
		if i := slices.IndexFunc(had[m.id], func(h *share) bool { return h.same(s) && h.begun }); i >= 0 && w.chance(60) {
			s = had[m.id][i]
		}
		m.shares = append(m.shares, s)
	}
	for _, m := range w.members {
		w.logf("generation %d: %v has %v", w.broker.generation, m, m.shares)
	}
}

// flush is a graceful stop: commit and wait for the answer.
func (m *member) flush() {
	for len(m.queue) > 0 {
		m.w.handle(m, true)
	}
	m.w.drain()
	m.commit()
	m.w.drain()
	for len(m.queue) > 0 {
		m.w.handle(m, true)
	}
	m.w.drain()
	m.end()
	m.w.drain()
}
