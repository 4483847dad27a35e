package region

import "slices"

// redundant are the records that need not be there once put is.
func (r *Region) redundant(put *plane, stable int64, limit int) (deletes []Fact) {
	full := func() bool { return limit > 0 && len(deletes) >= limit }
	var news []*lane
	for _, l := range r.records.lanes {
		if len(l.news) > 0 {
			news = append(news, l)
		}
	}
	still := map[*lane]bool{} // those whose news are not dealt with
	for _, l := range r.records.lanes {
		for p := (place{}); l.in(p) && l.at(p).Last < stable && !full(); p = l.next(p) {
			deletes = append(deletes, Fact{l.keys, l.at(p).First, l.at(p).Last})
		}
		for p := (place{}); l.covered.in(p) && !full(); p = l.covered.next(p) {
			deletes = append(deletes, Fact{l.keys, l.covered.at(p).First, l.covered.at(p).Last})
		}
		var covered []OffsetRange
		for _, w := range put.lanes {
			if w.keys.Covers(l.keys) {
				covered = l.appendCovered(covered, w, w.spans(l.n/4), stable)
			}
		}
		wider := news
		if len(l.news) > 0 {
			wider = r.records.lanes
		}
		for _, w := range wider {
			if w.keys.First > l.keys.First {
				break
			}
			if w == l || !w.keys.Covers(l.keys) {
				continue
			}
			n := len(covered)
			covered = l.appendCovered(covered, w, w.news, stable)
			covered = l.appendCovered(covered, w, l.news, stable)
			if len(covered) > n {
				still[w], still[l] = true, true
			}
		}
		slices.SortFunc(covered, OffsetRange.compare)
		for _, o := range slices.Compact(covered) {
			if full() {
				break
			}
			deletes = append(deletes, Fact{l.keys, o.First, o.Last})
		}
		if full() {
			return deletes // the news of other lanes are for the next time
		}
	}
	for _, l := range news {
		if !still[l] {
			l.news = nil
		}
	}
	return deletes
}

// maxNews bounds what is remembered exactly of the records that were added to a lane.
const maxNews = 64

// note remembers that records were added, sorted and disjoint ones.
func (l *lane) note(run []OffsetRange) {
	if len(l.news)+len(run) <= maxNews {
		l.news = append(l.news, run...)
		return
	}
	hull := OffsetRange{run[0].First, run[len(run)-1].Last}
	for _, o := range l.news {
		hull = OffsetRange{min(hull.First, o.First), max(hull.Last, o.Last)}
	}
	l.news = append(l.news[:0], hull)
}

// spans are offset ranges that all elements begin in: the elements, or one around them if there are more than limit.
func (l *lane) spans(limit int) []OffsetRange {
	if l.n > limit && l.n > 1 {
		return []OffsetRange{{l.at(place{}).First, l.top()}}
	}
	return slices.Concat(l.chunks...)
}

// appendCovered appends the lane's records that begin in one of spans, end at or above the stable offset, and that one
// element of w covers.
func (l *lane) appendCovered(dst []OffsetRange, w *lane, spans []OffsetRange, stable int64) []OffsetRange {
	for _, span := range spans {
		p := l.seek(OffsetRange{span.First, span.First})
		if l.in(p) && l.at(p).Last < stable {
			p = l.ending(stable)
		}
		for ; l.in(p) && l.at(p).First <= span.Last; p = l.next(p) {
			if o := *l.at(p); w.hides(o) {
				dst = append(dst, o)
			}
		}
	}
	return dst
}
