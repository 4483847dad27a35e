package simtest

// txn is a transaction that is not decided.
type txn struct {
	id, member int
	generation int
	late       bool // its commit is on its way
	began      int64
	rows       map[key]stored
	records    []*record
	unsafe     bool // somebody began a slice of it while it was pending
	sawRows    bool
	raise      []func() // what becomes true with the commit
}

// decide ends a transaction.
func (w *world) decide(t *txn, commit bool) {
	w.broker.decide(t, commit)
	w.changed = true
	w.forgetBases()
	w.logf("transaction %d of m%d ends: %v", t.id, t.member, commit)
	w.stats.decided++
	if !commit {
		w.stats.aborted++
		for _, m := range w.members {
			if m.txn == t {
				m.afterAbort()
			}
		}
		return
	}
	if t.unsafe {
		w.fail("exactly-once: a slice began below records of transaction %d while it was pending, and it was committed", t.id)
	}
	for _, f := range t.raise {
		f()
	}
	for _, r := range t.records {
		if w.parts[r.part].reset > t.began {
			continue // to be done again: the reset was written after the transaction's rows
		}
		r.open, r.lenient = false, false
	}
}

// leave: nobody waits for the transaction any more. Perhaps its end is on its way.
func (w *world) leave(m *member, t *txn) {
	t.late = t.sawRows && !w.broker.byTime && !m.failed && !m.busy && t.covered(m) && w.chance(60)
	if !t.late && (!t.sawRows || w.chance(50)) {
		w.decide(t, false)
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
				ok = ok || m.input < 0 || r.in(k.slice, m.w.shape(k.view))
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
