package region

import (
	"slices"
	"sort"
)

// chunkSize is the most offset ranges in a chunk: 8 KiB, so that an insertion moves little.
const chunkSize = 512

// list holds distinct offset ranges in the order of OffsetRange.compare, in chunks. No chunk is empty.
type list struct {
	chunks [][]OffsetRange
	n      int
}

// place is that of an element in a list; behind the last one it is {len(chunks), 0}. It holds until the list changes.
type place struct{ chunk, i int }

func (l *list) in(p place) bool         { return p.chunk < len(l.chunks) }
func (l *list) at(p place) *OffsetRange { return &l.chunks[p.chunk][p.i] }

func (l *list) next(p place) place {
	if p.i++; p.i == len(l.chunks[p.chunk]) {
		return place{p.chunk + 1, 0}
	}
	return p
}

// prev is the place before p; false if p is the first.
func (l *list) prev(p place) (place, bool) {
	switch {
	case p.i > 0:
		return place{p.chunk, p.i - 1}, true
	case p.chunk > 0:
		return place{p.chunk - 1, len(l.chunks[p.chunk-1]) - 1}, true
	}
	return p, false
}

// search is the place of the first element that is reached; all behind it have to be, too.
func (l *list) search(reached func(OffsetRange) bool) place {
	c := sort.Search(len(l.chunks), func(c int) bool { return reached(l.chunks[c][len(l.chunks[c])-1]) })
	if c == len(l.chunks) {
		return place{c, 0}
	}
	return place{c, sort.Search(len(l.chunks[c]), func(i int) bool { return reached(l.chunks[c][i]) })}
}

// seek is the place of r, or where it would be inserted.
func (l *list) seek(r OffsetRange) place {
	return l.search(func(o OffsetRange) bool { return o.compare(r) >= 0 })
}

// behind is the place of the first element that begins behind offset.
func (l *list) behind(offset int64) place {
	return l.search(func(o OffsetRange) bool { return o.First > offset })
}

// last is the last element; false if there is none.
func (l *list) last() (OffsetRange, bool) {
	if l.n == 0 {
		return OffsetRange{}, false
	}
	c := l.chunks[len(l.chunks)-1]
	return c[len(c)-1], true
}

func (l *list) has(r OffsetRange) bool {
	p := l.seek(r)
	return l.in(p) && *l.at(p) == r
}

// insert puts r before p, where it belongs.
func (l *list) insert(p place, r OffsetRange) {
	l.n++
	if p.i == 0 && p.chunk > 0 { // rather behind the chunk before, which a rising sequence fills
		if n := len(l.chunks[p.chunk-1]); n < chunkSize || !l.in(p) {
			p = place{p.chunk - 1, n}
		}
	}
	if len(l.chunks) == 0 {
		l.chunks = [][]OffsetRange{{r}}
		return
	}
	c := l.chunks[p.chunk]
	switch {
	case len(c) < chunkSize:
		l.chunks[p.chunk] = slices.Insert(c, p.i, r)
	case p.i == chunkSize:
		l.chunks = slices.Insert(l.chunks, p.chunk+1, []OffsetRange{r})
	case p.i == 0:
		l.chunks = slices.Insert(l.chunks, p.chunk, []OffsetRange{r})
	default:
		const half = chunkSize / 2
		right := append(make([]OffsetRange, 0, chunkSize), c[half:]...)
		if c = c[:half]; p.i <= half {
			c = slices.Insert(c, p.i, r)
		} else {
			right = slices.Insert(right, p.i-half, r)
		}
		l.chunks[p.chunk] = c
		l.chunks = slices.Insert(l.chunks, p.chunk+1, right)
	}
}

// remove takes out the element at p and returns the place of the one behind it.
func (l *list) remove(p place) place {
	l.n--
	c := slices.Delete(l.chunks[p.chunk], p.i, p.i+1)
	l.chunks[p.chunk] = c
	const few, enough = chunkSize / 4, chunkSize * 3 / 4
	switch before, behind := p.chunk-1, p.chunk+1; {
	case len(c) == 0:
		l.chunks = slices.Delete(l.chunks, p.chunk, behind)
		return place{p.chunk, 0}
	case len(c) < few && behind < len(l.chunks) && len(c)+len(l.chunks[behind]) <= enough:
		l.join(p.chunk)
	case len(c) < few && before >= 0 && len(c)+len(l.chunks[before]) <= enough:
		p = place{before, len(l.chunks[before]) + p.i}
		l.join(before)
	}
	if p.i == len(l.chunks[p.chunk]) {
		return place{p.chunk + 1, 0}
	}
	return p
}

// join makes one chunk of chunk c and the next one.
func (l *list) join(c int) {
	l.chunks[c] = append(l.chunks[c], l.chunks[c+1]...)
	l.chunks = slices.Delete(l.chunks, c+1, c+2)
}

// size is the memory of the list's elements, in bytes.
func (l *list) size() int64 {
	n := int64(cap(l.chunks)) * 24
	for _, c := range l.chunks {
		n += int64(cap(c)) * 16
	}
	return n
}
