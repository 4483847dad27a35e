package split

import "encoding/binary"

// Trim returns p without its records below from, and false when none is left. p itself does not change.
// p must come from Split or Trim.
func Trim(p Piece, from int64) (Piece, bool) {
	if from <= p.First {
		return p, true
	}
	if from > p.Last {
		return Piece{}, false
	}
	for it := records(p); it.next(); {
		if it.offset < from {
			continue
		}
		rest := it.recs[it.start:]
		b := make([]byte, headerSize+len(rest))
		copy(b[headerSize:], rest)
		putHeader(b, &it.h, int32(p.Last-it.h.base), uint32(it.h.count-it.index))
		return Piece{First: it.offset, Last: p.Last, Data: b}, true
	}
	return Piece{}, false
}

// Cut returns the records of p from first to last, and false when there are none. p itself does not change. Its Data may be any batch for which IsPlain holds.
func Cut(p Piece, first, last int64) (Piece, bool) {
	out := Piece{First: -1}
	it := records(p)
	from, to, count := 0, 0, uint32(0)
	for it.next() && it.offset <= last {
		if it.offset < first {
			continue
		}
		if count == 0 {
			out.First, from = it.offset, it.start
		}
		out.Last, to = it.offset, it.at
		count++
	}
	if count == 0 {
		return Piece{}, false
	}
	out.Data = make([]byte, headerSize+to-from)
	copy(out.Data[headerSize:], it.recs[from:to])
	putHeader(out.Data, &it.h, int32(out.Last-it.h.base), count)
	return out, true
}

// IsPlain reports whether a batch of magic 2 is not compressed.
func IsPlain(batch []byte) bool {
	return len(batch) >= headerSize && Codec(int16(binary.BigEndian.Uint16(batch[atAttributes:]))&attrCodec) == None
}

// FirstAtOrAfter finds the first record of p with an offset >= from and a timestamp (ms) >= timestamp.
// With math.MinInt64 as timestamp it finds the first record at or after from. p must come from Split or Trim.
func FirstAtOrAfter(p Piece, from, timestamp int64) (offset, ts int64, ok bool) {
	if from > p.Last {
		return 0, 0, false
	}
	it := records(p)
	for it.next() {
		if it.offset >= from && it.timestamp >= timestamp {
			return it.offset, it.timestamp, true
		}
	}
	return 0, 0, false
}

// iterator goes through the records of a piece.
type iterator struct {
	h    header
	recs []byte

	at        int   // in recs: the next record
	index     int32 // of the current record
	start     int   // of the current record in recs
	offset    int64
	timestamp int64
}

func records(p Piece) iterator {
	be := binary.BigEndian
	it := iterator{index: -1}
	if len(p.Data) < headerSize {
		return it
	}
	it.h = header{
		base:          int64(be.Uint64(p.Data)),
		attributes:    int16(be.Uint16(p.Data[atAttributes:])),
		baseTimestamp: int64(be.Uint64(p.Data[atBaseTimestamp:])),
		maxTimestamp:  int64(be.Uint64(p.Data[atMaxTimestamp:])),
		count:         int32(be.Uint32(p.Data[atCount:])),
	}
	it.recs = p.Data[headerSize:]
	return it
}

// next goes to the next record; false after the last one, or when the piece is damaged.
func (it *iterator) next() bool {
	if it.index+1 >= it.h.count {
		return false
	}
	length, p := varint(it.recs, it.at)
	if p < 0 || length < 1 || int(length) > len(it.recs)-p {
		return false
	}
	end := p + int(length)
	tsDelta, p := varlong(it.recs[:end], p+1)
	if p < 0 {
		return false
	}
	delta, p := varint(it.recs[:end], p)
	if p < 0 {
		return false
	}
	it.index++
	it.start, it.at = it.at, end
	it.offset = it.h.base + int64(delta)
	it.timestamp = it.h.baseTimestamp + tsDelta
	if it.h.logAppendTime() {
		it.timestamp = it.h.maxTimestamp
	}
	return true
}
