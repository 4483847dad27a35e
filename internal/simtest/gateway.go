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
	pictures map[pic]*progress.Picture
	readAt   map[pic]int64
	// under are the commits outside of transactions that wait for an answer. One that goes back waits for the others to
	// end, and others for it, as under a lock.
	under []underway
	// unsettled are pictures that commits were accepted for since the source row was last looked at, and when.
	unsettled map[pic]int64
	// others is when a reading last showed rows that this gateway did not write.
	others map[pic]int64
}

// Of the source rows that the gateway writes of its own.
const rest = 4 // steps that a group has not committed for, so that a heartbeat looks at its source row

type underway struct {
	r        *request
	plans    []planned
	goesBack bool
}

type planned struct {
	pic
	picture *progress.Picture // that it was planned from
	commits []progress.Commit
	plan    progress.Plan
}

// refresh reads the rows of a partition.
func (g *gateway) refresh(pc pic) {
	g.w.spread(pc.part)
	old := g.pictures[pc]
	g.pictures[pc] = g.w.fetch(pc, false)
	if old != nil && !old.Equal(g.pictures[pc]) {
		g.others[pc] = g.w.now
	}
	g.readAt[pc] = g.w.now
}

// next is what this gateway knows of empty stretches: some of the truth, anew each time.
func (g *gateway) next(pc pic) progress.NextRecord {
	truth := g.w.truth(pc)
	return func(view int, slice int32, from int64) int64 {
		to := truth(view, slice, from)
		if g.w.quiet || g.w.chance(40) {
			return to
		}
		if g.w.chance(50) || to <= from {
			return from
		}
		return from + g.w.rng.Int64N(to-from+1)
	}
}

// locked reports whether a commit has to wait for others of this gateway.
func (g *gateway) locked(pc pic, goesBack bool) bool {
	return slices.ContainsFunc(g.under, func(u underway) bool {
		return (u.goesBack || goesBack) && slices.ContainsFunc(u.plans, func(p planned) bool { return p.pic == pc })
	})
}

// commit plans a member's commit and puts it on its way. It is false where it has to wait.
func (g *gateway) commit(m *member, commits map[int][]progress.Commit, t *txn, answer func(ok, known bool)) bool {
	r := &request{member: m.id, generation: m.generation, txn: t, writes: map[int][]progress.Write{}, sent: g.w.now}
	u := underway{r: r}
	for _, part := range slices.Sorted(maps.Keys(commits)) {
		pc := pic{part, g.w.bases[m.input]}
		for i := range commits[part] {
			commits[part][i].Uncounted = m.refused[key{part, m.input, commits[part][i].Slice}]
		}
		plan := g.plan(pc, m, commits[part], t != nil)
		if t == nil && g.locked(pc, len(plan.Back) > 0) {
			return false
		}
		for _, i := range plan.Back {
			u.goesBack = true
			if c := commits[part][i]; c.Began < 0 {
				// A reader that is behind another one and reconnected: nobody can tell it from one that went back.
				g.w.parts[part].lower(c.Slice, g.w.shape(m.input), c.Offset)
				g.w.parts[part].vague = g.w.parts[part].vague || g.w.mixed
			}
		}
		g.write(r, &u, m, pc, plan, commits[part]...)
	}
	if u.goesBack {
		g.w.stats.backs++
	}
	g.send(m, r, u, answer)
	return true
}

// write adds what a plan writes to a request.
func (g *gateway) write(r *request, u *underway, m *member, pc pic, plan progress.Plan, commits ...progress.Commit) {
	u.plans = append(u.plans, planned{pc, g.pictures[pc].Clone(), commits, plan})
	for _, write := range slices.Concat(plan.Rows, plan.Added, []progress.Write{plan.Source}) {
		write.View = g.w.global(pc.base, write.View)
		r.writes[pc.part] = append(r.writes[pc.part], write)
	}
	if g.w.trace != nil {
		g.w.logf("g%d plans for m%d part %d: %s", g.id, m.id, pc.part, show(r.writes[pc.part]))
	}
}

// send puts a request on its way.
func (g *gateway) send(m *member, r *request, u underway, answer func(ok, known bool)) {
	if r.txn == nil {
		g.under = append(g.under, u)
	}
	r.answer = func(ok, known bool) {
		if ok && known && len(r.refused) > 0 {
			g.refused(m, r, u, answer)
			return
		}
		if ok && known {
			for part, ws := range r.writes {
				for _, x := range ws {
					delete(m.refused, key{part, x.View, x.Slice})
				}
			}
		}
		g.answered(r, ok && known)
		if ok && known && r.txn != nil {
			for _, p := range u.plans {
				g.unsettled[p.pic] = g.w.now
			}
		}
		answer(ok, known)
	}
	m.queue = append(m.queue, r)
}

func (g *gateway) plan(pc pic, m *member, commits []progress.Commit, transaction bool) progress.Plan {
	first := false
	for _, c := range commits {
		k := key{pc.part, m.input, c.Slice}
		first = first || !m.read[k]
		m.read[k] = true
	}
	fresh := first || transaction || g.pictures[pc] == nil || g.w.now-g.readAt[pc] > lease
	if fresh {
		g.refresh(pc)
	}
	env := progress.Env{Next: g.next(pc), NowMs: g.w.now + 1000}
	env.SourcePending = !transaction && g.w.broker.pending(key{pc.part, -1, 0})
	plan := g.pictures[pc].Plan(commits, env)
	if len(plan.Back) == 0 {
		return plan
	}
	// Read the rows afresh, and look whether the slices hold anything in between.
	if !fresh {
		g.refresh(pc)
	}
	env.Next = g.w.truth(pc)
	return g.pictures[pc].Plan(commits, env)
}

// answered takes an accepted plan into the pictures; where it is not known what was written, they are read again.
func (g *gateway) answered(r *request, ok bool) {
	i := slices.IndexFunc(g.under, func(u underway) bool { return u.r == r })
	if i < 0 {
		return
	}
	u := g.under[i]
	g.under = slices.Delete(g.under, i, i+1)
	for _, p := range u.plans {
		if ok && g.pictures[p.pic] != nil {
			g.pictures[p.pic].Apply(p.plan)
			if len(p.plan.Rows) > 0 {
				g.unsettled[p.pic] = g.w.now
			}
		} else {
			delete(g.pictures, p.pic)
		}
	}
}

// start is an OffsetFetch of one slice. ok is false where the client has to wait.
func (g *gateway) start(part, view int, slice int32, stable bool) (offset int64, ok bool) {
	g.w.spread(part)
	s := g.w.fetch(pic{part, g.w.bases[view]}, stable).Start(g.w.local[view], slice, stable)
	switch {
	case s.Unstable:
		return 0, false
	case s.FromLogStart, s.Offset < 0:
		return 0, true // the reset policy is earliest
	}
	if end := g.w.parts[part].ownEnd(slice, g.w.shape(view)); !s.Own && g.w.chance(70) {
		if s.Uncommitted && end > s.Offset {
			return 0, true
		}
		return min(s.Offset, end), true
	}
	return s.Offset, true
}
