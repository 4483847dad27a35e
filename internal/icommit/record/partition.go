package record

import "math"

// PartitionOf is the partition that holds a group's records, of so many (>= 1): Kafka's own rule for __consumer_offsets
// (GroupCoordinatorService.partitionFor), Utils.abs(group.hashCode()) mod partitions.
func PartitionOf(group string, partitions int32) int32 {
	h := hashCode(group)
	switch {
	case h == math.MinInt32: // it has no absolute value; Utils.abs makes it 0
		h = 0
	case h < 0:
		h = -h
	}
	return h % partitions
}

// hashCode is Java's String.hashCode: over UTF-16 code units, in int arithmetic. A byte that is no UTF-8 counts as U+FFFD.
func hashCode(s string) int32 {
	var h int32
	for _, r := range s {
		if r >= 0x10000 { // a surrogate pair
			r -= 0x10000
			h = 31*h + 0xd800 + r>>10
			r = 0xdc00 + r&0x3ff
		}
		h = 31*h + r
	}
	return h
}
