package simtest

import (
	"maps"
	"slices"

	"github.com/tandem-kafka/tandem/internal/progress"
)

// Times, in steps of the simulation.
const (
	lease    = 30 // a picture older than this is read again before a commit
	delivery = 12 // a request that takes longer is lost
	settle   = lease + delivery + 2
)

// gateway holds a picture per source partition, shared by its connections.
type gateway struct {
	w        *world
	id       int
	pictures map[int]*progress.Picture
	readAt   map[int]int64
	// backs are the plans that go back and are not answered yet. Until then what is read may be of before.
	backs []back
}

type back struct {
	r     *request
	plans []planned
}

type planned struct {
	part int
	plan progress.Plan
}

// refresh reads the rows of a partition.
func (g *gateway) refresh(part int) {
	g.pictures[part] = g.w.broker.fetch(part, g.w.views, false)
	g.readAt[part] = g.w.now
	for _, b := range g.backs {
		for _, p := range b.plans {
			if p.part == part {
				g.pictures[part].Apply(p.plan)
			}
		}
	}
}

// next is what this gateway knows of empty stretches: some of the truth, anew each time.
func (g *gateway) next(part int) progress.NextRecord {
	return func(view int, slice int32, from int64) int64 {
		to := g.w.parts[part].nextRecord(slice, g.w.views[view].K, from)
		if g.w.quiet || g.w.chance(40) {
			return to
		}
		if g.w.chance(50) || to <= from {
			return from
		}
		return from + g.w.rng.Int64N(to-from+1)
	}
}

// commit plans a member's commit and puts it on its way, and reports whether it goes back.
func (g *gateway) commit(m *member, commits map[int][]progress.Commit, t *txn, answer func(ok, known bool)) (goesBack bool) {
	r := &request{member: m.id, generation: m.generation, txn: t, writes: map[int][]progress.Write{}, sent: g.w.now}
	var plans []planned
	for _, part := range slices.Sorted(maps.Keys(commits)) {
		first := false
		for _, c := range commits[part] {
			k := key{part, c.View, c.Slice}
			first = first || !m.read[k]
			m.read[k] = true
		}
		fresh := first || t != nil || g.pictures[part] == nil || g.w.now-g.readAt[part] > lease
		if fresh {
			g.refresh(part)
		}
		env := progress.Env{Next: g.next(part), NowMs: g.w.now + 1000}
		env.SourcePending = t == nil && g.w.broker.pending(key{part, -1, 0})
		plan := g.pictures[part].Plan(commits[part], env)
		if len(plan.Back) > 0 {
			// Read the rows afresh, and look whether the slices hold anything in between.
			if !fresh {
				g.refresh(part)
			}
			env.Next = g.w.parts[part].truth(g.w.views)
			plan = g.pictures[part].Plan(commits[part], env)
		}
		if len(plan.Back) > 0 {
			goesBack = true
			for _, i := range plan.Back {
				if c := commits[part][i]; c.Began < 0 {
					// A reader that is behind another one and reconnected: nobody can tell it from one that went back.
					g.w.parts[part].lower(c.Slice, g.w.views[c.View].K, c.Offset)
				}
			}
			if t == nil {
				g.pictures[part].Apply(plan)
			}
		}
		plans = append(plans, planned{part, plan})
		r.writes[part] = slices.Concat(plan.Rows, plan.Added, []progress.Write{plan.Source})
		if g.w.trace != nil {
			g.w.logf("g%d plans for m%d part %d: %s", g.id, m.id, part, show(r.writes[part]))
		}
	}
	if goesBack && t == nil {
		g.backs = append(g.backs, back{r, plans})
	}
	r.answer = func(ok, known bool) {
		g.answered(r)
		for _, p := range plans {
			switch {
			case ok && known && t == nil && g.pictures[p.part] != nil:
				g.pictures[p.part].Apply(p.plan)
			case t == nil:
				delete(g.pictures, p.part) // whether it was written is not known
			}
		}
		answer(ok, known)
	}
	m.queue = append(m.queue, r)
	return goesBack
}

// start is an OffsetFetch of one slice. ok is false where the client has to wait.
func (g *gateway) start(part, view int, slice int32, stable bool) (offset int64, ok bool) {
	s := g.w.broker.fetch(part, g.w.views, stable).Start(view, slice, stable)
	switch {
	case s.Unstable:
		return 0, false
	case s.FromLogStart, s.Offset < 0:
		return 0, true // the reset policy is earliest
	}
	if end := g.w.parts[part].ownEnd(slice, g.w.views[view].K); !s.Own && g.w.chance(70) {
		if s.Uncommitted && end > s.Offset {
			return 0, true
		}
		return min(s.Offset, end), true
	}
	return s.Offset, true
}

func (g *gateway) answered(r *request) {
	g.backs = slices.DeleteFunc(g.backs, func(b back) bool { return b.r == r })
}
