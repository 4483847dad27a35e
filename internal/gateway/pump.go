package gateway

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/tandem-kafka/tandem/internal/pipe"
	"github.com/tandem-kafka/tandem/internal/wire"
)

// readRequests is the loop of the connection's first goroutine.
func (c *conn) readRequests() error {
	for {
		if err := c.awaitFrame(); err != nil {
			return err
		}
		h, size, err := c.peekHeader()
		if err != nil {
			return err
		}
		c.gw.metrics.request(h.Key)
		if err := c.route(h, size); err != nil {
			return err
		}
		c.releaseContent()
	}
}

// awaitFrame waits for the first bytes of a request. errDone when the client
// was idle for too long or the gateway drains.
func (c *conn) awaitFrame() error {
	c.mu.Lock()
	if c.draining {
		c.mu.Unlock()
		return errors.Join(errDone, c.barrier())
	}
	c.idle = true
	if idle := c.gw.cfg.Limits.Idle; idle > 0 {
		_ = c.client.SetReadDeadline(time.Now().Add(idle))
	}
	c.mu.Unlock()
	_, err := c.cr.Peek(4)
	c.mu.Lock()
	c.idle = false
	drained := c.draining
	if drained && err == nil { // it came in time: this one is still served
		_ = c.client.SetReadDeadline(time.Time{})
	}
	c.mu.Unlock()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if drained {
			return errors.Join(errDone, c.barrier())
		}
		if c.owed() {
			return c.awaitFrame() // a rebalance may take longer than that
		}
		return errDone // idle: as a broker does
	}
	return err
}

// peekHeader reads the next frame's size and header without consuming them.
func (c *conn) peekHeader() (wire.Header, int, error) {
	head, err := c.cr.Peek(4)
	if err != nil {
		return wire.Header{}, 0, err
	}
	n := binary.BigEndian.Uint32(head)
	if err := wire.CheckSize(n, c.gw.cfg.Limits.FrameBytes); err != nil {
		return wire.Header{}, 0, err
	}
	size := int(n)
	c.expect(4 + size)
	for _, want := range []int{min(size, 256), min(size, bufferSize-4)} {
		buf, err := c.cr.Peek(4 + want)
		if err != nil {
			return wire.Header{}, 0, err
		}
		h, err := wire.ParseHeader(buf[4:])
		if err == nil {
			return h, size, nil
		}
		if want == min(size, bufferSize-4) {
			return h, size, err
		}
	}
	return wire.Header{}, 0, wire.ErrHeader
}

// forward passes the frame whose header was peeked on as bytes.
func (c *conn) forward(h wire.Header, size int, p pending, answered bool) error {
	if err := c.connectUpstream(); err != nil {
		return err
	}
	if answered {
		p.correlation, p.key, p.version = h.CorrelationID, h.Key, h.Version
		if err := c.push(p); err != nil {
			return err
		}
	}
	c.toBroker(size)
	return c.copyBytes(c.up, c.cr, c.client, 4+size)
}

// spliceMin is the least number of bytes worth a splice instead of a copy.
const spliceMin = 32 << 10

// copyBytes moves n bytes from src, whose reader is r, to dst. Small pieces go
// through the buffer and leave in one write; the bulk is spliced in the kernel
// where both sides are plain TCP. A pipe takes and gives it without a buffer in
// between.
func (c *conn) copyBytes(dst net.Conn, r *bufio.Reader, src net.Conn, n int) error {
	if n > bufferSize && n-r.Buffered() < spliceMin {
		if _, err := io.CopyN(dst, r, int64(n)); err != nil {
			return fmt.Errorf("passing on: %w", err)
		}
		return nil
	}
	for n > 0 {
		if have := min(r.Buffered(), n); have > 0 && (have == n || n > bufferSize) {
			buf, _ := r.Peek(have)
			if _, err := dst.Write(buf); err != nil {
				return err
			}
			_, _ = r.Discard(have)
			n -= have
			continue
		}
		if n <= bufferSize {
			if _, err := r.Peek(n); err != nil {
				return err
			}
			continue
		}
		if p, ok := src.(*pipe.Conn); ok {
			_, err := p.CopyTo(dst, int64(n))
			return err
		}
		_, err := io.CopyN(dst, src, int64(n))
		return err
	}
	return nil
}

// readResponses is the loop of the connection's second goroutine. It always
// waits for the broker, so that a broker that goes away ends the client's
// connection at once.
func (c *conn) readResponses() error {
	for {
		head, err := c.ur.Peek(8)
		if err != nil {
			return err
		}
		size, correlation := int(binary.BigEndian.Uint32(head)), int32(binary.BigEndian.Uint32(head[4:]))
		p, err := c.pop()
		if err != nil {
			return err
		}
		if p.correlation != correlation || size < 4 {
			return fmt.Errorf("gateway: response %d of %d bytes where %d was due", correlation, size, p.correlation)
		}
		if p.deliver == nil {
			c.toClient(size)
		}
		if err := c.respond(p, size); err != nil {
			return err
		}
		c.popped()
	}
}

func (c *conn) respond(p pending, size int) error {
	switch {
	case p.walk:
		return c.walkFetch(size)
	case p.rewrite == nil && p.deliver == nil:
		return c.copyBytes(c.client, c.ur, c.up, 4+size)
	}
	_, _ = c.ur.Discard(4)
	content, err := wire.ReadContent(c.ur, size)
	if err != nil {
		return err
	}
	resp, err := wire.DecodeResponse(p.key, wire.ResponseVersion(p.key, p.version, content), content)
	if err != nil {
		return err
	}
	if p.deliver != nil {
		p.deliver <- resp
		return nil
	}
	p.rewrite(resp)
	_, err = c.client.Write(wire.AppendResponse(nil, p.correlation, resp))
	return err
}
