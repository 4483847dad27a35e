package gateway

import (
	"errors"
	"os"
	"time"
)

// Nobody reads from a client while a handler runs, so that a closed connection is noticed only by who looks.

// clientLeft reports whether the client has closed its connection.
func (c *conn) clientLeft() bool {
	if c.ctx.Err() != nil {
		return true
	}
	_ = c.client.SetReadDeadline(time.Now().Add(time.Millisecond))
	left := c.hungUp()
	_ = c.client.SetReadDeadline(time.Time{})
	return left
}

// hungUp waits for more of the client, until the read deadline, and reports whether its connection has ended instead.
func (c *conn) hungUp() bool {
	_, err := c.cr.Peek(1)
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// watch calls left, from another goroutine, when the client closes its connection while a handler waits; not behind a request that it has sent meanwhile. stop ends that.
func (c *conn) watch(left func()) (stop func()) {
	_ = c.client.SetReadDeadline(time.Time{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c.hungUp() {
			left()
		}
	}()
	return func() {
		_ = c.client.SetReadDeadline(time.Unix(1, 0))
		<-done
		_ = c.client.SetReadDeadline(time.Time{})
	}
}
