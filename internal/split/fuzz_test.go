package split

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
)

// rawRecord is a record as far as splitting is concerned: its bytes, key and offset.
type rawRecord struct {
	offset int64
	null   bool
	key    []byte
	bytes  []byte
}

// rawRecords reads uncompressed records of magic 2 in the dumbest way; nil if they do not parse.
func rawRecords(base int64, count int32, recs []byte) (rs []rawRecord) {
	next := func(b *[]byte) int64 {
		v, n := binary.Varint(*b)
		*b = (*b)[max(n, 0):]
		return v
	}
	for range count {
		rest := recs
		length := next(&rest)
		if length < 1 || length > int64(len(rest)) {
			return nil
		}
		end := len(recs) - len(rest) + int(length)
		rest = rest[1:length]
		next(&rest)
		delta := next(&rest)
		n := int(next(&rest))
		if n > len(rest) {
			return nil
		}
		r := rawRecord{offset: base + delta, null: n < 0, bytes: recs[:end]}
		if n >= 0 {
			r.key = rest[:n]
		}
		rs = append(rs, r)
		recs = recs[end:]
	}
	return rs
}

// FuzzSplit: whatever the input, Split does not panic and stays within its limits; and when it gives a block, the pieces
// are batches with the right CRC, their records are in the right slices and in order, and together they are the
// input's, byte for byte.
func FuzzSplit(f *testing.F) {
	rs := someRecords(12, 100)
	rs[3].Key, rs[4].Key = nil, []byte{}
	for _, codec := range []Codec{None, Gzip, Snappy, LZ4, Zstd} {
		b := testBatch{base: 100, last: 111, baseTime: 1e12, maxTime: 1e12 + 50, producerID: 5, attributes: int16(codec) | attrTransactional, records: rs}
		f.Add(b.encode(), int64(100), uint16(3), uint8(2), int64(5))
		f.Add(append(b.encode(), oldSet(1, min(codec, LZ4), someRecords(5, 200))...), int64(0), uint16(0), uint8(4), int64(-1))
		f.Add(oldSet(0, min(codec, Snappy), someRecords(5, 10)), int64(12), uint16(0), uint8(8), int64(-1))
	}
	marker := testBatch{base: 112, last: 112, producerID: 5, attributes: attrTransactional | attrControl, records: []testRecord{{112, 0, []byte{0, 0, 0, 0}, nil}}}
	f.Add(marker.encode(), int64(100), uint16(3), uint8(2), int64(5))
	f.Add(testBatch{last: 40, compressWith: linkedLZ4, attributes: int16(LZ4), records: someRecords(40, 0)}.encode(), int64(0), uint16(0), uint8(1), int64(0))
	const limit = 1 << 20
	s := New(Config{MaxBatchBytes: limit, MaxBlockBytes: limit}) // one for all inputs: nothing may be left from one to the next
	check := decompressor{limit: limit}
	f.Fuzz(func(t *testing.T, raw []byte, from int64, base uint16, logK uint8, producer int64) {
		if from < 0 || len(raw) > limit {
			return
		}
		before := bytes.Clone(raw)
		fixCRCs(before)
		raw = bytes.Clone(before)
		sl := Slicing{Base: int32(base) + 1, K: 1 << (logK % 9)}
		b, err := s.Split(raw, from, sl, false, nil)
		if !bytes.Equal(raw, before) {
			t.Fatal("the input has changed")
		}
		if err != nil {
			return
		}
		if b.Used > len(raw) || b.Start > b.End || b.Start > from || len(b.Slices) != int(sl.K) {
			t.Fatalf("%+v", b)
		}
		pieces := 0
		got := map[int64][]byte{}
		for slice, ps := range b.Slices {
			last := int64(-1)
			for _, p := range ps {
				pieces++
				h, err := parseHeader(p.Data)
				if err != nil {
					t.Fatalf("piece: %v", err)
				}
				if size, ok := entrySize(p.Data); !ok || size != len(p.Data) {
					t.Fatalf("piece of %d bytes says %d", len(p.Data), size)
				}
				rs := rawRecords(h.base, h.count, p.Data[headerSize:])
				if len(rs) == 0 || rs[0].offset != p.First || rs[len(rs)-1].offset != p.Last || h.last() != p.Last || p.First < b.Start || p.Last >= b.End {
					t.Fatalf("piece [%d, %d] with %d records in block [%d, %d)", p.First, p.Last, len(rs), b.Start, b.End)
				}
				total := 0
				for _, r := range rs {
					want := int(keyrange.Hash(r.key)/uint32(sl.Base)) % int(sl.K)
					if r.null {
						want = int(r.offset % int64(sl.K))
					}
					if r.offset <= last || want != slice || got[r.offset] != nil {
						t.Fatalf("record %d after %d in slice %d, want slice %d", r.offset, last, slice, want)
					}
					last = r.offset
					got[r.offset] = r.bytes
					total += len(r.bytes)
				}
				if total != len(p.Data)-headerSize {
					t.Fatal("bytes after the last record of a piece")
				}
				again, err := New(Config{}).Split(p.Data, p.First, Slicing{Base: sl.Base, K: 1}, true, nil)
				if err != nil || len(again.Slices[0]) != 1 || !bytes.Equal(again.Slices[0][0].Data, p.Data) {
					t.Fatalf("splitting a piece by 1 changes it: %v", err)
				}
				middle := rs[len(rs)/2].offset
				if trimmed, ok := Trim(p, middle); !ok || trimmed.First != middle || trimmed.Last != p.Last ||
					crc32.Checksum(trimmed.Data[atAttributes:], castagnoli) != binary.BigEndian.Uint32(trimmed.Data[atCRC:]) {
					t.Fatalf("Trim: %+v, %v", trimmed, ok)
				}
			}
		}
		if most := 5*limit + 200*int(sl.K) + 100*pieces; b.Bytes > most {
			t.Fatalf("%d bytes held, %d at most", b.Bytes, most)
		}
		old := false
		for rest := raw[:b.Used]; len(rest) > 0; {
			size, _ := entrySize(rest)
			entry := rest[:size]
			rest = rest[size:]
			if entry[atMagic] != 2 {
				old = true
				continue
			}
			h, err := parseHeader(entry)
			if err != nil {
				t.Fatal(err)
			}
			if h.has(attrControl) || h.count == 0 {
				continue
			}
			recs, err := check.decompress(h.codec(), entry[headerSize:], 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rawRecords(h.base, h.count, recs) {
				if !bytes.Equal(got[r.offset], r.bytes) {
					t.Fatalf("record %d: %x, want %x", r.offset, got[r.offset], r.bytes)
				}
				delete(got, r.offset)
			}
		}
		if len(got) > 0 && !old {
			t.Fatalf("%d records from nowhere", len(got))
		}
		// With the producer's transaction aborted, the same but for its records.
		c, err := s.Split(raw, from, sl, true, []Aborted{{producer, from}})
		if err == nil && c.Used == b.Used && c.End != b.End {
			t.Fatalf("read committed ends at %d, else at %d", c.End, b.End)
		}
	})
}
