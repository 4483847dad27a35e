package facts

import (
	"maps"
	"slices"
	"strconv"

	factrecord "github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/tandem-kafka/tandem/internal/region"
	"github.com/tandem-kafka/tandem/keyrange"
)

// request is one OffsetCommit on its way, and what belongs to it.
type request struct {
	m                  *member
	member, generation int
	gw                 *gateway // nil: directly to the broker
	life               int      // of the gateway
	base               int
	commits            []progress.Commit
	facts              []region.Fact
	plan               progress.Plan
	reads              int // of its gateway, when it was planned
	writes             map[key]progress.Row
	sent               int64
	alone              bool     // it goes back: others wait for it
	ofSource           bool     // of key ranges of the source
	late               bool     // later ones of the member may have overtaken it
	gone               bool     // nobody waits for it any more
	token              int      // discards when it was accepted
	log                *factLog // that the gateway knew when it worked out what to append
	txn                *txn
	landed, accepted   int64 // by the world's clock, in a transaction: when its facts were in the log, and the rows at the group coordinator
	externals          int   // when it was planned
	again              bool  // the client is told to try again
	undone             bool  // what was appended for it was deleted, in the transaction
	did                func(*request)
	answer             func(ok, known bool)
}

// handle delivers a member's oldest request, unless something goes wrong.
func (w *world) handle(m *member, safe bool) {
	r := m.queue[0]
	m.queue = m.queue[1:]
	switch n := w.luck(); {
	case w.now-r.sent >= delivery:
		w.logf("%v: a request took too long", m)
		w.unknown(r)
	case safe || w.quiet || n < 88:
		ok := w.accept(r)
		w.logf("%v commits: %v", m, ok)
		w.reply(r, ok)
	case n < 92:
		w.logf("%v commits: %v, the answer is lost", m, w.accept(r))
		w.unknown(r)
	case n < 96:
		w.logf("%v: a request is lost", m)
		w.unknown(r)
	default:
		w.logf("%v: a request is late", m)
		w.unknown(r)
		w.orphans = append(w.orphans, r)
	}
}

// unknown: whether it was written is not known.
func (w *world) unknown(r *request) {
	w.stats.lost++
	r.gone = true
	if r.gw != nil && r.gw.life == r.life {
		r.gw.ended(r, false)
	}
	r.answer(false, false)
}

// reply brings the broker's answer to the gateway.
func (w *world) reply(r *request, ok bool) {
	w.later(3, func() {
		switch {
		case r.gone:
		case r.gw == nil:
			r.answer(ok, true)
		case r.gw.life == r.life:
			r.gw.replied(r, ok)
		}
	})
}

// plan plans a commit. ok is false where it has to wait.
func (g *gateway) plan(r *request, first bool) (ok bool) {
	fresh := first || g.pictures[r.base] == nil || g.w.now-g.readAt[r.base] > lease
	if fresh {
		g.refresh(r.base)
	}
	g.planFrom(r, g.next(r.base))
	if r.alone = len(r.plan.Back) > 0 || r.plan.Opens; !r.alone {
		return !g.locked(r.base, false)
	}
	if g.locked(r.base, true) {
		return false
	}
	// Read the rows afresh: others may have begun the era already. And look whether the slices hold anything in between.
	g.refresh(r.base)
	g.planFrom(r, g.w.truth(r.base))
	return true
}

func (g *gateway) planFrom(r *request, next progress.NextRecord) {
	p := g.pictures[r.base].Clone()
	r.reads = g.reads[r.base]
	attach(p, g, r.base)
	env := progress.Env{Next: next, NowMs: g.w.now + 1000, Generation: int32(r.m.generation), SourcePending: p.Foreign() && g.w.pending(source)}
	if len(r.facts) > 0 {
		env.Facts = func(era int64) progress.Facts { return g.ledger.With(baseOf(r.base), topicID, era, r.facts) }
	}
	r.plan = p.Plan(r.commits, env)
}

// send puts a request that was planned on its way.
func (g *gateway) send(r *request) {
	g.prepare(r)
	r.m.queue = append(r.m.queue, r)
}

