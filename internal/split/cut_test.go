package split

import (
	"bytes"
	"fmt"
	"testing"
)

// A part of a batch has its records, each as it was, with a header of its own that other readers understand.
func TestCutBatches(t *testing.T) {
	b := testBatch{base: 100, last: 112, baseTime: 1e12, maxTime: 1e12 + 50, producerID: 7, attributes: attrTransactional}
	for _, o := range []int64{100, 101, 104, 105, 110} { // compacted
		b.records = append(b.records, testRecord{Offset: o, Timestamp: 1e12 + o%50, Key: fmt.Append(nil, o), Value: bytes.Repeat([]byte{byte(o)}, 20)})
	}
	whole := b.encode()
	if !IsPlain(whole) {
		t.Fatal("it is not compressed")
	}
	for _, c := range []struct {
		first, last int64
		want        []int
	}{{100, 112, []int{0, 1, 2, 3, 4}}, {0, 100, []int{0}}, {101, 104, []int{1, 2}}, {102, 105, []int{2, 3}}, {106, 200, []int{4}}, {102, 103, nil}, {111, 112, nil}} {
		p, ok := Cut(Piece{First: 100, Last: 112, Data: whole}, c.first, c.last)
		if ok != (len(c.want) > 0) {
			t.Errorf("%d-%d: %v", c.first, c.last, ok)
		}
		if !ok {
			continue
		}
		h, err := parseHeader(p.Data)
		if err != nil || int(h.count) != len(c.want) || h.base != 100 || h.last() != p.Last || p.First != b.records[c.want[0]].Offset || p.Last != b.records[c.want[len(c.want)-1]].Offset {
			t.Errorf("%d-%d: %+v, %d-%d, %v", c.first, c.last, h, p.First, p.Last, err)
		}
		it := records(p)
		for _, i := range c.want {
			if !it.next() || it.offset != b.records[i].Offset || it.timestamp != b.records[i].Timestamp {
				t.Errorf("%d-%d: offset %d at %d, not %+v", c.first, c.last, it.offset, it.timestamp, b.records[i])
			}
		}
		if it.next() || it.at != len(it.recs) {
			t.Errorf("%d-%d: there is more", c.first, c.last)
		}
	}
	b.attributes |= int16(LZ4)
	if IsPlain(b.encode()) {
		t.Error("it is compressed")
	}
}
