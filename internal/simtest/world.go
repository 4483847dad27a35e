package simtest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/tandem-kafka/tandem/internal/progress"
)

// positions of the key axis that the model tells apart; every K is a power of two up to it.
const positions = 8

// bases that views can have: a source that has grown has views of two.
const bases = 2

// shape is how an input cuts the records of a source partition.
type shape struct {
	k    int32
	base int // of the view: views of different bases tell keys apart differently; the source itself: 0, with k = 1
}

// record is one record of a source partition.
type record struct {
	part   int
	offset int64
	pos    [bases]int32 // on the key axis of each base
	open   bool         // has to be done, and to be committed
	done   bool         // by a member that may not have committed it yet
	owed   bool         // the source row may count it for now, see refused.go
	// lenient: opened again by something the source row need not know yet (see check.go).
	lenient bool
}

func (r *record) in(slice int32, sh shape) bool { return r.pos[sh.base]%sh.k == slice }

// part is a source partition.
type part struct {
	records []*record
	end     int64
	// acked[b][j]: everything below is committed at position j of base b, and may not be delivered again from a view.
	acked   [bases][positions]int64
	reset   int64 // broker.seq when a tool last set the source row
	touched int64 // when a tool last set any
	expired int64 // when rows last expired, in steps
	// vague: rows of tools are about; acked is not raised.
	vague bool
}

func (p *part) nextRecord(slice int32, sh shape, from int64) int64 {
	for _, r := range p.records {
		if r.offset >= from && r.in(slice, sh) {
			return r.offset
		}
	}
	return max(from, p.end)
}

// truth is what is empty, for a picture of the views of one base.
func (w *world) truth(pc pic) progress.NextRecord {
	return func(v int, s int32, from int64) int64 {
		return w.parts[pc.part].nextRecord(s, shape{w.byBase[pc.base][v].K, pc.base}, from)
	}
}

// ownEnd is the slice's last record + 1.
func (p *part) ownEnd(slice int32, sh shape) int64 {
	for _, r := range slices.Backward(p.records) {
		if r.in(slice, sh) {
			return r.offset + 1
		}
	}
	return 0
}

// world is one history.
type world struct {
	rng      *rand.Rand
	now      int64
	parts    []*part
	views    []progress.View
	bases    []int             // of each view
	local    []int             // index of each view among those of its base
	byBase   [][]progress.View // the views of each base
	broker   *broker
	gateways []*gateway
	members  []*member
	exactly  bool // members commit in transactions
	changes  bool // but not those of every generation: the group's configuration changes
	loose    bool // nor those of this one
	mixedIn  int  // the last generation that was mixed
	mixed    bool // this generation reads more than one of source and views
	quiet    bool // the end of the history: nothing goes wrong any more
	lastID   int
	trace    io.Writer
	stats    stats
	orphans  []*request // nobody waits for their answer
	debts    []*debt
	failure  error
	changed  bool // the rows, or what is open
}

// stats counts what the histories went through, so that a test can tell that they did.
type stats struct {
	refused, repaired, sources, starts, commits, lost, backs, acknowledgedBacks, resets, toolRows, expired, decided, aborted, waits int
}

func (s *stats) add(o stats) {
	s.refused += o.refused
	s.repaired += o.repaired
	s.sources += o.sources
	s.starts += o.starts
	s.commits += o.commits
	s.lost += o.lost
	s.backs += o.backs
	s.acknowledgedBacks += o.acknowledgedBacks
	s.resets += o.resets
	s.toolRows += o.toolRows
	s.expired += o.expired
	s.decided += o.decided
	s.aborted += o.aborted
	s.waits += o.waits
}

