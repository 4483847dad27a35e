// Package keyrange places record keys on the key axis and calculates with ranges of it.
//
// The axis is [0, 2^32-1]. A key's position is the bit reversal of x = (murmur2(key) & 0x7fffffff) / base, with base the
// partition count that the keys were partitioned by. Because of the reversal, the slice "x mod K = s" for a
// power of two K is one contiguous key range, and doubling K splits each slice's key range in two.
package keyrange
