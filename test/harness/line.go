package harness

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

var errCut = errors.New("harness: the member is cut off")

// line is what connects a member to the cluster. It can be cut.
type line struct {
	cut   *atomic.Bool
	mu    *sync.Mutex
	conns map[net.Conn]bool
}

func newLine() line { return line{new(atomic.Bool), new(sync.Mutex), map[net.Conn]bool{}} }

// Cut breaks the member's connections and lets it make no new ones.
func (l line) Cut() {
	l.cut.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Close()
	}
	clear(l.conns)
}

// dial is for kgo.Dialer.
func (l line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if l.cut.Load() {
		return nil, errCut
	}
	c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut.Load() {
		_ = c.Close()
		return nil, errCut
	}
	l.conns[c] = true
	return c, nil
}
