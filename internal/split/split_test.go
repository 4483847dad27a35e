package split

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/pierrec/lz4/v4"
	"pgregory.net/rapid"

	"github.com/tandem-kafka/tandem/keyrange"
)

// log writes random batches as a broker would have them.
type log struct {
	t       *rapid.T
	raw     []byte
	next    int64
	end     int64           // after the last batch
	open    map[int64]int64 // producer -> first offset of its transaction
	aborted []Aborted
}

func (l *log) records(n int, logAppendTime bool) (rs []testRecord) {
	for i := range n {
		r := testRecord{Offset: l.next, Timestamp: 1e12 + rapid.Int64Range(-300, 300).Draw(l.t, "ts")}
		switch rapid.IntRange(0, 4).Draw(l.t, "key") {
		case 0: // null
		case 1:
			r.Key = []byte{}
		case 2:
			r.Key = rapid.SliceOfN(rapid.Byte(), 60, 140).Draw(l.t, "long")
		default:
			r.Key = []byte{byte(i), byte(rapid.IntRange(0, 20).Draw(l.t, "k"))}
		}
		if rapid.IntRange(0, 5).Draw(l.t, "value") > 0 {
			r.Value = bytes.Repeat([]byte{byte(l.next), byte(l.next >> 8)}, rapid.IntRange(0, 200).Draw(l.t, "len"))
		}
		if logAppendTime {
			r.Timestamp = 1e12 + 500
		}
		rs = append(rs, r)
		l.next += 1 + max(0, rapid.Int64Range(-10, 3).Draw(l.t, "gap")) // compaction
	}
	return rs
}

func (l *log) batch() {
	l.next += max(0, rapid.Int64Range(-5, 100).Draw(l.t, "gap between batches"))
	b := testBatch{base: l.next, baseTime: 1e12, maxTime: 1e12 + 500, producerID: rapid.Int64Range(1, 3).Draw(l.t, "producer")}
	b.attributes = int16(rapid.SampledFrom([]Codec{None, Gzip, Snappy, LZ4, Zstd}).Draw(l.t, "codec"))
	logAppend := rapid.IntRange(0, 4).Draw(l.t, "log append") == 0
	if logAppend {
		b.attributes |= attrLogAppendTime
	}
	if rapid.IntRange(0, 2).Draw(l.t, "transactional") == 0 {
		b.attributes |= attrTransactional
		if _, ok := l.open[b.producerID]; !ok {
			l.open[b.producerID] = l.next
		}
	} else if _, ok := l.open[b.producerID]; ok {
		b.producerID = -1
	}
	b.records = l.records(rapid.IntRange(0, 30).Draw(l.t, "records"), logAppend)
	if len(b.records) == 0 {
		b.attributes &^= attrCodec
		l.next += 5
	}
	b.last = l.next - 1
	l.end = l.next
	l.raw = append(l.raw, b.encode()...)
}

func (l *log) marker() {
	for id, first := range l.open {
		abort := rapid.Bool().Draw(l.t, "abort")
		typ := byte(1)
		if abort {
			typ = 0
			l.aborted = append(l.aborted, Aborted{id, first})
		}
		b := testBatch{base: l.next, last: l.next, baseTime: 1e12, maxTime: 1e12, producerID: id, attributes: attrTransactional | attrControl,
			records: []testRecord{{l.next, 1e12, []byte{0, 0, 0, typ}, []byte{0, 0, 0, 0, 0, 0}}}}
		l.raw = append(l.raw, b.encode()...)
		l.next++
		l.end = l.next
		delete(l.open, id)
		return
	}
}

func (l *log) old() {
	magic := byte(rapid.IntRange(0, 1).Draw(l.t, "magic"))
	codecs := []Codec{None, Gzip, Snappy}
	if magic == 1 {
		codecs = append(codecs, LZ4)
	}
	rs := l.records(rapid.IntRange(1, 20).Draw(l.t, "records"), false)
	l.end = rs[len(rs)-1].Offset + 1
	l.raw = append(l.raw, oldSet(magic, rapid.SampledFrom(codecs).Draw(l.t, "codec"), rs)...)
}

