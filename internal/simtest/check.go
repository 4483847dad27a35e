package simtest

import (
	"fmt"

	"github.com/tandem-kafka/tandem/internal/progress"
)

// fail notes the first violation.
func (w *world) fail(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf(format, args...)
	}
}

// check judges the stored rows:
//
//   - no loss: no slice of any view begins above a record of it that is not done, and no stable offset is above one;
//   - no redelivery: no slice begins below what is committed at all of its positions (only the first record of the
//     slice below it matters);
//   - rewinds and resets reopen records, so both also say that those are honoured and that stale rows stay dead.
func (w *world) check() error {
	w.changed = false
	for pi, p := range w.parts {
		w.checkPart(pi, p)
		if w.failure != nil {
			return w.failure
		}
	}
	return nil
}

func (w *world) checkPart(pi int, p *part) {
	for base := range w.byBase {
		w.checkBase(pi, base, p)
	}
	w.checkStable(pi, p)
}

// checkBase checks where the slices of views of one base begin.
func (w *world) checkBase(pi, base int, p *part) {
	picture := w.fetch(pic{pi, base}, w.exactly)
	for v, view := range w.byBase[base] {
		for s := range view.K {
			start := picture.Start(v, s, w.exactly)
			if start.Unstable {
				continue
			}
			from := max(start.Offset, 0)
			if start.Uncommitted {
				from = 0
			}
			acked := p.acked[base][s]
			for j := s; j < positions; j += view.K {
				acked = min(acked, p.acked[base][j])
			}
			for _, r := range p.records {
				if !r.in(s, shape{view.K, base}) {
					continue
				}
				if r.open && !r.owed && r.offset < from {
					w.fail("loss: part %d slice %d of %s begins at %d, above record %d", pi, s, view.Name, from, r.offset)
				}
				if r.offset >= from && r.offset < acked && !start.Uncommitted {
					w.fail("redelivery: part %d slice %d of %s begins at %d, but %d is committed", pi, s, view.Name, from, acked)
				}
			}
		}
	}
}

// forgetBases: where gateways have written at once while one went back, or while one gave a tool's row an era, the source
// row does not know it. Then its base is forgotten: only what rows say, and the source row's offset, holds on.
func (w *world) forgetBases() {
	for pi := range w.parts {
		for base := range w.byBase {
			picture := w.fetch(pic{pi, base}, false)
			if _, ours := picture.Source(); ours && !picture.Complete() {
				w.forget(pi, base)
			}
		}
	}
}

// forget lowers what may not be delivered again to what the stored rows say, each for itself.
func (w *world) forget(pi, base int) {
	p := w.parts[pi]
	source, known := w.broker.rows[key{pi, -1, 0}]
	current := eraOf(source)
	if !known {
		for k, s := range w.broker.rows {
			if n, m := len(eraOf(s)), len(current); k.part == pi && (n > m || n == m && eraOf(s) > current) {
				current = eraOf(s)
			}
		}
	}
	for j := range int32(positions) {
		says := int64(0)
		if known {
			says = source.row.Offset
		}
		stepped := false
		for k, s := range w.broker.rows {
			if k.part == pi && k.view >= 0 && w.bases[k.view] == base && k.slice == j%w.views[k.view].K {
				if stepTag.MatchString(text(s)) || eraOf(s) == "" {
					stepped = true
				}
				if eraOf(s) == current {
					says = max(says, s.row.Offset)
				}
			}
		}
		if stepped {
			says = 0
		}
		p.acked[base][j] = min(p.acked[base][j], says)
	}
}

// checkStable checks the stable offset.
func (w *world) checkStable(pi int, p *part) {
	if row, ok := w.broker.rows[key{pi, -1, 0}]; ok {
		for _, r := range p.records {
			if r.open && !r.lenient && !r.owed && r.offset < row.row.Offset {
				w.fail("stable offset: part %d has %d (ours: %v), above record %d", pi, row.row.Offset, progress.SourceIsOurs(row.row.Metadata, row.row.Offset), r.offset)
			}
		}
	}
}

// finish lets everything come to rest, and checks that every record is done and that the stable offsets say so.
func (w *world) finish() error {
	w.quiet = true
	for _, t := range w.broker.undecided() {
		w.decide(t, t.late)
	}
	w.orphans = nil
	in := w.rng.IntN(len(w.views))
	for range 2 {
		w.rebalance(1+w.rng.IntN(3), func() int { return in })
		for range 2 {
			for _, m := range w.members {
				for _, s := range m.sorted() {
					if s.pos < 0 {
						m.begin(s)
					}
					m.do(s, 1<<30)
				}
				m.flush()
			}
			w.now += lease + 1
			if err := w.check(); err != nil {
				return err
			}
		}
	}
	w.atRest()
	for pi, p := range w.parts {
		for _, r := range p.records {
			if r.open {
				return fmt.Errorf("record %d of part %d was never done", r.offset, pi)
			}
		}
		if !w.fetch(pic{pi, w.bases[in]}, false).Complete() {
			return fmt.Errorf("all is done and committed, but the source row of part %d does not know the rewinds", pi)
		}
		row, ok := w.broker.rows[key{pi, -1, 0}]
		if !ok || row.row.Offset < p.end {
			return fmt.Errorf("all is done and committed, but the stable offset of part %d is %d, not %d", pi, row.row.Offset, p.end)
		}
	}
	return nil
}

// atRest has the members commit side by side once more, not knowing of each other. Then the group comes to rest, but for
// its heartbeats: these are to leave the source rows right.
func (w *world) atRest() {
	for range len(w.parts) {
		w.produce()
	}
	for _, m := range w.members {
		for _, s := range m.sorted() {
			m.do(s, 1<<30)
		}
	}
	for range 3 { // some commits have to wait for others
		for _, m := range w.members {
			m.commit()
		}
		for _, i := range w.rng.Perm(len(w.members)) {
			for m := w.members[i]; len(m.queue) > 0; {
				w.handle(m, true)
			}
		}
	}
	for _, m := range w.members {
		m.decide(true)
	}
	w.now += rest + 1
	for _, m := range w.members {
		m.heartbeat()
		for len(m.queue) > 0 {
			w.handle(m, true)
		}
	}
}

// run plays one history.
func run(steps int, w *world) error {
	for range steps {
		if err := w.step(); err != nil {
			return err
		}
	}
	return w.finish()
}
