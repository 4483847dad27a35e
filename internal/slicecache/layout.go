package slicecache

import (
	"time"
	"unsafe"

	"github.com/tandem-kafka/tandem/internal/split"
	"github.com/tandem-kafka/tandem/keyrange"
)

// Bounds of one layout; a set that does not fit gets another one.
const (
	maxSlots        = 256
	maxLayoutRanges = 4096 // of all its sets together
)

// layout is a number of disjoint key sets of a partition that are split together for key-range fetches. Each set has a slot,
// whose number is the slice. A layout grows: a new set takes a slot and makes a new version, by which blocks are split from
// then on. Blocks of older versions stay good for all other slots, so nobody but the newcomer notices.
// Its fields are under partition.mu, but for p and base, which never change.
type layout struct {
	entry   // in Cache.layouts
	p       *partition
	base    int32
	slots   []slot
	version int
	slicing split.Slicing // of this version
	made    time.Time
	used    time.Time // last request
	again   bool      // one of its sets was asked for more than once
	gone    bool      // it was dropped: whoever still uses it has to look for another one
}

// slot is the place of one key set.
type slot struct {
	keys  keyrange.Set // merged; nil: free
	used  time.Time    // last request
	users int          // fetches that work on it
	moved bool         // the set has a slot in a newer layout: only those that are here already go on
}

// live says that the set may be asked for again soon, or is in use.
func (s *slot) live(now time.Time) bool {
	return s.keys != nil && (s.users > 0 || !s.moved && now.Sub(s.used) < activeFor)
}

// current says that requests for the set come here.
func (s *slot) current(now time.Time) bool { return s.live(now) && !s.moved }

// admits says that keys can have a slot beside the live ones.
func (l *layout) admits(keys keyrange.Set, now time.Time) bool {
	slots, ranges := 1, len(keys)
	for i := range l.slots {
		if s := &l.slots[i]; s.live(now) {
			if overlap(s.keys, keys) {
				return false
			}
			slots++
			ranges += len(s.keys)
		}
	}
	return slots <= maxSlots && ranges <= maxLayoutRanges
}

// covered is how much of the axis the live slots cover.
func (l *layout) covered(now time.Time) (n uint64) {
	for i := range l.slots {
		if s := &l.slots[i]; s.live(now) {
			n += s.keys.Len()
		}
	}
	return n
}

// idle says that nobody uses l and no request will come to it.
func (l *layout) idle() bool {
	for i := range l.slots {
		if s := &l.slots[i]; s.users > 0 || s.keys != nil && !s.moved {
			return false
		}
	}
	return true
}

// users is the number of fetches that work on l.
func (l *layout) users() (n int) {
	for i := range l.slots {
		n += l.slots[i].users
	}
	return n
}

// take gives keys, which l admits, a slot. What was not asked for lately loses its own. The caller calls renew.
func (l *layout) take(keys keyrange.Set, now time.Time) int32 {
	free := -1
	for i := len(l.slots) - 1; i >= 0; i-- {
		if s := &l.slots[i]; !s.live(now) {
			*s, free = slot{}, i
		}
	}
	if free < 0 {
		free, l.slots = len(l.slots), append(l.slots, slot{})
	}
	l.slots[free] = slot{keys: keys, used: now}
	for _, r := range l.p.readers() {
		if sl := r.layouts[l]; sl != nil {
			sl.slot(free, l.version+1)
		}
	}
	return int32(free)
}

// renew makes the next version of l for its slots as they are, and returns what has to go for its memory.
func (l *layout) renew() ([]*entry, error) {
	sets := make([]keyrange.Set, len(l.slots))
	for i := range l.slots {
		sets[i] = l.slots[i].keys
	}
	s, err := split.NewLayout(sets)
	if err != nil {
		return nil, err
	}
	l.version++
	l.slicing = s.Slicing(l.base)
	return l.p.c.account(l, l.size(s)), nil
}

// size is the memory of l and what is known of its slices, which is nothing for most of the gaps it may have.
func (l *layout) size(s *split.Layout) int64 {
	const slotBytes = unsafe.Sizeof(slot{}) + 2*unsafe.Sizeof(sliceState{}) + 16*unsafe.Sizeof(gap{})
	n := int64(unsafe.Sizeof(layout{})+2*unsafe.Sizeof(sliced{})) + int64(s.Bytes()) + int64(cap(l.slots))*int64(slotBytes)
	for i := range l.slots {
		n += int64(cap(l.slots[i].keys)) * int64(unsafe.Sizeof(keyrange.Range{}))
	}
	return n
}

// slot makes slice i of sl that of a set nothing is known of; blocks from version on hold it.
func (sl *sliced) slot(i, version int) {
	for len(sl.slices) <= i {
		sl.slices = append(sl.slices, sliceState{})
	}
	sl.slices[i] = sliceState{last: -1, since: version}
}

// overlap says that a and b have a position in common.
func overlap(a, b keyrange.Set) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	for _, r := range a {
		if b.Overlaps(r) {
			return true
		}
	}
	return false
}

// merged is keys without ranges that touch, so that equal sets look equal.
func merged(keys keyrange.Set) keyrange.Set {
	for i := 1; i < len(keys); i++ {
		if uint64(keys[i].First) <= uint64(keys[i-1].Last)+1 {
			return keyrange.AppendUnion(make(keyrange.Set, 0, len(keys)), keys, nil)
		}
	}
	return keys
}
