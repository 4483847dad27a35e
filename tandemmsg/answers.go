package tandemmsg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	committedRangeOffsets = "CommittedRangeOffsets"
	scannedOffset         = "ScannedOffset"
)

// KeyRangeOffsets are the offset ranges that are committed of one key range: sorted, disjoint, any number.
type KeyRangeOffsets struct {
	Keys    keyrange.Range
	Offsets []OffsetRange
}

// CommittedRangeOffsets returns what a group has committed of a partition above the plain offset of the answer, the stable
// offset: its key ranges are sorted and disjoint. How many there are is bounded by the size of the answer alone. Servers send
// it for topics that were asked for with KeyRanges, and beside it the KeyAxisBase of its key ranges.
func CommittedRangeOffsets[P OffsetFetchPartition](p P) ([]KeyRangeOffsets, error) {
	b, ok := find(tagsOf(p), TagCommittedRangeOffsets)
	if !ok {
		return nil, nil
	}
	return decodeCommitted(b)
}

// SetCommittedRangeOffsets sets what CommittedRangeOffsets returns; nothing removes it. It changes nothing if it is not valid.
func SetCommittedRangeOffsets[P OffsetFetchPartition](p P, committed []KeyRangeOffsets) error {
	size, before := 5, int64(-1)
	for i, c := range committed {
		if err := checkPair(int64(c.Keys.First), int64(c.Keys.Last), before, maxPosition); err != nil {
			return at(committedRangeOffsets, i, within("key range", err))
		}
		if err := checkOffsetRanges("Offsets", c.Offsets); err != nil {
			return at(committedRangeOffsets, i, err)
		}
		before = int64(c.Keys.Last)
		size += pairSize + 5 + len(c.Offsets)*pairSize
	}
	var b []byte
	if len(committed) > 0 {
		b = appendLen(make([]byte, 0, size), len(committed))
		for _, c := range committed {
			b = appendOffsetRanges(appendPair(b, int64(c.Keys.First), int64(c.Keys.Last)), c.Offsets)
		}
	}
	replace(tagsOf(p), TagCommittedRangeOffsets, b)
	return nil
}

func decodeCommitted(b []byte) ([]KeyRangeOffsets, error) {
	const least = pairSize + 1 // of a key range without offset ranges
	n, b, err := readLen(b, least)
	if err != nil {
		return nil, within(committedRangeOffsets, err)
	}
	if n == 0 && len(b) == 0 {
		return nil, nil
	}
	committed := make([]KeyRangeOffsets, n)
	all := make([]OffsetRange, 0, (len(b)-n*least)/pairSize) // what the bytes have room for: the lists below share it
	before := int64(-1)
	for i := range committed {
		if len(b) < least {
			return nil, at(committedRangeOffsets, i, fmt.Errorf("%d bytes are left, a key range takes %d at least", len(b), least))
		}
		first, last := pair(b)
		if err := checkPair(first, last, before, maxPosition); err != nil {
			return nil, at(committedRangeOffsets, i, within("key range", err))
		}
		before = last
		m, rest, err := readLen(b[pairSize:], pairSize)
		if err != nil {
			return nil, at(committedRangeOffsets, i, within("Offsets", err))
		}
		from := len(all)
		if all, err = appendDecoded(all, "Offsets", rest[:m*pairSize]); err != nil {
			return nil, at(committedRangeOffsets, i, err)
		}
		b = rest[m*pairSize:]
		committed[i] = KeyRangeOffsets{keyrange.Range{First: uint32(first), Last: uint32(last)}, all[from:len(all):len(all)]}
	}
	if len(b) > 0 {
		return nil, within(committedRangeOffsets, fmt.Errorf("%d bytes follow its array of %d key ranges", len(b), n))
	}
	return committed, nil
}

// ScannedOffset returns up to where a partition was looked through for the key ranges of a Fetch: from the last record of the
// answer, or else from the fetch offset, up to below it there is no record of theirs. The next fetch may begin there. -1: unknown.
func ScannedOffset(p *kmsg.FetchResponseTopicPartition) (int64, error) {
	b, ok := find(&p.UnknownTags, TagScannedOffset)
	if !ok {
		return -1, nil
	}
	if len(b) != 8 {
		return -1, within(scannedOffset, fmt.Errorf("%d bytes, an int64 has 8", len(b)))
	}
	offset := binary.BigEndian.Uint64(b)
	if offset > math.MaxInt64 && int64(offset) != -1 {
		return -1, within(scannedOffset, errors.New("it is negative"))
	}
	return int64(offset), nil
}

// SetScannedOffset sets what ScannedOffset returns; -1 removes it. Other negative numbers are an error and change nothing.
func SetScannedOffset(p *kmsg.FetchResponseTopicPartition, offset int64) error {
	if offset < -1 {
		return within(scannedOffset, fmt.Errorf("%d is negative", offset))
	}
	var b []byte
	if offset >= 0 {
		b = binary.BigEndian.AppendUint64(nil, uint64(offset))
	}
	replace(&p.UnknownTags, TagScannedOffset, b)
	return nil
}
