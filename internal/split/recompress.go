package split

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

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

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String is Kafka's name of the codec, as in compression.type.
func (c Codec) String() string {
	if c < 0 || int(c) >= len(codecNames) {
		return fmt.Sprintf("codec %d", int8(c))
	}
	return codecNames[c]
}

// ParseCodec reads Kafka's name of a codec.
func ParseCodec(name string) (Codec, error) {
	for i, n := range codecNames {
		if n == name {
			return Codec(i), nil
		}
	}
	return None, fmt.Errorf("%q is not a compression type: none, gzip, snappy, lz4 or zstd", name)
}

// Recompressor compresses pieces. Like a Splitter it is used by one goroutine at a time. Compressing costs about ten times
// what splitting costs.
type Recompressor struct {
	codec Codec
	buf   bytes.Buffer
	block []byte
	gzip  *gzip.Writer
	lz4   *lz4.Writer
	zstd  *zstd.Encoder
}

// NewRecompressor returns a Recompressor for a codec; with None it leaves pieces alone.
func NewRecompressor(codec Codec) (*Recompressor, error) {
	r := &Recompressor{codec: codec}
	var err error
	switch codec {
	case None, Snappy:
	case Gzip:
		r.gzip, err = gzip.NewWriterLevel(nil, gzip.BestSpeed)
	case LZ4:
		r.lz4 = lz4.NewWriter(nil)
		err = r.lz4.Apply(lz4.ConcurrencyOption(1), lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false))
	case Zstd:
		r.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithEncoderCRC(false), zstd.WithWindowSize(1<<20))
	default:
		err = fmt.Errorf("split: unknown %v", codec)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Recompress returns p with its records compressed, or p itself if that would not be smaller. The result can
// be sent, but neither trimmed nor searched: compress last.
func (r *Recompressor) Recompress(p Piece) (Piece, error) {
	if r.codec == None || len(p.Data) <= headerSize {
		return p, nil
	}
	packed, err := r.compress(p.Data[headerSize:])
	if err != nil {
		return Piece{}, fmt.Errorf("compress the piece at offset %d with %v: %w", p.First, r.codec, err)
	}
	if headerSize+len(packed) >= len(p.Data) {
		return p, nil
	}
	b := make([]byte, headerSize+len(packed))
	copy(b, p.Data[:headerSize])
	copy(b[headerSize:], packed)
	be := binary.BigEndian
	be.PutUint32(b[atLength:], uint32(len(b)-entryHead))
	be.PutUint16(b[atAttributes:], be.Uint16(b[atAttributes:])|uint16(r.codec))
	be.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], castagnoli))
	return Piece{First: p.First, Last: p.Last, Data: b}, nil
}

// compress returns src compressed, valid until the next call.
func (r *Recompressor) compress(src []byte) ([]byte, error) {
	switch r.codec {
	case Snappy: // a bare block: all clients take it
		if n := s2.MaxEncodedLen(len(src)); n > len(r.block) {
			r.block = make([]byte, n)
		}
		return s2.EncodeSnappy(r.block, src), nil
	case Zstd:
		r.block = r.zstd.EncodeAll(src, r.block[:0])
		return r.block, nil
	case Gzip:
		r.buf.Reset()
		r.gzip.Reset(&r.buf)
		if _, err := r.gzip.Write(src); err != nil {
			return nil, err
		}
		err := r.gzip.Close()
		return r.buf.Bytes(), err
	default: // LZ4
		r.buf.Reset()
		r.lz4.Reset(&r.buf)
		if _, err := r.lz4.Write(src); err != nil {
			return nil, err
		}
		err := r.lz4.Close()
		return r.buf.Bytes(), err
	}
}
