package pipe

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// bulkSize is what goes from one side to the other at a time. With half of
	// it, or half of maxHeld, both sides wake each other up more often, and bulk
	// costs a tenth more.
	bulkSize = 128 << 10
	// smallSize is the block for a request or an answer as most are.
	smallSize = 16 << 10
	// maxHeld bounds the blocks of one direction, in bytes.
	maxHeld = 1 << 20
	// leastRoom is what must be left of a block for bulk to go there rather than
	// to the next one.
	leastRoom = 4 << 10
)

// half is one direction of a connection: a queue of blocks, which come from a
// pool and go back to it, so that an idle connection has none. Bytes are copied
// without mu: the writer owns the last block from w on, the reader the first
// one up to w.
type half struct {
	reading, writing sync.Mutex // one reader and one writer at a time; before mu

	mu        sync.Mutex
	data      sync.Cond // there is something to read, or a reason to stop waiting
	room      sync.Cond // there is room, or a reason to stop waiting
	blocks    []*block
	held      int   // their size
	filling   bool  // the writer is at work on the last block
	end       error // the writer has closed: what is read after the last byte
	abandoned bool  // the reader has closed

	readBy, writeBy deadline
}

type block struct {
	buf  []byte
	r, w int
}

var (
	bulk  = sync.Pool{New: func() any { return &block{buf: make([]byte, bulkSize)} }}
	small = sync.Pool{New: func() any { return &block{buf: make([]byte, smallSize)} }}
)

// blockFor returns the pool to take a block for n bytes from, and its size.
func blockFor(n int) (*sync.Pool, int) {
	if n <= smallSize {
		return &small, smallSize
	}
	return &bulk, bulkSize
}

func newHalf() *half {
	h := &half{}
	h.data.L, h.room.L = &h.mu, &h.mu
	h.readBy.waits, h.writeBy.waits = &h.data, &h.room
	return h
}

func (h *half) read(p []byte) (int, error) {
	h.reading.Lock()
	defer h.reading.Unlock()
	b, data, err := h.filled(len(p) > 0)
	if b == nil {
		return 0, err
	}
	n := copy(p, data)
	h.take(b, n)
	return n, nil
}

// copyTo reports with to whether an error is w's.
func (h *half) copyTo(w io.Writer, n int64) (done int64, to bool, err error) {
	h.reading.Lock()
	defer h.reading.Unlock()
	for done < n {
		b, data, err := h.filled(true)
		if err != nil {
			return done, false, err
		}
		k, err := w.Write(data[:min(int64(len(data)), n-done)])
		h.take(b, k)
		if done += int64(k); err != nil {
			return done, true, err
		}
	}
	return done, false, nil
}

// filled returns the first block and what is to be read of it. Where there is
// nothing, it waits, or returns no block.
func (h *half) filled(wait bool) (*block, []byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.abandoned:
			return nil, nil, net.ErrClosed
		case h.readBy.passed:
			return nil, nil, os.ErrDeadlineExceeded
		case !wait:
			return nil, nil, nil
		case len(h.blocks) > 0 && h.blocks[0].r < h.blocks[0].w:
			b := h.blocks[0]
			return b, b.buf[b.r:b.w], nil
		case h.end != nil:
			return nil, nil, h.end
		}
		h.data.Wait()
	}
}

// take consumes n bytes of the first block.
func (h *half) take(b *block, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b.r += n; len(h.blocks) > 0 && h.blocks[0] == b { // else it was dropped meanwhile
		h.release()
	}
}

// release gives the first blocks back that hold nothing and that nobody writes
// to: behind one that was read may be one for which nothing came.
func (h *half) release() {
	for len(h.blocks) > 0 {
		b := h.blocks[0]
		if b.r < b.w || h.filling && len(h.blocks) == 1 {
			return
		}
		n := copy(h.blocks, h.blocks[1:])
		h.blocks[n] = nil
		h.blocks = h.blocks[:n]
		h.held -= len(b.buf)
		b.r, b.w = 0, 0
		from, _ := blockFor(len(b.buf))
		from.Put(b)
		h.room.Signal()
	}
}

