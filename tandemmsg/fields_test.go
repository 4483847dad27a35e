package tandemmsg

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// array makes the bytes of a compact array of numbers; each is an int64.
func array(n int, numbers ...int64) []byte {
	b := appendLen(nil, n)
	for _, v := range numbers {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	return b
}

func TestMalformedFieldsSayWhatIsWrong(t *testing.T) {
	keys := func(b []byte) error { _, err := decodeKeyRanges(b); return err }
	offsets := func(b []byte) error { _, err := decodeOffsetRanges(b); return err }
	committed := func(b []byte) error { _, err := decodeCommitted(b); return err }
	scanned := func(b []byte) error {
		p := kmsg.NewFetchResponseTopicPartition()
		p.UnknownTags.Set(TagScannedOffset, b)
		_, err := ScannedOffset(&p)
		return err
	}
	base := func(b []byte) error {
		req := kmsg.NewPtrFetchRequest()
		req.UnknownTags.Set(TagKeyAxisBase, b)
		_, err := KeyAxisBase(req)
		return err
	}
	inner := func(list []byte) []byte { return append(array(1, 0, 9), list...) }
	for _, c := range []struct {
		name   string
		decode func([]byte) error
		bytes  []byte
		want   string
	}{
		{"nothing", keys, nil, "KeyRanges: ends before the length"},
		{"null", keys, []byte{0}, "KeyRanges: its array is null"},
		{"half a length", keys, []byte{0x80}, "ends before the length"},
		{"length of 6 bytes", keys, []byte{0x81, 0x80, 0x80, 0x80, 0x80, 0}, "no unsigned varint of 32 bits"},
		{"length of 35 bits", keys, []byte{0xff, 0xff, 0xff, 0xff, 0x7f}, "no unsigned varint of 32 bits"},
		{"length that overflows", keys, bytes.Repeat([]byte{0xff}, 11), "no unsigned varint of 32 bits"},
		{"huge length", keys, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, "its array of 4294967294 elements would take 68719476704 bytes at least, there are 0"},
		{"cut short", keys, array(2, 1, 2, 3), "would take 32 bytes at least, there are 24"},
		{"something behind", keys, append(array(1, 1, 2), 0), "KeyRanges: 1 bytes follow its array of 1 ranges"},
		{"something behind none", keys, append(array(0), 0), "1 bytes follow its array of 0 ranges"},
		{"too many", keys, array(1025, make([]int64, 2*1025)...), "KeyRanges: 1025 ranges, at most 1024"},
		{"negative", keys, array(1, -1, 5), "KeyRanges[0]: -1-5 begins below 0"},
		{"off the axis", keys, array(2, 0, 4, 5, 1<<32), "KeyRanges[1]: 5-4294967296 ends above 4294967295"},
		{"reversed", keys, array(1, 6, 5), "KeyRanges[0]: 6-5 ends before it begins"},
		{"overlapping", keys, array(2, 0, 5, 5, 9), "KeyRanges[1]: 5-9 is not after the range before it, which ends at 5"},
		{"unsorted", keys, array(3, 0, 4, 7, 9, 5, 6), "KeyRanges[2]: 5-6 is not after"},

		{"nothing", offsets, nil, "OffsetRanges: ends before"},
		{"too many", offsets, array(60_001, make([]int64, 2*60_001)...), "OffsetRanges: 60001 ranges, at most 60000"},
		{"negative", offsets, array(1, -2, -1), "OffsetRanges[0]: -2--1 begins below 0"},
		{"no offset after it", offsets, array(1, 5, 1<<63-1), "OffsetRanges[0]: 5-9223372036854775807 ends above 9223372036854775806"},
		{"overlapping", offsets, array(2, 45, 47, 47, 50), "OffsetRanges[1]: 47-50 is not after"},

		{"something behind none", committed, append(array(0), 7), "CommittedRangeOffsets: 1 bytes follow its array of 0 key ranges"},
		{"too many to fit in", committed, array(2, 0, 9, 1), "its array of 2 elements would take 34 bytes at least, there are 24"},
		{"key range off the axis", committed, append(array(1, 0, 1<<32), array(0)...), "CommittedRangeOffsets[0]: key range: 0-4294967296 ends above"},
		{"null offsets", committed, inner([]byte{0}), "CommittedRangeOffsets[0]: Offsets: its array is null"},
		{"offsets cut short", committed, inner(array(2, 1, 2, 3)), "CommittedRangeOffsets[0]: Offsets: its array of 2 elements"},
		{"offsets overlap", committed, inner(array(2, 1, 2, 2, 3)), "CommittedRangeOffsets[0]: Offsets[1]: 2-3 is not after"},
		{"second key range cut off", committed, append(append(array(2, 0, 9), array(1, 1, 2)...), 0), "CommittedRangeOffsets[1]: 1 bytes are left"},
		{"key ranges overlap", committed, slices.Concat(array(2, 0, 9), array(0), array(0, 9, 10)[1:], array(0)), "CommittedRangeOffsets[1]: key range: 9-10 is not after"},

		{"nothing", scanned, nil, "ScannedOffset: 0 bytes"},
		{"too long", scanned, make([]byte, 9), "ScannedOffset: 9 bytes"},
		{"negative", scanned, array(0, -2)[1:], "ScannedOffset: it is negative"},

		{"nothing", base, nil, "KeyAxisBase: 0 bytes, an int32 has 4"},
		{"too short", base, []byte{0, 0, 4}, "KeyAxisBase: 3 bytes"},
		{"too long", base, []byte{0, 0, 0, 4, 0}, "KeyAxisBase: 5 bytes"},
		{"an int64", base, array(0, 4)[1:], "KeyAxisBase: 8 bytes"},
		{"negative", base, []byte{0xff, 0xff, 0xff, 0xff}, "KeyAxisBase: -1 is negative"},
		{"least", base, []byte{0x80, 0, 0, 0}, "KeyAxisBase: -2147483648 is negative"},
	} {
		if err := c.decode(c.bytes); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// Kafka's own encoders leave out a tagged field with its default value, so that absent and empty cannot differ.
func TestEmptyMeansAbsent(t *testing.T) {
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.UnknownTags.Set(TagKeyRanges, []byte{1})
	p.UnknownTags.Set(TagOffsetRanges, []byte{1})
	p.UnknownTags.Set(TagKeyAxisBase, make([]byte, 4))
	if c, ok, err := ReadCommit(&p); ok || err != nil {
		t.Errorf("%v, %v, %v", c, ok, err)
	}
	if k, err := KeyRanges(&p); k != nil || err != nil {
		t.Errorf("%v, %v", k, err)
	}
	if base, err := KeyAxisBase(&p); base != 0 || err != nil {
		t.Errorf("%d, %v", base, err)
	}
	q := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	q.UnknownTags.Set(TagCommittedRangeOffsets, []byte{1})
	if c, err := CommittedRangeOffsets(&q); c != nil || err != nil {
		t.Errorf("%v, %v", c, err)
	}
	f := kmsg.NewFetchResponseTopicPartition()
	f.UnknownTags.Set(TagScannedOffset, bytes.Repeat([]byte{0xff}, 8))
	if o, err := ScannedOffset(&f); o != -1 || err != nil {
		t.Errorf("%d, %v", o, err)
	}
}

// Writers that fill in a length later pad it.
func TestPaddedLengthsAreRead(t *testing.T) {
	b := append([]byte{0x82, 0x80, 0x80, 0x80, 0x00}, array(1, 3, 4)[1:]...)
	if got, err := decodeKeyRanges(b); err != nil || !slices.Equal(got, keyrange.Set{{First: 3, Last: 4}}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestSettersRemoveWithNothingAndLeaveOtherTags(t *testing.T) {
	var p kmsg.FetchResponseTopicPartition
	p.UnknownTags.Set(99, []byte("kept"))
	must(t, SetScannedOffset(&p, 5))
	if p.UnknownTags.Len() != 2 {
		t.Errorf("%d tags", p.UnknownTags.Len())
	}
	must(t, SetScannedOffset(&p, -1))
	must(t, SetScannedOffset(&p, -1))
	q := kmsg.OffsetFetchRequestTopic{UnknownTags: p.UnknownTags}
	must(t, SetKeyAxisBase(&q, 4))
	must(t, SetKeyAxisBase(&q, 0))
	p.UnknownTags = q.UnknownTags
	if v, _ := find(&p.UnknownTags, 99); p.UnknownTags.Len() != 1 || string(v) != "kept" {
		t.Errorf("%d tags, %q", p.UnknownTags.Len(), v)
	}
}

func TestSettersRefuseWhatIsNotValidAndChangeNothing(t *testing.T) {
	full := keyrange.Set{keyrange.Full}
	var tooManyKeys keyrange.Set
	for i := range uint32(MaxKeyRanges + 1) {
		tooManyKeys = append(tooManyKeys, keyrange.Range{First: i, Last: i})
	}
	p, q := kmsg.NewOffsetCommitRequestTopicPartition(), kmsg.NewOffsetFetchResponseGroupTopicPartition()
	must(t, WriteCommit(&p, Commit{Keys: full, Base: 4, Offsets: []OffsetRange{{1, 2}}, Watermark: -1}))
	must(t, SetCommittedRangeOffsets(&q, []KeyRangeOffsets{{Keys: keyrange.Full}}))
	before, beforeQ := p.UnknownTags.AppendEach(nil), q.UnknownTags.AppendEach(nil)
	for name, err := range map[string]error{
		"key ranges":         SetKeyRanges(&p, keyrange.Set{{First: 5, Last: 4}}),
		"too many keys":      SetKeyRanges(&p, tooManyKeys),
		"offset ranges":      SetOffsetRanges(&p, []OffsetRange{{1, 2}, {2, 3}}),
		"too many offsets":   SetOffsetRanges(&p, append(sixtyThousand(), OffsetRange{MaxOffset, MaxOffset})),
		"commit's keys":      WriteCommit(&p, Commit{Keys: keyrange.Set{{First: 5, Last: 4}}}),
		"commit's offsets":   WriteCommit(&p, Commit{Offsets: []OffsetRange{{-1, 4}}, Watermark: -1}),
		"both":               WriteCommit(&p, Commit{Offsets: []OffsetRange{{1, 4}}}),
		"neither":            WriteCommit(&p, Commit{Watermark: -1}),
		"watermark as text":  WriteCommitText(&p, Commit{Keys: full, Watermark: 7}),
		"not valid as text":  WriteCommitText(&p, Commit{Offsets: []OffsetRange{{2, 1}}, Watermark: -1}),
		"committed keys":     SetCommittedRangeOffsets(&q, []KeyRangeOffsets{{Keys: keyrange.Full}, {Keys: keyrange.Full}}),
		"committed offsets":  SetCommittedRangeOffsets(&q, []KeyRangeOffsets{{Keys: keyrange.Full, Offsets: []OffsetRange{{2, 1}}}}),
		"scanned":            SetScannedOffset(new(kmsg.FetchResponseTopicPartition), -2),
		"base":               SetKeyAxisBase(&p, -1),
		"commit's base":      WriteCommit(&p, Commit{Keys: full, Base: -1, Watermark: 7}),
		"base as text":       WriteCommitText(&p, Commit{Base: -1, Offsets: []OffsetRange{{1, 2}}, Watermark: -1}),
		"offset without end": SetOffsetRanges(&p, []OffsetRange{{1, 1<<63 - 1}}),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if after := p.UnknownTags.AppendEach(nil); !bytes.Equal(before, after) || p.Offset != -1 || p.Metadata != nil {
		t.Errorf("the commit changed: % x, %d", after, p.Offset)
	}
	if after := q.UnknownTags.AppendEach(nil); !bytes.Equal(beforeQ, after) {
		t.Errorf("the answer changed: % x", after)
	}
}

func TestGettersShareNoMemory(t *testing.T) {
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	must(t, SetOffsetRanges(&p, []OffsetRange{{1, 2}}))
	got, err := OffsetRanges(&p)
	must(t, err)
	got[0].First = 0
	b, _ := find(&p.UnknownTags, TagOffsetRanges)
	clear(b[1:])
	q := kmsg.NewOffsetFetchResponseTopicPartition()
	must(t, SetCommittedRangeOffsets(&q, []KeyRangeOffsets{
		{keyrange.Range{First: 0, Last: 4}, []OffsetRange{{1, 2}}}, {keyrange.Range{First: 5, Last: 9}, []OffsetRange{{3, 4}}},
	}))
	committed, err := CommittedRangeOffsets(&q)
	must(t, err)
	_ = append(committed[0].Offsets, OffsetRange{9, 9})
	if committed[1].Offsets[0] != (OffsetRange{3, 4}) {
		t.Error("two lists overlap")
	}
	if got[0] != (OffsetRange{0, 2}) || bytes.Equal(b, array(1, 0, 2)) {
		t.Errorf("%v, % x", got, b)
	}
}

func sixtyThousand() []OffsetRange {
	ranges := make([]OffsetRange, MaxOffsetRanges)
	for i := range ranges {
		ranges[i] = OffsetRange{int64(3 * i), int64(3*i + 1)}
	}
	return ranges
}

func TestDecodingAllocatesItsResultAlone(t *testing.T) {
	ranges := sixtyThousand()
	b := encodeOffsetRanges(ranges)
	if n := testing.AllocsPerRun(10, func() { _, _ = decodeOffsetRanges(b) }); n != 1 {
		t.Errorf("60,000 offset ranges: %v allocations", n)
	}
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	must(t, SetCommittedRangeOffsets(&p, []KeyRangeOffsets{
		{keyrange.Range{First: 0, Last: 9}, ranges[:20_000]}, {keyrange.Range{First: 10, Last: 19}, ranges[20_000:]},
	}))
	b, _ = find(&p.UnknownTags, TagCommittedRangeOffsets)
	if n := testing.AllocsPerRun(10, func() { _, _ = decodeCommitted(b) }); n != 2 {
		t.Errorf("committed range offsets: %v allocations", n)
	}
	b = []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0} // says 4 billion elements
	if n := testing.Benchmark(func(b1 *testing.B) {
		b1.ReportAllocs()
		for b1.Loop() {
			_, _ = decodeCommitted(b)
		}
	}).AllocedBytesPerOp(); n > 2000 {
		t.Errorf("a false length: %d bytes", n)
	}
}

func BenchmarkOffsetRanges(b *testing.B) {
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	must(b, SetOffsetRanges(&p, sixtyThousand()))
	b.ReportAllocs()
	for b.Loop() {
		if r, err := OffsetRanges(&p); err != nil || len(r) != MaxOffsetRanges {
			b.Fatal(err)
		}
	}
}
