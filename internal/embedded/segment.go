package embedded

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	batchHeaderSize = 61 // of a magic-2 record batch
	attrControl     = 0x20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batchHeader is what the engine reads of a record batch.
type batchHeader struct {
	first, last   int64 // offsets
	size          int64 // bytes in the file
	maxTimestamp  int64 // milliseconds
	producerID    int64 // -1: neither idempotent nor transactional
	producerEpoch int16
	firstSequence int32
	records       int32
	control       bool
}

func segmentName(base int64) string { return strconv.FormatInt(base, 10) + ".dat" }

// logSegments returns the base offsets of a partition's segments, in order; a
// partition without a folder has none.
func logSegments(dir string) ([]int64, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var bases []int64
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".dat")
		if base, err := strconv.ParseInt(name, 10, 64); ok && err == nil {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	return bases, nil
}

// scanLog calls fn for the batches of a partition until it returns false or
// the log ends. With whole it reads the batches and stops at one that is
// damaged, as kfake does when it loads the log; without it reads headers only.
// Segments that are removed meanwhile are left out.
func scanLog(dir string, whole bool, fn func(batchHeader) bool) error {
	bases, err := logSegments(dir)
	if err != nil {
		return err
	}
	for _, base := range bases {
		f, err := os.Open(filepath.Join(dir, segmentName(base)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		more, err := scanSegment(f, whole, fn)
		f.Close()
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func scanSegment(r io.Reader, whole bool, fn func(batchHeader) bool) (more bool, err error) {
	br := bufio.NewReaderSize(r, 256<<10)
	var head [batchHeaderSize]byte
	var body []byte
	for {
		if _, err := io.ReadFull(br, head[:]); err != nil {
			return true, endOfSegment(err)
		}
		b, ok := parseHeader(head[:])
		if !ok {
			return true, nil
		}
		rest := int(b.size) - batchHeaderSize
		if whole {
			body = slices.Grow(body[:0], rest)[:rest]
			if _, err := io.ReadFull(br, body); err != nil {
				return true, endOfSegment(err)
			}
			sum := crc32.Update(crc32.Checksum(head[21:], castagnoli), castagnoli, body)
			if sum != binary.BigEndian.Uint32(head[17:]) {
				return true, nil
			}
		} else if _, err := br.Discard(rest); err != nil {
			return true, endOfSegment(err)
		}
		if !fn(b) {
			return false, nil
		}
	}
}

// endOfSegment: a batch that is cut short is where the segment ends.
func endOfSegment(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

func parseHeader(h []byte) (batchHeader, bool) {
	length := int32(binary.BigEndian.Uint32(h[8:]))
	if h[16] != 2 || length < batchHeaderSize-12 || length > 1<<30 {
		return batchHeader{}, false
	}
	first := int64(binary.BigEndian.Uint64(h))
	return batchHeader{
		first:         first,
		last:          first + int64(int32(binary.BigEndian.Uint32(h[23:]))),
		size:          12 + int64(length),
		control:       binary.BigEndian.Uint16(h[21:])&attrControl != 0,
		maxTimestamp:  int64(binary.BigEndian.Uint64(h[35:])),
		producerID:    int64(binary.BigEndian.Uint64(h[43:])),
		producerEpoch: int16(binary.BigEndian.Uint16(h[51:])),
		firstSequence: int32(binary.BigEndian.Uint32(h[53:])),
		records:       int32(binary.BigEndian.Uint32(h[57:])),
	}, true
}
