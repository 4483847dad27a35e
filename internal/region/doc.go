// Package region owns the committed region of one group, source partition and era: which offsets are done at which key
// positions, what is read next, and which records the fact log holds of it and should.
//
// The region lies in the plane key position × offset. Below the stable offset everything is done; above it facts are, which
// are rectangles of the plane. Facts only add: what counts is their union, not their order nor how often they are told.
//
// # Lanes
//
// The facts of one key range make a lane: a sorted list of offset ranges, 16 bytes each. Lanes of different key ranges may
// overlap; where they do, they are read together and nothing is copied, so that a million offset ranges stay a million
// when members come and go and the key axis is cut anew. There are two planes of lanes: the records of the fact log, which are also the index
// of what can be deleted there, and what is done without a record (told by Add, or by a record that was deleted).
//
// # Strips
//
// The key axis is cut into strips, the longest key ranges that are done up to the same offset, their low. Lows are kept up to date
// with each fact, so that what has been walked over once is never walked again. Strips that come to the same low are one again: at the
// latest when the stable offset passes them.
//
// # Amending
//
// A record is merged with those of its own key range only. A record goes when a single one that is durable covers it, or when it lies below
// the stable offset. Covering by a single record is an order without circles, so gateways that delete at the same time
// never leave a gap; several records that cover one together would allow it.
//
// The package is pure. A Region is not safe for concurrent use, reading included.
package region
