package facts

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tandem-kafka/tandem/internal/progress"
)

// reset is a tool that sets the group's offset on the source, directly on the broker, while the group is empty.
func (w *world) reset() {
	to := w.rng.Int64N(w.end + 1)
	words := ""
	if old, ok := w.broker.rows[source]; ok && w.chance(30) && !progress.SourceIsOurs(old.Metadata, to) {
		words = text(old) // copied by the tool along with another offset
	}
	w.broker.put(source, progress.Row{Offset: to, LeaderEpoch: -1, Metadata: &words})
	w.stats.resets++
	w.logf("a reset to %d %q", to, words)
	w.reopenFrom(to)
	w.noteRows()
	w.changed = true
}

// toolRow is a tool that sets a view's row directly on the broker.
func (w *world) toolRow() {
	if len(w.views) == 0 || w.grown || w.kind == exactly {
		return // it decides for the views of its own base only
	}
	v := w.rng.IntN(len(w.views))
	k := key{v, w.rng.Int32N(w.views[v].K)}
	to := w.rng.Int64N(w.end + 1)
	words := [...]string{"", "by hand", "tandem:1:3:1", fmt.Sprintf("x|tandem:1:1:%d", to+1)}[w.rng.IntN(4)]
	w.broker.put(k, progress.Row{Offset: to, LeaderEpoch: -1, Metadata: &words})
	w.stats.tools++
	w.changed = true
	w.logf("a tool sets v%d/%d to %d", v, k.slice, to)
	// What it skips is not asked for any more; what it goes back over has to be done again.
	for _, r := range w.records {
		if !r.in(w.keys(k), w.bases[v]) {
			continue
		}
		switch {
		case r.offset < to: // the last wish; that rows of before may ask for it does no harm
			r.open = false
		case !r.open:
			r.open, r.lenient = true, true
		}
		r.done = false
		w.reopened(r)
	}
	w.external("a tool's row")
	w.rows = [bases][grains]int64{}
}

// expire drops rows as Kafka does. Of a group with members the source row goes only if they read views alone, and rows of views
// that nobody reads, unless they tell of rewinds: what those make void is older. Of a group without members all goes in the end.
func (w *world) expire() {
	era, ours := w.era()
	if !ours && len(w.broker.rows) > 0 && w.broker.rows[source].Metadata != nil || w.untagged() {
		return // just written: Kafka keeps it for days
	}
	used := func(k key) bool {
		return slices.ContainsFunc(w.members, func(m *member) bool {
			return slices.ContainsFunc(m.shares, func(s *share) bool { return s.view == k.view })
		})
	}
	alone := true // nothing of former eras could come back to life
	for k, row := range w.broker.rows {
		alone = alone && (k == source || eraOf(row) == era)
	}
	switch {
	case len(w.members) == 0 && (w.landing == 0 || len(w.log.live()) > 0) && (w.kind == exactly || len(w.txns) == 0) && w.chance(40): // all of it, or the group is deleted; the limit is that its first facts are on their way
		if len(w.broker.rows) == 0 {
			return
		}
		clear(w.broker.rows)
		clear(w.broker.written)
		for _, t := range w.txns {
			clear(t.rows)
		}
		w.logf("the group is deleted")
		w.reopenFrom(0)
	case w.chance(40) && ours && alone && !used(source) && !w.busy():
		w.broker.remove(source)
		w.logf("the source row expires")
		w.external("the source row expires")
		w.rows = [bases][grains]int64{}
	default:
		gone := false
		for _, k := range slices.SortedFunc(maps.Keys(w.broker.rows), key.compare) {
			if k.view >= 0 && !used(k) && !stepTag.MatchString(text(w.broker.rows[k])) && ours && !w.pending(k) && w.chance(50) {
				w.broker.remove(k)
				w.logf("the row of v%d/%d expires", k.view, k.slice)
				gone = true
			}
		}
		if !gone {
			return
		}
		w.external("rows of views expire")
		w.rows = [bases][grains]int64{}
	}
	w.stats.expired++
	w.changed = true
	w.noteRows()
}

// busy reports whether anybody commits just now, in a group of transactions: what was written within days does not expire.
func (w *world) busy() bool {
	return w.kind != direct && (len(w.txns) > 0 || slices.ContainsFunc(slices.Concat(w.members, w.zombies), func(m *member) bool { return m.busy != nil }))
}

// logDamage is what happens to the fact log: it is compacted, or deleted and made anew.
func (w *world) logDamage() {
	if w.chance(70) {
		read := w.log.n
		for _, g := range w.gateways {
			if g.log == w.log {
				read = min(read, g.read)
			}
		}
		before := len(w.log.records)
		w.log.compact(read)
		w.stats.compacted += min(1, before-len(w.log.records))
		w.logf("the log is compacted from %d to %d records", before, len(w.log.records))
		w.changed = true
		return
	}
	w.stats.deleted++
	w.log = newLog(w.log.id + 1)
	w.damaged = w.now + 2*delivery
	w.external("the log is deleted")
	w.changed = true
}

func show(rows map[key]progress.Row) string {
	var b strings.Builder
	for _, k := range slices.SortedFunc(maps.Keys(rows), key.compare) {
		if k == source {
			fmt.Fprintf(&b, "source=%d %q ", rows[k].Offset, text(rows[k]))
		} else {
			fmt.Fprintf(&b, "v%d/%d=%d %q ", k.view, k.slice, rows[k].Offset, text(rows[k]))
		}
	}
	return b.String()
}
