package slicecache

import (
	"context"
	"sync"
)

// entry is something the budget counts and can evict: a block or a raw answer.
type entry struct {
	prev, next *entry
	bytes      int64
	listed     bool // in the LRU list
	pins       int  // answers on their way that refer to it
	drop       func()
}

// budget bounds the bytes of cached entries, loads in flight and handed-out blocks, and keeps entries in LRU order.
type budget struct {
	mu       sync.Mutex
	max      int64
	cached   int64
	fixed    int64 // charged for what is not in the list
	inFlight int64
	handed   int64 // pinned entries that were evicted
	lru      entry // ring: next is the most recently used
	queue    []*reservation
	evicted  func(n int)
}

type reservation struct {
	n  int64
	ok chan struct{}
}

func newBudget(maxBytes int64) *budget {
	b := &budget{max: maxBytes}
	b.lru.prev, b.lru.next = &b.lru, &b.lru
	return b
}

// fits says whether a load of n bytes may start. Loads take at most half of the budget; one is always allowed.
func (b *budget) fits(n int64) bool { return b.inFlight == 0 || b.inFlight+n <= b.max/2 }

// tryReserve reserves n bytes for a load if there is room now.
func (b *budget) tryReserve(n int64) bool {
	b.mu.Lock()
	if len(b.queue) > 0 || !b.fits(n) {
		b.mu.Unlock()
		return false
	}
	b.inFlight += n
	victims := b.shrink()
	b.mu.Unlock()
	dropAll(victims)
	return true
}

// reserve waits, in turn, until n bytes can be reserved.
func (b *budget) reserve(ctx context.Context, n int64) error {
	if b.tryReserve(n) {
		return nil
	}
	b.mu.Lock()
	r := &reservation{n, make(chan struct{})}
	b.queue = append(b.queue, r)
	victims := b.admit()
	b.mu.Unlock()
	dropAll(victims)
	select {
	case <-r.ok:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	for i, q := range b.queue {
		if q == r {
			b.queue = append(b.queue[:i], b.queue[i+1:]...)
			b.mu.Unlock()
			return ctx.Err()
		}
	}
	b.mu.Unlock()
	b.release(n)
	return ctx.Err()
}

// admit grants what fits to the waiting reservations.
func (b *budget) admit() []*entry {
	for len(b.queue) > 0 && b.fits(b.queue[0].n) {
		b.inFlight += b.queue[0].n
		close(b.queue[0].ok)
		b.queue = b.queue[1:]
	}
	return b.shrink()
}

// release gives a reservation back.
func (b *budget) release(n int64) {
	b.mu.Lock()
	b.inFlight -= n
	victims := b.admit()
	b.mu.Unlock()
	dropAll(victims)
}

// add lists a new entry and returns those that have to go for it, already taken off the list. The caller drops
// them with dropAll when it holds no partition lock.
func (b *budget) add(e *entry) []*entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.link(e)
	b.cached += e.bytes
	e.listed = true
	return b.shrink()
}

func (b *budget) link(e *entry) {
	e.prev, e.next = &b.lru, b.lru.next
	e.prev.next, e.next.prev = e, e
}

func (b *budget) unlink(e *entry) {
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}

// shrink takes entries off the list until the rest fits. The most recent one always stays: it was loaded for somebody who
// has not seen it yet.
func (b *budget) shrink() (victims []*entry) {
	for b.cached+b.fixed+b.inFlight+b.handed > b.max {
		e := b.lru.prev
		if e == &b.lru || e == b.lru.next {
			break
		}
		b.take(e)
		victims = append(victims, e)
	}
	if b.evicted != nil && len(victims) > 0 {
		b.evicted(len(victims))
	}
	return victims
}

// charge counts n bytes more, or fewer, that are held besides the entries. It returns what has to go for them, as add does.
func (b *budget) charge(n int64) []*entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fixed += n
	return b.shrink()
}

// Charge counts bytes more, or fewer, that the caller holds beside the cache: Config.MaxBytes bounds them together.
func (c *Cache) Charge(bytes int64) {
	if bytes < 0 {
		c.budget.discharge(-bytes)
		return
	}
	dropAll(c.budget.charge(bytes))
}

// discharge takes back n bytes of what was charged.
func (b *budget) discharge(n int64) {
	b.mu.Lock()
	b.fixed -= n
	b.mu.Unlock()
}

func (b *budget) take(e *entry) {
	b.unlink(e)
	e.listed = false
	b.cached -= e.bytes
	if e.pins > 0 {
		b.handed += e.bytes
	}
}

// remove takes an entry off that its owner has dropped.
func (b *budget) remove(e *entry) {
	b.mu.Lock()
	if e.listed {
		b.take(e)
	}
	b.mu.Unlock()
}

// use makes e the most recently used one.
func (b *budget) use(e *entry) {
	b.mu.Lock()
	b.touch(e)
	b.mu.Unlock()
}

func (b *budget) touch(e *entry) {
	if e.listed && b.lru.next != e {
		b.unlink(e)
		b.link(e)
	}
}

// pin makes e the most recently used one and counts what was taken from it for l. It returns false when the caller has to copy the
// taken bytes: a small part must not hold a big block that nobody else needs any more.
func (b *budget) pin(e *entry, l *Lease, taken int, crowded bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.touch(e)
	l.b = b
	if n := len(l.pinned); n > 0 && l.pinned[n-1] == e {
		return true
	}
	if crowded || l.bytes+e.bytes > b.max/leasePart && e.bytes > 2*int64(taken) {
		l.copied += int64(taken)
		b.handed += int64(taken)
		return false
	}
	if !e.listed && e.pins == 0 {
		b.handed += e.bytes
	}
	e.pins++
	l.bytes += e.bytes
	l.pinned = append(l.pinned, e)
	return true
}

// leasePart of the budget is what one answer may hold in blocks of which it needs a part.
const leasePart = 8

// crowded says that much of the budget lies on connections that do not read.
func (b *budget) crowded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.handed > b.max/4
}

func (b *budget) usage() Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Usage{Cached: b.cached, Layouts: b.fixed, InFlight: b.inFlight, HandedOut: b.handed, Max: b.max}
}

func dropAll(victims []*entry) {
	for _, e := range victims {
		e.drop()
	}
}

// Lease counts the blocks that an answer refers to. Give one with each FetchRequest and release it when the answer has
// been written or given up. The zero value is ready; it is used by one goroutine at a time.
type Lease struct {
	b      *budget
	pinned []*entry
	bytes  int64 // of pinned
	copied int64
}

// Release says that the answer's data is no longer needed. The lease can be used again.
func (l *Lease) Release() {
	if l.b == nil {
		return
	}
	l.b.mu.Lock()
	for i, e := range l.pinned {
		if e.pins--; e.pins == 0 && !e.listed {
			l.b.handed -= e.bytes
		}
		l.pinned[i] = nil
	}
	l.b.handed -= l.copied
	l.pinned, l.bytes, l.copied = l.pinned[:0], 0, 0
	victims := l.b.admit()
	l.b.mu.Unlock()
	dropAll(victims)
}
