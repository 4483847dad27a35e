package gateway

import (
	"bytes"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/acquire"
	"github.com/tandem-kafka/tandem/internal/slicecache"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// oldMessages are messages of magic 1 from an offset to another.
func oldMessages(first, last int64) (raw []byte) {
	for offset := first; offset <= last; offset++ {
		m := kmsg.MessageV1{Offset: offset, Magic: 1, Value: bytes.Repeat([]byte("v"), 2000)}
		m.MessageSize = int32(len(m.AppendTo(nil)) - 12)
		m.CRC = int32(crc32.ChecksumIEEE(m.AppendTo(nil)[16:]))
		raw = m.AppendTo(raw)
	}
	return raw
}

// Messages from before magic 2, of which a run becomes a batch, are read twice, once from the middle on: an answer with records of both holds them all, whatever comes first.
func TestPartsOfARunOfOldMessages(t *testing.T) {
	type given struct {
		from, to int64 // of the messages that were read
		acquire.Range
	}
	for name, c := range map[string][]given{
		"the end first":         {{5, 9, acquire.Range{First: 7, Last: 8}}, {0, 9, acquire.Range{First: 0, Last: 2}}},
		"the start first":       {{0, 9, acquire.Range{First: 0, Last: 2}}, {5, 9, acquire.Range{First: 7, Last: 8}}},
		"in turns":              {{5, 9, acquire.Range{First: 7, Last: 7}}, {0, 9, acquire.Range{First: 0, Last: 2}}, {5, 9, acquire.Range{First: 8, Last: 8}}},
		"one within the other":  {{3, 6, acquire.Range{First: 3, Last: 3}}, {0, 9, acquire.Range{First: 0, Last: 1}}},
		"one reaches farther":   {{0, 6, acquire.Range{First: 0, Last: 4}}, {5, 9, acquire.Range{First: 5, Last: 9}}},
		"the other way round":   {{5, 9, acquire.Range{First: 5, Last: 9}}, {0, 6, acquire.Range{First: 0, Last: 4}}},
		"two that lie in a row": {{0, 4, acquire.Range{First: 0, Last: 4}}, {5, 9, acquire.Range{First: 5, Last: 9}}},
	} {
		m, _, _ := memoryFor(1 << 20)
		w := &waiting{newWaiter(nil, tandemmsg.Cooperative{MaxRecords: 10, SessionTimeout: 60_000}, time.Now(), false, 1<<20, 1<<20), &coopPart{}}
		var want []int64
		for _, g := range c {
			batches, err := decoded(slicecache.Fetched{Raw: oldMessages(g.from, g.to)}, g.from, false)
			if err != nil || len(batches) != 1 {
				t.Fatal(len(batches), err)
			}
			k := &chunk{batches: batches, bytes: int64(len(batches[0].Data))}
			m.list(k, 0)
			if n := w.give(acquire.Kept{Range: g.Range}, partBatch{batches[0], k}, m, chunkEnds{}); n != g.Last-g.First+1 {
				t.Fatalf("%s: %d are given of %v", name, n, g.Range)
			}
			for offset := g.First; offset <= g.Last; offset++ {
				want = append(want, offset)
			}
		}
		rp := kmsg.NewFetchResponseTopicPartition()
		for _, data := range w.part.content(m) {
			rp.RecordBatches = append(rp.RecordBatches, data...)
		}
		got, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{}, &rp, kgo.DefaultDecompressor(), nil)
		var offsets []int64
		for _, r := range got.Records {
			if slices.Contains(want, r.Offset) {
				offsets = append(offsets, r.Offset)
			}
		}
		if slices.Sort(want); got.Err != nil || !slices.Equal(offsets, want) {
			t.Errorf("%s: the answer holds %d, not %d: %v", name, offsets, want, got.Err)
		}
	}
}
