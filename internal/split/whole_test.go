package split

import (
	"bytes"
	"errors"
	"testing"
)

// Batches pass as they are, but for markers and what was aborted; a partial batch at the end waits.
func TestBatchesPassWhole(t *testing.T) {
	data := func(base int64, producer int64, transactional bool) []byte {
		b := testBatch{base: base, last: base + 2, producerID: producer, attributes: int16(LZ4), records: []testRecord{{Offset: base, Key: []byte("k"), Value: []byte("v")}, {Offset: base + 2, Value: []byte("w")}}}
		if transactional {
			b.attributes |= attrTransactional
		}
		return b.encode()
	}
	a, b, c := data(5, -1, false), data(10, 7, true), data(20, 8, true)
	raw := bytes.Join([][]byte{a, b, c, a[:30]}, nil)
	got, ok, err := Batches(raw, true, []Aborted{{ProducerID: 7, FirstOffset: 3}})
	if err != nil || !ok || len(got) != 3 || !bytes.Equal(got[0].Data, a) || got[1].Data != nil || !bytes.Equal(got[2].Data, c) {
		t.Fatalf("%d batches, %v, %v", len(got), ok, err)
	}
	if got[1].First != 10 || got[1].Last != 12 {
		t.Errorf("what was aborted covers %d-%d", got[1].First, got[1].Last)
	}
	if got, _, _ := Batches(raw, false, nil); len(got) != 3 || got[1].Data == nil {
		t.Errorf("read uncommitted: %d batches", len(got))
	}
	bad := bytes.Clone(raw)
	bad[len(a)+30] ^= 1
	if got, _, err := Batches(bad, false, nil); err != nil || len(got) != 1 {
		t.Errorf("before the damaged batch: %d batches, %v", len(got), err)
	}
	if _, _, err := Batches(bad[len(a):], false, nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the damaged batch: %v", err)
	}
	old := bytes.Clone(a)
	old[atMagic] = 1
	if _, ok, _ := Batches(old, false, nil); ok {
		t.Error("an old format")
	}
}
