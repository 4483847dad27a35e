package split

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// Message sets of magic 0 and 1, which topics from before Kafka 0.11 still hold: offset int64, size int32, CRC uint32 over
// all that follows it, magic, attributes, with magic 1 a timestamp int64, key and value with int32 sizes. The value of a
// compressed message is itself a message set.
const (
	oldCRC        = 12
	oldAttributes = 17
	oldTimestamp  = 18
	oldHeader     = 18 // up to the key of magic 0; 8 more in magic 1
	oldRun        = 1 << 20
)

// message is one message of an old format. A nil key or value is null.
type message struct {
	offset, timestamp int64
	magic             byte
	attributes        byte
	key, value        []byte
}

func (m *message) codec() Codec        { return Codec(m.attributes & attrCodec) }
func (m *message) logAppendTime() bool { return m.magic > 0 && m.attributes&attrLogAppendTime != 0 }

// parseMessage reads one complete message; b holds its magic at least.
func parseMessage(b []byte, checkCRC bool) (m message, err error) {
	be := binary.BigEndian
	m.offset = int64(be.Uint64(b))
	if magic := int8(b[atMagic]); magic != 0 && magic != 1 {
		return m, fail(m.offset, ErrUnsupported, "magic %d", magic)
	}
	if len(b) < oldHeader+8 {
		return m, fail(m.offset, ErrCorrupt, "%d bytes, less than a message", len(b))
	}
	if checkCRC {
		if want, got := be.Uint32(b[oldCRC:]), crc32.ChecksumIEEE(b[atMagic:]); want != got {
			return m, fail(m.offset, ErrCorrupt, "CRC %08x, computed %08x", want, got)
		}
	}
	m.magic, m.attributes, m.timestamp = b[atMagic], b[oldAttributes], -1
	rest := b[oldHeader:]
	if m.magic == 1 {
		if len(rest) < 16 {
			return m, fail(m.offset, ErrCorrupt, "%d bytes, less than a message", len(b))
		}
		m.timestamp = int64(be.Uint64(b[oldTimestamp:]))
		rest = rest[8:]
	}
	var ok, ok2 bool
	m.key, rest, ok = sized(rest)
	m.value, rest, ok2 = sized(rest)
	if !ok || !ok2 || len(rest) != 0 || m.offset < 0 || m.offset == math.MaxInt64 {
		return m, fail(m.offset, ErrCorrupt, "message does not parse")
	}
	return m, nil
}

func sized(b []byte) (v, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, b, false
	}
	n := int32(binary.BigEndian.Uint32(b))
	if n < 0 {
		return nil, b[4:], n == -1
	}
	if int(n) > len(b)-4 {
		return nil, b, false
	}
	return b[4 : 4+n : 4+n], b[4+n:], true
}

// stepOld splits one compressed message, or a run of messages that are not. They are turned into the records of a batch
// of magic 2 and then go the way of all batches.
func (s *Splitter) stepOld(raw []byte) (first, last int64, size int, err error) {
	s.old.reset()
	used := 0
	for used < len(raw) {
		n, complete := entrySize(raw[used:])
		if !complete || n < entryHead+5 || raw[used+atMagic] == 2 {
			break
		}
		var m message
		if m, err = parseMessage(raw[used:used+n], true); err != nil {
			break
		}
		if m.codec() != None {
			if used == 0 {
				used = n
				err = s.unwrap(&m)
			}
			break
		}
		if m.offset < s.next && used == 0 {
			err = fail(m.offset, ErrCorrupt, "offsets go back: %d was next", s.next)
			break
		}
		if !s.old.fits(&m) {
			break
		}
		s.old.add(&m)
		used += n
	}
	if s.old.h.count == 0 || s.old.wrapped && err != nil { // what a run has before a damaged message is good
		if err == nil {
			err = fail(s.next, ErrCorrupt, "message set does not parse")
		}
		return 0, 0, 0, err
	}
	h := &s.old.h
	return h.base, h.last(), used, s.emit(h, s.old.records, used, len(raw)-used)
}

