// Package split turns the raw record batches of a source partition into record batches that hold one slice of it each.
//
// It owns the parsing of record batches (magic 2, and the message sets of magic 0 and 1), decompression, the hashing of
// keys to slices and the writing of the batches a view's consumers get. It is pure: bytes in, bytes out; no goroutine,
// lock, clock or socket. Who fetches the bytes, caches the blocks and knows ends and scan positions is slicecache.
//
// A piece repeats the source's records byte for byte. It can, because it keeps the base offset and base timestamp
// of its source batch, which the varint deltas in the records refer to.
package split
