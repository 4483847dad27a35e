package offsets

import (
	"cmp"
	"slices"
)

// Set is a set of offsets, all >= 0. The zero Set is empty.
type Set struct {
	blocks []*block // not empty ones, by id
	n      int
	hint   int // of the block that was found last
	pool   bitmaps
}

// Len is how many offsets are in the set.
func (s *Set) Len() int { return s.n }

// search is the index of the first block at or after id.
func (s *Set) search(id int64) int {
	if s.hint < len(s.blocks) && s.blocks[s.hint].id == id {
		return s.hint
	}
	n := len(s.blocks)
	if n == 0 || s.blocks[n-1].id < id {
		return n
	}
	i, _ := slices.BinarySearchFunc(s.blocks, id, func(b *block, id int64) int { return cmp.Compare(b.id, id) })
	s.hint = i
	return i
}

// find is the block that holds the offsets of id, nil if none is in the set.
func (s *Set) find(id int64) *block {
	if i := s.search(id); i < len(s.blocks) && s.blocks[i].id == id {
		return s.blocks[i]
	}
	return nil
}

// Has reports whether offset is in the set.
func (s *Set) Has(offset int64) bool {
	b := s.find(offset >> blockBits)
	return b != nil && b.has(uint16(offset&(blockSize-1)))
}

// Add adds offset, and reports whether it was not in the set. It costs least in rising order.
func (s *Set) Add(offset int64) bool {
	id := offset >> blockBits
	i := s.search(id)
	if i == len(s.blocks) || s.blocks[i].id != id {
		s.blocks = slices.Insert(s.blocks, i, &block{id: id})
		s.hint = i
	}
	if !s.blocks[i].add(uint16(offset&(blockSize-1)), &s.pool) {
		return false
	}
	s.n++
	return true
}

// Remove removes offset, and reports whether it was in the set.
func (s *Set) Remove(offset int64) bool {
	id := offset >> blockBits
	i := s.search(id)
	if i == len(s.blocks) || s.blocks[i].id != id {
		return false
	}
	b := s.blocks[i]
	if !b.remove(uint16(offset&(blockSize-1)), &s.pool) {
		return false
	}
	s.n--
	if b.n == 0 {
		s.drop(i, i+1)
	}
	return true
}

// drop takes the blocks i to j-1 out.
func (s *Set) drop(i, j int) {
	for _, b := range s.blocks[i:j] {
		s.pool.put(b.bits)
	}
	if i == 0 { // the usual case: the oldest go, and nothing has to be moved
		clear(s.blocks[:j])
		s.blocks = s.blocks[j:]
	} else {
		s.blocks = slices.Delete(s.blocks, i, j)
	}
	s.hint = max(0, min(i, len(s.blocks)-1))
}

// RemoveRange removes all offsets from first to last, both inclusive.
func (s *Set) RemoveRange(first, last int64) {
	if last < first {
		return
	}
	i := s.search(first >> blockBits)
	j := i
	for ; j < len(s.blocks) && s.blocks[j].id <= last>>blockBits; j++ {
		b := s.blocks[j]
		base := b.id << blockBits
		if first <= base && base+blockSize-1 <= last {
			s.n -= b.n
			b.n = 0
			continue
		}
		low, high := uint16(max(first-base, 0)), uint16(min(last-base, blockSize-1))
		for l, ok := b.next(low); ok && l <= high; l, ok = b.next(low) {
			b.remove(l, &s.pool)
			s.n--
			if low = l + 1; low == blockSize {
				break
			}
		}
	}
	// Only the first and the last of them can have something left.
	if i < j && s.blocks[i].n > 0 {
		i++
	}
	if i < j && s.blocks[j-1].n > 0 {
		j--
	}
	if i < j {
		s.drop(i, j)
	}
}

// Min is the lowest offset; false if the set is empty.
func (s *Set) Min() (int64, bool) {
	if s.n == 0 {
		return 0, false
	}
	return s.Next(s.blocks[0].id << blockBits)
}

// Next is the lowest offset at or after offset; false if there is none.
func (s *Set) Next(offset int64) (int64, bool) {
	id := offset >> blockBits
	i := s.search(id)
	if i < len(s.blocks) && s.blocks[i].id == id {
		if low, ok := s.blocks[i].next(uint16(offset & (blockSize - 1))); ok {
			return id<<blockBits | int64(low), true
		}
		i++
	}
	if i == len(s.blocks) {
		return 0, false
	}
	low, _ := s.blocks[i].next(0)
	return s.blocks[i].id<<blockBits | int64(low), true
}

// Prev is the highest offset at or before offset; false if there is none.
func (s *Set) Prev(offset int64) (int64, bool) {
	id := offset >> blockBits
	i := s.search(id)
	if i < len(s.blocks) && s.blocks[i].id == id {
		if low, ok := s.blocks[i].prev(uint16(offset & (blockSize - 1))); ok {
			return id<<blockBits | int64(low), true
		}
	}
	if i == 0 {
		return 0, false
	}
	low, _ := s.blocks[i-1].prev(blockSize - 1)
	return s.blocks[i-1].id<<blockBits | int64(low), true
}

// Clone is a copy that shares nothing with s.
func (s *Set) Clone() Set {
	c := Set{blocks: make([]*block, len(s.blocks)), n: s.n}
	for i, b := range s.blocks {
		d := &block{id: b.id, n: b.n, list: slices.Clone(b.list)}
		if b.bits != nil {
			d.bits = new(*b.bits)
		}
		c.blocks[i] = d
	}
	return c
}
