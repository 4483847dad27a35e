package gateway

import (
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kbin"
)

// A Fetch response from version 16 on may end in node endpoints: the address of
// a new leader, behind all the records (KIP-951). walkFetch passes such a
// response on without holding it: it reads the structure between the records,
// splices the records, and rewrites the addresses at the end in place. The
// frame's size has left by then, so the rewritten end has the same length: a
// filler tag takes up the difference, and where the new addresses are too long
// the whole tag becomes the filler, which clients ignore as an unknown tag (the
// client then asks for metadata, as before KIP-951).
type walker struct {
	c    *conn
	left int    // bytes of the frame not yet consumed
	out  []byte // consumed but not yet sent
	err  error
}

// fillerTag is a tag number that Kafka does not use in Fetch.
const fillerTag = 100

// walkBuffers holds what walkers collect before they send it.
var walkBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

func (c *conn) walkFetch(size int) error {
	buf := walkBuffers.Get().(*[]byte)
	w := &walker{c: c, left: 4 + size, out: (*buf)[:0]}
	defer func() { *buf = w.out; walkBuffers.Put(buf) }()
	w.fixed(4 + 4) // size, correlation id
	w.tags()
	w.fixed(4 + 2 + 4) // throttle, error code, session id
	for range w.arrayLen() {
		w.fixed(16) // topic id
		for range w.arrayLen() {
			w.fixed(4 + 2 + 8 + 8 + 8) // partition, error, high watermark, last stable offset, log start
			for range w.arrayLen() {
				w.fixed(8 + 8) // producer id, first offset
				w.tags()
			}
			w.fixed(4) // preferred read replica
			w.records()
			w.tags()
		}
		w.tags()
	}
	if w.err != nil {
		return fmt.Errorf("response of Fetch: %w", w.err)
	}
	w.end()
	if w.err == nil {
		_, w.err = c.client.Write(w.out)
	}
	return w.err
}

func (w *walker) fixed(n int) []byte {
	if w.err != nil {
		return nil
	}
	if n > w.left || n > bufferSize {
		w.err = fmt.Errorf("%w: it ends too early", wire.ErrFrameSize)
		return nil
	}
	buf, err := w.c.ur.Peek(n)
	if err != nil {
		w.err = err
		return nil
	}
	w.out = append(w.out, buf...)
	_, _ = w.c.ur.Discard(n)
	w.left -= n
	return w.out[len(w.out)-n:]
}

func (w *walker) uvarint() uint64 {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		b := w.fixed(1)
		if w.err != nil {
			return 0
		}
		v |= uint64(b[0]&0x7f) << shift
		if b[0] < 0x80 {
			return v
		}
	}
	w.err = fmt.Errorf("%w: bad varint", wire.ErrFrameSize)
	return 0
}

// arrayLen reads a compact array's length; null counts as empty.
func (w *walker) arrayLen() int {
	n := w.uvarint()
	if n == 0 {
		return 0
	}
	if n-1 > uint64(w.left) {
		w.err = fmt.Errorf("%w: array of %d in %d bytes", wire.ErrFrameSize, n-1, w.left)
		return 0
	}
	return int(n - 1)
}

func (w *walker) tags() {
	for n := w.uvarint(); n > 0 && w.err == nil; n-- {
		w.uvarint()
		w.fixed(int(w.uvarint()))
	}
}

// records passes one partition's records on: what is large is spliced, what is
// small waits for the rest, so that a small response leaves in one write and
// wakes its client once.
func (w *walker) records() {
	n := int(w.uvarint()) - 1
	if n <= 0 || w.err != nil {
		return
	}
	if n > w.left {
		w.err = fmt.Errorf("%w: records of %d bytes in %d", wire.ErrFrameSize, n, w.left)
		return
	}
	w.left -= n
	have := min(n, w.c.ur.Buffered())
	if n-have < spliceMin {
		have = n
	}
	w.collect(have)
	if rest := n - have; w.err == nil && (rest > 0 || len(w.out) > maxCollected) {
		w.send()
		if rest > 0 && w.err == nil {
			w.err = w.c.copyBytes(w.c.client, w.c.ur, w.c.up, rest)
		}
	}
}

