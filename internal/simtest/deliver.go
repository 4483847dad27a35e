package simtest

// deliver moves requests on.
func (w *world) deliver() {
	for _, m := range w.members {
		m.settleRewind()
		if len(m.queue) > 0 && (w.chance(50) || w.now-m.queue[0].sent >= delivery) {
			w.handle(m, false)
		}
	}
	kept := w.orphans[:0]
	for _, r := range w.orphans {
		switch {
		case w.now-r.sent >= delivery: // lost
		case w.chance(20):
			r.late = true
			w.logf("a late request of m%d arrives: %v", r.member, w.accept(r))
			if w.chance(30) {
				kept = append(kept, r) // and once more
			}
		default:
			kept = append(kept, r)
		}
	}
	w.orphans = kept
}

// accept has the broker commit a request, and takes note.
func (w *world) accept(r *request) bool {
	outdated := w.outdated(r)
	if !w.broker.commit(r) {
		return false
	}
	for _, p := range outdated {
		p.acked = [bases][positions]int64{}
	}
	w.changed = true
	w.owe(r)
	w.forgetBases()
	if r.accepted != nil {
		r.accepted(r)
	}
	return true
}

// handle delivers a member's oldest request, unless something goes wrong.
func (w *world) handle(m *member, safe bool) {
	r := m.queue[0]
	m.queue = m.queue[1:]
	switch n := w.rng.IntN(100); {
	case safe || w.quiet || n < 85 && w.now-r.sent < delivery:
		if !safe && !w.quiet && (w.chance(3) || len(m.refused) > 0 && w.chance(40)) {
			w.refuse(m, r)
		}
		ok := w.accept(r)
		w.logf("%v commits: %v", m, ok)
		r.answer(ok, true)
	case n < 90 && w.now-r.sent < delivery:
		ok := w.accept(r)
		w.logf("%v commits: %v, the answer is lost", m, ok)
		r.answer(ok, false)
	case n < 95:
		w.logf("%v: a request is lost", m)
		r.answer(false, false)
	default:
		answer := r.answer
		r.answer = func(bool, bool) {}
		w.orphans = append(w.orphans, r)
		w.logf("%v: a request is late", m)
		answer(false, false)
	}
}
