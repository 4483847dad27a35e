package view

import (
	"math"

	"github.com/tandem-kafka/tandem/keyrange"
)

// The mapping. A virtual partition never changes its meaning: clients keep their positions, so one that meant other
// records after a growth of the source would lose some silently. New source partitions get new virtual ones at the end.
//
//	p <  Base:  v = p + Base*s          (with Kafka's default partitioner, v = hash mod V)
//	p >= Base:  v = Base*K + (p-Base)*K + s

// Partition is the virtual partition that shows slice s, in [0, K), of source partition p >= 0.
func (d Definition) Partition(p, s int32) int32 {
	if p < d.Base {
		return p + d.Base*s
	}
	return p*d.K + s // = Base*K + (p-Base)*K + s
}

// Locate is the reverse of Partition: the source partition and slice that virtual partition v shows. It is false for
// a negative v only: the caller knows how many partitions the source has.
func (d Definition) Locate(v int32) (p, s int32, ok bool) {
	switch {
	case v < 0:
		return 0, 0, false
	case v < d.Partitions:
		return v % d.Base, v / d.Base, true
	default:
		return v / d.K, v % d.K, true
	}
}

// PartitionsFor is how many virtual partitions the view has when its source has sourcePartitions; never less than when
// it was made. It stays at the largest int32 where the number would not fit.
func (d Definition) PartitionsFor(sourcePartitions int32) int32 {
	n := int64(max(sourcePartitions, d.Base)) * int64(d.K)
	return int32(min(n, math.MaxInt32))
}

// VirtualPartition is where the view shows a record of source partition p; a nil key is a null key.
func (d Definition) VirtualPartition(key []byte, offset int64, p int32) int32 {
	return d.Partition(p, keyrange.SliceOf(d.KeyPosition(key, offset), d.K))
}

// KeyPosition is where a record lies on the key axis of the view's source; a nil key is a null key.
func (d Definition) KeyPosition(key []byte, offset int64) uint32 {
	if key == nil {
		return keyrange.NullPosition(offset)
	}
	return keyrange.Position(key, d.Base)
}

// KeyRange is the key range of slice s, in [0, K).
func (d Definition) KeyRange(s int32) keyrange.Range { return keyrange.OfSlice(s, d.K) }
