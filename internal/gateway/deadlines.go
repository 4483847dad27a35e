package gateway

import (
	"context"
	"crypto/tls"
	"time"
)

// What a client can hold of the gateway is bounded in time as well as in
// memory: one that stops in the middle of a request, never reads its responses,
// or has left while the gateway works for it, loses its connection. The times
// are generous, since a consumer that works on its records for minutes may not
// read its socket meanwhile.

const (
	// slowestByte is what a byte of a large frame may take: 10 KB/s.
	slowestByte = 100 * time.Microsecond
	// handshakeTime bounds the TLS handshake of a client.
	handshakeTime = 10 * time.Second
	// longestPoll bounds the wait of a Fetch: nobody notices while it waits, but for
	// cooperative ones, that its client has left. Clients ask again after an empty answer.
	longestPoll = time.Minute
)

// expect sets the time by which n more bytes must have come from the client.
func (c *conn) expect(n int) {
	if c.cr.Buffered() >= n {
		return
	}
	if idle := c.gw.cfg.Limits.Idle; idle > 0 {
		_ = c.client.SetReadDeadline(time.Now().Add(idle + time.Duration(n)*slowestByte))
	}
}

// expectWithin is expect for requests that hold memory while they arrive.
func (c *conn) expectWithin(d time.Duration) {
	_ = c.client.SetReadDeadline(time.Now().Add(d))
}

// writeDeadline is when the writes to one side of a connection must be done.
type writeDeadline struct{ until time.Time }

// extend makes sure that there is time for n bytes. Setting a deadline costs
// more than reading the clock, so that it is set once for many writes.
func (w *writeDeadline) extend(side interface{ SetWriteDeadline(time.Time) error }, idle time.Duration, n int) {
	if idle <= 0 {
		return
	}
	now, slow := time.Now(), time.Duration(n)*slowestByte
	if w.until.Before(now.Add(idle/4*3 + slow)) {
		w.until = now.Add(idle + slow)
		_ = side.SetWriteDeadline(w.until)
	}
}

// toClient makes time for a response of n bytes. Like writing itself, it is for
// the goroutine whose turn it is.
func (c *conn) toClient(n int) { c.clientBy.extend(c.client, c.gw.cfg.Limits.Idle, n) }

// toBroker makes time for a request of n bytes; readRequests' goroutine only.
func (c *conn) toBroker(n int) { c.upBy.extend(c.up, c.gw.cfg.Limits.Idle, n) }

// handshake ends a client's TLS handshake, where the port has TLS.
func (c *conn) handshake() error {
	t, ok := c.client.(*tls.Conn)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.ctx, handshakeTime)
	defer cancel()
	stop := context.AfterFunc(c.gw.drainCtx, cancel)
	defer stop()
	return t.HandshakeContext(ctx)
}
