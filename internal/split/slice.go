package split

import (
	"math/bits"

	"github.com/tandem-kafka/tandem/keyrange"
)

// part is what one batch holds for one slice, while the batch is being split.
type part struct {
	bytes  uint32 // of its records
	count  uint32
	first  int32 // offset deltas of its first and last record
	last   int32
	cursor uint32 // in the batch's output: where the next record goes
}

// span is a run of neighbouring records of one slice in the batch: from start to the next span's start.
type span struct {
	start uint32
	slice uint32
}

// slicer computes slices. x = hash / Base is taken by a multiplication with the rounded reciprocal, which is exact for 32-bit
// operands (Lemire, Kaser, Kurz: Faster remainder by direct computation, 2019) and cheaper than the division.
type slicer struct {
	reciprocal uint64 // ceil(2^64 / Base); 0 for Base 1
	mask       uint32 // K - 1
	none       uint32 // K: the part of records that are in no slice
	layout     *Layout
}

func newSlicer(s Slicing) slicer {
	return slicer{reciprocal: ^uint64(0)/uint64(s.Base) + 1, mask: uint32(s.K) - 1, none: uint32(s.K), layout: s.Layout}
}

// divide is x / Base.
func (sl slicer) divide(x uint32) uint32 {
	if sl.reciprocal != 0 {
		hi, _ := bits.Mul64(sl.reciprocal, uint64(x))
		x = uint32(hi)
	}
	return x
}

// index is the first pass over a batch's uncompressed records: it finds the slice of each, checks all that the pieces depend on and
// fills parts, touched and spans.
func (s *Splitter) index(h *header, recs []byte) error {
	for _, t := range s.touched {
		s.parts[t] = part{}
	}
	s.parts[s.slicer.none] = part{}
	s.touched, s.spans = s.touched[:0], s.spans[:0]
	parts, slicer, spans := s.parts, s.slicer, s.spans
	p, prev, current := 0, int32(-1), ^uint32(0)
	for i := range h.count {
		start := p
		r, ok := quickHead(recs, p)
		if !ok {
			if r, ok = parseHead(recs, p); !ok {
				return fail(h.base, ErrCorrupt, "record %d of %d does not parse", i, h.count)
			}
		}
		if r.end > len(recs) || int(r.keyLen) > r.end-r.key || r.key > r.end {
			return fail(h.base, ErrCorrupt, "record %d of %d does not end within the batch", i, h.count)
		}
		if r.delta <= prev || r.delta > h.lastOffsetDelta {
			return fail(h.base, ErrCorrupt, "record %d of %d: offset delta %d after %d, last %d", i, h.count, r.delta, prev, h.lastOffsetDelta)
		}
		prev = r.delta
		var slice uint32
		if r.keyLen >= 0 {
			slice = slicer.divide(keyrange.Hash(recs[r.key : r.key+int(r.keyLen)]))
		} else {
			slice = uint32(h.base + int64(r.delta))
		}
		if slicer.layout == nil {
			slice &= slicer.mask
		} else {
			slice = slicer.layout.ofX(slice)
		}
		p = r.end
		pt := &parts[slice]
		if pt.count == 0 {
			if slice != slicer.none {
				s.touched = append(s.touched, slice)
			}
			pt.first = r.delta
		}
		pt.count++
		pt.bytes += uint32(p - start)
		pt.last = r.delta
		if slice != current {
			current = slice
			spans = append(spans, span{uint32(start), slice})
		}
	}
	s.spans = spans
	if p != len(recs) {
		return fail(h.base, ErrCorrupt, "%d bytes after the last of %d records", len(recs)-p, h.count)
	}
	return nil
}

// emit splits the uncompressed records of one batch into pieces. remaining and size say how much of the input is still to
// come and how much this batch was, to size the output.
func (s *Splitter) emit(h *header, recs []byte, size, remaining int) error {
	if err := s.index(h, recs); err != nil || len(s.touched) == 0 {
		return err
	}
	none := s.slicer.none
	need := len(recs) - int(s.parts[none].bytes) + len(s.touched)*headerSize
	out := s.take(need, size, remaining)
	at := 0
	for _, t := range s.touched {
		pt := &s.parts[t]
		n := headerSize + int(pt.bytes)
		pt.cursor = uint32(at + headerSize)
		s.pieces = append(s.pieces, Piece{First: h.base + int64(pt.first), Last: h.base + int64(pt.last), Data: out[at : at+n : at+n]})
		s.pieceSlice = append(s.pieceSlice, t)
		s.perSlice[t]++
		at += n
	}
	s.spans = append(s.spans, span{start: uint32(len(recs))})
	parts := s.parts
	for i, sp := range s.spans[:len(s.spans)-1] {
		if sp.slice == none {
			continue
		}
		rec := recs[sp.start:s.spans[i+1].start]
		pt := &parts[sp.slice]
		copy(out[pt.cursor:], rec)
		pt.cursor += uint32(len(rec))
	}
	for i, t := range s.touched {
		pt := &s.parts[t]
		putHeader(s.pieces[len(s.pieces)-len(s.touched)+i].Data, h, pt.last, pt.count)
	}
	return nil
}
