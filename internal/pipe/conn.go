package pipe

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn is one end of a connection within the process. It is a net.Conn: any
// number of goroutines may use it. What was written stays readable after Close;
// then the other end reads io.EOF. Writing to an end that was closed fails with
// syscall.EPIPE.
type Conn struct {
	in, out       *half
	local, remote addr
	reset         atomic.Bool
}

var (
	_ net.Conn      = (*Conn)(nil)
	_ io.ReaderFrom = (*Conn)(nil)
)

type addr string

// Network implements net.Addr.
func (addr) Network() string { return network }

func (a addr) String() string { return string(a) }

const network = "in-process"

// New makes a connection and returns its ends, whose addresses are texts for
// people.
func New(a, b string) (*Conn, *Conn) {
	ab, ba := newHalf(), newHalf()
	return &Conn{in: ba, out: ab, local: addr(a), remote: addr(b)}, &Conn{in: ab, out: ba, local: addr(b), remote: addr(a)}
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.opError("read", err)
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.opError("write", err)
}

// ReadFrom writes what r gives until its end, without a buffer in between.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) {
	n, from, err := c.out.readFrom(r)
	if from {
		return n, err
	}
	return n, c.opError("write", err)
}

// CopyTo reads n bytes and writes them to w, without a buffer in between. The
// end of the connection before that is io.EOF.
func (c *Conn) CopyTo(w io.Writer, n int64) (int64, error) {
	n, to, err := c.in.copyTo(w, n)
	if to {
		return n, err
	}
	return n, c.opError("read", err)
}

// Close implements net.Conn; it may be called more than once.
func (c *Conn) Close() error {
	end := io.EOF
	if c.reset.Load() {
		end = syscall.ECONNRESET
	}
	c.out.finish(end)
	c.in.abandon()
	return nil
}

// SetLinger with 0 makes Close a reset, as that of a net.TCPConn: what the
// other end has not read yet is lost, and it reads syscall.ECONNRESET.
func (c *Conn) SetLinger(sec int) error {
	c.reset.Store(sec == 0)
	return nil
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.opError("set", c.in.set(&c.in.readBy, t))
}

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.opError("set", c.out.set(&c.out.writeBy, t))
}

// opError gives errors the form that those of TCP connections have, by which
// clients tell what to try again.
func (c *Conn) opError(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	var number syscall.Errno
	if errors.As(err, &number) {
		err = os.NewSyscallError(op, number)
	}
	return &net.OpError{Op: op, Net: network, Source: c.local, Addr: c.remote, Err: err}
}
