package tandemmsg

import "strconv"

const offsetRanges = "OffsetRanges"

// OffsetRange is the offsets First to Last of a partition, both inclusive, 0 <= First <= Last <= MaxOffset.
type OffsetRange struct{ First, Last int64 }

func (r OffsetRange) String() string {
	return strconv.FormatInt(r.First, 10) + "-" + strconv.FormatInt(r.Last, 10)
}

// OffsetRanges returns the offset ranges that a partition commits individually: at most MaxOffsetRanges, sorted, disjoint.
// None: its plain offset counts. ReadCommit also looks at what has to go with them.
func OffsetRanges[P CommitPartition](p P) ([]OffsetRange, error) {
	b, ok := find(tagsOf(p), TagOffsetRanges)
	if !ok {
		return nil, nil
	}
	return decodeOffsetRanges(b)
}

// SetOffsetRanges sets what OffsetRanges returns; no ranges remove it. It changes nothing if they are not valid. The plain
// offset, which has to be -1, is the caller's; WriteCommit sets both.
func SetOffsetRanges[P CommitPartition](p P, ranges []OffsetRange) error {
	if err := checkCommitRanges(offsetRanges, ranges); err != nil {
		return err
	}
	replace(tagsOf(p), TagOffsetRanges, encodeOffsetRanges(ranges))
	return nil
}

func decodeOffsetRanges(b []byte) ([]OffsetRange, error) {
	b, err := readPairs(b, MaxOffsetRanges)
	if err != nil {
		return nil, within(offsetRanges, err)
	}
	if len(b) == 0 {
		return nil, nil
	}
	return appendDecoded(make([]OffsetRange, 0, len(b)/pairSize), offsetRanges, b)
}

// appendDecoded appends the offset ranges that b consists of.
func appendDecoded(dst []OffsetRange, list string, b []byte) ([]OffsetRange, error) {
	before := int64(-1)
	for i := range len(b) / pairSize {
		first, last := pair(b[i*pairSize:])
		if err := checkPair(first, last, before, MaxOffset); err != nil {
			return nil, at(list, i, err)
		}
		dst, before = append(dst, OffsetRange{first, last}), last
	}
	return dst, nil
}

func encodeOffsetRanges(ranges []OffsetRange) []byte {
	if len(ranges) == 0 {
		return nil
	}
	return appendOffsetRanges(make([]byte, 0, 3+len(ranges)*pairSize), ranges)
}

func appendOffsetRanges(b []byte, ranges []OffsetRange) []byte {
	b = appendLen(b, len(ranges))
	for _, r := range ranges {
		b = appendPair(b, r.First, r.Last)
	}
	return b
}

func checkCommitRanges(list string, ranges []OffsetRange) error {
	if len(ranges) > MaxOffsetRanges {
		return within(list, tooMany(len(ranges), MaxOffsetRanges))
	}
	return checkOffsetRanges(list, ranges)
}

func checkOffsetRanges(list string, ranges []OffsetRange) error {
	before := int64(-1)
	for i, r := range ranges {
		if err := checkPair(r.First, r.Last, before, MaxOffset); err != nil {
			return at(list, i, err)
		}
		before = r.Last
	}
	return nil
}
