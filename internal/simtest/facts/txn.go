package facts

import (
	"maps"
	"slices"

	"github.com/tandem-kafka/tandem/internal/icommit/ledger"
	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/tandem-kafka/tandem/internal/region"
	"github.com/tandem-kafka/tandem/keyrange"
)

// Kinds of groups.
const (
	direct  = iota // no member commits in transactions
	exactly        // all of them do, and nobody else commits
	mixed          // some do
)

// expires is after how many steps the coordinator may abort a transaction.
const expires = 40

// producer is a transactional producer, as the transaction coordinator knows it. Each transaction has an epoch of its own, as with
// version 2 of the protocol.
type producer struct {
	id    int64
	epoch int16
}

// free reports whether the markers of all transactions of a producer that have ended are written: until then the next one appends nothing.
func (w *world) free(p *producer) bool {
	return !slices.ContainsFunc(w.txns, func(t *txn) bool { return t.producer == p && t.ended })
}

// txn is a transaction.
type txn struct {
	producer         *producer
	epoch            int16
	began            int64
	ended, committed bool
	failed           bool // a commit of it was refused: the client is to abort it
	rows             map[key]pendingRow
	logs             *factLog   // that it has appended to
	landed, accepted []*request // whose facts are in the log, and whose rows the group coordinator has
	told             []*request // of which the client knows that
	out              map[*record]*share
	rowsDone         bool // the group coordinator has the marker
	factsDone        bool // the log has it
}

// pendingRow is a row with its place in __consumer_offsets.
type pendingRow struct {
	progress.Row
	seq int64
}

func (t *txn) name() ledger.Producer { return ledger.Producer{ID: t.producer.id, Epoch: t.epoch} }

// pending reports whether a transaction that is not decided, as far as the group coordinator knows, has written a row.
func (w *world) pending(k key) bool {
	return slices.ContainsFunc(w.txns, func(t *txn) bool { _, is := t.rows[k]; return is && !t.rowsDone })
}

// external: something that the group's members have not done may have it handed out again what transactions did.
func (w *world) external(why string) {
	w.externals++
	for _, r := range w.records {
		r.once = [bases]bool{}
	}
	w.discard(why)
}

// reopened: whether a record is to be done was decided now, past all transactions.
func (w *world) reopened(r *record) {
	w.clock++
	r.reopened = w.clock
}

// begin returns the member's transaction, which it opens if there is none.
func (m *member) transaction() *txn {
	if m.txn == nil {
		m.txn = &txn{producer: m.producer, epoch: m.producer.epoch, began: m.w.now, rows: map[key]pendingRow{}, out: map[*record]*share{}}
		m.w.txns = append(m.w.txns, m.txn)
		m.w.stats.txns++
	}
	return m.txn
}

// fenced reports whether the member has to end its transaction before it commits anything.
func (m *member) fenced() bool {
	switch t := m.txn; {
	case t == nil:
		return false
	case t.ended && m.w.chance(50): // it does not know yet
		return false
	}
	return m.txn.ended || m.txn.failed
}

// end has the member end its transaction, if it can.
func (m *member) end() {
	w, t := m.w, m.txn
	switch {
	case t == nil || m.busy != nil:
	case t.ended:
		m.aborted()
	case t.failed && w.sloppy && w.chance(70): // a client that should not
		w.stats.sloppy++
		m.txn = nil
		w.decide(t, true)
	case !t.failed && t.covered(w) && (w.quiet || w.chance(85)):
		m.txn = nil
		w.decide(t, true)
	case t.failed || w.quiet || w.chance(30): // else it commits more first
		w.decide(t, false)
		m.aborted()
	}
}

// covered reports whether the client knows that all is committed whose output is in the transaction.
func (t *txn) covered(w *world) bool {
	for rec := range t.out {
		if !slices.ContainsFunc(t.told, func(r *request) bool { return w.says(r, rec) }) {
			return false
		}
	}
	return true
}

// aborted: the member learns that its transaction was aborted. The output of what it did for key ranges goes into the next one; where it
// commits positions it begins again.
func (m *member) aborted() {
	t := m.txn
	m.txn = nil
	for rec, s := range t.out {
		delete(s.said, rec)
	}
	for _, s := range m.shares {
		if !s.individually {
			s.begun = false
		}
	}
}

