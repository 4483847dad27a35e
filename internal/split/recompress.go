package split

// Codec is a Kafka compression type, as in the attributes of a batch.
type Codec int8

// Kafka's compression types.
const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

// Recompressor compresses pieces. Like a Splitter it is used by one goroutine at a time.
type Recompressor struct{ codec Codec }

// NewRecompressor returns a Recompressor for a codec.
func NewRecompressor(codec Codec) *Recompressor { return &Recompressor{codec: codec} }

// Recompress returns p with its records compressed, or p itself if that would not be smaller. The result can
// be sent, but neither trimmed nor searched: compress last.
func (r *Recompressor) Recompress(p Piece) (Piece, error) { panic("not yet") }
