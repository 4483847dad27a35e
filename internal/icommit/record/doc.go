// Package record owns the form of the records in the topic of individual commits: a fact and the place it holds for in,
// bytes out, and back. It also knows which partition of the topic a group's records are in.
//
// # Form
//
// Integers of fixed size are big-endian; a uvarint has 7 bits a byte, the lowest first, as few bytes as it needs; a name is
// its length in bytes as a uvarint, then UTF-8. A fact's key says all of it, so that the topic's compaction keeps one record of it, and
// a null value deletes that fact and no other. The era is part of it: who deletes, late, what is left of an era that is over must not
// meet the same fact of the next one.
//
//	key:   version int16 = 0
//	       group name
//	       topic name
//	       partition uvarint          0 to 2^31-1
//	       base uvarint               0 to 2^31-1; 0 only with the whole key axis
//	       era uvarint                0 to 2^63-1
//	       key range uint32, uint32   first and last key position, inclusive
//	       first uvarint              the first offset, 0 to 2^63-2
//	       span uvarint               last offset - first offset
//	value: version int16 = 0
//	       topic id 16 bytes
//
// A Handout, of a cooperative fetch (package acquire), has a key of version 1. Each has a key of its own.
//
//	key:   version int16 = 1
//	       group name
//	       topic name
//	       partition uvarint          0 to 2^31-1
//	       era uvarint                0 to 2^63-1
//	       kind uint8                 0 an acquisition, 1 a session
//	       id uint64
//	       first uvarint              acquisitions: the first offset, 0 to 2^63-2
//	       span uvarint               acquisitions: last offset - first offset
//	value: version int16 = 0
//	       topic id 16 bytes
//	       member name                empty in an acquisition: given back
//	       session timeout uvarint    ms
//	       attempt uvarint            acquisitions
//	       over                       acquisitions: their number as a uvarint, and of each a member's name and a position as a uvarint
//
// There is one encoding of each record and nothing may follow it: everything else is damaged. With a group and a topic of 15
// letters each a record is about 70 bytes.
//
// Versions up to 99 are kept for later releases. What has one is none of this release's business: it is skipped, and
// not deleted. A later value version for the same key would be replaced by this release's; a new meaning takes a new key version.
//
// The package is pure.
package record
