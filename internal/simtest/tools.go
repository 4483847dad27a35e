package simtest

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

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
	p.reset, p.touched = w.broker.seq, w.broker.seq
	w.logf("reset of part %d to %d %q", pi, to, text)
	w.base(pi, to)
}

// base: everything is done below an offset, and nothing above it.
func (w *world) base(pi int, to int64) {
	p := w.parts[pi]
	for _, r := range p.records {
		r.open = r.offset >= to
		r.lenient, r.done = false, false
	}
	for b := range p.acked {
		for j := range p.acked[b] {
			p.acked[b][j] = to
		}
	}
	if w.untagged(pi) || w.broker.hasPendingRows(pi) {
		p.vague = true
		p.acked = [bases][positions]int64{}
	}
}

func (b *broker) hasPendingRows(part int) bool {
	for _, t := range b.txns {
		for k := range t.rows {
			if k.part == part {
				return true
			}
		}
	}
	return false
}

// toolRow is a tool that sets a view's row directly on the broker.
func (w *world) toolRow(pi int) {
	if len(w.byBase) > 1 {
		return // it decides for the views of its own base only
	}
	p := w.parts[pi]
	v := w.rng.IntN(len(w.views))
	s := w.rng.Int32N(w.views[v].K)
	to := w.rng.Int64N(p.end + 1)
	text := [...]string{"", "by hand", "AQAAAZ", "tandem:1:3:1", fmt.Sprintf("x|tandem:1:1:%d", to+1)}[w.rng.IntN(5)]
	if old := w.broker.rows[key{pi, v, s}].row.Metadata; old != nil && stepTag.MatchString(*old) {
		w.forget(pi, w.bases[v]) // a rewind is forgotten with its row: the others fall back to the stable offset
	}
	w.broker.seq++
	w.broker.rows[key{pi, v, s}] = stored{progress.Row{Offset: to, LeaderEpoch: -1, Metadata: &text}, w.broker.seq}
	w.stats.toolRows++
	p.touched = w.broker.seq
	w.logf("a tool sets v%d/%d of part %d to %d", v, s, pi, to)
	p.vague = true
	// What it skips is not asked for any more; what it goes back over has to be done again.
	for _, r := range p.records {
		if !r.in(s, w.shape(v)) {
			continue
		}
		switch {
		case r.offset < to: // the last wish; that rows of before may ask for it does no harm
			r.open = false
		case !r.open:
			r.open, r.lenient = true, true
		}
		r.done = false
	}
	p.lower(s, w.shape(v), 0)
}

var (
	stepTag = regexp.MustCompile(`tandem:1:[0-9]+[.]`)
	eraTag  = regexp.MustCompile(`tandem:1:([0-9]+)`)
)

// expire drops rows as Kafka does, the oldest first: those of topics that nobody of the group is subscribed to, or all
// of a group without members. Rows that tell of a rewind stay while the group lives, because those that they make
// void are older. The source row of a living group is renewed; should it get lost for all that, then not together with what
// its era did away with. Rows that an undecided transaction has written stay, as in Kafka 4 (before, they outlive the
// longest transaction by days): otherwise its rows would come back in their place, however old.
func (w *world) expire() {
	pi := w.rng.IntN(len(w.parts))
	source := key{pi, -1, 0}
	var oldest []key
	alone := true
	for k, s := range w.broker.rows {
		if k.part != pi {
			continue
		}
		if k != source {
			alone = alone && eraOf(s) == eraOf(w.broker.rows[source])
		}
		used := slices.ContainsFunc(w.members, func(m *member) bool { return m.input == k.view })
		kept := len(w.members) > 0 && (k == source || stepTag.MatchString(text(s)))
		if !used && !kept && !w.broker.pending(k) {
			oldest = append(oldest, k)
		}
	}
	slices.SortFunc(oldest, func(a, b key) int { return cmp.Compare(w.broker.rows[a].seq, w.broker.rows[b].seq) })
	if w.chance(40) {
		if s, ok := w.broker.rows[source]; !ok || !alone || w.broker.pending(source) || !progress.SourceIsOurs(s.row.Metadata, s.row.Offset) {
			return
		}
		oldest = []key{source}
	} else if len(oldest) > 0 {
		oldest = oldest[:1+w.rng.IntN(len(oldest))]
	}
	for i, k := range oldest {
		s := w.broker.rows[k]
		if byTool := k != source && progress.ClientText(s.row.Metadata, s.row.Offset) == s.row.Metadata; byTool || k == source && !progress.SourceIsOurs(s.row.Metadata, s.row.Offset) {
			oldest = oldest[:i] // just written: Kafka keeps it for days
			break
		}
		delete(w.broker.rows, k)
	}
	if len(oldest) == 0 {
		return
	}
	w.stats.expired++
	w.changed = true
	w.logf("rows of part %d expire: %v", pi, oldest)
	// Gateways with pictures of before may write a source row that is lower, once more.
	w.parts[pi].acked = [bases][positions]int64{}
	w.parts[pi].expired = w.now
}

// outdated lists parts where a request, not in a transaction, was planned from rows some of which have expired since, and
// names another era than gateways chose that did not see them: what was committed in theirs is done again.
func (w *world) outdated(r *request) (parts []*part) {
	for part, ws := range r.writes {
		source, ok := w.broker.rows[key{part, -1, 0}]
		p := w.parts[part]
		if !ok || r.txn != nil || p.expired == 0 || r.sent-lease > p.expired || !progress.SourceIsOurs(source.row.Metadata, source.row.Offset) {
			continue
		}
		for _, x := range ws {
			if x.View < 0 && progress.SourceIsOurs(x.Metadata, x.Offset) && eraOf(stored{row: progress.Row{Metadata: x.Metadata}}) != eraOf(source) {
				parts = append(parts, p)
			}
		}
	}
	return parts
}

func text(s stored) string {
	if s.row.Metadata == nil {
		return ""
	}
	return *s.row.Metadata
}

func eraOf(s stored) string {
	if m := eraTag.FindStringSubmatch(text(s)); m != nil {
		return m[1]
	}
	return ""
}