// maxCollected is how much of a response is held back for one write.
const maxCollected = 64 << 10

// collect consumes n bytes, to be sent later.
func (w *walker) collect(n int) {
	start := len(w.out)
	w.out = slices.Grow(w.out, n)[:start+n]
	_, w.err = io.ReadFull(w.c.ur, w.out[start:])
}

func (w *walker) send() {
	_, w.err = w.c.client.Write(w.out)
	w.out = w.out[:0]
}

// end reads the tags of the response itself, which are all that is left.
func (w *walker) end() {
	if w.left > maxDecoded {
		w.err = fmt.Errorf("%w: %d bytes behind the records", wire.ErrFrameSize, w.left)
		return
	}
	tail, err := wire.ReadContent(w.c.ur, w.left)
	if err != nil {
		w.err = err
		return
	}
	w.out = append(w.out, rewriteEndpoints(tail, w.c.advertised)...)
}

// rewriteEndpoints returns the tags in tail with the node endpoints' addresses
// replaced, in as many bytes.
func rewriteEndpoints(tail []byte, advertised func(id int32, host string, port int32) (string, int32)) []byte {
	r := kbin.Reader{Src: tail}
	count := int(r.Uvarint())
	if count == 0 || !r.Ok() {
		return tail
	}
	var rest, endpoints []byte
	for range count {
		tag := r.Uvarint()
		value := r.Span(int(r.Uvarint()))
		if !r.Ok() {
			return fillAll(tail) // unreadable: it must not hold a true address
		}
		if tag != 0 {
			rest = appendTag(rest, tag, value)
			continue
		}
		if endpoints = translateEndpoints(value, advertised); endpoints == nil {
			return fillAll(tail)
		}
	}
	if endpoints == nil {
		return tail
	}
	out := kbin.AppendUvarint(nil, uint32(count))
	out = append(appendTag(out, 0, endpoints), rest...)
	if len(out) == len(tail) {
		return out
	}
	out = kbin.AppendUvarint(nil, uint32(count+1))
	out = append(appendTag(out, 0, endpoints), rest...)
	for header := 2; header <= 6; header++ { // tag number, and 1 to 5 bytes of length
		n := len(tail) - len(out) - header
		if n < 0 {
			break
		}
		if filled := appendTag(out, fillerTag, make([]byte, n)); len(filled) == len(tail) {
			return filled
		}
	}
	return fillAll(tail)
}

// fillAll makes one unknown tag of all there is.
func fillAll(tail []byte) []byte {
	for header := 3; header <= 7; header++ {
		n := len(tail) - header
		if n < 0 {
			break
		}
		if out := appendTag([]byte{1}, fillerTag, make([]byte, n)); len(out) == len(tail) {
			return out
		}
	}
	return tail
}

func appendTag(dst []byte, tag uint32, value []byte) []byte {
	dst = kbin.AppendUvarint(dst, tag)
	dst = kbin.AppendUvarint(dst, uint32(len(value)))
	return append(dst, value...)
}

// translateEndpoints re-encodes the value of the node endpoints tag; nil where
// it cannot be read.
func translateEndpoints(value []byte, advertised func(int32, string, int32) (string, int32)) []byte {
	r := kbin.Reader{Src: value}
	n := r.CompactArrayLen()
	out := kbin.AppendCompactArrayLen(nil, int(n))
	for range n {
		id, host, port, rack := r.Int32(), r.CompactString(), r.Int32(), r.CompactNullableString()
		if tags := r.Uvarint(); !r.Ok() || tags != 0 {
			return nil
		}
		host, port = advertised(id, host, port)
		out = kbin.AppendInt32(out, id)
		out = kbin.AppendCompactString(out, host)
		out = kbin.AppendInt32(out, port)
		out = kbin.AppendCompactNullableString(out, rack)
		out = append(out, 0)
	}
	if !r.Ok() {
		return nil
	}
	return out
}
