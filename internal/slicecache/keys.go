package slicecache

import (
	"math/rand/v2"
	"time"

	"github.com/tandem-kafka/tandem/keyrange"
)

// Where more layouts are in use at once than a partition may have, their fetches take turns. One that finds no room, or has lost its
// layout to another one, is answered after noRoomWait on average, with what it has, and comes again. One whose layout went for want
// of memory gets another, up to maxLost times.
const (
	maxLost    = 3
	noRoomWait = 2 * turn
)

// openKeys opens a part of a fetch that asks for key ranges.
func (f *fetch) openKeys(p *part, q *SliceRequest, readCommitted bool) {
	p.keys, p.base, p.index = q.Keys, q.Slicing.Base, q.IndexOnly
	p.r = f.c.use(q.Source, readCommitted)
	p.r.p.mu.Lock()
	victims := f.enter(p)
	p.r.p.mu.Unlock()
	dropAll(victims)
}

// enter gives p its slot, or closes it.
func (f *fetch) enter(p *part) []*entry {
	l, slice, victims, err := p.r.p.layoutFor(p.base, p.keys)
	switch err {
	case nil:
		p.sl, p.slice = p.r.ofLayout(l), slice
		p.sl.setIndexOnly(p.index)
		l.slots[slice].users++
	case errNoRoom:
		f.giveUp(p)
	default:
		p.failed, p.closed, f.failed = err, true, true
	}
	return victims
}

// giveUp has p answered soon, with what it has.
func (f *fetch) giveUp(p *part) {
	p.closed = true
	if soon := time.Now().Add(noRoomWait/2 + rand.N(noRoomWait)); soon.Before(f.deadline) {
		f.deadline = soon
	}
}

// leave gives it up.
func (p *part) leave() {
	if p.keys != nil && p.sl != nil {
		s := &p.sl.layout.slots[p.slice]
		s.users--
		s.used = time.Now()
	}
}

// regain looks for another layout if p's was dropped, without dropping others.
func (f *fetch) regain(p *part) {
	if p.closed {
		return
	}
	p.r.p.mu.Lock()
	if !p.sl.gone() {
		p.r.p.mu.Unlock()
		return
	}
	p.detach()
	p.leave()
	p.sl, p.block = nil, nil
	var victims []*entry
	if p.lost++; p.lost > maxLost || len(p.r.p.layouts) >= maxLayouts {
		f.giveUp(p)
	} else {
		victims = f.enter(p)
	}
	p.r.p.mu.Unlock()
	dropAll(victims)
}

// at is b if it covers pos.
func (b *block) at(pos int64) *block {
	if b == nil || pos < b.start || pos >= b.End {
		return nil
	}
	return b
}

// look moves a part of key ranges on by what is in memory. Its client knows from the scan position what it has seen: it needs no
// own end, which would have to be searched for.
func (p *part) look() {
	r := p.r
	p.end = max(r.end, p.next)
	if p.sl != nil && !p.closed && p.err == nil && r.end >= 0 {
		pos, _ := p.sl.next(p.slice, p.pos)
		p.pos = max(p.pos, min(pos, r.end))
	}
}

// NextRecordIn is NextRecord for the records in key ranges, of keys that were partitioned by base. It knows what the fetches of any
// key ranges that cover these have shown.
func (c *Cache) NextRecordIn(src Source, base int32, keys keyrange.Set, readCommitted bool, from int64) int64 {
	c.mu.Lock()
	p := c.partitions[src]
	c.mu.Unlock()
	if p == nil || len(keys) == 0 {
		return from
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		next := from
		for _, l := range p.layouts {
			if l.base == base {
				next = l.nextRecord(keys, readCommitted, next)
			}
		}
		if next == from {
			return from
		}
		from = next // where one layout stops another may know more
	}
}

// nextRecord moves from to the first of the next records of the slots that keys lie in, if these cover all of keys.
func (l *layout) nextRecord(keys keyrange.Set, readCommitted bool, from int64) int64 {
	next, rest := int64(-1), keys
	for i := range l.slots {
		s := &l.slots[i]
		if s.keys == nil || !overlap(s.keys, keys) {
			continue
		}
		n := from
		for _, r := range l.p.readers() {
			// What is empty read uncommitted is empty read committed too.
			if sl := r.layouts[l]; sl != nil && (readCommitted || !r.readCommitted) {
				n, _ = sl.next(int32(i), n)
			}
		}
		if n == from {
			return from
		}
		if next < 0 || n < next {
			next = n
		}
		rest = keyrange.AppendSubtract(nil, rest, s.keys)
	}
	if next < 0 || len(rest) > 0 {
		return from
	}
	return next
}
