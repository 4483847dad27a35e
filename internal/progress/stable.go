package progress

import "github.com/tandem-kafka/tandem/keyrange"

// NextRecord moves from over what is known to hold no record of a view's slice; it returns from where nothing is known.
type NextRecord func(view int, slice int32, from int64) int64

// reading is a picture with what is the same for all positions worked out.
type reading struct {
	p   *Picture
	era int64
	// complete: the source row's checksum is that of the rows. Then its base holds; otherwise a rewind may
	// have been forgotten with its row, and only its offset does.
	complete bool
	// trusted: its offset bounds the slices that were set back, too.
	trusted bool
	facts   Facts // that count; nil: none
}

func (p *Picture) reading() reading {
	r := reading{p: p, era: p.Era()}
	r.complete = p.source.present() && p.source.ours && p.checksum(r.era) == p.source.tag.n
	r.trusted = r.complete
	r.facts = p.factsIn(r.era)
	return r
}

// Complete reports whether the source row knows of all rewinds that the rows tell of. Where several gateways write at once
// it may not, until the next commit: slices without a row then begin at the stable offset, not at the base.
func (p *Picture) Complete() bool { return p.reading().complete }

// Done is the offset below which everything is done at position j of Width, without facts; -1: nothing is known.
func (p *Picture) Done(j int32) int64 { return p.reading().at(j).offset }

// base is what is done at a position that no rewind has set back.
func (r reading) base() int64 {
	if r.complete {
		return r.p.base()
	}
	return r.p.source.offset
}

// place is what is done at one position of the key axis: everything below offset.
type place struct {
	offset  int64 // -1: nothing is known, there is no source row
	covered bool  // by a row
}

// at works out what is done at position j.
func (r reading) at(j int32) place {
	p := r.p
	lowest := int64(-1) // of the rows without an era
	level := r.level(j)
	best := int64(-1)
	for v := range p.rows {
		w := &p.rows[v][j%p.views[v].K]
		switch {
		case w.untagged():
			if lowest < 0 || w.offset < lowest {
				lowest = w.offset
			}
		case w.counts(r.era) && w.tag.n >= level:
			best = max(best, w.offset)
		}
	}
	switch {
	case lowest >= 0 && p.foreign():
		// Nobody can say which of the two was written last.
		return place{min(lowest, p.source.offset), true}
	case lowest >= 0:
		return place{lowest, true}
	case best < 0:
		return place{r.base(), false}
	case level == 0 && p.source.present() && p.source.ours:
		return place{max(best, r.base()), true}
	case r.trusted:
		return place{max(best, p.source.offset), true}
	}
	return place{best, true}
}

// level is the step below which rows are void at position j.
func (r reading) level(j int32) uint64 {
	level := uint64(0)
	for v := range r.p.rows {
		if w := &r.p.rows[v][j%r.p.views[v].K]; w.tag.n > level && w.counts(r.era) {
			level = max(level, w.tag.voids())
		}
	}
	return level
}

// levels are the lowest and the highest level of a slice's positions.
func (r reading) levels(view int, slice int32) (low, high uint64) {
	low = r.level(slice)
	high = low
	k := r.p.views[view].K
	for j := slice + k; j < r.p.width; j += k {
		level := r.level(j)
		low, high = min(low, level), max(high, level)
	}
	return low, high
}

// decides reports whether a slice's row is void at none of its positions.
func (r reading) decides(own *row, view int, slice int32) bool {
	if _, high := r.levels(view, slice); own.tag.n < high {
		return false
	}
	for j := slice; j < r.p.width; j += r.p.views[view].K {
		for v := range r.p.rows {
			if r.p.rows[v][j%r.p.views[v].K].untagged() {
				return false
			}
		}
	}
	return true
}

// start is the lowest place of a slice's positions. known is false where a position has neither a row nor a source row;
// covered reports whether a row covers any of them.
func (r reading) start(view int, slice int32) (offset int64, covered, known bool) {
	known = true
	offset = -1
	k := r.p.views[view].K
	for j := slice; j < r.p.width; j += k {
		at := r.at(j)
		covered = covered || at.covered
		switch {
		case at.offset < 0:
			known = false
		case offset < 0 || at.offset < offset:
			if at.offset = r.extend(j, at.offset, nil); offset < 0 || at.offset < offset {
				offset = at.offset
			}
			// Facts below the stable offset are gone: where there are any, nobody knows which slices they were of.
			covered = covered || r.facts != nil
		}
	}
	return offset, covered, known
}

// Stable is the stable offset: the first offset whose record is not done. Positions of which nothing is known count from
// logStart, the source's first offset.
func (p *Picture) Stable(logStart int64, next NextRecord) int64 {
	return p.reading().stable(logStart, next)
}

func (r reading) stable(logStart int64, next NextRecord) int64 {
	lowest := int64(-1)
	for j := range r.p.width {
		at := r.at(j).offset
		if at < 0 {
			at = logStart
		}
		if lowest >= 0 && at >= lowest {
			continue
		}
		if at = r.extend(j, at, next); lowest < 0 || at < lowest {
			lowest = at
		}
	}
	return lowest
}

// extend moves an offset of position j over what is done individually, and over what any view's slice is known not to hold.
func (r reading) extend(j int32, from int64, next NextRecord) int64 {
	if r.facts == nil {
		return r.overEmpty(j, from, next)
	}
	return r.facts.Next(keyrange.OfSlice(j, r.p.width), from, func(from int64) int64 { return r.overEmpty(j, from, next) })
}

func (r reading) overEmpty(j int32, from int64, next NextRecord) int64 {
	if next == nil {
		return from
	}
	for {
		at := from
		for v := range r.p.views {
			at = max(at, next(v, j%r.p.views[v].K, at))
		}
		if at == from {
			return at
		}
		from = at
	}
}
