package progress

import (
	"cmp"
	"slices"
)

// Commit is a client's commit for one slice of a view.
type Commit struct {
	View        int   // index in Views
	Slice       int32 // in [0, K)
	Offset      int64 // everything below it in the slice is done
	LeaderEpoch int32
	Metadata    *string
	// Began is where this client was told to start in the slice, and then its last accepted commit; -1 where that is not known.
	// A commit from there on does not go back, even if readers of the same records through another view are ahead.
	Began int64
	// Uncounted: the cluster is likely to refuse this row; the stable offset must not count it.
	Uncounted bool
}

// Env is what a plan depends on besides the rows.
type Env struct {
	LogStart int64      // the source's first offset
	Next     NextRecord // known-empty stretches; nil: none
	// SourcePending: a transaction that is not decided has written the source row. Only looked at where the commit opens
	// an era (Picture.Foreign). Not to be set for a commit in a transaction: several members open an era together
	// then, and they began with stable offsets only.
	SourcePending bool
	NowMs         int64 // ms since 1970
	// Generation of the group, the same for all members that commit at a time; not above 0: the commit is of no member. Where there are facts the number of a new era depends on it, so that facts of an
	// era of which nobody knows yet, because they are on their way to the log, do not count in one of the same number after
	// a reset: that takes a group without members, and those that join it are of another generation.
	Generation int32
	// Facts count in the era that the plan is for, instead of the picture's: they have what the commit adds. Those of the
	// picture must be among them if it is in the same era. nil: the commit adds none, and the picture's count.
	Facts func(era int64) Facts
}

// Write is one row to write.
type Write struct {
	View        int // index in Views; -1: the source row
	Slice       int32
	Offset      int64
	LeaderEpoch int32
	Metadata    *string
}

// Plan is what one OffsetCommit or TxnOffsetCommit has to hold for a source partition.
type Plan struct {
	Rows   []Write // the client's, in its order
	Added  []Write // rows of tools that get an era, see the package comment
	Source Write   // the stable offset
	// Back has the indexes of the commits that go back. They are to be planned from rows read afresh, with Env.Next knowing
	// whether the slices hold a record from the commit on, and while no other commit for the partition is under way.
	Back []int
	// Opens: the commit opens a new era.
	Opens bool
	// Exposed: a gateway that knows only the rows of before this commit may just now write a source row of an era in which what goes back
	// here does not count: an era begins here, or with whoever commits individually next, or slices were set back before.
	Exposed bool
	// Unsettled: which era the commit is to open, or begin with, depends on a transaction that is not decided. A commit in a transaction waits until it is, unless its transaction
	// has facts of this Era already. Pending rows are to be told as such, at least the source row.
	Unsettled bool
	Era       int64 // in which it counts

	counted []bool
}

