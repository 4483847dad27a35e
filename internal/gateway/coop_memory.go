package gateway

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
)

// chunkMemory bounds what cooperative fetches hold of their sources, in all
// places together: the chunks that were read, also those that are only held by
// answers on their way to members, and the reads under way. Where there is no room
// reads wait, in turn, and the members with them: chunks that are in no answer make
// way, the least recently used first, since they can be read again. Reads that wait at
// the end of a partition hold nothing, and queue behind nothing: what they bring is
// counted when it is there, and others make way for it. All of it counts in the
// cache's limit, too.
type chunkMemory struct {
	max    int64
	charge func(bytes int64)      // tells the cache
	drop   func(victims []*chunk) // takes chunks away from their places; called with no lock of this file
	waits  atomic.Int64           // reads that had to wait
	unread atomic.Int64           // bytes of answers that were copied, see coop_unread.go

	mu    sync.Mutex
	held  int64
	idle  list.List // of *chunk: those that a place has, the least recently used first
	queue []*chunkRead
}

// chunkRead is a read that waits for memory.
type chunkRead struct {
	bytes int64
	ok    chan struct{}
}

// chunkPart of the cache's memory is for cooperative fetches.
const chunkPart = 4

// reserve waits for room for a read.
func (m *chunkMemory) reserve(ctx context.Context, bytes int64) error {
	m.mu.Lock()
	if len(m.queue) == 0 {
		victims, ok := m.room(bytes)
		if ok {
			m.mu.Unlock()
			m.drop(victims)
			return nil
		}
	}
	r := &chunkRead{bytes, make(chan struct{})}
	m.queue = append(m.queue, r)
	m.mu.Unlock()
	m.waits.Add(1)
	select {
	case <-r.ok:
		return nil
	case <-ctx.Done():
	}
	m.mu.Lock()
	for i, q := range m.queue {
		if q == r {
			m.queue = append(m.queue[:i], m.queue[i+1:]...)
			m.mu.Unlock()
			return ctx.Err()
		}
	}
	m.mu.Unlock()
	m.add(-bytes)
	return ctx.Err()
}

// room makes room for bytes, if it can. Whatever it is, one read has room when there is nothing else. m.mu is held.
func (m *chunkMemory) room(bytes int64) (victims []*chunk, ok bool) {
	victims, spare := m.spareable(bytes, nil)
	if m.held-spare+bytes > m.max && m.held > spare {
		return nil, false
	}
	for _, k := range victims {
		m.unlist(k)
	}
	m.change(bytes)
	return victims, true
}

// spareable are the chunks in no answer that have to go for bytes more, and how much they hold. m.mu is held.
func (m *chunkMemory) spareable(bytes int64, but *list.Element) (victims []*chunk, spare int64) {
	for e := m.idle.Front(); e != but && m.held-spare+bytes > m.max; e = e.Next() {
		if k := e.Value.(*chunk); k.pins == 0 {
			spare += k.bytes
			victims = append(victims, k)
		}
	}
	return victims, spare
}

// shrink has chunks make way while more is held than may be. The most recent one stays: whatever it is, there is room for one. m.mu is held.
func (m *chunkMemory) shrink() (victims []*chunk) {
	victims, _ = m.spareable(0, m.idle.Back())
	for _, k := range victims {
		m.unlist(k)
	}
	return victims
}

func (m *chunkMemory) change(bytes int64) {
	m.held += bytes
	m.charge(bytes)
}

// unlist is for a chunk that its place has no more. m.mu is held.
func (m *chunkMemory) unlist(k *chunk) {
	if k.listed == nil {
		return
	}
	m.idle.Remove(k.listed)
	k.gone.Store(true)
	if k.listed = nil; k.pins == 0 {
		m.change(-k.bytes)
	}
}

// next lets reads begin for which there is room now. m.mu is held.
func (m *chunkMemory) next() (victims []*chunk) {
	for len(m.queue) > 0 {
		more, ok := m.room(m.queue[0].bytes)
		if !ok {
			break
		}
		victims = append(victims, more...)
		close(m.queue[0].ok)
		m.queue = m.queue[1:]
	}
	return victims
}

// with changes something, after which reads may begin.
func (m *chunkMemory) with(change func()) {
	m.mu.Lock()
	change()
	victims := append(m.shrink(), m.next()...)
	m.mu.Unlock()
	m.drop(victims)
}

// add counts bytes more, or fewer, of a read.
func (m *chunkMemory) add(bytes int64) { m.with(func() { m.change(bytes) }) }

// list is for a chunk that its place has now, and that is pinned; so many bytes of it were reserved.
func (m *chunkMemory) list(k *chunk, reserved int64) {
	m.with(func() {
		m.change(k.bytes - reserved)
		k.listed = m.idle.PushBack(k)
		k.pins++
	})
}

// grow is for a chunk that has more bytes now, of which so many were reserved.
func (m *chunkMemory) grow(k *chunk, bytes, reserved int64) {
	m.with(func() {
		if k.listed == nil && k.pins == 0 {
			bytes = 0 // it is given up
		}
		k.bytes += bytes
		m.change(bytes - reserved)
	})
}

// give up is for chunks that a place lets go of.
func (m *chunkMemory) giveUp(chunks []*chunk) {
	if len(chunks) == 0 {
		return
	}
	m.with(func() {
		for _, k := range chunks {
			m.unlist(k)
		}
	})
}

// pin is for a chunk that an answer refers to, until unpin; false: it has made way.
func (m *chunkMemory) pin(k *chunk) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k.listed == nil && k.pins == 0 {
		return false
	}
	if k.pins++; k.listed != nil {
		m.idle.MoveToBack(k.listed)
	}
	return true
}

func (m *chunkMemory) unpin(chunks []*chunk) {
	if len(chunks) == 0 {
		return
	}
	m.with(func() {
		for _, k := range chunks {
			if k.pins--; k.pins == 0 && k.listed == nil {
				m.change(-k.bytes)
			}
		}
	})
}

// spare is how many bytes may be held beside what is.
func (m *chunkMemory) spare() int64 { return m.max - m.usage() }

// usage is how many bytes are held.
func (m *chunkMemory) usage() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}
