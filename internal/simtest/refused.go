package simtest

import (
	"slices"

	"github.com/tandem-kafka/tandem/internal/progress"
)

// refuse chooses rows of a client's commit that the cluster is to refuse.
func (w *world) refuse(m *member, r *request) {
	if m.input < 0 || m.rewind != nil || r.corrects != nil {
		return
	}
	var rows, source []key
	for part, ws := range r.writes {
		for _, x := range ws {
			k := key{part, x.View, x.Slice}
			switch {
			case w.untagged(part): // which of a tool's row and a foreign source row holds is not known: a known limit
			case x.View >= 0:
				rows = append(rows, k)
			default:
				source = append(source, k)
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	slices.SortFunc(rows, key.compare)
	slices.SortFunc(source, key.compare)
	r.refused = map[key]bool{}
	switch row := rows[w.rng.IntN(len(rows))]; {
	case w.chance(20):
		r.refused[source[w.rng.IntN(len(source))]] = true
	case w.chance(50): // its text is too long
		r.refused[row] = true
	case slices.ContainsFunc(rows, func(k key) bool { return m.refused[k] }): // still
		for _, k := range rows {
			r.refused[k] = m.refused[k]
		}
	default: // no rights for the view
		for _, k := range rows {
			r.refused[k] = k.view == row.view
		}
	}
	w.logf("of the next, refused: %v", r.refused)
	w.stats.refused++
}

// refused finds out what a request did that was refused in part, corrects source rows that count too much, and only then
// gives the client its answer: a failure.
func (g *gateway) refused(m *member, r *request, u underway, answer func(ok, known bool)) {
	fix := &request{member: r.member, generation: r.generation, txn: r.txn, writes: map[int][]progress.Write{}, sent: g.w.now, corrects: r}
	for _, p := range u.plans {
		code := func(x progress.Write) int16 {
			if r.refused[key{p.part, g.w.global(p.base, x.View), x.Slice}] {
				return 1
			}
			return 0
		}
		var rows, added []int16
		var accepted []progress.Commit
		for i, x := range p.plan.Rows {
			rows = append(rows, code(x))
			if rows[i] == 0 {
				accepted = append(accepted, p.commits[i])
			}
			if k := (key{p.part, m.input, x.Slice}); rows[i] != 0 {
				m.refused[k] = true
			} else {
				delete(m.refused, k)
			}
		}
		for _, x := range p.plan.Added {
			added = append(added, code(x))
		}
		if _, repair := p.plan.Verdict(rows, added, code(p.plan.Source)); repair {
			env := progress.Env{Next: g.next(p.pic), NowMs: g.w.now + 1000, SourcePending: r.txn == nil && g.w.broker.pending(key{p.part, -1, 0})}
			fix.writes[p.part] = []progress.Write{p.picture.Plan(accepted, env).Source}
			g.w.logf("g%d corrects: %s", g.id, show(fix.writes[p.part]))
		}
	}
	done := func(ok bool) {
		g.answered(r, false) // the pictures are read again
		g.w.settleDebts(r, ok)
	}
	if len(fix.writes) == 0 {
		done(true)
		answer(false, true)
		return
	}
	g.w.stats.repaired++
	fix.answer = func(ok, known bool) {
		done(ok && known)
		answer(false, known)
	}
	m.queue = append([]*request{fix}, m.queue...)
}

// debt is a request some of whose rows were refused, while its source row counts them until it is corrected. The client did
// those records, and asked to have them committed. Should the correction fail, or somebody read the source row meanwhile and
// go by it, then the commit counts after all.
type debt struct {
	r       *request
	records []*record
	spread  map[int]bool // parts that were read
}

// owe notes what the source row counts too much.
func (w *world) owe(r *request) {
	if len(r.refused) == 0 || r.txn != nil {
		return
	}
	d := &debt{r: r, spread: map[int]bool{}}
	for part, ws := range r.writes {
		for _, x := range ws {
			if !r.refused[key{part, x.View, x.Slice}] || x.View < 0 {
				continue
			}
			for _, rec := range w.parts[part].records {
				if rec.open && rec.done && rec.offset < x.Offset && rec.in(x.Slice, w.shape(x.View)) {
					rec.owed = true
					d.records = append(d.records, rec)
				}
			}
		}
	}
	w.debts = append(w.debts, d)
}

// spread: somebody reads the source row of a part.
func (w *world) spread(part int) {
	for _, d := range w.debts {
		d.spread[part] = true
	}
}

// settleDebts: the source rows are corrected, or never will be.
func (w *world) settleDebts(r *request, corrected bool) {
	w.debts = slices.DeleteFunc(w.debts, func(d *debt) bool {
		if d.r != r {
			return false
		}
		for _, rec := range d.records {
			rec.owed = false
			if !corrected || d.spread[rec.part] {
				rec.open, rec.done, rec.lenient = false, false, false
			}
		}
		return true
	})
}