func newWorld(seed uint64, trace io.Writer) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), trace: trace}
	w.exactly = w.chance(35)
	w.changes = w.exactly && w.chance(50)
	w.broker = &broker{live: map[int]bool{}, rows: map[key]stored{}, txns: map[int]*txn{}, byTime: w.chance(30)}
	// Of what a row said it says less when it goes back. That is right where its client had to begin lower, because
	// a rewind through another view overlaps its slice.
	w.broker.lowered = func(k key, offset int64) { w.parts[k.part].lower(k.slice, w.shape(k.view), offset) }
	for i := range 1 + w.rng.IntN(3) {
		k := int32(1) << w.rng.IntN(4)
		w.views = append(w.views, progress.View{Name: fmt.Sprint("v", i), K: k})
	}
	w.byBase = make([][]progress.View, 1)
	if len(w.views) > 1 && w.chance(20) {
		w.byBase = make([][]progress.View, bases)
	}
	for i, v := range w.views {
		b := i % len(w.byBase)
		w.bases, w.local = append(w.bases, b), append(w.local, len(w.byBase[b]))
		w.byBase[b] = append(w.byBase[b], v)
	}
	for range 1 + w.rng.IntN(2) {
		w.parts = append(w.parts, &part{})
	}
	for i := range 1 + w.rng.IntN(3) {
		w.gateways = append(w.gateways, &gateway{w: w, id: i, pictures: map[pic]*progress.Picture{}, readAt: map[pic]int64{}, unsettled: map[pic]int64{}, others: map[pic]int64{}})
	}
	for range w.parts {
		w.produce()
	}
	w.logf("views %v of bases %v, %d parts, %d gateways, exactly-once %v", w.views, w.bases, len(w.parts), len(w.gateways), w.exactly)
	return w
}

// shape of a view, or of the source (-1).
func (w *world) shape(view int) shape {
	if view < 0 {
		return shape{k: 1}
	}
	return shape{w.views[view].K, w.bases[view]}
}

// global is the view with an index among those of its base; -1 is the source.
func (w *world) global(base, local int) int {
	for v, b := range w.bases {
		if local >= 0 && b == base && w.local[v] == local {
			return v
		}
	}
	return -1
}

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

func (w *world) logf(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%4d "+format+"\n", append([]any{w.now}, args...)...)
	}
}

func show(ws []progress.Write) string {
	var b strings.Builder
	for _, x := range ws {
		text := ""
		if x.Metadata != nil {
			text = *x.Metadata
		}
		if x.View < 0 {
			fmt.Fprintf(&b, "source=%d %q ", x.Offset, text)
		} else {
			fmt.Fprintf(&b, "v%d/%d=%d %q ", x.View, x.Slice, x.Offset, text)
		}
	}
	return b.String()
}

// produce appends records with gaps between them, as compaction and markers leave them.
func (w *world) produce() {
	pi := w.rng.IntN(len(w.parts))
	p := w.parts[pi]
	few := w.chance(30) // keys of one slice only
	for range 1 + w.rng.IntN(12) {
		if w.chance(25) {
			p.end += int64(1 + w.rng.IntN(3))
		}
		r := &record{part: pi, offset: p.end, open: true}
		for b := range w.byBase {
			r.pos[b] = w.rng.Int32N(positions)
			if few {
				r.pos[b] &^= 3
			}
		}
		p.records = append(p.records, r)
		p.end++
	}
	if w.chance(20) {
		p.end++
	}
}

// rebalance begins a new generation. Members that stay may keep the slices they had, with their positions.
func (w *world) rebalance(count int, input func() int) {
	graceful := w.chance(40)
	if graceful {
		for _, m := range w.members {
			m.flush()
		}
	}
	old := w.members
	w.members = nil
	w.broker.generation++
	w.loose = w.changes && w.chance(50)
	w.broker.live = map[int]bool{}
	for i := range count {
		in := input()
		if i < len(old) && w.chance(60) && old[i].input == in {
			w.members = append(w.members, old[i].next(w.broker.generation))
		} else {
			w.lastID++
			w.members = append(w.members, newMember(w, w.lastID, in))
		}
	}
	for _, m := range old {
		if !slices.ContainsFunc(w.members, func(n *member) bool { return n.id == m.id }) {
			m.gone()
		}
	}
	w.mixed = false
	for _, m := range w.members {
		w.broker.live[m.id] = true
		w.mixed = w.mixed || m.input != w.members[0].input
	}
	if w.mixed {
		w.mixedIn = w.broker.generation // one input is read twice at once: no exactly-once
	}
	for i, p := range w.parts {
		if w.mixed && slices.ContainsFunc(w.members, func(m *member) bool { return m.input < 0 }) {
			p.acked = [bases][positions]int64{} // a plain commit can begin an era at any time
			p.vague = true
		} else {
			p.vague = w.untagged(i)
		}
	}
	w.assign()
	w.logf("generation %d: %v mixed %v", w.broker.generation, w.members, w.mixed)
}