func (h *half) write(p []byte) (done int, err error) {
	h.writing.Lock()
	defer h.writing.Unlock()
	for {
		b, err := h.reserve(len(p) - done)
		if err != nil {
			return done, err
		}
		n := copy(b.buf[b.w:], p[done:])
		done += n
		h.fill(b, n)
		if done == len(p) {
			return done, nil
		}
	}
}

// readFrom reports with from whether an error is r's.
func (h *half) readFrom(r io.Reader) (done int64, from bool, err error) {
	h.writing.Lock()
	defer h.writing.Unlock()
	for {
		b, err := h.reserve(bulkSize)
		if err != nil {
			return done, false, err
		}
		n, err := r.Read(b.buf[b.w:])
		h.fill(b, n)
		done += int64(n)
		if err == io.EOF {
			return done, true, nil
		}
		if err != nil {
			return done, true, err
		}
	}
}

// reserve returns the block to write to, once it has room: for n bytes, or for
// enough of them. fill must follow.
func (h *half) reserve(n int) (*block, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	from, size := blockFor(n)
	for {
		switch k := len(h.blocks); {
		case h.end != nil:
			return nil, net.ErrClosed
		case h.abandoned:
			return nil, syscall.EPIPE
		case h.writeBy.passed:
			return nil, os.ErrDeadlineExceeded
		case k > 0 && len(h.blocks[k-1].buf)-h.blocks[k-1].w >= min(n, leastRoom):
			h.filling = true
			return h.blocks[k-1], nil
		case h.held+size <= maxHeld:
			h.blocks, h.held = append(h.blocks, from.Get().(*block)), h.held+size
			continue
		}
		h.room.Wait()
	}
}

// fill takes note that n bytes of the last block were written.
func (h *half) fill(b *block, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.filling = false
	if b.w += n; len(h.blocks) == 0 { // dropped meanwhile
		return
	}
	if n > 0 {
		h.data.Signal()
	} else {
		h.release()
	}
}

// finish ends the writer's side. A reset drops what was not read.
func (h *half) finish(end error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.end == nil {
		h.end = end
	}
	if h.end != io.EOF {
		h.drop()
	}
	h.wake()
	h.writeBy.stop()
}

// abandon ends the reader's side.
func (h *half) abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.abandoned = true
	h.drop()
	h.wake()
	h.readBy.stop()
}

// drop forgets the blocks. They do not go back to the pool, since a reader or a
// writer may be at work on them.
func (h *half) drop() { h.blocks, h.held = nil, 0 }

func (h *half) wake() {
	h.data.Broadcast()
	h.room.Broadcast()
}

// deadline is until when a side waits. The half's mu guards it.
type deadline struct {
	waits  *sync.Cond // those that are to be told
	at     time.Time
	passed bool
	timer  *time.Timer
}

func (d *deadline) stop() {
	d.at = time.Time{}
	if d.timer != nil {
		d.timer.Stop()
	}
}

func (h *half) set(d *deadline, t time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d == &h.readBy && h.abandoned || d == &h.writeBy && h.end != nil {
		return net.ErrClosed
	}
	d.stop()
	d.at, d.passed = t, false
	h.expire(d)
	return nil
}

// expire lets a deadline pass whose time has come, and comes again at that time
// otherwise. Timers of former deadlines may call it too early.
func (h *half) expire(d *deadline) {
	if d.at.IsZero() {
		return
	}
	left := time.Until(d.at)
	switch {
	case left <= 0:
		d.passed = true
		d.waits.Broadcast()
	case d.timer != nil:
		d.timer.Reset(left)
	default:
		d.timer = time.AfterFunc(left, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.expire(d)
		})
	}
}
