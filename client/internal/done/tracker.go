package done

import "github.com/tandem-kafka/tandem/client/internal/offsets"

// Tracker keeps track of one set of key ranges of one partition.
//
// Invariants: undone lies in [watermark, next). Every offset in fresh is done. What is done and not committed lies below the
// watermark, or is in a dense range with an offset in fresh, or in a Batch that neither Committed nor Failed was told of.
type Tracker struct {
	next     int64 // scanned up to here, exclusive
	undone   offsets.Set
	fresh    offsets.Set // done since they were last cut, or come back from a failed commit; one for each range is enough
	stored   int64       // the watermark that is committed
	recheck  int         // len(fresh) from which on the ranges have to be counted again
	recheckN int         // the limit that recheck was computed for
}

// Batch is what one commit says of the tracker's key ranges.
type Batch struct {
	// Watermark: everything below it is done. -1: as committed before.
	Watermark int64
	// Ranges are done offset ranges above the watermark: sorted, disjoint, not touching.
	Ranges []offsets.Range
}

// NewTracker begins at start, the next offset to read: everything below it counts as done and committed.
func NewTracker(start int64) *Tracker { return &Tracker{next: start, stored: start} }

// Next is the offset up to which the tracker was told everything, exclusive: the next to fetch.
func (t *Tracker) Next() int64 { return t.next }

// Undone is how many offsets were given and are not done.
func (t *Tracker) Undone() int { return t.undone.Len() }

// Give says that offset holds a record, and that there is none between Next and it. offset >= Next.
func (t *Tracker) Give(offset int64) {
	t.undone.Add(offset)
	t.next = offset + 1
}

// Scanned says that there is no record from Next to offset, exclusive. An offset below Next changes nothing.
func (t *Tracker) Scanned(offset int64) { t.next = max(t.next, offset) }

// Done says that the record at offset is done, or gone. It reports false, and changes nothing, if it was not given or is done already.
func (t *Tracker) Done(offset int64) bool {
	if !t.undone.Remove(offset) {
		return false
	}
	t.fresh.Add(offset)
	return true
}

// IsUndone reports whether offset was given and is not done.
func (t *Tracker) IsUndone(offset int64) bool { return t.undone.Has(offset) }

// Watermark is the lowest offset that is not done: everything below it is.
func (t *Tracker) Watermark() int64 {
	if o, ok := t.undone.Min(); ok {
		return o
	}
	return t.next
}

// Stored is the watermark that is committed.
func (t *Tracker) Stored() int64 { return t.stored }

// Dirty reports whether there is something to commit.
func (t *Tracker) Dirty() bool {
	return t.fresh.Len() > 0 || t.next > t.stored && t.Watermark() > t.stored
}

// around is the longest done range that holds offset, which is done and above the watermark.
func (t *Tracker) around(offset int64) offsets.Range {
	r := offsets.Range{First: t.stored, Last: t.next - 1}
	if o, ok := t.undone.Prev(offset); ok {
		r.First = o + 1
	}
	if o, ok := t.undone.Next(offset); ok {
		r.Last = o - 1
	}
	return r
}

// Reached reports whether a batch of limit ranges is full, or so nearly that counting more often would cost more than it brings:
// at seven eighths. It is cheap enough to ask after every Done.
func (t *Tracker) Reached(limit int) bool {
	if t.recheckN != limit {
		t.recheck, t.recheckN = limit-limit/8, limit
	}
	if t.fresh.Len() < t.recheck {
		return false
	}
	w := t.Watermark()
	t.fresh.RemoveRange(0, w-1)
	n := 0
	for o, ok := t.fresh.Next(w); ok && n < limit; n++ {
		o, ok = t.fresh.Next(t.around(o).Last + 1)
	}
	if n >= limit-limit/8 {
		return true
	}
	// Each offset that gets done adds one range at most.
	t.recheck = t.fresh.Len() + limit - limit/8 - n
	return false
}

// Cut takes what is to be committed, with at most limit ranges, out of the tracker; false if there is nothing. More may be
// left. Committed or Failed must be told of it, one batch at a time.
func (t *Tracker) Cut(limit int) (Batch, bool) {
	w := t.Watermark()
	b := Batch{Watermark: -1}
	if w > t.stored {
		b.Watermark = w
	}
	t.fresh.RemoveRange(0, w-1)
	for len(b.Ranges) < limit {
		o, ok := t.fresh.Next(w)
		if !ok {
			break
		}
		r := t.around(o)
		b.Ranges = append(b.Ranges, r)
		t.fresh.RemoveRange(r.First, r.Last)
	}
	t.recheckN = 0
	return b, b.Watermark >= 0 || len(b.Ranges) > 0
}

// More reports whether a cut left something for another.
func (t *Tracker) More() bool { return t.fresh.Len() > 0 }

// Committed says that b is durable.
func (t *Tracker) Committed(b Batch) { t.stored = max(t.stored, b.Watermark) }

// Failed says that b was not committed, or that nobody knows: it comes again in a later cut.
func (t *Tracker) Failed(b Batch) {
	for _, r := range b.Ranges {
		t.fresh.Add(r.First) // the rest of it is done, so it is in the same range
	}
}

// Split takes some of the key ranges into a tracker of their own: those of the moved offsets. kept are offsets of those that
// stay. Undone offsets that are among neither count in both. A batch that is under way counts for both, too.
func (t *Tracker) Split(moved, kept []int64) *Tracker {
	s := NewTracker(t.next)
	s.stored, s.fresh, s.undone = t.stored, t.fresh.Clone(), t.undone.Clone()
	for _, o := range moved {
		t.undone.Remove(o)
	}
	for _, o := range kept {
		s.undone.Remove(o)
	}
	return s
}
