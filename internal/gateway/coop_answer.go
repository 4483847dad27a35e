package gateway

import (
	"cmp"
	"slices"

	"github.com/tandem-kafka/tandem/internal/acquire"
	"github.com/tandem-kafka/tandem/internal/split"
	"github.com/tandem-kafka/tandem/tandemmsg"
)

// Batches pass as they were produced, as long as that is not much more than the
// member is given: of a large batch that many members share each gets the part that
// holds its records. A compressed batch is decompressed for that, once for all.

const (
	divideFrom = 8 << 10 // bytes of a batch from which on it may be divided
	maxDivided = 8 << 20 // of one that is decompressed
)

// share is about how many bytes of a batch a range of offsets in it takes.
func (b *partBatch) share(r acquire.Range) int64 {
	n, span := int64(len(b.Data)), b.Last-b.First+1
	if n < divideFrom {
		return n
	}
	return min(n, n*(r.Last-r.First+1)/span+1)
}

// content is the batches of a part's answer, in order, each once. It is called when nothing is added any more. What was made of messages of an old format begins where its
// chunk does: what lies within another has nothing that the other has not.
func (p *coopPart) content(m *chunkMemory) (data [][]byte) {
	slices.SortFunc(p.acquired, func(a, b tandemmsg.AcquiredRange) int { return cmp.Compare(a.First, b.First) })
	slices.SortStableFunc(p.batches, func(a, b partBatch) int { return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(b.Last, a.Last)) })
	reached := int64(-1)
	p.batches = slices.DeleteFunc(p.batches, func(b partBatch) bool {
		within := b.Last <= reached
		reached = max(reached, b.Last)
		return within
	})
	ranges := p.acquired
	for i := range p.batches {
		b := &p.batches[i]
		for len(ranges) > 0 && ranges[0].Last < b.First {
			ranges = ranges[1:]
		}
		first, last := b.Last+1, b.First-1 // the hull of what is given of the batch
		for _, r := range ranges {
			if r.First > b.Last {
				break
			}
			first, last = min(first, max(r.First, b.First)), min(r.Last, b.Last)
		}
		switch {
		case first > last: // the range holds none of its records
		case len(b.Data) < divideFrom || 2*(last-first+1) > b.Last-b.First+1:
			data = append(data, b.Data)
		default:
			data = b.part(data, first, last, m)
		}
	}
	return data
}

// part appends the part of a batch that holds some offsets.
func (b *partBatch) part(data [][]byte, first, last int64, m *chunkMemory) [][]byte {
	plain := b.of.uncompressed(b.wholeBatch, m)
	if plain == nil {
		return append(data, b.Data)
	}
	if piece, ok := split.Cut(split.Piece{First: b.First, Last: b.Last, Data: plain}, first, last); ok {
		return append(data, piece.Data)
	}
	return data
}

// uncompressed is a batch of the chunk, nil where it cannot be had.
func (k *chunk) uncompressed(b wholeBatch, m *chunkMemory) []byte {
	if split.IsPlain(b.Data) {
		return b.Data
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	plain, ok := k.plain[b.Last]
	if ok {
		return plain
	}
	block, err := split.New(split.Config{MaxBatchBytes: maxDivided}).Split(b.Data, b.First, split.Slicing{Base: 1, K: 1}, false, nil)
	if err == nil && len(block.Slices[0]) == 1 {
		plain = block.Slices[0][0].Data
	}
	if k.plain == nil {
		k.plain = make(map[int64][]byte)
	}
	k.plain[b.Last] = plain
	m.grow(k, int64(len(plain)), 0)
	return plain
}
