package handout

import (
	"slices"

	"github.com/tandem-kafka/tandem/internal/acquire"
	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/tandem-kafka/tandem/keyrange"
)

// This file has the group's committed offset, and the eras that follow from it by the rules of package progress: resets and deletions go past the gateways, which see them when members
// come that they do not know.

// none are the facts of a commit that says nothing.
type none struct{}

func (none) Next(_ keyrange.Range, from int64, _ func(int64) int64) int64 { return from }

// picture is what a gateway reads of the group's committed offset.
func (w *world) picture() *progress.Picture {
	p := progress.NewPicture(nil)
	p.SetSource(w.source)
	p.SetFacts(w.facts, nil)
	return p
}

// begins reports whether the group has no committed offset, or its next individual commit opens an era.
func (w *world) begins() bool { return w.source.Offset < 0 || w.picture().Opens() }

// individually is the part of an individual commit that concerns the committed offset.
func (w *world) individually() {
	plan := w.picture().Plan(nil, progress.Env{Generation: w.generation, Facts: func(int64) progress.Facts { return none{} }})
	w.source = progress.Row{Offset: plan.Source.Offset, LeaderEpoch: -1, Metadata: plan.Source.Metadata}
	if plan.Era == w.era {
		return
	}
	w.era = plan.Era
	clear(w.given[:])
	clear(w.told[:])
	w.oracle.Restart(w.era)
	for o := range w.done {
		if w.done[o] {
			w.oracle.Done(acquire.Range{First: int64(o), Last: int64(o)}, w.now)
		}
	}
}

// enter reports whether what is done has to be read because a member comes: the group may have been without members since.
func (w *world) enter(g *gateway, m *member) bool {
	if !slices.Contains(g.members, m.name) {
		goesOn := false
		var names []string
		for _, m := range w.members {
			goesOn = goesOn || slices.Contains(g.members, m.name)
			names = append(names, m.name)
		}
		if !goesOn {
			g.state.Anew()
			g.generation = -1
		}
		g.members = names
	}
	return w.generation > g.generation
}

// refresh reads the log, and then what is done. Where the next commit would open an era, that is opened first.
func (w *world) refresh(g *gateway) {
	w.catchUp(g, w.next)
	for w.begins() {
		w.individually()
	}
	w.tell(g)
	g.fresh, g.generation = true, w.generation
}

// tell tells a gateway what is done.
func (w *world) tell(g *gateway) {
	if w.begins() {
		g.state.Doubt()
		return
	}
	w.append(g.state.Restart(w.picture().Era()), false)
	g.state.Stable(w.start, w.now)
	for o := range int64(records) {
		if w.done[o] {
			g.state.Done(acquire.Range{First: o, Last: o}, w.now)
		}
	}
	g.state.Settled()
}

// hear has a gateway hear of a commit.
func (w *world) hear(g *gateway, era int64, done acquire.Range) {
	switch {
	case era > g.state.Era():
		g.state.Doubt()
	case era == g.state.Era():
		g.state.Done(done, w.now)
	}
}

// reset sets the group back, or ahead, when it has no members.
func (w *world) reset() {
	w.empty(w.rng.Int64N(records))
	w.source = progress.Row{Offset: w.start, LeaderEpoch: -1}
	w.generation++
}

// delete deletes the group, which begins anew at the start. Only one that has committed: eras without facts can have the same number again then, and attempts would not be told apart.
func (w *world) delete() {
	if w.begins() || w.facts != w.era {
		return
	}
	w.empty(0)
	w.source, w.generation = progress.NoRow, 1
}

// empty has all members go, and others come that begin at an offset.
func (w *world) empty(start int64) {
	w.start, w.late = start, nil
	for o := range w.done {
		w.done[o], w.doneAt[o] = int64(o) < start, 0
	}
	for i := range w.members {
		w.join(i)
	}
	for i, g := range w.gateways {
		if clear(g.waiting); w.chance(50) {
			w.crash(i)
		}
	}
}