// prepare works out the rows of a request that was planned. From now on it is under way.
func (g *gateway) prepare(r *request) {
	m := r.m
	r.member, r.generation, r.gw, r.life, r.sent, r.writes = m.id, m.generation, g, g.life, g.w.now, map[key]progress.Row{}
	for _, x := range slices.Concat(r.plan.Rows, r.plan.Added, []progress.Write{r.plan.Source}) {
		r.writes[key{g.w.global(r.base, x.View), x.Slice}] = progress.Row{Offset: x.Offset, LeaderEpoch: x.LeaderEpoch, Metadata: x.Metadata}
	}
	g.under = append(g.under, r)
	g.w.logf("g%d plans for m%d base %d facts %v: %s", g.id, m.id, r.base, r.facts, show(r.writes))
}

// replied: the broker has answered. What it accepted goes to the fact log, and then the client is answered.
func (g *gateway) replied(r *request, ok bool) {
	if !ok {
		g.ended(r, false)
		r.answer(false, true)
		return
	}
	if r.txn != nil {
		g.repliedInTxn(r)
		return
	}
	done := func(ok bool) {
		if r.gone {
			return
		}
		g.ended(r, ok)
		r.answer(ok, true)
		if ok {
			g.w.acknowledged(r)
		}
	}
	r.log = g.log
	a, err := g.ledger.Add(baseOf(r.base), topicID, r.plan.Era, r.facts, r.plan.Source.Offset)
	if a == nil {
		done(err == nil)
		return
	}
	g.append(a.Puts(), 3, func(ok bool) {
		if !ok {
			a.Failed()
			done(false)
			return
		}
		g.append(a.Stored(), 10, a.Deleted)
		done(true)
	})
}

// ended: the commit is no longer under way.
func (g *gateway) ended(r *request, ok bool) {
	i := slices.Index(g.under, r)
	if i < 0 {
		return
	}
	g.under = slices.Delete(g.under, i, i+1)
	if ok && g.pictures[r.base] != nil {
		if g.reads[r.base] == r.reads || g.pictures[r.base].Is(r.plan.Era) {
			g.pictures[r.base].Apply(r.plan)
		} else { // one that was read since may know of what came later, or not of this
			delete(g.pictures, r.base)
		}
		g.unsettled[r.base] = g.w.now
	} else {
		delete(g.pictures, r.base)
	}
}

// append writes to the fact log. Where it goes wrong some of it may be written, now or later.
func (g *gateway) append(records []factrecord.Record, delay int, done func(ok bool)) {
	if len(records) == 0 {
		done(true)
		return
	}
	w, life, log := g.w, g.life, g.log
	adds := 0
	if !records[0].Delete {
		adds = 1
	}
	w.landing += adds
	if w.luck() >= 95 {
		delay += slow
	}
	land := func(n int) {
		w.log.append(nil, records[:n])
		if e, err := strconv.ParseInt(w.before, 10, 64); w.log.id > 0 && n > 0 && err == nil && records[0].Era > e {
			w.external("the number of an era was lost with the log, and a lower one was opened while its facts were on their way")
		}
		if log != w.log && n > 0 && records[0].Delete && w.log.drop(records[:n]) {
			w.external("what was deleted in the log before was put again in this one")
		}
		w.changed = true
		w.logf("the log has of g%d: %v", g.id, records[:n])
	}
	w.later(delay, func() {
		w.landing -= adds
		ok := true
		switch n := w.luck(); {
		case g.life != life && n < 50:
			return // it was not sent
		case w.quiet || n < 86:
			land(len(records))
			if n < 5 {
				w.landing += adds
				w.later(delivery, func() { // and once more
					w.landing -= adds
					land(len(records))
				})
			}
		case n < 90:
			land(w.rng.IntN(len(records)))
			w.stats.torn++
			ok = false
		case n < 94:
			land(len(records))
			ok = false
		default:
			w.stats.torn++
			ok = false
		}
		w.later(2, func() {
			if g.life == life {
				done(ok)
			}
		})
	})
}

