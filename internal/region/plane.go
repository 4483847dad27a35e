package region

import (
	"cmp"
	"iter"
	"slices"

	"github.com/tandem-kafka/tandem/keyrange"
)

// plane holds lanes of distinct key ranges, sorted by where they begin, then by where they end.
type plane struct{ lanes []*lane }

func compareKeys(a, b keyrange.Range) int {
	return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last))
}

func compareLanes(a, b *lane) int { return compareKeys(a.keys, b.keys) }

func (p *plane) search(keys keyrange.Range) (int, bool) {
	return slices.BinarySearchFunc(p.lanes, keys, func(l *lane, k keyrange.Range) int { return compareKeys(l.keys, k) })
}

// find is the lane of exactly this key range, or nil.
func (p *plane) find(keys keyrange.Range) *lane {
	if i, ok := p.search(keys); ok {
		return p.lanes[i]
	}
	return nil
}

// lane is the lane of exactly this key range, which it makes if there is none.
func (p *plane) lane(keys keyrange.Range) *lane {
	i, ok := p.search(keys)
	if !ok {
		p.lanes = slices.Insert(p.lanes, i, &lane{keys: keys})
	}
	return p.lanes[i]
}

// tidy removes the lane of this key range if it is empty.
func (p *plane) tidy(keys keyrange.Range) {
	if i, ok := p.search(keys); ok && p.lanes[i].empty() {
		p.lanes = slices.Delete(p.lanes, i, i+1)
	}
}

// from is the index of the first lane that begins at or behind position.
func (p *plane) from(position uint32) int {
	i, _ := p.search(keyrange.Range{First: position})
	return i
}

// within are the lanes whose key ranges keys covers.
func (p *plane) within(keys keyrange.Range) iter.Seq[*lane] {
	return func(yield func(*lane) bool) {
		for _, l := range p.lanes[p.from(keys.First):] {
			if l.keys.First > keys.Last || keys.Covers(l.keys) && !yield(l) {
				return
			}
		}
	}
}

// appendOver appends the lanes that have positions in common with keys and something at or behind offset.
func (p *plane) appendOver(dst []*lane, keys keyrange.Range, offset int64) []*lane {
	for _, l := range p.lanes {
		if l.keys.First > keys.Last {
			break
		}
		if l.keys.Last >= keys.First && l.top() >= offset {
			dst = append(dst, l)
		}
	}
	return dst
}

// cut calls f with the parts of keys that the same lanes lie over, from the first to the last, until it returns false. lanes are
// sorted by compareLanes, and used up.
func cut(keys keyrange.Range, lanes []*lane, f func(part keyrange.Range, over []*lane) bool) {
	over, next := 0, 0 // lanes[:over] lie over the part, those from next on begin behind it
	for first := keys.First; ; {
		for ; next < len(lanes) && lanes[next].keys.First <= first; next++ {
			lanes[over] = lanes[next]
			over++
		}
		last := keys.Last
		if next < len(lanes) {
			last = min(last, lanes[next].keys.First-1)
		}
		n := 0
		for _, l := range lanes[:over] {
			if l.keys.Last >= first {
				last = min(last, l.keys.Last)
				lanes[n] = l
				n++
			}
		}
		over = n
		if !f(keyrange.Range{First: first, Last: last}, lanes[:over]) || last == keys.Last {
			return
		}
		first = last + 1
	}
}
