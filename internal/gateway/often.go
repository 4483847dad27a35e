package gateway

import (
	"sync"
	"time"
)

// often keeps what happens many times a second from filling the log: each kind
// of line is written once in a while.
type often struct {
	mu   sync.Mutex
	last map[any]time.Time
}

// maxOften bounds the kinds that are remembered: clients choose names.
const maxOften = 10_000

// now reports whether the line of this kind is due: it was not written for the
// given time.
func (o *often) now(kind any, every time.Duration) bool {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if last, ok := o.last[kind]; ok && now.Sub(last) < every {
		return false
	}
	if o.last == nil || len(o.last) >= maxOften {
		o.last = make(map[any]time.Time)
	}
	o.last[kind] = now
	return true
}
