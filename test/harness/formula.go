package harness

import "encoding/binary"

// View returns where consumers see a record of a source with base partitions through a view with k slices for each: for use with
// Ledger.Check. The partition of a record without a key depends on its offset.
func View(base, k int32) func(Produced) (int32, bool) {
	return func(p Produced) (int32, bool) {
		x := p.Offset
		if p.Key != nil {
			x = int64(Murmur2(p.Key)&0x7fffffff) / int64(base)
		}
		s := int32(x % int64(k))
		if p.Partition >= base { // a partition that was added after the view was made
			return base*k + (p.Partition-base)*k + s, true
		}
		return p.Partition + base*s, true
	}
}

// Murmur2 is the hash of Kafka's default partitioner (Utils.murmur2), written apart from the project's own to judge it.
func Murmur2(key []byte) uint32 {
	const m = 0x5bd1e995
	h := 0x9747b28c ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := binary.LittleEndian.Uint32(key) * m
		h = h*m ^ (k^k>>24)*m
	}
	if len(key) > 0 {
		var rest [4]byte
		copy(rest[:], key)
		h = (h ^ binary.LittleEndian.Uint32(rest[:])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