func TestSplitAgreesWithADumbOne(t *testing.T) {
	s := New(Config{}) // one for all, so that leftovers of one call would show in the next
	tight := New(Config{MaxBlockBytes: 3000})
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Int64Range(0, 1<<34).Draw(t, "start")
		l := &log{t: t, next: start, end: start, open: map[int64]int64{}}
		for range rapid.IntRange(1, 8).Draw(t, "batches") {
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				l.old()
			case 1:
				l.marker()
			default:
				l.batch()
			}
		}
		for len(l.open) > 0 {
			l.marker()
		}
		sl := Slicing{Base: rapid.Int32Range(1, 50).Draw(t, "base"), K: 1 << rapid.IntRange(0, 8).Draw(t, "log2 K")}
		var sets []keyrange.Set
		if rapid.Bool().Draw(t, "layout") {
			sets = drawSets(t)
			layout, err := NewLayout(sets)
			if err != nil {
				t.Fatal(err)
			}
			sl = layout.Slicing(sl.Base)
		}
		readCommitted := rapid.Bool().Draw(t, "read committed")
		var aborted []Aborted
		if readCommitted {
			aborted = l.aborted
		}
		want := read(t, l.raw, readCommitted, aborted)
		for i := range want { // magic 0 has no timestamp: franz-go says 0001-01-01, Kafka's own clients -1
			if want[i].Timestamp < 0 {
				want[i].Timestamp = -1
			}
		}
		partial := testBatch{base: l.next, last: l.next, records: []testRecord{{Offset: l.next}}}.encode()
		raw := append(bytes.Clone(l.raw), partial[:rapid.IntRange(0, len(partial)-1).Draw(t, "cut")]...)
		splitter := s
		if rapid.Bool().Draw(t, "tight") {
			splitter = tight
		}
		got, blocks := splitAll(t, splitter, raw, start, sl, readCommitted, aborted)
		compareSlices(t, got, dumbSplit(want, sl, sets...))
		if end := blocks[len(blocks)-1].End; end != l.end {
			t.Fatalf("end %d, want %d", end, l.end)
		}
		if splitter == s && len(blocks) > 2 {
			t.Fatalf("%d blocks", len(blocks))
		}
	})
}

