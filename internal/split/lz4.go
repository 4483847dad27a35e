package split

import (
	"encoding/binary"
	"errors"

	"github.com/pierrec/lz4/v4"
)

// The LZ4 frame format. Its header checksum is not checked, which clients before Kafka 0.10 computed wrongly (KIP-57), nor are
// the others.
const (
	lz4Magic         = 0x184D2204
	lz4Skippable     = 0x184D2A50 // to ...5F
	lz4Stored        = 1 << 31    // in a block's size: not compressed
	lz4History       = 64 << 10   // how far back a linked block refers
	lz4Independent   = 0x20
	lz4BlockChecksum = 0x10
	lz4ContentSize   = 0x08
	lz4EndChecksum   = 0x04
	lz4Dictionary    = 0x01
)

var errLZ4Short = errors.New("cut off")

// lz4 handles one frame or several. A frame is read block by block into one buffer, which is also the history of
// linked blocks; that is why it does not use the library's reader.
func (d *decompressor) lz4(src []byte) ([]byte, error) {
	d.buf = d.buf[:0]
	for {
		if len(src) < 4 {
			return nil, errLZ4Short
		}
		magic := binary.LittleEndian.Uint32(src)
		var err error
		switch {
		case magic == lz4Magic:
			src, err = d.lz4Frame(src[4:])
		case magic&^0xf == lz4Skippable:
			src, err = lz4Skip(src[4:])
		default:
			err = errors.New("not an LZ4 frame")
		}
		if err != nil {
			return nil, err
		}
		if len(src) == 0 {
			return d.buf, nil
		}
	}
}

func lz4Skip(src []byte) ([]byte, error) {
	if len(src) < 4 {
		return nil, errLZ4Short
	}
	size := binary.LittleEndian.Uint32(src)
	if uint64(size) > uint64(len(src)-4) {
		return nil, errLZ4Short
	}
	return src[4+size:], nil
}

// lz4Frame appends the contents of the frame to d.buf and returns what follows it. src begins after the magic.
func (d *decompressor) lz4Frame(src []byte) ([]byte, error) {
	if len(src) < 3 {
		return nil, errLZ4Short
	}
	flags := src[0]
	blockMax := 0
	if id := src[1] >> 4 & 7; id >= 4 {
		blockMax = 1 << (8 + 2*id) // 4: 64 KiB ... 7: 4 MiB
	}
	switch {
	case flags>>6 != 1:
		return nil, errors.New("unknown frame version")
	case flags&lz4Dictionary != 0:
		return nil, errors.New("needs a dictionary")
	case blockMax == 0:
		return nil, errors.New("bad block size")
	}
	head := 3
	if flags&lz4ContentSize != 0 {
		head += 8
	}
	trailer := 0 // after each block
	if flags&lz4BlockChecksum != 0 {
		trailer = 4
	}
	if len(src) < head {
		return nil, errLZ4Short
	}
	frame := len(d.buf)
	for src = src[head:]; ; {
		if len(src) < 4 {
			return nil, errLZ4Short
		}
		size := binary.LittleEndian.Uint32(src)
		src = src[4:]
		if size == 0 {
			break
		}
		stored := size&lz4Stored != 0
		size &^= lz4Stored
		if int(size) > blockMax {
			return nil, errors.New("block larger than the frame allows")
		}
		if int(size)+trailer > len(src) {
			return nil, errLZ4Short
		}
		if err := d.lz4Block(src[:size], stored, flags&lz4Independent == 0, frame, blockMax); err != nil {
			return nil, err
		}
		src = src[int(size)+trailer:]
	}
	if flags&lz4EndChecksum != 0 {
		if len(src) < 4 {
			return nil, errLZ4Short
		}
		src = src[4:]
	}
	return src, nil
}

// lz4Block appends a block's contents to d.buf. A linked block refers to what the frame, which began at d.buf[frame:], has
// given so far.
func (d *decompressor) lz4Block(block []byte, stored, linked bool, frame, blockMax int) error {
	n := len(d.buf)
	// A compressed byte yields at most 255: no need for a whole block's room to find that a small one is small.
	room := blockMax
	if stored {
		room = len(block)
	} else if len(block) < blockMax/256 {
		room = 256 * len(block)
	}
	if err := d.reserve(n, room); err != nil {
		return err
	}
	into := d.buf[n : n+room]
	var m int
	var err error
	switch {
	case stored:
		m = copy(into, block)
	case linked && n > frame:
		m, err = lz4.UncompressBlockWithDict(block, into, d.buf[max(frame, n-lz4History):n])
	default:
		m, err = lz4.UncompressBlock(block, into)
	}
	if err != nil {
		return errors.New("bad block")
	}
	if n+m > d.limit {
		return errLimit
	}
	d.buf = d.buf[:n+m]
	return nil
}