// unwrap converts the messages in a compressed one. With magic 1 their offsets are relative, so that the last one's
// is the wrapper's.
func (s *Splitter) unwrap(w *message) error {
	s.old.wrapped = true
	if w.value == nil {
		return fail(w.offset, ErrCorrupt, "compressed message without a value")
	}
	if w.codec() == Zstd {
		return fail(w.offset, ErrUnsupported, "compression codec %d in magic %d", w.codec(), w.magic)
	}
	set, err := s.codecs.decompress(w.codec(), w.value, w.offset)
	if err != nil {
		return err
	}
	if set == nil || completeSize(set) != len(set) || len(set) == 0 {
		return fail(w.offset, ErrCorrupt, "compressed message set does not parse")
	}
	shift := int64(0)
	if w.magic == 1 {
		lastAt := 0
		for at := 0; at < len(set); {
			n, _ := entrySize(set[at:])
			if n < entryHead+5 {
				return fail(w.offset, ErrCorrupt, "compressed message set does not parse")
			}
			lastAt, at = at, at+n
		}
		shift = w.offset - int64(binary.BigEndian.Uint64(set[lastAt:]))
	}
	for at := 0; at < len(set); {
		n, complete := entrySize(set[at:])
		if !complete || n < entryHead+5 {
			return fail(w.offset, ErrCorrupt, "compressed message set does not parse")
		}
		m, err := parseMessage(set[at:at+n], false) // the wrapper's CRC covers it
		if err != nil {
			return fail(w.offset, ErrCorrupt, "in a compressed message set: %v", err)
		}
		if m.codec() != None || m.magic != w.magic {
			return fail(w.offset, ErrCorrupt, "message of codec %d, magic %d in a compressed message set of magic %d", m.codec(), m.magic, w.magic)
		}
		m.offset += shift
		m.attributes = w.attributes
		if w.logAppendTime() {
			m.timestamp = w.timestamp
		}
		if m.offset < 0 || m.offset > w.offset || m.offset < s.next || !s.old.inOrder(&m) {
			return fail(w.offset, ErrCorrupt, "offset %d out of order in a compressed message set", m.offset)
		}
		s.old.add(&m)
		at += n
	}
	if w.offset-s.old.h.base > math.MaxInt32 {
		return fail(w.offset, ErrCorrupt, "compressed message set begins at offset %d", s.old.h.base)
	}
	s.old.h.lastOffsetDelta = int32(w.offset - s.old.h.base)
	return nil
}

// converter collects old messages as the records of one batch of magic 2.
type converter struct {
	h       header
	records []byte
	wrapped bool // from a compressed message
}

func (c *converter) reset() { c.h, c.records, c.wrapped = header{}, c.records[:0], false }

func (c *converter) shrink() {
	if cap(c.records) > keepBuffer {
		c.records = nil
	}
}

// inOrder reports whether m can come next in a batch.
func (c *converter) inOrder(m *message) bool {
	return c.h.count == 0 || m.offset > c.h.last() && m.offset-c.h.base <= math.MaxInt32
}

// fits reports whether m can and should join the run. A batch has one append time for all its records.
func (c *converter) fits(m *message) bool {
	if c.h.count == 0 {
		return true
	}
	return c.inOrder(m) && len(c.records) < oldRun && m.logAppendTime() == c.h.logAppendTime() &&
		(!m.logAppendTime() || m.timestamp == c.h.maxTimestamp)
}

func (c *converter) add(m *message) {
	if c.h.count == 0 {
		c.h.base, c.h.baseTimestamp, c.h.maxTimestamp, c.h.producerID = m.offset, m.timestamp, m.timestamp, -1
		if m.logAppendTime() {
			c.h.attributes = attrLogAppendTime
		}
	}
	c.h.count++
	c.h.maxTimestamp = max(c.h.maxTimestamp, m.timestamp)
	c.h.lastOffsetDelta = int32(m.offset - c.h.base)
	c.records = appendRecord(c.records, m.timestamp-c.h.baseTimestamp, int64(c.h.lastOffsetDelta), m.key, m.value)
}

// appendRecord appends a record of magic 2 without headers.
func appendRecord(b []byte, timestampDelta, offsetDelta int64, key, value []byte) []byte {
	keyLen, valueLen := int64(len(key)), int64(len(value))
	if key == nil {
		keyLen = -1
	}
	if value == nil {
		valueLen = -1
	}
	size := 1 + varlongSize(timestampDelta) + varlongSize(offsetDelta) + varlongSize(keyLen) + len(key) + varlongSize(valueLen) + len(value) + 1
	b = appendVarlong(b, int64(size))
	b = append(b, 0) // attributes
	b = appendVarlong(b, timestampDelta)
	b = appendVarlong(b, offsetDelta)
	b = appendVarlong(b, keyLen)
	b = append(b, key...)
	b = appendVarlong(b, valueLen)
	b = append(b, value...)
	return append(b, 0) // headers
}
