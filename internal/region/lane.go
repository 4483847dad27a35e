package region

import "github.com/tandem-kafka/tandem/keyrange"

// lane is what is done in one key range: a list of which both First and Last rise, so that no element covers another.
type lane struct {
	keys keyrange.Range
	list
	// covered are the records of the fact log that one in list covers: they are to be deleted.
	covered list
	// news are where records were added since the last Amend: there some may cover those of narrower lanes, or be covered by
	// those of wider ones.
	news []OffsetRange
}

func (l *lane) empty() bool { return l.n == 0 && l.covered.n == 0 }

// top is the highest offset in the lane; -1 if it is empty.
func (l *lane) top() int64 {
	if r, ok := l.last(); ok {
		return r.Last
	}
	return -1
}

// ending is the place of the first element that ends at or behind offset.
func (l *lane) ending(offset int64) place {
	return l.search(func(o OffsetRange) bool { return o.Last >= offset })
}

// hides reports whether one element covers r.
func (l *lane) hides(r OffsetRange) bool {
	p, ok := l.prev(l.behind(r.First))
	return ok && l.at(p).Last >= r.Last
}

// merge adds r and makes one element of all that touch it. It is for lanes without records.
func (l *lane) merge(r OffsetRange) {
	p := l.ending(r.First - 1)
	for l.in(p) && l.at(p).First <= r.Last+1 {
		o := *l.at(p)
		r = OffsetRange{min(r.First, o.First), max(r.Last, o.Last)}
		p = l.remove(p)
	}
	l.insert(p, r)
}

// add adds a record. What it covers, or the record itself if one covers it, goes to covered.
func (l *lane) add(r OffsetRange) {
	p := l.behind(r.First)
	if q, ok := l.prev(p); ok {
		switch before := *l.at(q); {
		case before == r:
			return
		case before.Last >= r.Last:
			l.cover(r)
			return
		case before.First == r.First:
			p = q
		}
	}
	for l.in(p) && l.at(p).Last <= r.Last {
		l.cover(*l.at(p))
		p = l.remove(p)
	}
	l.insert(p, r)
}

func (l *lane) cover(r OffsetRange) {
	if p := l.covered.seek(r); !l.covered.in(p) || *l.covered.at(p) != r {
		l.covered.insert(p, r)
	}
}

// drop removes a record, and reports whether there was one. Those that it covered come back, if nothing else covers them.
func (l *lane) drop(r OffsetRange) bool {
	if p := l.covered.seek(r); l.covered.in(p) && *l.covered.at(p) == r {
		l.covered.remove(p)
		return true
	}
	p := l.seek(r)
	if !l.in(p) || *l.at(p) != r {
		return false
	}
	l.remove(p)
	var back []OffsetRange
	for p = l.covered.seek(OffsetRange{r.First, r.First}); l.covered.in(p) && l.covered.at(p).First <= r.Last; {
		if o := *l.covered.at(p); r.covers(o) {
			back = append(back, o)
			p = l.covered.remove(p)
		} else {
			p = l.covered.next(p)
		}
	}
	for _, o := range back {
		l.add(o)
	}
	return true
}

// clear removes the elements that r covers. It is for lanes without records.
func (l *lane) clear(r OffsetRange) {
	for p := l.seek(OffsetRange{r.First, r.First}); l.in(p) && l.at(p).Last <= r.Last; {
		p = l.remove(p)
	}
}

// bytes is the memory that the lane takes.
func (l *lane) bytes() int64 {
	const itself = 112 + 8 // with the pointer to it
	return itself + l.size() + l.covered.size() + int64(cap(l.news))*16
}
