package facts

import (
	"slices"

	factrecord "github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/progress"
)

// sendInTxn puts a commit in the member's transaction on its way: the facts are appended first, then the rows are sent.
func (m *member) sendInTxn(r *request, some []*share) {
	w, g, t := m.w, m.gw, m.transaction()
	r.txn = t
	if g.locked(r.base, false) || !g.planInTxn(r) {
		return
	}
	records, err := g.ledger.Propose(baseOf(r.base), topicID, r.plan.Era, r.facts)
	if err != nil {
		return
	}
	records = g.open.Missing(t.name(), records)
	positions := make([]int64, len(some))
	for i, s := range some {
		positions[i] = s.pos
		for rec := range s.did {
			if !s.said[rec] && w.says(r, rec) {
				t.out[rec] = s
			}
		}
	}
	r.answer = func(ok, known bool) {
		m.busy = nil
		switch {
		case !known:
			t.failed = t.failed || w.chance(30) // or it tries again
			m.reconnect()
		case r.again:
		case !ok:
			t.failed = true
			g.undo(r, records)
		default:
			t.told = append(t.told, r)
			for i, s := range some {
				if !s.individually {
					s.committed, s.began = positions[i], positions[i]
				}
				for rec := range s.did {
					if w.says(r, rec) {
						s.said[rec] = true
					}
				}
			}
		}
	}
	m.busy = r
	g.prepare(r)
	g.appendInTxn(r, records, func(ok bool) {
		switch {
		case r.gone:
		case !ok:
			r.again = true
			g.ended(r, false)
			r.answer(false, true)
		default:
			r.sent = w.now
			m.queue = append(m.queue, r)
		}
	})
}

// planInTxn plans a commit in a transaction, from rows and facts read afresh. It is false where it has to wait, or the transaction is to be aborted.
func (g *gateway) planInTxn(r *request) bool {
	w := g.w
	g.refresh(r.base)
	p := w.picture(r.base, true)
	attach(p, g, r.base)
	own, era := g.open.Of(r.txn.name(), baseOf(r.base))
	env := progress.Env{Next: g.next(r.base), NowMs: w.now + 1000, Generation: int32(r.m.generation)}
	if len(r.facts) > 0 {
		all := slices.Concat(own, r.facts)
		env.Facts = func(era int64) progress.Facts { return g.ledger.With(baseOf(r.base), topicID, era, all) }
	}
	r.reads, r.externals = g.reads[r.base], w.externals
	r.plan = p.Plan(r.commits, env)
	switch {
	case era >= 0 && era != r.plan.Era:
		w.stats.apart++
		w.logf("%v has facts of era %d in its transaction, and now it is %d", r.m, era, r.plan.Era)
		r.txn.failed = true
		return false
	case era < 0 && r.plan.Unsettled:
		w.stats.unsettled++
		return false
	}
	return true
}

// appendInTxn writes to the fact log in a transaction. Where it goes wrong some of it may be written, now or later, while the transaction is open.
func (g *gateway) appendInTxn(r *request, records []factrecord.Record, done func(ok bool)) {
	w, life, log, t := g.w, g.life, g.log, r.txn
	if len(records) == 0 {
		r.landed = w.clock
		t.landed = append(t.landed, r)
		done(true)
		return
	}
	land := func(n int) bool {
		if t.ended || !w.free(t.producer) || log != w.log {
			return false
		}
		w.log.append(t, records[:n])
		t.logs = log
		if n == len(records) {
			w.clock++
			r.landed = w.clock
			t.landed = append(t.landed, r)
		}
		w.changed = true
		w.logf("the log has of g%d in %v: %v", g.id, t.name(), records[:n])
		return true
	}
	delay := 3
	if w.luck() >= 95 {
		delay = slow
	}
	w.landing++
	w.later(delay, func() {
		w.landing--
		ok := false
		switch n := w.luck(); {
		case g.life != life && n < 50:
			return // it was not sent
		case w.quiet || n < 86:
			ok = land(len(records))
		case n < 90:
			land(w.rng.IntN(len(records)))
			w.stats.torn++
		case n < 94:
			land(len(records))
		default:
			w.stats.torn++
			w.landing++
			w.later(slow, func() { // perhaps later
				w.landing--
				land(len(records))
			})
		}
		w.later(2, func() {
			if g.life == life {
				done(ok)
			}
		})
	})
}

// undo deletes, in the transaction, what was appended for a request that was refused: should the client commit it all the same.
func (g *gateway) undo(r *request, records []factrecord.Record) {
	w, life, t := g.w, g.life, r.txn
	w.later(3, func() {
		if t.ended || g.life != life || t.logs != w.log || w.luck() >= 95 {
			return
		}
		gone := slices.Clone(records)
		for i := range gone {
			gone[i].Delete, gone[i].TopicID = true, [16]byte{}
		}
		w.log.append(t, gone)
		r.undone, w.changed = true, true
		w.logf("the log has of g%d in %v, for it was refused: %v", g.id, t.name(), gone)
	})
}

// acceptInTxn applies a request of a transaction if Kafka would. The generation has been looked at.
func (w *world) acceptInTxn(r *request) bool {
	t := r.txn
	switch {
	case t.ended:
		w.stats.refused++
		return false
	case !w.free(t.producer):
		r.again = true
		return false
	}
	w.broker.seq++
	for k, row := range r.writes {
		t.rows[k] = pendingRow{row, w.broker.seq}
	}
	w.clock++
	r.accepted, r.token = w.clock, w.discards
	t.accepted = append(t.accepted, r)
	w.changed = true
	w.stats.commits++
	w.stats.facts += len(r.facts)
	return true
}

// repliedInTxn: the broker has accepted a commit in a transaction. Nothing counts yet.
func (g *gateway) repliedInTxn(r *request) {
	if i := slices.Index(g.under, r); i >= 0 {
		g.under = slices.Delete(g.under, i, i+1)
	}
	g.unsettled[r.base] = g.w.now
	r.answer(true, true)
	if g.w.chance(30) {
		g.below(r.base)
	}
}

// below deletes what is redundant, on the strength of what is decided.
func (g *gateway) below(base int) {
	g.follow(true)
	p := g.w.picture(base, false)
	attach(p, g, base)
	if offset, ours := p.Source(); !ours || offset < 0 {
		return
	}
	plan := p.Plan(nil, progress.Env{Next: g.next(base), NowMs: g.w.now + 1000})
	if plan.Opens {
		return
	}
	a, err := g.ledger.Add(baseOf(base), topicID, plan.Era, nil, plan.Source.Offset)
	if a == nil || err != nil {
		return
	}
	g.append(a.Puts(), 3, func(ok bool) {
		if !ok {
			a.Failed()
			return
		}
		g.append(a.Stored(), 10, a.Deleted)
	})
}

// undecided reports whether the gateway knows of a transaction that is not decided.
func (g *gateway) undecided() bool { return g.w.pending(source) || g.open.Len() > 0 }

// tidy is what gateways do when a group has come to rest.
func (w *world) tidy() {
	w.drain()
	if w.kind == direct {
		return
	}
	for _, m := range w.members {
		m.heartbeat()
		for len(m.queue) > 0 {
			w.handle(m, true)
		}
		w.drain()
	}
	for base := range w.used() {
		for _, g := range w.gateways {
			g.below(base)
			w.drain()
		}
	}
}
