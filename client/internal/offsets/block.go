package offsets

import (
	"math/bits"
	"slices"
)

const (
	blockBits = 12
	blockSize = 1 << blockBits // offsets that a block stands for
	words     = blockSize / 64
	toBitmap  = 64 // a sorted list longer than this becomes a bitmap
	toList    = 24 // a bitmap with fewer becomes a list again; far below toBitmap, so that blocks do not go back and forth
)

type bitmap [words]uint64

// block holds the offsets id*blockSize to (id+1)*blockSize-1 of a set, as a bitmap or, when few, as a sorted list of their low bits.
type block struct {
	id   int64
	n    int
	bits *bitmap // nil: list counts
	list []uint16
}

func (b *block) has(low uint16) bool {
	if b.bits != nil {
		return b.bits[low/64]>>(low%64)&1 != 0
	}
	_, ok := slices.BinarySearch(b.list, low)
	return ok
}

func (b *block) add(low uint16, pool *bitmaps) bool {
	if b.bits == nil && len(b.list) < toBitmap {
		i := len(b.list)
		if i > 0 && b.list[i-1] >= low {
			var ok bool
			if i, ok = slices.BinarySearch(b.list, low); ok {
				return false
			}
		}
		b.list = slices.Insert(b.list, i, low)
		b.n++
		return true
	}
	if b.bits == nil {
		b.bits = pool.get()
		for _, l := range b.list {
			b.bits[l/64] |= 1 << (l % 64)
		}
		b.list = b.list[:0]
	}
	word, bit := &b.bits[low/64], uint64(1)<<(low%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	b.n++
	return true
}

func (b *block) remove(low uint16, pool *bitmaps) bool {
	if b.bits == nil {
		i, ok := slices.BinarySearch(b.list, low)
		if ok {
			b.list = slices.Delete(b.list, i, i+1)
			b.n--
		}
		return ok
	}
	word, bit := &b.bits[low/64], uint64(1)<<(low%64)
	if *word&bit == 0 {
		return false
	}
	*word &^= bit
	if b.n--; b.n < toList {
		b.shrink(pool)
	}
	return true
}

// shrink makes the bitmap a list again.
func (b *block) shrink(pool *bitmaps) {
	list := make([]uint16, 0, toList) // a list that grew up to toBitmap would keep its memory
	for i, w := range b.bits {
		for ; w != 0; w &= w - 1 {
			list = append(list, uint16(i*64+bits.TrailingZeros64(w)))
		}
	}
	pool.put(b.bits)
	b.bits, b.list = nil, list
}

// next is the first at or after low; false if there is none.
func (b *block) next(low uint16) (uint16, bool) {
	if b.bits == nil {
		i, _ := slices.BinarySearch(b.list, low)
		if i == len(b.list) {
			return 0, false
		}
		return b.list[i], true
	}
	i := int(low / 64)
	w := b.bits[i] >> (low % 64) << (low % 64)
	for w == 0 {
		if i++; i == words {
			return 0, false
		}
		w = b.bits[i]
	}
	return uint16(i*64 + bits.TrailingZeros64(w)), true
}

// prev is the last at or before low; false if there is none.
func (b *block) prev(low uint16) (uint16, bool) {
	if b.bits == nil {
		i, ok := slices.BinarySearch(b.list, low)
		if !ok {
			i--
		}
		if i < 0 {
			return 0, false
		}
		return b.list[i], true
	}
	i := int(low / 64)
	w := b.bits[i] << (63 - low%64) >> (63 - low%64)
	for w == 0 {
		if i--; i < 0 {
			return 0, false
		}
		w = b.bits[i]
	}
	return uint16(i*64 + 63 - bits.LeadingZeros64(w)), true
}

// bitmaps keeps a few cleared bitmaps: at full speed a set lives in its last blocks, and each would allocate.
type bitmaps []*bitmap

func (p *bitmaps) get() *bitmap {
	if n := len(*p); n > 0 {
		b := (*p)[n-1]
		*p = (*p)[:n-1]
		return b
	}
	return new(bitmap)
}

func (p *bitmaps) put(b *bitmap) {
	if b != nil && len(*p) < 4 {
		clear(b[:])
		*p = append(*p, b)
	}
}
