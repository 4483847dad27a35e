package split

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// decompressor uncompresses the records of one batch at a time into a buffer it uses again. Checksums inside the compressed
// data are not checked where that can be helped: the batch's CRC has been, and covers them.
type decompressor struct {
	limit int    // of the uncompressed size
	buf   []byte // holds the result of the last call

	source bytes.Reader
	gzip   *gzip.Reader
	zstd   *zstd.Decoder
}

var errLimit = errors.New("limit") // the uncompressed data would be larger than the limit

// decompress returns the uncompressed form of src, valid until the next call. at is the batch's offset, for the error.
func (d *decompressor) decompress(codec Codec, src []byte, at int64) (out []byte, err error) {
	switch codec {
	case None:
		if len(src) > d.limit {
			err = errLimit
		}
		out = src
	case Gzip:
		out, err = d.gunzip(src)
	case Snappy:
		out, err = d.snappy(src)
	case LZ4:
		out, err = d.lz4(src)
	case Zstd:
		out, err = d.unzstd(src)
	default:
		return nil, fail(at, ErrUnsupported, "compression codec %d", codec)
	}
	switch {
	case errors.Is(err, errLimit):
		return nil, fail(at, ErrTooLarge, "%d bytes of %v are more than %d uncompressed", len(src), codec, d.limit)
	case err != nil:
		return nil, fail(at, ErrCorrupt, "%v data: %v", codec, err)
	}
	return out, nil
}

// shrink lets go of the buffer when an exceptional batch made it large.
func (d *decompressor) shrink() {
	if cap(d.buf) > keepBuffer {
		d.buf = nil
	}
	d.source.Reset(nil)
}

// reserve makes d.buf[:n] with room for more bytes, without going much above the limit; errLimit when the limit is reached.
func (d *decompressor) reserve(n, more int) error {
	if n+more <= cap(d.buf) {
		d.buf = d.buf[:n]
		return nil
	}
	if n >= d.limit && more > 0 {
		return errLimit
	}
	grown := make([]byte, n, max(n+more, min(2*cap(d.buf), d.limit), 64<<10))
	copy(grown, d.buf[:n])
	d.buf = grown
	return nil
}

// gunzip handles one gzip member or several.
func (d *decompressor) gunzip(src []byte) ([]byte, error) {
	d.source.Reset(src)
	var err error
	if d.gzip == nil {
		d.gzip, err = gzip.NewReader(&d.source)
	} else {
		err = d.gzip.Reset(&d.source)
	}
	if err != nil {
		return nil, err
	}
	// The last four bytes are the size of the last member. It is a hint only; deflate cannot do better than 1:1032.
	hint := 0
	if len(src) >= 4 {
		hint = int(min(int64(binary.LittleEndian.Uint32(src[len(src)-4:])), int64(len(src))*1032, int64(d.limit)))
	}
	if err := d.reserve(0, hint+1); err != nil { // +1: so that the end shows without growing
		return nil, err
	}
	for {
		n := len(d.buf)
		if n > d.limit {
			return nil, errLimit
		}
		if n == cap(d.buf) {
			if err := d.reserve(n, 1); err != nil {
				return nil, err
			}
		}
		m, err := d.gzip.Read(d.buf[n:cap(d.buf)])
		d.buf = d.buf[:n+m]
		if err == io.EOF {
			if len(d.buf) > d.limit {
				return nil, errLimit
			}
			return d.buf, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// unzstd handles one zstd frame or several.
func (d *decompressor) unzstd(src []byte) (_ []byte, err error) {
	if d.zstd == nil {
		// A frame's window may be larger than its contents: 128 MiB at the highest levels.
		d.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.IgnoreChecksum(true),
			zstd.WithDecoderMaxMemory(uint64(max(d.limit, 128<<20))), zstd.WithDecoderMaxWindow(zstd.MaxWindowSize))
		if err != nil {
			return nil, err
		}
	}
	out, err := d.zstd.DecodeAll(src, d.buf[:0])
	if cap(out) > cap(d.buf) {
		d.buf = out
	}
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || err == nil && len(out) > d.limit {
		return nil, errLimit
	}
	return out, err
}

// xerialMagic begins snappy data as snappy-java writes it, and Kafka's own clients with it: after it come two
// versions (4 bytes each), then blocks, each with its compressed size before it.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const xerialHeader = 16

// snappy handles both forms that clients send: xerial framing and a bare snappy block.
func (d *decompressor) snappy(src []byte) ([]byte, error) {
	if len(src) < xerialHeader || !bytes.HasPrefix(src, xerialMagic) {
		return d.snappyBlock(0, src)
	}
	d.buf = d.buf[:0]
	for src = src[xerialHeader:]; len(src) > 0; {
		if len(src) < 4 {
			return nil, errors.New("cut off in a block size")
		}
		size := binary.BigEndian.Uint32(src)
		src = src[4:]
		if uint64(size) > uint64(len(src)) {
			return nil, errors.New("cut off in a block")
		}
		if _, err := d.snappyBlock(len(d.buf), src[:size]); err != nil {
			return nil, err
		}
		src = src[size:]
	}
	return d.buf, nil
}

// snappyBlock appends a block's contents to d.buf[:n].
func (d *decompressor) snappyBlock(n int, src []byte) ([]byte, error) {
	size, err := s2.DecodedLen(src)
	if err != nil {
		return nil, err
	}
	if size > len(src)*64 { // an element yields at most 64 bytes and takes at least 2
		return nil, errors.New("impossible block size")
	}
	if size > d.limit-n {
		return nil, errLimit
	}
	if err := d.reserve(n, size); err != nil {
		return nil, err
	}
	if _, err := s2.Decode(d.buf[n:n+size], src); err != nil {
		return nil, err
	}
	d.buf = d.buf[:n+size]
	return d.buf, nil
}