// decide ends a transaction. Its markers are on their way from now on.
func (w *world) decide(t *txn, commit bool) {
	t.ended, t.committed = true, commit
	t.producer.epoch++
	w.logf("transaction %v ends: %v", t.name(), commit)
	steps := func() int {
		if w.luck() >= 90 {
			return slow
		}
		return 6
	}
	w.later(steps(), func() { w.markRows(t) })
	w.later(steps(), func() { w.markFacts(t) })
	if !commit {
		w.stats.aborted++
		return
	}
	counted := map[*record]bool{}
	for _, r := range t.accepted {
		for _, rec := range w.records {
			switch mine := t.out[rec] != nil; {
			case !w.says(r, rec) || counted[rec] || rec.reopened > r.accepted:
			case mine:
				counted[rec] = true
				rec.open, rec.lenient = false, false
				if w.kind != exactly || t.failed || r.externals != w.externals || w.stepped() || !t.covers(w, r, rec) {
					continue
				}
				if rec.once[r.base] {
					w.fail("exactly-once: record %d was done in two transactions", rec.offset)
				}
				rec.once[r.base] = true
				w.stats.once++
			case rec.lenient && r.ofSource: // as in world.accept
				rec.open = false
			}
		}
	}
	for _, r := range t.landed { // nobody but a client that should not has any that were refused
		for _, rec := range w.records {
			if t.out[rec] != nil && !r.undone && w.says(r, rec) && rec.reopened <= r.landed {
				rec.open, rec.lenient = false, false
			}
		}
	}
}

// covers reports whether the transaction says that a record is done with the facts of a request, or the positions: a late request may have set these back.
func (t *txn) covers(w *world, r *request, rec *record) bool {
	return slices.ContainsFunc(r.facts, func(f region.Fact) bool { return rec.within(f, r.base) }) ||
		slices.ContainsFunc(r.commits, func(c progress.Commit) bool {
			k := key{w.global(r.base, c.View), c.Slice}
			return rec.in(w.keys(k), r.base) && rec.offset < t.rows[k].Offset
		})
}

// markRows has the marker reach the group coordinator. Of two rows of a transaction and of others that counts which was written last.
func (w *world) markRows(t *txn) {
	for _, k := range slices.SortedFunc(maps.Keys(t.rows), key.compare) {
		row := t.rows[k]
		if !t.committed || w.broker.written[k] > row.seq {
			continue
		}
		if old, ok := w.broker.rows[k]; ok && k.view >= 0 && row.Offset < old.Offset {
			w.lower(w.keys(k), w.bases[k.view], row.Offset)
		}
		w.broker.rows[k], w.broker.written[k] = row.Row, row.seq
	}
	t.rowsDone, w.changed = true, true
	w.logf("the group coordinator has the marker of %v: %s", t.name(), show(w.broker.rows))
	w.noteRows()
	w.settled(t)
	if !t.committed {
		return
	}
	for _, r := range t.accepted {
		if w.kind == exactly && r.externals == w.externals {
			w.claimPositions(r)
		}
	}
}

// markFacts has the marker reach the log.
func (w *world) markFacts(t *txn) {
	if t.logs == w.log {
		w.log.mark(t)
		w.logf("the log has the marker of %v", t.name())
	}
	t.factsDone, w.changed = true, true
	w.settled(t)
}

// settled forgets a transaction of which everybody knows what became of it.
func (w *world) settled(t *txn) {
	if t.rowsDone && t.factsDone {
		w.txns = slices.DeleteFunc(w.txns, func(o *txn) bool { return o == t })
	}
}

// timeouts has the coordinator abort what takes too long.
func (w *world) timeouts() {
	for _, t := range slices.Clone(w.txns) {
		if !t.ended && w.now-t.began > expires && w.chance(4) {
			w.stats.timeouts++
			w.decide(t, false)
		}
	}
}

// endAll aborts what nobody commits any more.
func (w *world) endAll() {
	for _, t := range slices.Clone(w.txns) {
		if !t.ended {
			w.decide(t, false)
		}
	}
	w.drain()
}

// waits reports whether the member is told to wait until transactions are decided.
func (m *member) waits(s *share) bool {
	if m.w.kind != exactly && m.producer == nil || s.plain() {
		return false
	}
	m.gw.follow(true)
	p := m.w.picture(s.base, true)
	attach(p, m.gw, s.base)
	return p.Unstable(s.keys)
}

// again: a share is read from a position on, and what is done above it is not told (checkStarts looks at the position).
func (w *world) again(s *share) {
	for _, r := range w.records {
		if r.offset >= s.pos && r.in(s.keys, s.base) {
			r.once[s.base] = false
		}
	}
}

// claimPositions: the positions of a request are committed.
func (w *world) claimPositions(r *request) {
	era, ours := w.era()
	for i, c := range r.commits {
		k := key{w.global(r.base, c.View), c.Slice}
		if row := w.broker.rows[k]; !ours || row.Offset < c.Offset || eraOf(row) != era || r.plan.Rows[i].Offset < 0 {
			continue
		}
		for g := range grains {
			if keyrange.OfSlice(c.Slice, w.views[k.view].K).Contains(uint32(g) << grainBits) {
				w.rows[r.base][g] = max(w.rows[r.base][g], c.Offset)
			}
		}
	}
}
