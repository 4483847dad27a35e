package slicecache

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tandem-kafka/tandem/keyrange"
)

const (
	// maxLayouts bounds the layouts of one partition, and so how often a block is split for key-range fetches.
	maxLayouts = 8
	// keptLayouts of them, the worthiest, are not dropped for new ones.
	keptLayouts = 4
	// turn is how long a layout that is in use stays even if another one wants its place: to see a load end.
	turn = 50 * time.Millisecond
	// layoutsPart of Config.MaxBytes is what the layouts of all partitions may take.
	layoutsPart = 16
)

// errNoRoom says that a partition has as many layouts as it may, all of them in use.
var errNoRoom = errors.New("no room for another layout")

// layoutFor finds the slot of a key set, or makes one. The caller drops the victims when it no longer holds p.mu.
// Errors are errNoRoom, which passes by, and InvalidRequest for a set that is not valid or too big.
func (p *partition) layoutFor(base int32, keys keyrange.Set) (l *layout, slice int32, victims []*entry, err error) {
	if base < 1 || len(keys) > maxLayoutRanges || keys.Validate() != nil {
		return nil, 0, nil, kerr.InvalidRequest
	}
	now := time.Now()
	if len(p.layouts) > 1 && p.mayPack(now) {
		victims = p.pack(now)
	}
	keys = merged(keys)
	if l, slice = p.lookUp(base, keys); l != nil {
		l.again = true
	} else {
		var more []*entry
		if l, slice, more, err = p.place(base, keys, now); err != nil {
			return nil, 0, victims, err
		}
		victims = append(victims, more...)
	}
	l.used, l.slots[slice].used = now, now
	p.c.layouts.use(&l.entry)
	return l, slice, victims, nil
}

func (p *partition) lookUp(base int32, keys keyrange.Set) (*layout, int32) {
	for _, l := range p.layouts {
		if l.base != base {
			continue
		}
		for i := range l.slots {
			if s := &l.slots[i]; !s.moved && slices.Equal(s.keys, keys) {
				return l, int32(i)
			}
		}
	}
	return nil, 0
}

// place gives a new key set a slot: in the layout of the sets that it completes best, or in a new one. So the members of a group,
// whose sets are disjoint, come together, and another group or generation, whose sets overlap theirs, stays apart.
func (p *partition) place(base int32, keys keyrange.Set, now time.Time) (*layout, int32, []*entry, error) {
	p.placed = now
	keys = slices.Clone(keys)
	var best *layout
	most := uint64(0)
	for _, l := range p.layouts {
		if l.base != base || !l.admits(keys, now) {
			continue
		}
		if n := l.covered(now); best == nil || n > most {
			best, most = l, n
		}
	}
	if best == nil {
		if !p.makeRoom(now) {
			return nil, 0, nil, errNoRoom
		}
		best = p.newLayout(base, now)
	}
	i := best.take(keys, now)
	victims, err := best.renew()
	if err != nil {
		p.evict(best)
		return nil, 0, victims, kerr.InvalidRequest
	}
	return best, i, victims, nil
}

func (p *partition) newLayout(base int32, now time.Time) *layout {
	l := &layout{p: p, base: base, made: now, used: now}
	l.drop = func() {
		p.mu.Lock()
		p.evict(l)
		p.mu.Unlock()
	}
	p.layouts = append(p.layouts, l)
	return l
}

// makeRoom drops the layouts that nobody needs, and if there are still too many the least worthy that had its turn. It says whether there
// is room. So a client that asks for ever new sets drops its own, and where more groups than fit go on side by side they take turns.
func (p *partition) makeRoom(now time.Time) bool {
	for _, l := range slices.Clone(p.layouts) {
		if l.idle() {
			p.evict(l)
		}
	}
	for len(p.layouts) >= maxLayouts {
		byWorth := slices.SortedStableFunc(slices.Values(p.layouts), worth)
		i := slices.IndexFunc(byWorth[:len(byWorth)-keptLayouts], func(l *layout) bool { return l.users() == 0 || now.Sub(l.made) >= turn })
		if i < 0 {
			return false
		}
		p.evict(byWorth[i])
	}
	return true
}

// worth puts those first that were asked for once only, then those with the fewest fetches, then those unused for longest.
func worth(a, b *layout) int {
	if a.again != b.again {
		if b.again {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.users(), b.users()), a.used.Compare(b.used))
}

// evict drops a layout. Fetches that use it look for another one.
func (p *partition) evict(l *layout) {
	if l.gone {
		return
	}
	l.gone = true
	p.layouts = slices.DeleteFunc(p.layouts, func(x *layout) bool { return x == l })
	for _, r := range p.readers() {
		sl := r.layouts[l]
		if sl == nil {
			continue
		}
		delete(r.layouts, l)
		sl.clear()
		p.c.budget.discharge(sl.index.bytes)
		for _, ld := range r.loads {
			ld.wakeAll(func(w *waiter) bool { return w.sl == sl })
		}
	}
	p.c.layouts.remove(&l.entry)
	p.c.budget.discharge(l.bytes)
}

// account counts l with n bytes from now on. It returns what has to go for that.
func (c *Cache) account(l *layout, n int64) []*entry {
	victims := c.budget.charge(n - l.bytes)
	c.layouts.remove(&l.entry)
	l.bytes = n
	return append(victims, c.layouts.add(&l.entry)...)
}
