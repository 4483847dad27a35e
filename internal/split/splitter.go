package split

import (
	"math"
	"unsafe"
)

// Splitter splits batches. It reuses its buffers and decoders from call to call and is used by one goroutine
// at a time; blocks it returned are independent of it.
type Splitter struct {
	cfg    Config
	codecs decompressor

	slicer  slicer
	parts   []part   // by slice, and one for records of none; zero but for the touched ones
	touched []uint32 // slices with a record in the current batch
	spans   []span
	old     converter

	pieces     []Piece // of the block, in input order
	pieceSlice []uint32
	perSlice   []uint32 // pieces of each slice
	out        []byte   // what is left of the output buffer
	outBytes   int      // sum of the output buffers of the block
	txns       transactions
	next       int64 // lowest offset that may come next
}

const (
	defaultMaxBatch = 128 << 20
	defaultMaxBlock = 64 << 20
	keepBuffer      = 8 << 20 // larger scratch buffers are not kept from call to call
)

// New returns a Splitter; zero fields of cfg get their defaults.
func New(cfg Config) *Splitter {
	if cfg.MaxBatchBytes <= 0 {
		cfg.MaxBatchBytes = defaultMaxBatch
	}
	cfg.MaxBatchBytes = min(cfg.MaxBatchBytes, 1<<30) // so that positions in a batch's output fit uint32
	if cfg.MaxBlockBytes <= 0 {
		cfg.MaxBlockBytes = defaultMaxBlock
	}
	if cfg.Alloc == nil {
		cfg.Alloc = func(n int) []byte { return make([]byte, n) }
	}
	return &Splitter{cfg: cfg, codecs: decompressor{limit: cfg.MaxBatchBytes}}
}

// Split splits the record batches of a Fetch answer. raw holds them as the broker sent them; a partial batch at its
// end is ignored. from is the offset that was fetched. Records below it that share its batch are included.
//
// With readCommitted the records of aborted transactions are left out; aborted is the answer's own list. Control
// batches give no piece in either case.
//
// An error is an *Error or says that slicing is invalid. Batches before a damaged one still give a block; the error
// comes when the damaged one is the first.
func (s *Splitter) Split(raw []byte, from int64, slicing Slicing, readCommitted bool, aborted []Aborted) (*Block, error) {
	if err := slicing.check(); err != nil {
		return nil, err
	}
	s.begin(slicing, readCommitted, aborted)
	defer s.end()
	raw = raw[:completeSize(raw)]
	b := &Block{Start: from, End: from}
	for b.Used < len(raw) && s.outBytes-len(s.out) < s.cfg.MaxBlockBytes {
		first, last, size, err := s.step(raw[b.Used:])
		if err != nil {
			if b.Used == 0 {
				return nil, err
			}
			break
		}
		if b.Used == 0 {
			b.Start = min(from, first)
		}
		b.Used += size
		b.End = last + 1
		s.next = b.End
	}
	b.Aborted = s.txns.left()
	s.fill(b, slicing.K)
	return b, nil
}

// step splits the first batch of raw, or the first messages of an old format. It returns the offsets it covers
// and its size.
func (s *Splitter) step(raw []byte) (first, last int64, size int, err error) {
	size, _ = entrySize(raw)
	if size < entryHead+5 || size > len(raw) {
		return 0, 0, 0, fail(s.next, ErrCorrupt, "batch of %d bytes", size)
	}
	if magic := raw[atMagic]; magic != 2 {
		return s.stepOld(raw)
	}
	h, err := parseHeader(raw[:size])
	if err != nil {
		return 0, 0, 0, err
	}
	if h.base < s.next {
		return 0, 0, 0, fail(h.base, ErrCorrupt, "offsets go back: %d was next", s.next)
	}
	records := raw[headerSize:size]
	if s.txns.drop(&h, records) || h.count == 0 {
		return h.base, h.last(), size, nil
	}
	if records, err = s.codecs.decompress(h.codec(), records, h.base); err != nil {
		return 0, 0, 0, err
	}
	return h.base, h.last(), size, s.emit(&h, records, size, len(raw)-size)
}

func (s *Splitter) begin(slicing Slicing, readCommitted bool, aborted []Aborted) {
	s.slicer = newSlicer(slicing)
	if len(s.parts) <= int(slicing.K) {
		s.parts, s.perSlice = make([]part, slicing.K+1), make([]uint32, slicing.K)
		s.touched = s.touched[:0]
	}
	clear(s.perSlice)
	s.next = math.MinInt64
	s.txns.begin(readCommitted, aborted)
}

// take returns n bytes of output. Its buffer is sized for the rest of the input too, by what this batch of size bytes needed.
func (s *Splitter) take(n, size, remaining int) []byte {
	if n > len(s.out) {
		s.outBytes -= len(s.out)
		// One sixteenth more than that, so that the last batch need not have a buffer of its own.
		rest := min(float64(n)*float64(remaining)/float64(size)*17/16, float64(max(0, s.cfg.MaxBlockBytes-s.outBytes-n)))
		s.out = s.cfg.Alloc(n + int(rest))
		s.outBytes += len(s.out)
	}
	b := s.out[:n:n]
	s.out = s.out[n:]
	return b
}

// fill sorts the pieces by slice.
func (s *Splitter) fill(b *Block, k int32) {
	b.Slices = make([][]Piece, k)
	pieces := make([]Piece, len(s.pieces))
	at := uint32(0)
	for i := range b.Slices {
		n := s.perSlice[i]
		b.Slices[i] = pieces[at : at : at+n]
		at += n
	}
	for i, p := range s.pieces {
		slice := s.pieceSlice[i]
		b.Slices[slice] = append(b.Slices[slice], p)
	}
	b.Bytes = s.outBytes + int(unsafe.Sizeof(*b)) + int(k)*int(unsafe.Sizeof(pieces)) +
		len(pieces)*int(unsafe.Sizeof(Piece{})) + len(b.Aborted)*int(unsafe.Sizeof(Aborted{}))
}

// end lets go of what belongs to the block and of scratch memory that an exceptional batch needed.
func (s *Splitter) end() {
	clear(s.pieces)
	s.pieces, s.pieceSlice = s.pieces[:0], s.pieceSlice[:0]
	s.out, s.outBytes = nil, 0
	s.parts[s.slicer.none] = part{} // with another K it is a slice
	if cap(s.spans) > keepBuffer/8 {
		s.spans = nil
	}
	s.codecs.shrink()
	s.old.shrink()
}