// untagged reports whether the part has rows that a tool wrote on the broker.
func (w *world) untagged(part int) bool {
	for k, s := range w.broker.rows {
		if k.part == part && k.view >= 0 {
			if progress.ClientText(s.row.Metadata, s.row.Offset) == s.row.Metadata {
				return true
			}
		}
	}
	return false
}

// assign deals each input's slices to the members that read it.
func (w *world) assign() {
	for input := -1; input < len(w.views); input++ {
		var ms []*member
		for _, m := range w.members {
			if m.input == input {
				ms = append(ms, m)
			}
		}
		if len(ms) == 0 {
			continue
		}
		sh := w.shape(input)
		owned := map[*member]map[key]*slice{}
		for pi := range w.parts {
			for s := range sh.k {
				id := key{pi, input, s}
				m := ms[w.rng.IntN(len(ms))]
				if owned[m] == nil {
					owned[m] = map[key]*slice{}
				}
				sl := &slice{key: id, shape: sh, pos: -1, began: -1}
				if had := m.slices[id]; had != nil && had.pos >= 0 && w.chance(60) {
					sl.pos, sl.began, sl.committed = had.pos, had.began, had.committed
				}
				owned[m][id] = sl
			}
		}
		for _, m := range ms {
			m.slices = owned[m]
		}
	}
}

// step does one random thing.
func (w *world) step() error {
	w.now++
	w.deliver()
	if len(w.members) == 0 {
		return w.idle()
	}
	m := w.members[w.rng.IntN(len(w.members))]
	switch n := w.rng.IntN(100); {
	case n < 38:
		m.poll()
	case n < 62:
		m.commit()
	case n < 68:
		m.decide(w.chance(80))
	case n < 73:
		m.seekBack()
	case n < 80:
		w.produce()
	case n < 81:
		w.parts = append(w.parts, &part{}) // the source grows; the members see it in the next generation
	case n < 84:
		w.expire()
	case n < 86:
		m.reconnect()
	case n < 90 && len(w.broker.undecided()) > 0:
		ts := w.broker.undecided()
		t := ts[w.rng.IntN(len(ts))]
		w.decide(t, t.late) // late, or by timeout
	case n < 92:
		m.heartbeat()
	case n < 93:
		m.renew()
	case n < 98:
		w.regroup()
	case n < 99:
		w.rebalance(0, nil)
	}
	if w.now%8 != 0 && !w.changed {
		return w.failure
	}
	return w.check()
}

// regroup moves the group, wholly or in part.
func (w *world) regroup() {
	all := w.rng.IntN(len(w.views)+1) - 1
	if w.chance(50) {
		all = w.members[0].input
	}
	rolling := w.chance(20)
	w.rebalance(1+w.rng.IntN(3), func() int {
		if rolling && w.chance(50) {
			return w.rng.IntN(len(w.views)+1) - 1
		}
		return all
	})
}

// idle is what can happen to a group without members.
func (w *world) idle() error {
	pi := w.rng.IntN(len(w.parts))
	switch n := w.rng.IntN(100); {
	case n < 40:
		in := w.rng.IntN(len(w.views)+1) - 1
		w.rebalance(1+w.rng.IntN(3), func() int { return in })
	case n < 60:
		w.reset(pi)
	case n < 75:
		w.toolRow(pi)
	case n < 80:
		w.expire()
	case n < 90:
		for _, t := range w.broker.undecided() {
			w.decide(t, t.late)
		}
	default:
		w.produce()
	}
	return w.check()
}
