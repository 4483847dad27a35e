package gateway

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// A client may not read its answer for minutes, while it works. The chunks that the
// answer refers to, of which it often needs a small part, are memory that all
// cooperative reads wait for. So what is not written in a while is copied, its
// own share only, and the chunks are let go of. Copies count in the cache's limit,
// and while there are many answers are small.

const (
	// answerPart of the memory for chunks is what one answer may have: who does not read holds up no more.
	answerPart = 4
	// unreadAfter is how long an answer may hold chunks.
	unreadAfter = time.Second
	// copyAnswer is the size of answers that are copied at once.
	copyAnswer = 16 << 10
)

// answerMost is how many bytes of records an answer may have.
func (m *chunkMemory) answerMost() int64 {
	if m.unread.Load() > m.max {
		return tailBytes
	}
	return max(m.max/answerPart, chunkBytes)
}

// own copies what is left of an answer, and counts it until done is called.
func (m *chunkMemory) own(bufs net.Buffers) (all []byte, done func()) {
	size := 0
	for _, b := range bufs {
		size += len(b)
	}
	all = make([]byte, 0, size)
	for _, b := range bufs {
		all = append(all, b...)
	}
	clear(bufs) // nothing else refers to the chunks any more
	n := int64(size)
	count := func(n int64) {
		m.unread.Add(n)
		m.charge(n)
	}
	count(n)
	return all, func() { count(-n) }
}

// writeHeld sends an answer that refers to chunks. release lets go of them; it is called before the answer is written if that takes long.
func (c *conn) writeHeld(bufs net.Buffers, size int, m *chunkMemory, release func()) error {
	if size > copyAnswer {
		if _, is := c.client.(*tls.Conn); is {
			return c.writeHeldTLS(bufs, size, m, release)
		}
		_ = c.client.SetWriteDeadline(time.Now().Add(unreadAfter))
		_, err := bufs.WriteTo(c.client)
		c.clientBy = writeDeadline{}
		_ = c.client.SetWriteDeadline(time.Time{})
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || c.ctx.Err() != nil {
			return err
		}
	}
	rest, done := m.own(bufs)
	defer done()
	release()
	c.toClient(len(rest))
	_, err := c.client.Write(rest)
	return err
}

// writeHeldTLS is writeHeld where no write can be taken up again after its deadline: each is of a copy.
func (c *conn) writeHeldTLS(bufs net.Buffers, size int, m *chunkMemory, release func()) error {
	var mu sync.Mutex // guards what follows
	done, over := func() {}, false
	late := time.AfterFunc(unreadAfter, func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		var rest []byte
		rest, done = m.own(bufs)
		bufs = net.Buffers{rest}
		release()
	})
	defer func() {
		late.Stop()
		mu.Lock()
		defer mu.Unlock()
		over = true
		done()
	}()
	c.toClient(size)
	piece := make([]byte, copyBelow*8)
	for {
		mu.Lock()
		n, _ := bufs.Read(piece)
		mu.Unlock()
		if n == 0 {
			return nil
		}
		if _, err := c.client.Write(piece[:n]); err != nil {
			return err
		}
	}
}
