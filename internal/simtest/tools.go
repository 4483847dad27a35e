package simtest

import (
	"fmt"
	"regexp"

	"github.com/tandem-kafka/tandem/internal/progress"
)

// reset is a tool that sets the group's offset on the source, directly on the broker, while the group is empty.
func (w *world) reset(pi int) {
	p := w.parts[pi]
	to := w.rng.Int64N(p.end + 1)
	text := ""
	if old, ok := w.broker.rows[key{pi, -1, 0}]; ok && w.chance(30) && old.row.Metadata != nil && !progress.SourceIsOurs(old.row.Metadata, to) {
		text = *old.row.Metadata // copied by the tool along with another offset
	}
	w.broker.seq++
	w.broker.rows[key{pi, -1, 0}] = stored{progress.Row{Offset: to, LeaderEpoch: -1, Metadata: &text}, w.broker.seq}
	w.stats.resets++
	w.logf("reset of part %d to %d %q", pi, to, text)
	w.base(pi, to)
}

// base: everything is done below an offset, and nothing above it.
func (w *world) base(pi int, to int64) {
	p := w.parts[pi]
	for _, r := range p.records {
		r.open = r.offset >= to
		r.lenient = false
	}
	for j := range p.acked {
		p.acked[j] = to
	}
	if w.untagged(pi) || w.broker.hasPendingRows() {
		p.vague = true
		p.acked = [positions]int64{}
	}
}

func (b *broker) hasPendingRows() bool {
	for _, t := range b.txns {
		if t.sawRows {
			return true
		}
	}
	return false
}

// toolRow is a tool that sets a view's row directly on the broker.
func (w *world) toolRow(pi int) {
	p := w.parts[pi]
	v := w.rng.IntN(len(w.views))
	s := w.rng.Int32N(w.views[v].K)
	to := w.rng.Int64N(p.end + 1)
	text := [...]string{"", "by hand", "AQAAAZ", "tandem:1:3:1", fmt.Sprintf("x|tandem:1:1:%d", to+1)}[w.rng.IntN(5)]
	if old := w.broker.rows[key{pi, v, s}].row.Metadata; old != nil && stepped.MatchString(*old) {
		p.acked = [positions]int64{} // a rewind is forgotten with its row: the others fall back to the stable offset
	}
	w.broker.seq++
	w.broker.rows[key{pi, v, s}] = stored{progress.Row{Offset: to, LeaderEpoch: -1, Metadata: &text}, w.broker.seq}
	w.stats.toolRows++
	w.logf("a tool sets v%d/%d of part %d to %d", v, s, pi, to)
	p.vague = true
	// What it skips is not asked for any more; what it goes back over has to be done again.
	for _, r := range p.records {
		if !r.in(s, w.views[v].K) {
			continue
		}
		p.acked[r.pos] = 0
		switch {
		case r.offset < to && !w.wanted(r, pi): // the row decides
			r.open = false
		case r.offset >= to && !r.open:
			r.open, r.lenient = true, true
		}
	}
	for j := range p.acked {
		if int32(j)%w.views[v].K == s {
			p.acked[j] = 0
		}
	}
}

var stepped = regexp.MustCompile(`tandem:1:[0-9]+[.]`)

// wanted reports whether what tools have written asks for a record.
func (w *world) wanted(r *record, pi int) bool {
	for k, s := range w.broker.rows {
		if k.part != pi || s.row.Offset > r.offset {
			continue
		}
		if k.view < 0 && !progress.SourceIsOurs(s.row.Metadata, s.row.Offset) {
			return true
		}
		if k.view >= 0 && r.in(k.slice, w.views[k.view].K) && progress.ClientText(s.row.Metadata, s.row.Offset) == s.row.Metadata {
			return true
		}
	}
	return false
}

// expire drops a source row, or the rows of a view that nobody reads. Rows that tell of a rewind stay: Kafka expires the
// oldest first, so those that they make void are gone before them.
func (w *world) expire() {
	pi := w.rng.IntN(len(w.parts))
	p := w.parts[pi]
	gone := false
	if w.chance(40) {
		source := key{pi, -1, 0}
		if s, ok := w.broker.rows[source]; ok && !(progress.SourceIsOurs(s.row.Metadata, s.row.Offset)) {
			return // just reset: Kafka keeps it for days
		}
		_, gone = w.broker.rows[source]
		delete(w.broker.rows, source)
	} else {
		v := w.rng.IntN(len(w.views))
		for _, m := range w.members {
			if m.input == v {
				return
			}
		}
		for s := range w.views[v].K {
			row, ok := w.broker.rows[key{pi, v, s}]
			if ok && progress.ClientText(row.row.Metadata, row.row.Offset) != row.row.Metadata && !stepped.MatchString(*row.row.Metadata) {
				gone = true
				delete(w.broker.rows, key{pi, v, s})
			}
		}
	}
	if !gone {
		return
	}
	w.stats.expired++
	w.changed = true
	w.logf("rows of part %d expire", pi)
	p.acked = [positions]int64{}
}