// Trim and FirstAtOrAfter against the list of the piece's records.
func TestTrimAndSearchAgreeWithDumbOnes(t *testing.T) {
	s := New(Config{})
	rapid.Check(t, func(t *rapid.T) {
		l := &log{t: t, open: map[int64]int64{}}
		l.batch()
		b, err := s.Split(l.raw, 0, Slicing{Base: 1, K: 2}, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		from := rapid.Int64Range(0, l.next+1).Draw(t, "from")
		ts := rapid.Int64Range(1e12-310, 1e12+600).Draw(t, "timestamp")
		for _, pieces := range b.Slices {
			for _, p := range pieces {
				before := bytes.Clone(p.Data)
				all := checkPiece(t, p)
				var left, newer []testRecord
				for _, r := range all {
					if r.Offset >= from {
						left = append(left, r)
						if r.Timestamp >= ts {
							newer = append(newer, r)
						}
					}
				}
				trimmed, ok := Trim(p, from)
				if ok != (len(left) > 0) {
					t.Fatalf("Trim: %v, left %v", ok, left)
				}
				if ok {
					if err := sameRecords(checkPiece(t, trimmed), left); err != nil {
						t.Fatal(err)
					}
				}
				offset, got, ok := FirstAtOrAfter(p, from, ts)
				if ok != (len(newer) > 0) || ok && (offset != newer[0].Offset || got != newer[0].Timestamp) {
					t.Fatalf("FirstAtOrAfter(%d, %d) = %d, %d, %v, want %v", from, ts, offset, got, ok, newer)
				}
				offset, _, ok = FirstAtOrAfter(p, from, math.MinInt64)
				if ok != (len(left) > 0) || ok && offset != left[0].Offset {
					t.Fatalf("first at or after %d: %d, %v", from, offset, ok)
				}
				if !bytes.Equal(before, p.Data) {
					t.Fatal("the piece has changed")
				}
			}
		}
	})
}

func someRecords(n int, offset int64) (rs []testRecord) {
	for i := range n {
		rs = append(rs, testRecord{offset + int64(i), 1e12 + int64(i), []byte{byte(i)}, bytes.Repeat([]byte("value "), 40+i%7)})
	}
	return rs
}

// The forms that other clients than Java's write.
func TestForeignCompression(t *testing.T) {
	half := func(c Codec) func(Codec, []byte) []byte {
		return func(_ Codec, b []byte) []byte { return append(pack(c, b[:len(b)/2]), pack(c, b[len(b)/2:])...) }
	}
	lz4With := func(options ...lz4.Option) func(Codec, []byte) []byte {
		return func(_ Codec, b []byte) []byte {
			var buf bytes.Buffer
			w := lz4.NewWriter(&buf)
			w.Apply(options...)
			w.Write(b)
			w.Close()
			return buf.Bytes()
		}
	}
	for name, c := range map[string]struct {
		codec    Codec
		compress func(Codec, []byte) []byte
	}{
		"bare snappy":           {Snappy, func(_ Codec, b []byte) []byte { return s2.EncodeSnappy(nil, b) }},
		"two gzip members":      {Gzip, half(Gzip)},
		"two zstd frames":       {Zstd, half(Zstd)},
		"two lz4 frames":        {LZ4, half(LZ4)},
		"lz4 4 MiB blocks":      {LZ4, lz4With(lz4.BlockSizeOption(lz4.Block4Mb))},
		"lz4 all checksums":     {LZ4, lz4With(lz4.BlockChecksumOption(true), lz4.ChecksumOption(true))},
		"lz4 with content size": {LZ4, func(_ Codec, b []byte) []byte { return lz4With(lz4.SizeOption(uint64(len(b))))(LZ4, b) }},
		"lz4 linked blocks":     {LZ4, linkedLZ4},
		"lz4 after skippable frame": {LZ4, func(_ Codec, b []byte) []byte {
			return append([]byte{0x51, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3}, pack(LZ4, b)...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			rs := someRecords(2000, 100)
			b := testBatch{base: 100, last: 2099, baseTime: 1e12, maxTime: 1e12 + 3000, attributes: int16(c.codec), records: rs, compressWith: c.compress}
			sl := Slicing{Base: 2, K: 8}
			got, _ := splitAll(t, New(Config{}), b.encode(), 100, sl, false, nil)
			compareSlices(t, got, dumbSplit(rs, sl))
		})
	}
}

// linkedLZ4 writes a frame whose blocks refer to the blocks before them: the second and later ones are one match each.
func linkedLZ4(_ Codec, b []byte) []byte {
	out := []byte{0x04, 0x22, 0x4D, 0x18, 0x40, 0x40, 0}
	block := func(data []byte, flag uint32) {
		out = binary.LittleEndian.AppendUint32(out, uint32(len(data))|flag)
		out = append(out, data...)
	}
	const period = 97 // written stored; what repeats the bytes `back` before becomes a match
	for at := 0; at < len(b); {
		n := min(period, len(b)-at)
		if at > 0 && n > 24 {
			if i := bytes.LastIndex(b[max(0, at-60000):at], b[at:at+n-12]); i >= 0 {
				back := at - max(0, at-60000) - i
				match := n - 12 - 4 // in the token: length - 4, 15 and more goes on in another byte
				data := []byte{0x0f, byte(back), byte(back >> 8), byte(match - 15)}
				data = append(data, 12<<4) // the last literals
				data = append(data, b[at+n-12:at+n]...)
				block(data, 0)
				at += n
				continue
			}
		}
		block(b[at:at+n], lz4Stored)
		at += n
	}
	return append(out, 0, 0, 0, 0)
}

func TestStartAndEnd(t *testing.T) {
	first := testBatch{base: 10, last: 19, records: someRecords(3, 12), baseTime: 1e12, maxTime: 1e12 + 9}
	empty := testBatch{base: 30, last: 39} // compacted away
	raw := append(first.encode(), empty.encode()...)
	sl := Slicing{Base: 1, K: 1}
	for _, c := range []struct {
		raw              []byte
		from, start, end int64
		used             int
	}{
		{raw, 14, 10, 40, len(raw)},
		{raw, 5, 5, 40, len(raw)},
		{raw[:len(raw)-1], 14, 10, 20, len(first.encode())},
		{raw[:20], 14, 14, 14, 0},
		{nil, 14, 14, 14, 0},
	} {
		b, err := New(Config{}).Split(c.raw, c.from, sl, false, nil)
		if err != nil || b.Start != c.start || b.End != c.end || b.Used != c.used {
			t.Errorf("from %d, %d bytes: %+v, %v", c.from, len(c.raw), b, err)
		}
	}
}

func TestOldWrapperWithAppendTime(t *testing.T) {
	inner := append(oldMessage(1, 0, 0, 5, []byte("a"), nil), oldMessage(1, 0, 3, 9, []byte("b"), []byte{})...)
	raw := oldMessage(1, byte(Gzip)|attrLogAppendTime, 103, 777, nil, pack(Gzip, inner))
	got, blocks := splitAll(t, New(Config{}), raw, 100, Slicing{Base: 1, K: 1}, false, nil)
	want := []testRecord{{100, 777, []byte("a"), nil}, {103, 777, []byte("b"), []byte{}}}
	if err := sameRecords(got[0], want); err != nil || blocks[0].End != 104 {
		t.Errorf("%v, end %d", err, blocks[0].End)
	}
	// Without a wrapper each message has an append time of its own.
	raw = append(oldMessage(1, attrLogAppendTime, 7, 1, nil, nil), oldMessage(1, attrLogAppendTime, 8, 2, nil, nil)...)
	got, _ = splitAll(t, New(Config{}), raw, 7, Slicing{Base: 1, K: 1}, false, nil)
	if err := sameRecords(got[0], []testRecord{{7, 1, nil, nil}, {8, 2, nil, nil}}); err != nil {
		t.Error(err)
	}
}

func TestOldLZ4WithTheWrongHeaderChecksum(t *testing.T) {
	rs := someRecords(50, 40)
	got, _ := splitAll(t, New(Config{}), oldSet(0, LZ4, rs), 40, Slicing{Base: 1, K: 1}, false, nil)
	for i := range rs {
		rs[i].Timestamp = -1
	}
	if err := sameRecords(got[0], rs); err != nil {
		t.Error(err)
	}
}

func TestRecompress(t *testing.T) {
	rs := someRecords(500, 100)
	raw := testBatch{base: 100, last: 599, baseTime: 1e12, maxTime: 1e12 + 600, records: rs}.encode()
	b, err := New(Config{}).Split(raw, 100, Slicing{Base: 1, K: 1}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, codec := range []Codec{None, Gzip, Snappy, LZ4, Zstd} {
		r, err := NewRecompressor(codec)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time with used buffers
			p, err := r.Recompress(b.Slices[0][0])
			if err != nil {
				t.Fatal(err)
			}
			if err := sameRecords(read(t, p.Data, false, nil), rs); err != nil {
				t.Errorf("%v: %v", codec, err)
			}
			if codec != None && len(p.Data) > len(raw)/3 {
				t.Errorf("%v: %d of %d bytes", codec, len(p.Data), len(raw))
			}
		}
		if c, err := ParseCodec(codec.String()); err != nil || c != codec {
			t.Errorf("%v parses to %v, %v", codec, c, err)
		}
	}
	if _, err := NewRecompressor(7); err == nil {
		t.Error("codec 7")
	}
}

func TestSplitDoesNotAllocatePerRecord(t *testing.T) {
	for _, sl := range []Slicing{{Base: 3, K: 16}, equalSets(t, 3).Slicing(3)} {
		for _, codec := range []Codec{None, Gzip, Snappy, LZ4, Zstd} {
			raw, _, records := benchInput(codec, 100, 100_000, 300_000)
			s := New(reuse())
			allocs := testing.AllocsPerRun(20, func() {
				if _, err := s.Split(raw, 0, sl, false, nil); err != nil {
					t.Fatal(err)
				}
			})
			if allocs > float64(records)/100 { // a few for each block; more with the race detector, which empties pools
				t.Errorf("%v, K=%d: %v allocations for %d records", codec, sl.K, allocs, records)
			}
		}
	}
}
