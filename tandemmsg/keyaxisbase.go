package tandemmsg

import (
	"encoding/binary"
	"fmt"
)

const keyAxisBase = "KeyAxisBase"

// KeyAxisBase returns the base, 1 to 2^31-1, that the positions of the KeyRanges beside it are worked out with (package
// keyrange); in an OffsetFetch answer, of CommittedRangeOffsets. 0: none is given, which means the topic's partition count at
// that moment, except that a Fetch partition without a base has that of its request.
func KeyAxisBase[T HasKeyAxisBase](of T) (int32, error) {
	b, ok := find(tagsOf(of), TagKeyAxisBase)
	if !ok {
		return 0, nil
	}
	if len(b) != 4 {
		return 0, within(keyAxisBase, fmt.Errorf("%d bytes, an int32 has 4", len(b)))
	}
	base := int32(binary.BigEndian.Uint32(b))
	if err := checkBase(keyAxisBase, base); err != nil {
		return 0, err
	}
	return base, nil
}

// SetKeyAxisBase sets what KeyAxisBase returns; 0 removes it. Negative numbers are an error and change nothing.
func SetKeyAxisBase[T HasKeyAxisBase](of T, base int32) error {
	if err := checkBase(keyAxisBase, base); err != nil {
		return err
	}
	replace(tagsOf(of), TagKeyAxisBase, encodeBase(base))
	return nil
}

func encodeBase(base int32) []byte {
	if base == 0 {
		return nil
	}
	return binary.BigEndian.AppendUint32(nil, uint32(base))
}

func checkBase(field string, base int32) error {
	if base < 0 {
		return within(field, fmt.Errorf("%d is negative", base))
	}
	return nil
}
