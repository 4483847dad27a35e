package split

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// A record batch of magic 2 (KIP-98). Offsets of its fields in bytes; the CRC covers everything after it.
const (
	atBaseOffset      = 0
	atLength          = 8 // of what follows it
	atLeaderEpoch     = 12
	atMagic           = 16 // in all formats
	atCRC             = 17
	atAttributes      = 21
	atLastOffsetDelta = 23
	atBaseTimestamp   = 27
	atMaxTimestamp    = 35
	atProducerID      = 43
	atProducerEpoch   = 51
	atBaseSequence    = 53
	atCount           = 57
	headerSize        = 61

	entryHead = 12 // base offset and length: what all formats begin with
)

const (
	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is what a source batch says about itself, as far as the pieces need it.
type header struct {
	base            int64
	lastOffsetDelta int32
	baseTimestamp   int64
	maxTimestamp    int64
	producerID      int64
	attributes      int16
	count           int32
}

func (h *header) codec() Codec        { return Codec(h.attributes & attrCodec) }
func (h *header) logAppendTime() bool { return h.attributes&attrLogAppendTime != 0 }
func (h *header) last() int64         { return h.base + int64(h.lastOffsetDelta) }
func (h *header) has(attr int16) bool { return h.attributes&attr != 0 }
func fail(at int64, kind error, format string, args ...any) error {
	return &Error{Offset: at, Kind: kind, Cause: fmt.Sprintf(format, args...)}
}

// parseHeader reads and checks the header of one complete batch of magic 2. The CRC is checked because the pieces get
// one of their own, which would hide damage from the client.
func parseHeader(b []byte) (h header, err error) {
	be := binary.BigEndian
	h.base = int64(be.Uint64(b[atBaseOffset:]))
	if len(b) < headerSize {
		return h, fail(h.base, ErrCorrupt, "%d bytes, less than a batch's header", len(b))
	}
	if want, got := be.Uint32(b[atCRC:]), crc32.Checksum(b[atAttributes:], castagnoli); want != got {
		return h, fail(h.base, ErrCorrupt, "CRC %08x, computed %08x", want, got)
	}
	h.attributes = int16(be.Uint16(b[atAttributes:]))
	h.lastOffsetDelta = int32(be.Uint32(b[atLastOffsetDelta:]))
	h.baseTimestamp = int64(be.Uint64(b[atBaseTimestamp:]))
	h.maxTimestamp = int64(be.Uint64(b[atMaxTimestamp:]))
	h.producerID = int64(be.Uint64(b[atProducerID:]))
	h.count = int32(be.Uint32(b[atCount:]))
	switch {
	case h.base < 0 || h.lastOffsetDelta < 0 || h.base > math.MaxInt64-1-int64(h.lastOffsetDelta):
		return h, fail(h.base, ErrCorrupt, "last offset delta %d", h.lastOffsetDelta)
	case h.count < 0:
		return h, fail(h.base, ErrCorrupt, "%d records", h.count)
	}
	return h, nil
}

// putHeader writes the header of a piece and the CRC over it and the records that follow it in b. The base offset and
// base timestamp are the source batch's, for the deltas in the records; the last offset is the piece's own, so that no client's
// position passes the slice's end. There is no leader epoch: it would be the source's, and the Java client would then
// take the view's own metadata for stale.
func putHeader(b []byte, h *header, lastOffsetDelta int32, count uint32) {
	be := binary.BigEndian
	b = b[:len(b):len(b)]
	_ = b[headerSize-1]
	be.PutUint64(b[atBaseOffset:], uint64(h.base))
	be.PutUint32(b[atLength:], uint32(len(b)-entryHead))
	be.PutUint32(b[atLeaderEpoch:], math.MaxUint32) // -1, as the next ones
	b[atMagic] = 2
	be.PutUint16(b[atAttributes:], uint16(h.attributes&attrLogAppendTime))
	be.PutUint32(b[atLastOffsetDelta:], uint32(lastOffsetDelta))
	be.PutUint64(b[atBaseTimestamp:], uint64(h.baseTimestamp))
	be.PutUint64(b[atMaxTimestamp:], uint64(h.maxTimestamp))
	be.PutUint64(b[atProducerID:], math.MaxUint64)
	be.PutUint16(b[atProducerEpoch:], math.MaxUint16)
	be.PutUint32(b[atBaseSequence:], math.MaxUint32)
	be.PutUint32(b[atCount:], count)
	be.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], castagnoli))
}

// entrySize is the size of the first batch or message of raw, false if raw holds only a part of it.
func entrySize(raw []byte) (size int, complete bool) {
	if len(raw) < entryHead+5 { // up to the magic byte
		return 0, false
	}
	length := int32(binary.BigEndian.Uint32(raw[atLength:]))
	if length < 0 {
		return 0, true // damaged
	}
	size = entryHead + int(length)
	return size, size <= len(raw)
}

// completeSize is the size of raw without a partial batch at its end.
func completeSize(raw []byte) int {
	n := 0
	for {
		size, ok := entrySize(raw[n:])
		if !ok {
			return n
		}
		if size < entryHead+5 {
			return len(raw) // damaged: the loop over the batches says so
		}
		n += size
	}
}
