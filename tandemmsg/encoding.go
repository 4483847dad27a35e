package tandemmsg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

const pairSize = 16 // of a range: two int64

// pair reads the range that b begins with.
func pair(b []byte) (first, last int64) {
	return int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))
}

func appendPair(b []byte, first, last int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, uint64(first)), uint64(last))
}

// appendLen appends the length of a compact array.
func appendLen(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)+1) }

// readLen reads the length of a compact array whose elements take at least size bytes each, so that nobody allocates for
// elements that are not there. It may be padded, as writers do that fill in a length later.
func readLen(b []byte, size int) (n int, rest []byte, err error) {
	length, read := binary.Uvarint(b)
	switch {
	case read == 0:
		return 0, nil, errors.New("ends before the length of its array does")
	case read < 0 || read > binary.MaxVarintLen32 || length > math.MaxUint32:
		return 0, nil, errors.New("the length of its array is no unsigned varint of 32 bits")
	case length == 0:
		return 0, nil, errors.New("its array is null")
	}
	n, rest = int(length)-1, b[read:]
	if n > len(rest)/size {
		return 0, nil, fmt.Errorf("its array of %d elements would take %d bytes at least, there are %d", n, int64(n)*int64(size), len(rest))
	}
	return n, rest, nil
}

// readPairs reads the length of an array of ranges that takes up all of b, and returns the ranges' bytes.
func readPairs(b []byte, most int) ([]byte, error) {
	n, b, err := readLen(b, pairSize)
	if err != nil {
		return nil, err
	}
	if n > most {
		return nil, tooMany(n, most)
	}
	if extra := len(b) - n*pairSize; extra != 0 {
		return nil, fmt.Errorf("%d bytes follow its array of %d ranges", extra, n)
	}
	return b, nil
}

func tooMany(n, most int) error { return fmt.Errorf("%d ranges, at most %d are allowed", n, most) }

// checkPair returns what is wrong with a range that follows one that ends at before (-1: none), in a list whose numbers end at limit.
func checkPair(first, last, before, limit int64) error {
	switch {
	case before < first && first <= last && last <= limit:
		return nil
	case first < 0:
		return fmt.Errorf("%d-%d begins below 0", first, last)
	case first > last:
		return fmt.Errorf("%d-%d ends before it begins", first, last)
	case last > limit:
		return fmt.Errorf("%d-%d ends above %d", first, last, limit)
	default:
		return fmt.Errorf("%d-%d is not after the range before it, which ends at %d", first, last, before)
	}
}

// at says where in a list something is wrong.
func at(list string, i int, err error) error { return fmt.Errorf("%s[%d]: %v", list, i, err) }

func within(field string, err error) error { return fmt.Errorf("%s: %v", field, err) }
