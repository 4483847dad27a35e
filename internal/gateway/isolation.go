package gateway

import (
	"container/list"
	"slices"
	"sync"

	"github.com/tandem-kafka/tandem/internal/progress"
)

// isolations remembers with which isolation levels a client reads a view. A
// commit does not say it, but what counts as done depends on it: aborted
// records are nothing to a read_committed consumer, and records to be done to a
// read_uncommitted one. Clients are told apart by address and client id; where
// both levels were seen, or none, the careful answer is read_uncommitted.
//
// A commit in a transaction comes from a producer, which mostly has a client id
// of its own and reads nothing. Then the consumers count that asked for the
// group's offsets.
type isolations struct {
	mu     sync.Mutex
	levels lately[isolationKey, uint8] // bit 0: read_uncommitted, bit 1: read_committed
	groups lately[groupView, []isolationKey]
}

type isolationKey struct{ peer, clientID, view string }

type groupView struct{ group, view string }

const (
	maxIsolations   = 100_000 // clients
	maxIsolationsOf = 20_000  // groups
	maxReaders      = 64      // of a group; the latest stay
)

func (c *conn) isolationKey(viewName string) isolationKey {
	k := isolationKey{peer: c.peer, view: viewName}
	if c.clientID != nil {
		k.clientID = (*c.clientID)[:min(len(*c.clientID), 200)]
	}
	return k
}

// committedOnly reports whether the client of this connection, or where it reads
// nothing itself the group that it commits for, is known to read a view with
// read_committed only.
func (c *conn) committedOnly(group, view string) bool {
	return c.gw.isolations.ofGroup(group, c.isolationKey(view))
}

// readsCommitted reports whether a group is known to read with read_committed
// only, whichever of the views it has rows of.
func (c *conn) readsCommitted(group string, p *progress.Picture, views []*View) bool {
	known := false
	for v, w := range views {
		if c.committedOnly(group, w.Name) {
			known = true
			continue
		}
		for s := range w.K {
			if p.Row(v, s) >= 0 {
				return false
			}
		}
	}
	return known
}

// note is called for each Fetch of a view.
func (i *isolations) note(k isolationKey, readCommitted bool) {
	level := uint8(1)
	if readCommitted {
		level = 2
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	seen, _ := i.levels.get(k)
	i.levels.put(k, seen|level, maxIsolations)
}

// noteReader is called for each client that asks for a group's offsets on a view.
func (i *isolations) noteReader(group string, k isolationKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	at := groupView{group, k.view}
	readers, _ := i.groups.get(at)
	readers = slices.DeleteFunc(readers, func(r isolationKey) bool { return r == k })
	if len(readers) == maxReaders {
		readers = slices.Delete(readers, 0, 1)
	}
	i.groups.put(at, append(readers, k), maxIsolationsOf)
}

// readCommitted reports whether the client is known to read the view with
// read_committed only.
func (i *isolations) readCommitted(k isolationKey) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	levels, _ := i.levels.get(k)
	return levels == 2
}

func (i *isolations) ofGroup(group string, k isolationKey) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	levels, ok := i.levels.get(k)
	if !ok {
		readers, _ := i.groups.get(groupView{group, k.view})
		for _, r := range readers {
			seen, _ := i.levels.get(r) // none: a tool that only looks at offsets, or a consumer that waits
			levels |= seen
		}
	}
	return levels == 2
}

// lately is a map that forgets what was not used for the longest time.
type lately[K comparable, V any] struct {
	at  map[K]*list.Element
	lru list.List // of *latelyEntry, the most lately used in front
}

type latelyEntry[K comparable, V any] struct {
	key   K
	value V
}

func (l *lately[K, V]) get(k K) (v V, ok bool) {
	e, ok := l.at[k]
	if !ok {
		return v, false
	}
	l.lru.MoveToFront(e)
	return e.Value.(*latelyEntry[K, V]).value, true
}

// put sets a value; there are at most limit values then.
func (l *lately[K, V]) put(k K, v V, limit int) {
	if e, ok := l.at[k]; ok {
		e.Value.(*latelyEntry[K, V]).value = v
		l.lru.MoveToFront(e)
		return
	}
	if l.at == nil {
		l.at = make(map[K]*list.Element)
	}
	l.at[k] = l.lru.PushFront(&latelyEntry[K, V]{k, v})
	if l.lru.Len() > limit {
		last := l.lru.Back()
		delete(l.at, last.Value.(*latelyEntry[K, V]).key)
		l.lru.Remove(last)
	}
}