// accept applies a request if Kafka would, and takes note.
func (w *world) accept(r *request) bool {
	if r.generation != w.broker.generation || !w.broker.live[r.member] {
		w.stats.refused++
		return false
	}
	if r.txn != nil {
		return w.acceptInTxn(r)
	}
	for _, k := range slices.SortedFunc(maps.Keys(r.writes), key.compare) {
		row := r.writes[k]
		if old, ok := w.broker.rows[k]; ok && k.view >= 0 && row.Offset < old.Offset {
			w.lower(w.keys(k), w.bases[k.view], row.Offset)
		}
		w.broker.put(k, row)
	}
	w.changed = true
	w.stats.commits++
	w.stats.facts += len(r.facts)
	w.noteRows()
	r.token = w.discards
	for _, rec := range w.records {
		switch {
		case !w.says(r, rec):
		case rec.done:
			rec.open, rec.lenient, rec.done = false, false, false
		case rec.lenient && r.ofSource: // a tool's wish for a view is nothing to who reads the source where that row is a tool's, too
			rec.open = false
		}
	}
	if r.did != nil {
		r.did(r)
	}
	return true
}

// says reports whether a request says that a record is done.
func (w *world) says(r *request, rec *record) bool {
	for _, f := range r.facts {
		if rec.within(f, r.base) {
			return true
		}
	}
	for _, c := range r.commits {
		if rec.offset < c.Offset && rec.in(keyrange.OfSlice(c.Slice, w.byBase[r.base][c.View].K), r.base) {
			return true
		}
	}
	return false
}

// keys are those of a view's slice.
func (w *world) keys(k key) keyrange.Range { return keyrange.OfSlice(k.slice, w.views[k.view].K) }

// acknowledged: a commit was answered. From now on it is not handed out again, unless something happened to it already.
func (w *world) acknowledged(r *request) {
	era, ours := w.era()
	if r.token != w.discards || r.plan.Era < w.top || !ours || era != strconv.FormatInt(r.plan.Era, 10) || w.mixed || w.stepped() || w.now < w.damaged || r.log != w.log {
		return
	}
	for _, rec := range w.records {
		for _, f := range r.facts {
			if !rec.open && f.First <= rec.offset && rec.offset <= f.Last {
				rec.ack(f.Keys, r.base)
				w.stats.acked++
			}
		}
	}
	for i, c := range r.commits {
		k := key{w.global(r.base, c.View), c.Slice}
		if row := w.broker.rows[k]; row.Offset < c.Offset || eraOf(row) != era || r.plan.Rows[i].Offset < 0 {
			continue
		}
		for g := range grains {
			if w.keys(k).Contains(uint32(g) << grainBits) {
				w.rows[r.base][g] = max(w.rows[r.base][g], c.Offset)
			}
		}
		for _, rec := range w.records {
			if !rec.open && rec.offset < c.Offset && rec.in(w.keys(k), r.base) {
				rec.acked[r.base] = true
				w.stats.acked++
			}
		}
	}
}

// lower: a slice may begin at an offset again.
func (w *world) lower(keys keyrange.Range, base int, offset int64) {
	for g := range grains {
		if keys.Contains(uint32(g) << grainBits) {
			w.rows[base][g] = min(w.rows[base][g], offset)
		}
	}
	for _, rec := range w.records {
		if rec.offset >= offset && rec.in(keys, base) {
			rec.acked[base], rec.said[base] = false, [grains]bool{}
		}
	}
}

// noteRows looks what became of the era.
func (w *world) noteRows() {
	era, ours := w.era()
	now := era
	if !ours {
		now = "none"
	}
	if now != w.before {
		w.stats.eras++
		w.discard("era " + w.before + " became " + now)
		w.rows = [bases][grains]int64{}
	} else if w.stepped() {
		w.external("there are rewinds")
		w.rows = [bases][grains]int64{}
	}
	w.before = now
	if n, err := strconv.ParseInt(now, 10, 64); err != nil {
		w.top = -1
	} else {
		w.top = max(w.top, n)
	}
}
