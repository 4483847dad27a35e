package handout

import (
	"maps"
	"slices"

	"github.com/tandem-kafka/tandem/internal/acquire"
)

// step lets time pass and something happen.
func (w *world) step() {
	w.now += w.rng.Int64N(40)
	if w.chance(15) {
		w.there = min(w.there+w.rng.Int64N(3), records)
	}
	w.arrive()
	m := w.members[w.rng.IntN(members)]
	g := w.gateways[w.rng.IntN(gateways)]
	switch n := w.rng.IntN(100); {
	case n < 40:
		w.fetch(m)
	case n < 60:
		w.work(m)
	case n < 78:
		w.catchUp(g, w.rng.Int64N(w.next+1))
	case n < 86:
		w.collect(g)
	case n < 89:
		m.frozen = w.now + w.rng.Int64N(2*timeout)
	case n < 91:
		w.compact()
	case n < 93:
		w.crash(w.rng.IntN(gateways))
	case n < 95: // its gateway changes; so it is when that crashed
		m.gateway = w.rng.IntN(gateways)
		m.visit++
	case n < 97:
		w.rebalance(m)
	case n < 98:
		w.leave(m)
	case n < 99 && w.chance(30):
		w.reset()
	case n == 99 && w.chance(15):
		w.delete()
	}
}

// arrive writes appends that were late.
func (w *world) arrive() {
	for i := 0; i < len(w.late); {
		if l := w.late[i]; l.at <= w.now {
			w.late = slices.Delete(w.late, i, i+1)
			w.append(l.entries, true)
			continue
		}
		i++
	}
}

// contact says that a member is there.
func (w *world) contact(m *member) bool {
	if m.frozen > w.now {
		return false
	}
	if w.now-m.contact > timeout {
		m.late = true
	}
	if len(m.hand) == 0 {
		m.late = false
	}
	m.contact = w.now
	return true
}

func (m *member) has() (has []acquire.Range) {
	for _, o := range slices.Sorted(maps.Keys(m.hand)) {
		has = append(has, acquire.Range{First: o, Last: o})
	}
	return has
}

// fetch asks for records.
func (w *world) fetch(m *member) {
	g := w.gateways[m.gateway]
	for _, of := range g.waiting { // one fetch at a time
		if of.m == m {
			return
		}
	}
	if !w.contact(m) {
		return
	}
	m.fetch++
	g.fresh = false
	if g.visits[m.name] != m.visit {
		g.state.Leave(m.name, acquire.Everything)
		g.visits[m.name] = m.visit
	}
	if w.enter(g, m) || g.state.Doubtful() || g.state.Has(m.name, m.has(), w.now) {
		w.refresh(g)
		g.state.Has(m.name, m.has(), w.now)
	}
	told := w.answer(g, m)
	if !told {
		w.plan(g, m)
	}
	if at, ok := g.announced[m.name]; !ok || g.state.Renewal(m.name, timeout, at, w.now) {
		w.ids++
		g.announced[m.name] = w.now
		w.append([]acquire.Entry{g.write(g.state.Session(w.ids, m.name, timeout), w.now)}, true)
	}
	if told {
		return
	}
	if w.chance(70) {
		w.catchUp(g, w.next)
	}
	if w.chance(50) { // its answers are complete
		maps.DeleteFunc(g.waiting, func(_ uint64, of asked) bool { return of.m == m })
	}
}

// plan has a gateway acquire what a member asks for.
func (w *world) plan(g *gateway, m *member) {
	var entries []acquire.Entry
	appetite := int64(w.rng.IntN(6))
	for from := int64(0); appetite > 0; {
		f, ok := g.state.Next(from, w.now)
		if !ok || f.First >= w.there {
			break
		}
		if f.Again && !g.fresh {
			w.refresh(g)
			g.state.Has(m.name, m.has(), w.now)
			from, entries = 0, nil
			continue
		}
		r := acquire.Range{First: f.First, Last: min(f.Last, f.First+appetite-1, w.there-1)}
		entries = append(entries, w.acquire(g, &f, r, m))
		appetite -= r.Last - r.First + 1
		from = r.Last + 1
	}
	for _, e := range entries {
		if of := (asked{m, m.fetch, m.visit, g.read}); w.chance(30) {
			g.ahead[e.ID] = of // it wins too late for this fetch
		} else {
			g.waiting[e.ID] = of
		}
	}
	if f, ok := g.state.Next(w.there, w.now); ok && appetite > 0 && f.First < records && f.Attempts == 0 && !f.Again && w.chance(80) { // ahead of the records
		e := w.acquire(g, &f, acquire.Range{First: f.First, Last: min(f.Last, f.First+appetite-1, records-1)}, m)
		g.ahead[e.ID] = asked{m, m.fetch, m.visit, g.read}
		entries = append(entries, e)
	}
	if w.chance(20) { // the gateway gives up waiting
		clear(g.waiting)
	}
	w.append(entries, false)
}

