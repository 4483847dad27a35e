// Package tandemmsg reads and writes Tandem's additions to the Kafka protocol on the messages of franz-go's kmsg: key
// ranges, individual commits, cooperative fetch, and the features that say who understands them. docs/protocol.md describes them to the byte.
//
// The additions are KIP-482 tagged fields, which kmsg keeps in the UnknownTags of each struct. Only flexible versions carry
// tags: Fetch v12+, OffsetCommit v8+, TxnOffsetCommit v3+, OffsetFetch v6+, ApiVersions v3+ (kmsg.Request's IsFlexible tells).
// In an older version kmsg leaves tags out without a word; an OffsetCommit can then say the same in its metadata text.
//
//	KeyRanges              10000  Fetch request and its partitions, OffsetCommit and TxnOffsetCommit request partitions,
//	                              topics of an OffsetFetch request
//	OffsetRanges           10001  OffsetCommit and TxnOffsetCommit request partitions
//	CommittedRangeOffsets  10002  OffsetFetch response partitions
//	ScannedOffset          10003  Fetch response partitions
//	KeyAxisBase            10004  wherever KeyRanges or CommittedRangeOffsets may be
//
//	GroupId                10010  Fetch request: a cooperative fetch, see Cooperative
//	GenerationId           10011  Fetch request
//	MemberId               10012  Fetch request
//	SessionTimeout         10013  Fetch request
//	MaxRecords             10014  Fetch request
//	AcquiredRanges         10015  Fetch request and response partitions
//	Member                 10016  Fetch request: who fetches key ranges, see FetchMember
//
// A tag that is absent and one with an empty array or a base of 0 mean the same, as everywhere in Kafka, whose own encoders leave out a tagged
// field that has its default value. Setters therefore remove the tag when they are given nothing.
//
// An error of a getter means that the request is malformed; a server answers INVALID_REQUEST and changes nothing. It names the
// field and the index at fault. What getters return shares no memory with the message.
package tandemmsg

// The tags.
const (
	TagKeyRanges             uint32 = 10000
	TagOffsetRanges          uint32 = 10001
	TagCommittedRangeOffsets uint32 = 10002
	TagScannedOffset         uint32 = 10003
	TagKeyAxisBase           uint32 = 10004
	TagGroupID               uint32 = 10010
	TagGenerationID          uint32 = 10011
	TagMemberID              uint32 = 10012
	TagSessionTimeout        uint32 = 10013
	TagMaxRecords            uint32 = 10014
	TagAcquiredRanges        uint32 = 10015
	TagMember                uint32 = 10016
)

// The limits.
const (
	MaxKeyRanges    = 1024      // in one list of key ranges
	MaxOffsetRanges = 60_000    // in one OffsetCommit or TxnOffsetCommit request, all partitions together
	MaxFacts        = 200_000   // in one such request: key ranges x offset ranges of each partition, none of either counting as one
	MaxAcquired     = 60_000    // acquired ranges in one list
	MaxOffset       = 1<<63 - 2 // the last offset of an offset range, so that the offset after it is one too
)

// maxPosition is the end of the key axis (package keyrange).
const maxPosition = 1<<32 - 1
