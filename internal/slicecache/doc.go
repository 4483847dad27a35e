// Package slicecache serves the slices of source partitions: it is the gateway's one reader of the sources.
//
// It owns what a view's Fetch and ListOffsets need to know about a source: the split blocks in memory, the loads from the
// cluster that fill them, the stretches known to hold no record of a slice, and each slice's own end.
//
// Every source partition has one reader per isolation level. A reader loads each stretch once, whoever asks: requests for
// the same offset share a load, and a load's raw answer is split for every slicing that waits for it. At the end of the
// source the load is a long poll that all waiting fetches share; it is renewed as long as somebody waits. A fetch
// whose slice has no record in what came is moved on to the next load without being woken.
//
// A key-range fetch asks for any key ranges instead of a slice of a view. The sets of key ranges that are asked for lie in layouts,
// disjoint ones together, and a block is split once for a layout (layout.go, layouts.go, pack.go).
//
// Memory. Config.MaxBytes bounds blocks, raw answers, layouts and loads in flight together; the least recently used go first.
// What was handed out is counted through a Lease, and when much of it lies on connections that do not read, answers get
// small instead of memory big.
//
// Lock order: partition.mu, then budget.mu. Cache.mu is never held together with another. No lock is held over
// I/O or splitting. Goroutines: one per load in flight, one per tail scan, one janitor; all end with Close.
package slicecache
