package tandemmsg

import "github.com/tandem-kafka/tandem/keyrange"

const keyRanges = "KeyRanges"

// KeyRanges returns the key ranges that a struct is limited to: at most MaxKeyRanges, sorted, disjoint. None: the whole key
// axis, except that a Fetch partition without key ranges has those of its request, and that an OffsetFetch topic without them
// does not ask for CommittedRangeOffsets. What positions they are ranges of, KeyAxisBase says.
func KeyRanges[T HasKeyRanges](of T) (keyrange.Set, error) {
	b, ok := find(tagsOf(of), TagKeyRanges)
	if !ok {
		return nil, nil
	}
	return decodeKeyRanges(b)
}

// SetKeyRanges sets what KeyRanges returns; an empty set removes it. It changes nothing if the set is not valid.
func SetKeyRanges[T HasKeyRanges](of T, set keyrange.Set) error {
	if err := checkKeyRanges(keyRanges, set); err != nil {
		return err
	}
	replace(tagsOf(of), TagKeyRanges, encodeKeyRanges(set))
	return nil
}

func decodeKeyRanges(b []byte) (keyrange.Set, error) {
	b, err := readPairs(b, MaxKeyRanges)
	if err != nil {
		return nil, within(keyRanges, err)
	}
	if len(b) == 0 {
		return nil, nil
	}
	set, before := make(keyrange.Set, len(b)/pairSize), int64(-1)
	for i := range set {
		first, last := pair(b[i*pairSize:])
		if err := checkPair(first, last, before, maxPosition); err != nil {
			return nil, at(keyRanges, i, err)
		}
		set[i], before = keyrange.Range{First: uint32(first), Last: uint32(last)}, last
	}
	return set, nil
}

func encodeKeyRanges(set keyrange.Set) []byte {
	if len(set) == 0 {
		return nil
	}
	b := appendLen(make([]byte, 0, 3+len(set)*pairSize), len(set))
	for _, r := range set {
		b = appendPair(b, int64(r.First), int64(r.Last))
	}
	return b
}

func checkKeyRanges(list string, set keyrange.Set) error {
	if len(set) > MaxKeyRanges {
		return within(list, tooMany(len(set), MaxKeyRanges))
	}
	before := int64(-1)
	for i, r := range set {
		if err := checkPair(int64(r.First), int64(r.Last), before, maxPosition); err != nil {
			return at(list, i, err)
		}
		before = int64(r.Last)
	}
	return nil
}
