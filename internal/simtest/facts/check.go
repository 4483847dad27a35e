package facts

import (
	"fmt"

	"github.com/tandem-kafka/tandem/internal/icommit/ledger"
	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/tandem-kafka/tandem/keyrange"
)

// check judges what is stored, as a gateway reads it that starts now:
//
//   - no loss: nobody is told that a record is done that is not, and no stable offset is above one;
//   - no redelivery: what was committed and answered is not handed out again, unless something happened to it that may have it
//     forgotten (world.discard);
//   - compaction changes nothing.
//
// Resets, plain commits and rewinds reopen records, so the first also says that these are honoured and that facts of
// former eras stay dead.
func (w *world) check() {
	w.changed = false
	fresh, compacted := w.reader(w.log), w.reader(w.log.compacted())
	for base := range w.used() {
		p, c := w.picture(base, true), w.picture(base, true)
		attach(p, fresh, base)
		attach(c, compacted, base)
		w.checkAnswer("a new gateway", base, p, fresh.ledger, w.truth(base))
		w.checkAnswer("a new gateway", base, p, fresh.ledger, nil)
		w.checkStarts("a new gateway", base, p)
		if a, b := w.all(p, fresh.ledger, base), w.all(c, compacted.ledger, base); a != b && w.now >= w.damaged {
			w.fail("compaction: %s becomes %s", a, b)
		}
	}
	if row, ok := w.broker.rows[source]; ok {
		for _, r := range w.records {
			if r.open && !r.lenient && r.offset < row.Offset {
				w.fail("stable offset: it is %d %q, above record %d", row.Offset, text(row), r.offset)
			}
		}
	}
}

// used are the bases that are used.
func (w *world) used() int {
	if w.grown {
		return bases
	}
	return 1
}

// all is what a gateway answers, as text.
func (w *world) all(p *progress.Picture, l *ledger.Ledger, base int) string {
	offset, _ := p.Source()
	stable := p.Stable(max(offset, 0), nil)
	var waits [grains]bool
	for g := range waits {
		waits[g] = p.Unstable(grainsOf(g, g))
	}
	return fmt.Sprint(p.Era(), stable, l.Committed(p, baseOf(base), whole, stable, 1_000_000), waits)
}

// checkAnswer checks what is answered to those that commit individually.
func (w *world) checkAnswer(who string, base int, p *progress.Picture, l *ledger.Ledger, next progress.NextRecord) {
	stable, above, ours := w.answer(p, l, base, next)
	for _, r := range w.records {
		done := r.offset < stable || above(r)
		if done && r.open && (ours || !r.lenient) {
			w.fail("loss: %s says that record %d is done, stable %d", who, r.offset, stable)
		}
		if !done && r.acked[base] {
			w.fail("redelivery: %s does not know that record %d is committed, stable %d", who, r.offset, stable)
		}
		if !done && r.once[base] && !p.Unstable(grainsOf(r.grain[base], r.grain[base])) {
			w.fail("exactly-once: %s does not know that record %d was done in a transaction, stable %d", who, r.offset, stable)
		}
		if r.acked[base] {
			w.stats.checked++
		}
	}
}

// checkStarts checks where the slices of views begin.
func (w *world) checkStarts(who string, base int, p *progress.Picture) {
	for v, view := range w.byBase[base] {
		for s := range view.K {
			keys := keyrange.OfSlice(s, view.K)
			if w.kind == exactly && p.Unstable(keys) {
				continue
			}
			start := p.Start(v, s, false)
			from := max(start.Offset, 0)
			if start.Uncommitted {
				from = 0
			}
			acked := w.end
			for g := range grains {
				if keys.Contains(uint32(g) << grainBits) {
					acked = min(acked, w.rows[base][g])
				}
			}
			for _, r := range w.records {
				if !r.in(keys, base) {
					continue
				}
				if r.open && r.offset < from {
					w.fail("loss: %s begins slice %d of %s at %d, above record %d", who, s, view.Name, from, r.offset)
				}
				if r.offset >= from && r.offset < acked && !start.Uncommitted {
					w.fail("redelivery: %s begins slice %d of %s at %d, but %d is committed", who, s, view.Name, from, acked)
				}
			}
		}
	}
}

// finish lets everything come to rest, and checks that every record is done, that the stable offset says so, and that the log is
// as good as empty.
func (w *world) finish() error {
	w.quiet = true
	w.drain()
	w.orphans = nil
	w.endAll()
	base := 0
	deal := func() []*share { return w.ranges(base) }
	if v := w.viewOf(base); v >= 0 && w.chance(30) {
		deal = func() []*share { return w.slices(v) }
	}
	for range 3 {
		w.rebalance(1+w.rng.IntN(3), deal)
		for range 2 {
			for _, m := range w.members {
				for _, s := range m.shares {
					if !s.begun {
						m.begin(s)
					}
					m.do(s, 1<<30)
				}
			}
			for range 3 { // some commits have to wait for others
				for _, m := range w.members {
					m.flush()
				}
			}
			w.tidy()
			w.now += lease + 1
			if w.check(); w.failure != nil {
				return w.failure
			}
		}
	}
	for _, r := range w.records {
		if r.open {
			return fmt.Errorf("record %d was never done", r.offset)
		}
	}
	if row, ok := w.broker.rows[source]; !ok || row.Offset < w.end {
		return fmt.Errorf("all is done and committed, but the stable offset is %d, not %d", row.Offset, w.end)
	}
	if live := w.log.live(); len(live) > mostLive {
		return fmt.Errorf("all is done and committed, but the log still holds %v", live)
	}
	return nil
}

// mostLive is the most records that the log holds when there are no gaps: a mark.
const mostLive = 1