// Plan works out the rows to write for a client's commits, all of this source partition. Without commits it renews the
// source row. The picture does not change: see Applied.
func (p *Picture) Plan(commits []Commit, env Env) Plan {
	next := p.Clone()
	before := p.reading()
	era := before.era
	plan := Plan{Opens: p.foreign()}
	complete := before.complete
	if p.outlived() || env.Facts != nil && !p.foreign() && p.setBack(era) && !p.untagged() { // Of what the rows say only the stable offset is taken along.
		next.source.offset = before.stable(env.LogStart, env.Next)
		plan.Opens, complete = true, true
		era = p.after(max(era, p.highestEra()), env)
	} else if plan.Opens {
		era = p.after(p.highestEra(), env)
	}
	if p.foreign() && env.SourcePending {
		// The undecided transaction may have opened an era of the same number before the source row was
		// last set; its rows must not count in ours.
		era = max(era+1, env.NowMs)
	}
	plan.Added = p.adopt(next, era, commits, env.Facts != nil)

	for i, c := range commits {
		w := Write{View: c.View, Slice: c.Slice, Offset: c.Offset, LeaderEpoch: c.LeaderEpoch, Metadata: c.Metadata}
		if c.Offset < 0 { // Kafka shows such a row as none
			plan.Rows, plan.counted = append(plan.Rows, w), append(plan.counted, false)
			continue
		}
		low, high := reading{p: next, era: era}.levels(c.View, c.Slice)
		t := tag{era: era, n: high, d: int64(high - low)} // counts at all positions, and makes nothing void that is not
		own := &p.rows[c.View][c.Slice]
		t.inherits = low != 0 && !(own.counts(era) && !own.tag.inherits && own.tag.voids() == low)
		back := p.back(before, c, env.Next)
		if back {
			plan.Back = append(plan.Back, i)
		}
		if back || own.untagged() { // a tool's row decided for the slice
			t = tag{era: era, n: next.highestStep(era, c.View, c.Slice) + 1}
		}
		text := viewText(c.Metadata, t, c.Offset)
		w.Metadata = &text
		plan.Rows, plan.counted = append(plan.Rows, w), append(plan.counted, !c.Uncounted)
		if back || !c.Uncounted { // too low does no harm
			next.rows[c.View][c.Slice] = row{offset: c.Offset, epoch: c.LeaderEpoch, text: c.Metadata, tag: t, ours: true}
		} else if own.untagged() && p.foreign() { // the lower of the two counts, as in reading.at
			next.rows[c.View][c.Slice].offset = min(own.offset, p.source.offset)
		}
	}

	plan.Unsettled = p.unsettled(plan.Opens, era, env.Facts != nil)
	plan.Exposed = len(plan.Back) > 0 && (plan.Opens || p.fact >= 0 || p.setBack(era))

	r := reading{p: next, era: era, complete: complete, trusted: before.trusted}
	sum := next.checksum(era)
	if plan.Opens || sum != p.checksum(era) {
		r.trusted = false
	}
	switch {
	case env.Facts == nil && (plan.Opens || before.facts == nil) || next.setBack(era):
	case env.Facts != nil:
		r.facts = env.Facts(era)
	default:
		r.facts = before.facts
	}
	plan.Era = era
	if plan.Opens {
		// From here on the source row is the base of the new era, no bound.
		next.source.ours, next.source.tag = true, tag{era: era}
	}
	stable := r.stable(env.LogStart, env.Next)
	t := tag{era: era, n: sum}
	if base := r.base(); base > stable {
		t.d = base - stable
	}
	text := string(t.append(nil, stable))
	plan.Source = Write{View: -1, Offset: stable, LeaderEpoch: -1, Metadata: &text}
	return plan
}

// unsettled reports whether a transaction that is not decided has to do with the era that a commit opens, or is the first in, as another commit would.
func (p *Picture) unsettled(opens bool, era int64, facts bool) bool {
	if p.source.present() && !opens {
		return false
	}
	eras, highest := p.undecidedEras(), p.highestEra()
	joins := slices.Contains(eras, era)
	if slices.ContainsFunc(eras, func(e int64) bool { return e > highest && e != era }) {
		return true
	}
	if opens {
		// Facts may be decided before the source row that goes with them: then this is the era after theirs.
		return p.source.pending && !joins && (facts || p.fact >= 0)
	}
	// Facts without their source row are those of a group that was deleted since, unless it is just on its way; a source row without facts is one of which the era is not known.
	return joins && !p.source.pending || facts && p.source.pending && !joins
}

// generations is the most generations that the numbers of eras tell apart.
const generations = 1000

// after is the number of the era after another one. All commits that open it choose the same, whether they have facts or not, but for the first facts of a group.
func (p *Picture) after(era int64, env Env) int64 {
	if env.Facts == nil && p.fact < 0 || env.Generation <= 0 {
		return era + 1
	}
	return (era/generations+1)*generations + int64(env.Generation%generations)
}

