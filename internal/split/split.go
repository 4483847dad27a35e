package split

import "fmt"

// MaxK is the largest number of slices of one source partition.
const MaxK = 1 << 16

// Slicing says how a source partition is cut into slices. A record with key k is in slice
// x mod K with x = (murmur2(k) & 0x7fffffff) / Base; a record with a null key in slice offset mod K.
// With a Layout the record's key position, which is x (or the low 32 bits of the offset) bit-reversed, decides instead.
type Slicing struct {
	Base   int32   // the source's partition count when the view was made, >= 1
	K      int32   // slices per source partition: a power of two in [1, MaxK], or the number of slices of Layout
	Layout *Layout // nil: K equal slices
}

func (s Slicing) check() error {
	switch {
	case s.Base < 1 || s.K < 1:
	case s.Layout != nil:
		if s.K == s.Layout.k {
			return nil
		}
	case s.K <= MaxK && s.K&(s.K-1) == 0:
		return nil
	}
	return fmt.Errorf("split: base %d, %d slices: need a base >= 1 and a power of two up to %d, or a layout of as many slices", s.Base, s.K, MaxK)
}

// Aborted names an aborted transaction as a Fetch answer does: its producer and the offset of its first record.
type Aborted struct {
	ProducerID, FirstOffset int64
}

// Piece is what one source batch holds for one slice.
type Piece struct {
	First, Last int64  // offsets of its first and last record
	Data        []byte // one complete, uncompressed batch of magic 2; shared: never write to it
}

// Block is the result of one Split: all that a stretch of the source holds, by slice.
type Block struct {
	// Start and End bound the source offsets [Start, End) that the block knows everything about: an offset in
	// between that is in no piece holds no record to deliver. Start is the smaller of the offset asked for and the
	// base of the first batch; End is the offset after the last batch that was split. Without a complete
	// batch both are the offset asked for.
	Start, End int64
	// Slices has K entries; the pieces of each are in offset order.
	Slices [][]Piece
	// Bytes is the memory the block holds, its index included.
	Bytes int
	// Used is how many bytes of raw were split. If complete batches are left (the block got full, or the next batch is
	// damaged), Split(raw[Used:], End, ..., Aborted) goes on with them.
	Used int
	// Aborted holds the aborted transactions that still matter at End; nil unless it was read committed.
	Aborted []Aborted
}

// Config bounds a Splitter.
type Config struct {
	// MaxBatchBytes bounds the uncompressed size of one source batch; a larger one gives ErrTooLarge.
	// Default 128 MiB, at most 1 GiB. (A batch of zstd may be uncompressed up to 128 MiB before that shows: its window
	// may be as large as that however little it holds.)
	MaxBatchBytes int
	// MaxBlockBytes ends a block after the batch that takes its pieces to this size or above. Default 64 MiB.
	MaxBlockBytes int
	// Alloc gives buffers of len >= n for the pieces' data; the contents need not be zero. The default is make. A user
	// that knows when a block is no longer read can hand out its buffers again.
	Alloc func(n int) []byte
}
