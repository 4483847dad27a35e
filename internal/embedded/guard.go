package embedded

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// guardListener hands kfake connections whose frames it can take.
type guardListener struct {
	net.Listener
	maxFrame int
	log      *slog.Logger
	left     func(joining []byte, host string) // a connection ended that waited for a JoinGroup's answer
}

func (l *guardListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &guardConn{Conn: c, br: bufio.NewReaderSize(c, 32<<10), maxFrame: l.maxFrame, log: l.log, ended: l.left}, nil
}

// guardConn looks at the start of each request. kfake allocates whatever size
// a frame names and ends the process at an API key it does not know, so such
// a frame ends the connection here.
type guardConn struct {
	net.Conn
	br       *bufio.Reader
	maxFrame int
	left     int // bytes of the current frame, its size field included, that kfake has not read
	log      *slog.Logger
	ended    func(joining []byte, host string)

	mu      sync.Mutex
	joining []byte // the frame of a JoinGroup that is not answered
}

// Write notes that a request was answered.
func (c *guardConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.joining = nil
	c.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *guardConn) Close() error {
	c.mu.Lock()
	joining := c.joining
	c.joining = nil
	c.mu.Unlock()
	if joining != nil && c.ended != nil {
		c.ended(joining, c.RemoteAddr().String())
	}
	return c.Conn.Close()
}

func (c *guardConn) Read(p []byte) (int, error) {
	if c.left == 0 {
		size, err := c.checkFrame()
		if err != nil {
			return 0, err
		}
		c.left = size
	}
	n, err := c.br.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// checkFrame returns the length in bytes of the frame that comes next.
func (c *guardConn) checkFrame() (int, error) {
	// The shortest header: size, API key, API version, correlation id.
	head, err := c.br.Peek(12)
	if err != nil {
		return 0, err
	}
	size, key := int32(binary.BigEndian.Uint32(head)), int16(binary.BigEndian.Uint16(head[4:]))
	switch {
	case size < 8 || int(size) > c.maxFrame:
		err = fmt.Errorf("a request of %d bytes, allowed are 8 to %d", size, c.maxFrame)
	case kmsg.RequestForKey(key) == nil:
		err = fmt.Errorf("a request with the unknown API key %d", key)
	}
	if err != nil {
		c.log.Warn("embedded engine: connection closed", "client", c.RemoteAddr().String(), "error", err)
		return 0, err
	}
	if kmsg.Key(key) == kmsg.JoinGroup && 4+int(size) <= c.br.Size() {
		frame, err := c.br.Peek(4 + int(size))
		if err != nil {
			return 0, err
		}
		c.mu.Lock()
		c.joining = bytes.Clone(frame)
		c.mu.Unlock()
	}
	return 4 + int(size), nil
}
