package gateway

import (
	"container/list"
	"sync"
)

// isolations remembers with which isolation levels a client reads a view. A
// commit does not say it, but what counts as done depends on it: aborted
// records are nothing to a read_committed consumer, and records to be done to a
// read_uncommitted one. Clients are told apart by address and client id; where
// both levels were seen, or none, the careful answer is read_uncommitted.
type isolations struct {
	mu   sync.Mutex
	seen map[isolationKey]*list.Element
	lru  list.List // of *isolationEntry, the most lately used in front
}

type isolationKey struct{ peer, clientID, view string }

type isolationEntry struct {
	key    isolationKey
	levels uint8 // bit 0: read_uncommitted, bit 1: read_committed
}

const maxIsolations = 100_000

func (c *conn) isolationKey(viewName string) isolationKey {
	k := isolationKey{peer: c.peer, view: viewName}
	if c.clientID != nil {
		k.clientID = (*c.clientID)[:min(len(*c.clientID), 200)]
	}
	return k
}

func (i *isolations) note(k isolationKey, readCommitted bool) {
	level := uint8(1)
	if readCommitted {
		level = 2
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.seen == nil {
		i.seen = make(map[isolationKey]*list.Element)
	}
	if e, ok := i.seen[k]; ok {
		e.Value.(*isolationEntry).levels |= level
		i.lru.MoveToFront(e)
		return
	}
	i.seen[k] = i.lru.PushFront(&isolationEntry{key: k, levels: level})
	if i.lru.Len() > maxIsolations {
		last := i.lru.Back()
		delete(i.seen, last.Value.(*isolationEntry).key)
		i.lru.Remove(last)
	}
}

// readCommitted reports whether the client is known to read the view with
// read_committed only.
func (i *isolations) readCommitted(k isolationKey) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	e, ok := i.seen[k]
	return ok && e.Value.(*isolationEntry).levels == 2
}
