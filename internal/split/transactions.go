package split

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// transactions knows, while batches pass in offset order, which producers are in an aborted transaction, as Kafka's
// consumer does (CompletedFetch.containsAbortMarker and its neighbours).
type transactions struct {
	on       bool
	upcoming []Aborted       // by first offset; not begun yet
	begun    map[int64]int64 // producer id -> first offset
}

func (t *transactions) begin(readCommitted bool, aborted []Aborted) {
	t.on = readCommitted
	t.upcoming = t.upcoming[:0]
	clear(t.begun)
	if readCommitted && len(aborted) > 0 {
		t.upcoming = append(t.upcoming, aborted...)
		slices.SortFunc(t.upcoming, func(a, b Aborted) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	}
}

// drop takes note of the batch and reports whether its records are not for consumers.
func (t *transactions) drop(h *header, records []byte) bool {
	if t.on {
		for len(t.upcoming) > 0 && t.upcoming[0].FirstOffset <= h.last() {
			if t.begun == nil {
				t.begun = map[int64]int64{}
			}
			t.begun[t.upcoming[0].ProducerID] = t.upcoming[0].FirstOffset
			t.upcoming = t.upcoming[1:]
		}
	}
	if h.has(attrControl) {
		if t.on && len(t.begun) > 0 && isAbortMarker(records) {
			delete(t.begun, h.producerID)
		}
		return true
	}
	if !t.on || !h.has(attrTransactional) || len(t.begun) == 0 {
		return false
	}
	_, aborted := t.begun[h.producerID]
	return aborted
}

// left lists the transactions that batches still to come may belong to.
func (t *transactions) left() []Aborted {
	if len(t.begun)+len(t.upcoming) == 0 {
		return nil
	}
	as := make([]Aborted, 0, len(t.begun)+len(t.upcoming))
	for id, first := range t.begun {
		as = append(as, Aborted{id, first})
	}
	slices.SortFunc(as, func(a, b Aborted) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	return append(as, t.upcoming...)
}

// isAbortMarker reads the key of a control batch's only record: version int16, type int16 (0 abort, 1 commit).
func isAbortMarker(rec []byte) bool {
	_, p := varint(rec, 0)
	if p < 0 {
		return false
	}
	if _, p = varlong(rec, p+1); p < 0 {
		return false
	}
	if _, p = varint(rec, p); p < 0 {
		return false
	}
	n, p := varint(rec, p)
	return p >= 0 && n >= 4 && len(rec)-p >= 4 && binary.BigEndian.Uint16(rec[p+2:]) == 0
}
