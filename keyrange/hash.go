package keyrange

import (
	"encoding/binary"
	"math/bits"
)

// Murmur2 is the hash of org.apache.kafka.common.utils.Utils.murmur2, with its seed; Java's int as uint32.
func Murmur2(key []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
	)
	h := uint32(seed) ^ uint32(len(key))
	for len(key) >= 4 {
		k := binary.LittleEndian.Uint32(key) * m
		k = (k ^ k>>24) * m
		h = h*m ^ k
		key = key[4:]
	}
	switch len(key) {
	case 3:
		h ^= uint32(key[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(key[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(key[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}

// Hash is the non-negative hash that Kafka's default partitioner takes modulo the partition count:
// Utils.toPositive(Utils.murmur2(key)).
func Hash(key []byte) uint32 { return Murmur2(key) & 0x7fffffff }

// Position is where a key lies on the key axis. base is the partition count the key was partitioned by, >= 1.
func Position(key []byte, base int32) uint32 { return PositionOfHash(Murmur2(key), base) }

// PositionOfHash is Position for who has the key's Murmur2 already.
func PositionOfHash(murmur2 uint32, base int32) uint32 {
	return bits.Reverse32(murmur2 & 0x7fffffff / uint32(base))
}

// NullPosition is where a record with a null key lies on the key axis: its offset decides.
func NullPosition(offset int64) uint32 { return bits.Reverse32(uint32(offset)) }

// SliceOf is the slice in [0, k) that a position belongs to. k is a power of two in [1, 2^31).
func SliceOf(position uint32, k int32) int32 {
	return int32(bits.Reverse32(position) & uint32(k-1))
}

// OfSlice is the key range of slice s of k. k is a power of two in [1, 2^31), s in [0, k).
func OfSlice(s, k int32) Range {
	width := uint32(1<<32/uint64(k) - 1) // last - first
	first := bits.Reverse32(uint32(s))
	return Range{First: first, Last: first + width}
}
