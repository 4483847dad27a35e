package split

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/tandem-kafka/tandem/keyrange"
)

// fixCRCs makes the CRCs of damaged input right, so that the damage gets past them.
func fixCRCs(raw []byte) {
	be := binary.BigEndian
	for len(raw) > 0 {
		size, complete := entrySize(raw)
		if !complete || size < atAttributes {
			return
		}
		if b := raw[:size]; b[atMagic] < 2 {
			be.PutUint32(b[oldCRC:], crc32.ChecksumIEEE(b[atMagic:]))
		} else {
			be.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], castagnoli))
		}
		raw = raw[size:]
	}
}

func TestDamageIsNamed(t *testing.T) {
	good := testBatch{base: 500, last: 502, baseTime: 1e12, maxTime: 1e12 + 9, records: someRecords(3, 500)}
	damaged := func(change func(b []byte)) []byte {
		b := good.encode()
		change(b)
		fixCRCs(b)
		return b
	}
	zeros := func(c Codec) testBatch {
		b := good
		b.attributes, b.records = int16(c), []testRecord{{500, 1e12, nil, make([]byte, 5<<20)}}
		return b
	}
	with := func(c Codec, data string) testBatch {
		b := good
		b.attributes = int16(c)
		b.compressWith = func(Codec, []byte) []byte { return []byte(data) }
		return b
	}
	for name, c := range map[string]struct {
		raw  []byte
		kind error
		want string
	}{
		"flipped bit":          {func() []byte { b := good.encode(); b[100] ^= 1; return b }(), ErrCorrupt, "CRC"},
		"short batch":          {func() []byte { b := good.encode(); b[11] = 20; b[10] = 0; return b }(), ErrCorrupt, "less than"},
		"negative length":      {func() []byte { b := good.encode(); b[8] = 0x80; return b }(), ErrCorrupt, "bytes"},
		"magic 3":              {damaged(func(b []byte) { b[atMagic] = 3 }), ErrUnsupported, "magic 3"},
		"negative magic":       {damaged(func(b []byte) { b[atMagic] = 0xff }), ErrUnsupported, "magic -1"},
		"codec 6":              {damaged(func(b []byte) { b[atAttributes+1] = 6 }), ErrUnsupported, "codec 6"},
		"negative last offset": {damaged(func(b []byte) { b[atLastOffsetDelta] = 0x80 }), ErrCorrupt, "last offset"},
		"negative count":       {damaged(func(b []byte) { b[atCount] = 0x80 }), ErrCorrupt, "records"},
		"too many records":     {damaged(func(b []byte) { b[atCount+3] = 4 }), ErrCorrupt, "record 3 of 4"},
		"too few records":      {damaged(func(b []byte) { b[atCount+3] = 2 }), ErrCorrupt, "after the last of 2"},
		"huge record":          {damaged(func(b []byte) { copy(b[headerSize:], "\xfe\xff\xff\xff\x0f") }), ErrCorrupt, "record 0 of 3"},
		"negative record":      {damaged(func(b []byte) { b[headerSize] = 1 }), ErrCorrupt, "record 0 of 3"},
		"delta beyond last":    {damaged(func(b []byte) { b[atLastOffsetDelta+3] = 1 }), ErrCorrupt, "offset delta 2"},
		"gzip junk":            {with(Gzip, "junk").encode(), ErrCorrupt, "gzip"},
		"snappy junk":          {with(Snappy, "\xff\xff\xff\xff\x0f").encode(), ErrCorrupt, "snappy"},
		"xerial cut off":       {with(Snappy, "\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x09").encode(), ErrCorrupt, "cut off"},
		"lz4 junk":             {with(LZ4, "junk").encode(), ErrCorrupt, "LZ4 frame"},
		"lz4 cut off":          {with(LZ4, string(pack(LZ4, make([]byte, 99))[:12])).encode(), ErrCorrupt, "cut off"},
		"zstd junk":            {with(Zstd, "junk").encode(), ErrCorrupt, "zstd"},
		"gzip bomb":            {zeros(Gzip).encode(), ErrTooLarge, "1048576"},
		"snappy bomb":          {zeros(Snappy).encode(), ErrTooLarge, "1048576"},
		"lz4 bomb":             {zeros(LZ4).encode(), ErrTooLarge, "1048576"},
		"zstd bomb":            {zeros(Zstd).encode(), ErrTooLarge, "1048576"},
		"large":                {zeros(None).encode(), ErrTooLarge, "1048576"},
		"old: bad CRC":         {func() []byte { b := oldMessage(1, 0, 500, 1, nil, nil); b[20] ^= 1; return b }(), ErrCorrupt, "CRC"},
		"old: value cut":       {func() []byte { b := oldMessage(0, 0, 500, 1, nil, nil); b[len(b)-1] = 9; fixCRCs(b); return b }(), ErrCorrupt, "parse"},
		"old: in itself":       {oldMessage(1, byte(Gzip), 500, 1, nil, pack(Gzip, oldMessage(1, byte(Gzip), 0, 1, nil, pack(Gzip, nil)))), ErrCorrupt, "codec 1"},
		"old: empty":           {oldMessage(1, byte(Gzip), 500, 1, nil, pack(Gzip, nil)), ErrCorrupt, "parse"},
		"old: no value":        {oldMessage(1, byte(Gzip), 500, 1, nil, nil), ErrCorrupt, "without a value"},
		"old: zstd":            {oldMessage(1, byte(Zstd), 500, 1, nil, []byte{1}), ErrUnsupported, "codec 4"},
		"old: mixed":           {oldMessage(1, byte(Gzip), 500, 1, nil, pack(Gzip, oldMessage(0, 0, 500, 1, nil, nil))), ErrCorrupt, "magic 0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Config{MaxBatchBytes: 1 << 20})
			b, err := s.Split(c.raw, 500, Slicing{Base: 1, K: 4}, true, nil)
			var e *Error
			if b != nil || !errors.Is(err, c.kind) || !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %v and %q in it", err, c.kind, c.want)
			}
			if name != "negative length" && e.Offset != 500 {
				t.Errorf("offset %d", e.Offset)
			}
			// Behind a good batch: first what is good, then the same error.
			before := testBatch{base: 400, last: 402, baseTime: 1e12, maxTime: 1e12 + 9, records: someRecords(3, 400)}.encode()
			b, err = s.Split(append(bytes.Clone(before), c.raw...), 400, Slicing{Base: 1, K: 4}, false, nil)
			if err != nil || b.Used != len(before) || b.End != 403 {
				t.Fatalf("behind a good batch: %+v, %v", b, err)
			}
		})
	}
}

