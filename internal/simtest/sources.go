package simtest

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tandem-kafka/tandem/internal/progress"
)

// writeSources reads the rows of pictures afresh and writes the source rows of those that wanted selects, in a request
// of the gateway's own with a member's generation. It is false where there is nothing to write; it waits for nothing:
// pictures that a commit which goes back holds are left out.
func (g *gateway) writeSources(m *member, pcs []pic, wanted func(p *progress.Picture, stable int64) bool, answer func(ok, known bool)) bool {
	r := &request{member: m.id, generation: m.generation, writes: map[int][]progress.Write{}, sent: g.w.now}
	u := underway{r: r}
	for _, pc := range pcs {
		if g.locked(pc, false) {
			continue
		}
		g.refresh(pc)
		p := g.pictures[pc]
		if !wanted(p, p.Stable(0, g.next(pc))) {
			continue
		}
		env := progress.Env{Next: g.next(pc), NowMs: g.w.now + 1000}
		g.write(r, &u, m, pc, p.Plan(nil, env))
	}
	if len(u.plans) == 0 {
		return false
	}
	g.w.stats.sources++
	g.send(m, r, u, answer)
	return true
}

// own sends a request of the gateway's own on the member's connection: what else comes on it has to wait.
func (m *member) own(pcs []pic, wanted func(p *progress.Picture, stable int64) bool) {
	m.busy = m.gw.writeSources(m, pcs, wanted, func(_, known bool) {
		m.busy = false
		if !known {
			m.reconnect()
		}
	})
}

// heartbeat raises the source rows of commits that have come to rest.
func (m *member) heartbeat() {
	if m.busy || m.input < 0 || m.rewind != nil {
		return
	}
	var rested []pic
	for pc, at := range m.gw.unsettled {
		if m.w.now-at > rest {
			rested = append(rested, pc)
		}
	}
	slices.SortFunc(rested, func(a, b pic) int { return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.base, b.base)) })
	rested = slices.DeleteFunc(rested, func(pc pic) bool {
		later := m.gw.locked(pc, false) || m.w.broker.pending(key{pc.part, -1, 0})
		if !later {
			delete(m.gw.unsettled, pc)
		}
		return later
	})
	m.own(rested, func(p *progress.Picture, stable int64) bool {
		offset, ours := p.Source()
		return ours && offset >= 0 && offset < stable
	})
}

// renew writes the source rows of all partitions that the member's last commit did not touch.
func (m *member) renew() {
	if m.busy || m.input < 0 || m.rewind != nil {
		return
	}
	var quiet []pic
	for part := range m.w.parts {
		if m.w.broker.pending(key{part, -1, 0}) {
			continue
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(m.slices)), func(k key) bool { return k.part == part }) || m.w.chance(30) {
			quiet = append(quiet, pic{part, m.w.bases[m.input]})
		}
	}
	first := m.w.chance(50)
	m.own(quiet, func(p *progress.Picture, _ int64) bool { return p.Any() && !(first && p.Foreign()) })
}
