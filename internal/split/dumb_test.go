package split

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/keyrange"
)

// The dumb splitter: franz-go's own consumer code reads the input, and its partitioner says which slice a record is in.

type fataler interface{ Fatalf(string, ...any) }

// read is what a client gets from raw.
func read(t fataler, raw []byte, readCommitted bool, aborted []Aborted) []testRecord {
	rp := kmsg.NewFetchResponseTopicPartition()
	rp.RecordBatches = raw
	rp.HighWatermark = math.MaxInt64
	for _, a := range aborted {
		at := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
		at.ProducerID, at.FirstOffset = a.ProducerID, a.FirstOffset
		rp.AbortedTransactions = append(rp.AbortedTransactions, at)
	}
	o := kgo.ProcessFetchPartitionOpts{Topic: "t", IsolationLevel: kgo.ReadUncommitted()}
	if readCommitted {
		o.IsolationLevel = kgo.ReadCommitted()
	}
	fp, _ := kgo.ProcessFetchPartition(o, &rp, kgo.DefaultDecompressor(), nil)
	if fp.Err != nil {
		t.Fatalf("franz-go cannot read it: %v", fp.Err)
	}
	var rs []testRecord
	for _, r := range fp.Records {
		rs = append(rs, testRecord{r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value})
	}
	return rs
}

// dumbSlice is the slice of a record: with the default partitioner, a topic of Base*K partitions has it in
// hash mod (Base*K) = p + Base*s. With a layout it is the one with a key range that holds the record's key position; -1: none.
func dumbSlice(r testRecord, sl Slicing, sets []keyrange.Set) int {
	if sl.Layout != nil {
		position := keyrange.NullPosition(r.Offset)
		if r.Key != nil {
			position = keyrange.Position(r.Key, sl.Base)
		}
		return slices.IndexFunc(sets, func(s keyrange.Set) bool { return s.Contains(position) })
	}
	if r.Key == nil {
		return int(r.Offset % int64(sl.K))
	}
	v := kgo.StickyKeyPartitioner(nil).ForTopic("t").Partition(&kgo.Record{Key: r.Key}, int(sl.Base*sl.K))
	return v / int(sl.Base)
}

func dumbSplit(rs []testRecord, sl Slicing, sets ...keyrange.Set) [][]testRecord {
	slices := make([][]testRecord, sl.K)
	for _, r := range rs {
		if s := dumbSlice(r, sl, sets); s >= 0 {
			slices[s] = append(slices[s], r)
		}
	}
	return slices
}

func sameRecords(got, want []testRecord) error {
	for i := range min(len(got), len(want)) {
		g, w := got[i], want[i]
		if g.Offset != w.Offset || g.Timestamp != w.Timestamp || !bytes.Equal(g.Key, w.Key) || !bytes.Equal(g.Value, w.Value) ||
			(g.Key == nil) != (w.Key == nil) || (g.Value == nil) != (w.Value == nil) {
			return fmt.Errorf("record %d: %v, want %v", i, g, w)
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d records, want %d", len(got), len(want))
	}
	return nil
}

// checkPiece reads a piece and checks what its header says.
func checkPiece(t fataler, p Piece) []testRecord {
	var rb kmsg.RecordBatch
	if err := rb.ReadFrom(p.Data); err != nil {
		t.Fatalf("piece: %v", err)
	}
	rs := read(t, p.Data, false, nil)
	if len(rs) == 0 || rs[0].Offset != p.First || rs[len(rs)-1].Offset != p.Last {
		t.Fatalf("piece says [%d, %d], holds %v", p.First, p.Last, rs)
	}
	if rb.Magic != 2 || rb.PartitionLeaderEpoch != -1 || rb.ProducerID != -1 || rb.ProducerEpoch != -1 || rb.FirstSequence != -1 ||
		rb.Attributes&^attrLogAppendTime != 0 || rb.FirstOffset+int64(rb.LastOffsetDelta) != p.Last || int(rb.NumRecords) != len(rs) {
		t.Fatalf("piece header: %+v", rb)
	}
	return rs
}

// splitAll splits raw into as many blocks as it takes and returns the records by slice.
func splitAll(t fataler, s *Splitter, raw []byte, from int64, sl Slicing, readCommitted bool, aborted []Aborted) (slices [][]testRecord, blocks []*Block) {
	slices = make([][]testRecord, sl.K)
	for {
		b, err := s.Split(raw, from, sl, readCommitted, aborted)
		if err != nil {
			t.Fatalf("Split: %v", err)
		}
		if len(blocks) > 0 && b.Used > 0 && b.Start != from {
			t.Fatalf("block starts at %d, the one before ended at %d", b.Start, from)
		}
		blocks = append(blocks, b)
		for i, pieces := range b.Slices {
			for _, p := range pieces {
				if p.First < b.Start || p.Last >= b.End {
					t.Fatalf("piece [%d, %d] in block [%d, %d)", p.First, p.Last, b.Start, b.End)
				}
				slices[i] = append(slices[i], checkPiece(t, p)...)
			}
		}
		if b.Used == 0 {
			return slices, blocks
		}
		raw, from, aborted = raw[b.Used:], b.End, b.Aborted
	}
}

func compareSlices(t fataler, got, want [][]testRecord) {
	for i := range want {
		if err := sameRecords(got[i], want[i]); err != nil {
			t.Fatalf("slice %d of %d: %v", i, len(want), err)
		}
	}
}

var _ fataler = (*testing.T)(nil)
