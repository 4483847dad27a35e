package progress

import (
	"slices"

	"github.com/tandem-kafka/tandem/keyrange"
)

// Start is where a slice of a view begins: the answer to an OffsetFetch.
type Start struct {
	Offset      int64 // -1: nothing is known, the client's reset policy decides
	LeaderEpoch int32
	Metadata    *string // the client's own text
	// Unstable: the answer is UNSTABLE_OFFSET_COMMIT, because a transaction has to be decided first.
	Unstable bool
	// Own: the client itself committed this offset. Any other is to be held down to the slice's own end.
	Own bool
	// FromLogStart: some keys of the slice have progress and others nothing at all, not even a source row. Only the
	// source's first offset is right under any reset policy.
	FromLogStart bool
	// Uncommitted: nobody ever committed for the slice, nor was there a source row when the group began. Offset is
	// the source row's: right where the slice holds nothing behind it, otherwise the client's reset policy is to decide.
	Uncommitted bool
}

// Start works out where a slice of a view begins. With requireStable, rows that a transaction has yet to decide on make
// those slices wait whose start they can change.
func (p *Picture) Start(view int, slice int32, requireStable bool) Start {
	if requireStable && p.Unstable(keyrange.OfSlice(slice, p.views[view].K)) {
		return Start{Offset: -1, LeaderEpoch: -1, Unstable: true}
	}
	r := p.reading()
	offset, covered, known := r.start(view, slice)
	s := Start{Offset: offset, LeaderEpoch: -1, Metadata: new(string)}
	own := &p.rows[view][slice]
	if counts := own.counts(r.era) || own.untagged() && !p.foreign(); counts {
		s.Metadata = own.text
		if own.offset == offset {
			s.Own, s.LeaderEpoch = true, own.epoch
		}
	}
	switch {
	case !known && covered:
		s.Offset, s.FromLogStart, s.Own, s.LeaderEpoch = -1, true, false, -1
	case !known:
		s.Offset = -1
	case !covered && r.era == 0:
		s.Uncommitted = true
	}
	return s
}

// Unstable reports whether a transaction that is not decided can change what is done at positions of keys, and so where their reader begins.
func (p *Picture) Unstable(keys keyrange.Range) bool {
	eras, pending, era := p.undecidedEras(), p.anyPending(), p.Era()
	switch {
	case !p.source.present() || !p.source.ours || p.outlived():
		return pending || p.source.pending || len(eras) > 0 // which era is next is not known
	case slices.ContainsFunc(eras, func(e int64) bool { return e > era }):
		return true // it takes the place of this one
	case p.source.pending && !pending && len(eras) == 0:
		return true // of a plain consumer of the source, perhaps: everything may start elsewhere
	}
	for v, w := range p.views {
		for s := range w.K {
			if p.rows[v][s].pending && keyrange.OfSlice(s, w.K).Overlaps(keys) {
				return true
			}
		}
	}
	return p.open != nil && p.open.Touches(era, keys)
}

func (p *Picture) anyPending() bool {
	for _, rows := range p.rows {
		for i := range rows {
			if rows[i].pending {
				return true
			}
		}
	}
	return false
}