// adopt gives rows of tools a tag: those of other views that overlap the commits, so that these can stand above them; in
// a new era those above the source row, which would decide once it is ours; and what overlaps those. No others, because
// their own clients may be committing. The lowest gets the highest step: it is what decides where they overlap. With all, all of them:
// otherwise facts would never count, see Picture.factsIn.
func (p *Picture) adopt(next *Picture, era int64, commits []Commit, all bool) (added []Write) {
	var left []Write // rows of tools that stay, so far
	for v := range p.rows {
		for s := range p.rows[v] {
			w := Write{View: v, Slice: int32(s), Offset: p.rows[v][s].offset, LeaderEpoch: p.rows[v][s].epoch}
			if !p.rows[v][s].untagged() || slices.ContainsFunc(commits, func(c Commit) bool {
				return c.View == v && c.Slice == w.Slice && c.Offset >= 0
			}) {
				continue
			}
			if p.foreign() && w.Offset > p.source.offset {
				w.Offset = p.source.offset
				added = append(added, w)
			} else if all || slices.ContainsFunc(commits, func(c Commit) bool { return c.View != v && p.overlap(v, w.Slice, c.View, c.Slice) }) {
				added = append(added, w)
			} else {
				left = append(left, w)
			}
		}
	}
	for i := 0; i < len(added); i++ {
		left = slices.DeleteFunc(left, func(w Write) bool {
			more := p.overlap(w.View, w.Slice, added[i].View, added[i].Slice)
			if more {
				added = append(added, w)
			}
			return more
		})
	}
	slices.SortStableFunc(added, func(a, b Write) int { return cmp.Compare(b.Offset, a.Offset) })
	for i := range added {
		w := &added[i]
		n := p.rows[w.View][w.Slice]
		n.offset, n.ours = w.Offset, true
		n.tag = tag{era: era, n: next.highestStep(era, w.View, w.Slice) + 1}
		text := viewText(n.text, n.tag, n.offset)
		w.Metadata = &text
		next.rows[w.View][w.Slice] = n
	}
	return added
}

// back reports whether a commit goes back: below the slice's own row, or below where its client began. Where the slice
// is known to hold nothing in between it does not.
func (p *Picture) back(r reading, c Commit, next NextRecord) bool {
	from := c.Began
	if from < 0 {
		from, _, _ = r.start(c.View, c.Slice)
	}
	// A row that is void somewhere is older than what made it so: its client has begun lower since.
	if own := &p.rows[c.View][c.Slice]; own.counts(r.era) && r.decides(own, c.View, c.Slice) {
		from = max(from, own.offset)
	}
	return c.Offset < from && (next == nil || next(c.View, c.Slice, c.Offset) < from)
}

// overlap reports whether two slices have positions in common: slices of powers of two do where they are equal modulo the
// smaller one.
func (p *Picture) overlap(view int, slice int32, other int, otherSlice int32) bool {
	k := min(p.views[view].K, p.views[other].K)
	return slice%k == otherSlice%k
}

// highestStep is the highest step of the rows that overlap a slice.
func (p *Picture) highestStep(era int64, view int, slice int32) uint64 {
	highest := uint64(0)
	k := p.views[view].K
	for v, w := range p.views {
		step := min(k, w.K)
		for s := slice % step; s < w.K; s += step {
			if r := &p.rows[v][s]; r.counts(era) {
				highest = max(highest, r.tag.n)
			}
		}
	}
	return highest
}

// Apply takes the rows of a plan into the picture, when Kafka has accepted all of them; never those of a transaction,
// which nobody has decided yet.
func (p *Picture) Apply(plan Plan) {
	for _, ws := range [][]Write{plan.Rows, plan.Added} {
		for _, w := range ws {
			p.SetView(w.View, w.Slice, Row{Offset: w.Offset, LeaderEpoch: w.LeaderEpoch, Metadata: w.Metadata})
		}
	}
	p.SetSource(Row{Offset: plan.Source.Offset, LeaderEpoch: -1, Metadata: plan.Source.Metadata})
}

// Verdict turns Kafka's error codes for the rows of a plan into those for the client. A refused addition fails the
// client's rows. repair: the source row was written and counts a row that was refused; plan again from the same picture
// with the accepted commits only, and write that source row.
func (plan *Plan) Verdict(rows, added []int16, source int16) (codes []int16, repair bool) {
	codes = append(codes, rows...)
	failed := source
	for _, code := range added {
		if code != 0 {
			failed = code
		}
	}
	for i := range codes {
		if codes[i] != 0 && plan.counted[i] && source == 0 {
			repair = true
		}
		if codes[i] == 0 {
			codes[i] = failed
		}
	}
	return codes, repair
}

// RenewalDue reports whether a source row that was last written at writtenMs is to be written again: it is everyMs old.
// Kafka expires it on its own, because the group is not subscribed to the source.
func RenewalDue(writtenMs, nowMs, everyMs int64) bool { return nowMs-writtenMs >= everyMs }