func TestOffsetsThatGoBackAreRefused(t *testing.T) {
	one := testBatch{base: 500, last: 502, baseTime: 1e12, maxTime: 1e12, records: someRecords(3, 500)}.encode()
	old := oldMessage(1, 0, 502, 1, nil, nil)
	for _, raw := range [][]byte{append(bytes.Clone(one), one...), append(bytes.Clone(one), old...), append(bytes.Clone(old), old...)} {
		b, err := New(Config{}).Split(raw, 500, Slicing{Base: 1, K: 4}, false, nil)
		if err != nil || b.Used == len(raw) || b.End != 503 {
			t.Errorf("%+v, %v", b, err)
		}
	}
}

func TestSlicingIsChecked(t *testing.T) {
	l, err := NewLayout(make([]keyrange.Set, 3))
	if err != nil {
		t.Fatal(err)
	}
	for _, sl := range []Slicing{{0, 1, nil}, {-1, 1, nil}, {1, 0, nil}, {1, 3, nil}, {1, -4, nil}, {1, 2 * MaxK, nil}, {0, 3, l}, {1, 4, l}, {1, 2, l}} {
		if _, err := New(Config{}).Split(nil, 0, sl, false, nil); err == nil {
			t.Errorf("%+v", sl)
		}
	}
}

// A few bytes must not make the splitter take more memory than its limits, whatever sizes they claim.
func TestMemoryIsBounded(t *testing.T) {
	bombs := map[Codec]string{
		// A frame that says it holds 4 GiB, with a window of 1 GiB.
		Zstd: "\x28\xb5\x2f\xfd\x80\xa0\xff\xff\xff\xff\x01\x00\x00",
		// A bare block that says it holds 4 GiB.
		Snappy: "\xff\xff\xff\xff\x0f\x00\x00\x00\x00\x00\x00\x00",
		// A frame with 4 MiB blocks, one of them of one byte.
		LZ4: "\x04\x22\x4d\x18\x60\x70\x73\x01\x00\x00\x00\x00\x00\x00\x00\x00",
		// A member that says it holds 4 GiB.
		Gzip: "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x01\x00\x00\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff",
	}
	for codec, data := range bombs {
		b := testBatch{base: 1, last: 1, attributes: int16(codec), records: someRecords(1, 1), compressWith: func(Codec, []byte) []byte { return []byte(data) }}
		raw := b.encode()
		s := New(Config{MaxBatchBytes: 1 << 20})
		s.Split(raw, 0, Slicing{Base: 1, K: 1}, false, nil) // makes the decoder
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := s.Split(raw, 0, Slicing{Base: 1, K: 1}, false, nil)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; err == nil || n > 2<<20 {
			t.Errorf("%v: %v, %d bytes allocated", codec, err, n)
		}
	}
}

// Java's zstd at its highest levels declares a window of 128 MiB for however little.
func TestZstdWithALargeWindow(t *testing.T) {
	rs := someRecords(20, 0)
	b := testBatch{last: 19, baseTime: 1e12, maxTime: 1e12 + 20, attributes: int16(Zstd), records: rs, compressWith: func(_ Codec, data []byte) []byte {
		var buf bytes.Buffer
		w, err := zstd.NewWriter(&buf, zstd.WithWindowSize(128<<20), zstd.WithSingleSegment(false), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
		if err != nil {
			t.Fatal(err)
		}
		w.Write(data[:100])
		w.Flush() // so that the size is not known ahead
		w.Write(data[100:])
		w.Close()
		return buf.Bytes()
	}}
	got, _ := splitAll(t, New(Config{MaxBatchBytes: 1 << 20}), b.encode(), 0, Slicing{Base: 1, K: 1}, false, nil)
	if err := sameRecords(got[0], rs); err != nil {
		t.Error(err)
	}
}