// acquire is an entry that a gateway plans for a member.
func (w *world) acquire(g *gateway, f *acquire.Free, r acquire.Range, m *member) acquire.Entry {
	w.ids++
	return g.write(f.Acquire(g.state, w.ids, r, m.name, timeout), w.now)
}

// keep takes in that an acquisition ahead of the records was decided.
func (w *world) keep(g *gateway, it item, of asked, won bool) {
	if !won || g.visits[of.m.name] != of.visit || w.chance(10) { // the gateway does not remember
		return
	}
	if g.state.Disturbed(acquire.Range{First: it.entry.First, Last: it.entry.Last}, of.read) {
		w.tell(g)
	}
	g.state.Keep(it.entry.ID)
}

// answer tells a member of what is kept for it and is there by now. What others do not come for is left to anybody, or given back.
func (w *world) answer(g *gateway, m *member) (told bool) {
	if g.state.Doubtful() {
		return false
	}
	appetite := w.rng.Int64N(6)
	var give, leave []acquire.Kept
	g.state.Kept(w.now, func(k acquire.Kept) bool {
		switch r := k.Range; {
		case r.First >= w.there:
			return false
		case k.Member != m.name:
			if w.chance(10) {
				leave = append(leave, k)
			}
		case k.Timely && appetite > 0:
			r.Last = min(r.Last, w.there-1)
			r.Last = min(r.Last, r.First+appetite-1)
			appetite -= r.Last - r.First + 1
			k.Range = r
			give = append(give, k)
		}
		return true
	})
	for _, p := range leave {
		g.state.Leave(p.Member, p.Range)
	}
	if w.chance(10) {
		w.release(g)
	}
	for _, p := range give {
		g.state.Tell(p.Member, p.Range)
		switch {
		case w.chance(90):
			w.early += int(p.Last - p.First + 1)
			w.hand(m, p.Range, w.next, p.Attempt, "kept for "+m.name)
		case w.chance(50): // it does not come to the member, which the gateway sees
			g.state.Untold(p.ID, p.Range, g.read)
		}
	}
	return len(give) > 0
}

// release gives back what members did not come for.
func (w *world) release(g *gateway) {
	entries := g.state.Release(func() uint64 { w.ids++; return w.ids })
	for _, e := range entries {
		g.write(e, w.now)
	}
	w.append(entries, false)
}

// takeBack has others be given what an answer would have given that does not come to its member.
func (w *world) takeBack(g *gateway, of asked, e acquire.Entry) {
	g.state.Untold(e.ID, acquire.Everything, of.read)
	w.release(g)
}

// work commits some of what a member has.
func (w *world) work(m *member) {
	if m.frozen > w.now {
		return
	}
	var done []acquire.Range
	for _, o := range slices.Sorted(maps.Keys(m.hand)) {
		if w.chance(60) {
			done = append(done, acquire.Range{First: o, Last: o})
			delete(m.hand, o)
		}
	}
	g := w.gateways[m.gateway]
	if w.chance(20) {
		g = w.gateways[w.rng.IntN(gateways)]
	}
	for _, r := range done {
		w.commit(r, !m.late && w.now-m.contact <= timeout)
		w.hear(g, w.era, r)
	}
}

// collect deletes what nobody needs.
func (w *world) collect(g *gateway) {
	w.catchUp(g, w.next)
	w.append(g.state.Garbage(w.now, func(id uint64) bool { return g.own[id] }), w.chance(80))
}

// rebalance has a member die, and the gateways hear of it.
func (w *world) rebalance(m *member) {
	i := slices.Index(w.members[:], m)
	w.join(i)
	for _, g := range w.gateways {
		if w.chance(50) {
			g.state.Members(func(name string) bool {
				return slices.ContainsFunc(w.members[:], func(m *member) bool { return m.name == name })
			})
		}
	}
}

// leave has a member give back what it has, and go.
func (w *world) leave(m *member) {
	if !w.contact(m) {
		return
	}
	g := w.gateways[m.gateway]
	w.refresh(g)
	g.state.Leave(m.name, acquire.Everything)
	id := func() uint64 { w.ids++; return w.ids }
	entries := g.state.GiveBack(m.name, id)
	for _, e := range entries {
		g.write(e, w.now)
	}
	w.append(entries, false)
	w.join(slices.Index(w.members[:], m))
}

// finish has calm times in which all that is left is done.
func (w *world) finish() {
	w.there = records
	for range 400 {
		w.now += timeout / 3
		w.arrive()
		for _, g := range w.gateways {
			clear(g.waiting)
		}
		left := false
		for _, m := range w.members {
			m.frozen = 0
			w.fetch(m)
			w.work(m)
			w.work(m)
		}
		for _, g := range w.gateways {
			w.catchUp(g, w.next)
			w.collect(g)
		}
		for o := range w.done {
			left = left || !w.done[o]
		}
		if !left {
			return
		}
		if w.failure != "" {
			return
		}
	}
	w.failf("not done in the end: %v", w.done)
}

// play plays a history and returns what the judge found.
func play(seed uint64) *world {
	w := newWorld(seed)
	for range steps {
		if w.step(); w.failure != "" {
			return w
		}
	}
	w.finish()
	return w
}
