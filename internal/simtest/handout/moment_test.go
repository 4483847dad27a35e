package handout

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tandem-kafka/tandem/internal/acquire"
)

// A member is silent until the very millisecond from which on it is over for a gateway. That gateway gives what it had to another member; and at the same
// moment it is there again, and fetches more, through another gateway. Neither knows of the other. Whichever is first in the log wins, for all gateways alike;
// and in the end each record is done, and with nobody (case I13).
func TestAcquireAndExpireAtTheSameMoment(t *testing.T) {
	first, last := uint64(1), uint64(1500)
	if testing.Short() {
		last = 200
	}
	if *seed > 0 {
		first, last = *seed, *seed
	}
	met := 0
	for s := first; s <= last; s++ {
		for _, taken := range []bool{true, false} {
			w := newWorld(s)
			for range 20 + s%200 {
				w.step()
			}
			if w.failure == "" && w.moment(taken) {
				met++
				w.finish()
				w.rest()
			}
			if w.failure != "" {
				t.Fatalf("history %d, taken first %t, repeat it with -seed %d: %s", s, taken, s, w.failure)
			}
		}
	}
	t.Logf("%d moments", met)
	if *seed == 0 && met < int(last) {
		t.Error("the moment is hardly ever met")
	}
}

// moment has a member expire and return at once; taken: what takes its offsets is first in the log. It is false where the history did not lead there.
func (w *world) moment(taken bool) bool {
	for _, l := range w.late {
		w.append(l.entries, true)
	}
	w.late, w.there = nil, records
	m, taker := w.members[0], w.members[1]
	m.frozen, taker.frozen, m.gateway, taker.gateway = 0, 0, 0, 1
	a, b := w.gateways[0], w.gateways[1]
	for n := 0; n < 20 && len(m.hand) == 0; n++ {
		clear(a.waiting)
		w.fetch(m)
		w.catchUp(a, w.next)
	}
	for _, g := range w.gateways {
		clear(g.waiting)
		w.refresh(g)
	}
	a.state.Has(m.name, m.has(), w.now)
	held := offsets(w.oracle.Holds(m.name))
	held = slices.DeleteFunc(held, func(o int64) bool { _, has := m.hand[o]; return w.done[o] || !has })
	if len(held) == 0 {
		return false
	}
	o := held[w.rng.IntN(len(held))]
	var f acquire.Free
	free := func(now int64) (ok bool) {
		f, ok = b.state.Next(o, now)
		return ok && f.First == o
	}
	if free(w.now) {
		return false // it is over there already
	}
	for !free(w.now) {
		at, ok := b.state.Expires(w.now)
		if !ok {
			w.failf("%s never gives offset %d up", m.name, o)
			return false
		}
		if w.now = at; free(at - 1) {
			w.failf("offset %d is free sooner than it is said to be", o)
		}
	}

	// Both, each from what its gateway knows.
	id := func() uint64 { w.ids++; return w.ids }
	takes := f.Acquire(b.state, id(), acquire.Range{First: o, Last: min(f.Last, o+w.rng.Int64N(4))}, taker.name, timeout)
	a.state.Has(m.name, m.has(), w.now)
	back := []acquire.Entry{a.state.Session(id(), m.name, timeout)}
	if more, ok := a.state.Next(a.state.Marker(), w.now); ok && more.First < records && !more.Again && w.chance(50) {
		back = append([]acquire.Entry{more.Acquire(a.state, id(), acquire.Range{First: more.First, Last: more.First}, m.name, timeout)}, back...)
	}
	m.late, m.contact = true, w.now
	at := w.next
	if !taken {
		w.append(back, true)
		at = w.next
	}
	w.append([]acquire.Entry{takes}, true)
	if taken {
		w.append(back, true)
	}

	winner, loser := taker, m
	if !taken {
		winner, loser = m, taker
	}
	readers := []*gateway{{state: acquire.New(0), waiting: map[uint64]asked{}}} // one that starts now
	for _, g := range append(readers, w.gateways[:]...) {
		w.refresh(g)
		if !slices.Contains(offsets(g.state.Holds(winner.name)), o) || slices.Contains(offsets(g.state.Holds(loser.name)), o) {
			w.failf("offset %d: %s holds %v, and %s, who was second, %v", o, winner.name, g.state.Holds(winner.name), loser.name, g.state.Holds(loser.name))
		}
	}
	if taken {
		w.deliver(b, asked{m: taker, fetch: taker.fetch, visit: taker.visit, read: at}, item{position: at, entry: takes})
	}
	for _, who := range []*member{m, taker} { // who may still commit what it has
		if w.chance(50) {
			w.work(who)
		}
	}
	return true
}

// rest checks that nobody holds anything any more.
func (w *world) rest() {
	for i, g := range w.gateways {
		w.refresh(g)
		for _, m := range w.members {
			if holds := g.state.Holds(m.name); len(holds) > 0 {
				w.failf("all is done, and for gateway %d %s holds %v", i, m.name, fmt.Sprint(holds))
			}
		}
	}
}

func offsets(ranges []acquire.Range) (of []int64) {
	for _, r := range ranges {
		for o := r.First; o <= r.Last; o++ {
			of = append(of, o)
		}
	}
	return of
}
