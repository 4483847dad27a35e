package icommit

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"slices"
	"testing"

	"github.com/tandem-kafka/tandem/internal/icommit/record"
)

// inTransaction makes a batch one of a producer's transaction, or the marker that ends one.
func inTransaction(raw []byte, producer int64, marker bool) []byte {
	be := binary.BigEndian
	attributes := uint16(transactional)
	if marker {
		attributes |= control
	}
	be.PutUint16(raw[21:], attributes)
	be.PutUint64(raw[43:], uint64(producer))
	be.PutUint16(raw[51:], 3)
	be.PutUint32(raw[17:], crc32.Checksum(raw[21:], castagnoli))
	return raw
}

// markerBatch ends a transaction.
func markerBatch(base, producer int64, commit bool) []byte {
	b := rawBatch(base, 1, nil)
	body := []byte{0, 0, 0, 8, 0, 0, 0, byte(map[bool]int{true: 1}[commit]), 12, 0, 0, 0, 0, 0, 7, 0} // the epoch of the coordinator is the value
	b = append(append(b, byte(2*len(body))), body...)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[23:], 0)
	binary.BigEndian.PutUint32(b[57:], 1)
	return inTransaction(b, producer, true)
}

// told writes down what a TransactionHandler is told.
type told struct {
	facts
	all []string
}

func (h *told) Apply(_ int32, rs []record.Record) { h.tell("applied", rs) }

func (h *told) ApplyOpen(_ int32, p Producer, rs []record.Record) {
	h.tell(fmt.Sprint("open of ", p.ID, "/", p.Epoch), rs)
}

func (h *told) Decide(_ int32, id int64, commit bool) {
	h.all = append(h.all, fmt.Sprint("decided ", id, " ", commit))
}

func (h *told) tell(what string, rs []record.Record) {
	for _, r := range rs {
		what += fmt.Sprint(" ", r.Fact.First)
	}
	h.all = append(h.all, what)
}

// Batches of transactions are handed over as such, each kind in the order of the log, and what is damaged is passed over.
func TestReadTransactions(t *testing.T) {
	damaged := markerBatch(7, 12, true)
	damaged[60]++
	cases := map[string]struct {
		batches [][]byte
		want    []string
		next    int64
	}{
		"mixed": {[][]byte{
			inTransaction(rawBatch(0, 1, []int64{1, 2}), 11, false), inTransaction(rawBatch(2, 1, []int64{3}), 11, false), inTransaction(rawBatch(3, 1, []int64{4}), 12, false),
			rawBatch(4, 1, []int64{5}), markerBatch(5, 11, true), markerBatch(6, 12, false), rawBatch(7, 1, []int64{6}),
		}, []string{"open of 11/3 1 2 3", "open of 12/3 4", "applied 5", "decided 11 true", "decided 12 false", "applied 6"}, 8},
		"cut off":               {[][]byte{markerBatch(0, 11, true), rawBatch(1, 1, []int64{5})[:70]}, []string{"decided 11 true"}, 1},
		"damaged in the middle": {[][]byte{rawBatch(6, 1, []int64{1}), damaged, rawBatch(8, 1, []int64{2})}, []string{"applied 1"}, 7},
		"damaged at the front":  {[][]byte{damaged, rawBatch(8, 1, []int64{2})}, nil, 8},
	}
	for name, c := range cases {
		h := &told{}
		l := New(newFake(), h, Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		raw := slices.Concat(c.batches...)
		from := int64(binary.BigEndian.Uint64(raw))
		next, err := (<-l.readers).read(&follower{l: l, topic: Topic{Partitions: 1}}, Fetched{Raw: raw, End: 100}, from)
		if err != nil || next != c.next || !slices.Equal(h.all, c.want) {
			t.Errorf("%s: %v, then %d, %v; want %v, then %d", name, h.all, next, err, c.want, c.next)
		}
		l.Close()
	}
}
