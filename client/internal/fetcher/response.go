package fetcher

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/tandemmsg"
)

// answered sorts an answer by streams and returns what is to be decoded. f.mu is held.
func (f *Fetcher) answered(r *request, resp *kmsg.FetchResponse) (slots []*slot) {
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		f.failAll(r, err, lost(err) || passing(err))
		return nil
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		of := r.of(t, resp.Version > byName)
		if of == nil {
			continue
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if s, ok := of.take(p.Partition); ok && f.landed(s) {
				if b := f.answeredOne(s, p); b != nil {
					slots = append(slots, b)
				}
			}
		}
	}
	// A throttled answer leaves partitions out. They are asked for again.
	for _, t := range r.topics {
		for _, s := range t.streams {
			if s.stream != nil {
				f.landed(s)
			}
		}
	}
	return slots
}

func (r *request) of(t *kmsg.FetchResponseTopic, byID bool) *asked {
	for i := range r.topics {
		if of := &r.topics[i]; byID && of.id == t.TopicID || !byID && of.name == t.Topic {
			return of
		}
	}
	return nil
}

// take takes the first stream of a partition: where one was asked for more than once, the answers come in the same order.
func (a *asked) take(partition int32) (s inFlight, ok bool) {
	for i := range a.streams {
		if s := a.streams[i]; s.stream != nil && s.Partition == partition {
			a.streams[i].stream = nil
			if i == 0 {
				a.streams = a.streams[1:] // answers come in the order of the request, so the search is short
			}
			return s, true
		}
	}
	return inFlight{}, false
}

// answeredOne takes in the answer for one stream: what is to be decoded, if anything. f.mu is held.
func (f *Fetcher) answeredOne(s inFlight, p *kmsg.FetchResponseTopicPartition) *slot {
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		f.refused(s.stream, err)
		return nil
	}
	scanned, err := tandemmsg.ScannedOffset(p)
	if err == nil && scanned < 0 && !s.whole {
		err = ErrKeyRanges
	}
	if err != nil {
		f.lose(s.stream)
		f.fail(s.stream, err, false)
		return nil
	}
	end := lastOffset(p.RecordBatches) + 1
	if len(p.RecordBatches) > 0 && end == 0 {
		f.fail(s.stream, errStuck, false)
		return nil
	}
	b := &slot{Batch: s.batch(), s: s.stream, raw: *p, end: max(end, s.from)}
	b.Bytes = len(p.RecordBatches)
	b.HighWatermark, b.LastStableOffset, b.LogStart = p.HighWatermark, p.LastStableOffset, p.LogStartOffset
	if b.Next = b.end; !s.whole {
		b.Next = max(scanned, s.from)
	}
	if b.Next == s.from && b.Bytes == 0 {
		s.succeed()
		if s.once != nil {
			f.answer(s.stream, b.Batch)
		}
		return nil
	}
	s.next = b.Next
	f.put(b)
	return b
}

// refused works on the error of one stream. f.mu is held.
func (f *Fetcher) refused(s *stream, err error) {
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange) && s.once == nil && f.cfg.Reset != ResetNone:
		f.reset(s)
	case lost(err):
		f.lose(s)
		f.fail(s, err, true)
	default:
		f.fail(s, err, passing(err))
	}
}

// lastOffset is the last offset of the last batch that is complete, -1 if there is none.
func lastOffset(batches []byte) int64 {
	const (
		header = 17 // up to and with the magic
		length = 8
		magic  = 16
		delta  = 23 // of magic 2: the last offset, counted from the first
	)
	last := int64(-1)
	for len(batches) >= header {
		size := 12 + int64(int32(binary.BigEndian.Uint32(batches[length:])))
		if size < header || size > int64(len(batches)) {
			break
		}
		last = int64(binary.BigEndian.Uint64(batches))
		if batches[magic] >= 2 && size >= delta+4 {
			last += int64(int32(binary.BigEndian.Uint32(batches[delta:])))
		}
		batches = batches[size:]
	}
	return last
}

// decode makes the records of a slot. f.mu is not held.
func (f *Fetcher) decode(b *slot) {
	end := b.From
	var err error
	if b.Bytes > 0 {
		opts := kgo.ProcessFetchPartitionOpts{Offset: b.From, IsolationLevel: f.isolation, Topic: b.Topic, Partition: b.Partition}
		var p kgo.FetchPartition
		p, end = kgo.ProcessFetchPartition(opts, &b.raw, f.decompress, nil)
		b.Records, err = p.Records, p.Err
		b.raw = kmsg.FetchResponseTopicPartition{}
	}
	if err == nil && end < b.end {
		err = fmt.Errorf("fetcher: the records end at %d, their batches at %d", end, b.end)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := b.s
	if s == nil || s.gone { // dropped meanwhile
		return
	}
	if err != nil {
		end = b.From // not what the decoder says: it skips what it does not know
	}
	if n := len(b.Records); n > 0 {
		end = max(end, b.Records[n-1].Offset+1)
	}
	b.decoded = true
	switch {
	case err != nil:
		f.undecodable(b, end, err)
	case s.once != nil:
		b.Next = max(b.Next, end)
		f.answer(s, b.Batch)
	default:
		b.Next = max(b.Next, end)
		if s.slots[0] == b { // else what comes before may still fail
			s.succeed()
		}
		f.enqueue(s)
	}
}

// undecodable cuts a slot off at end, where its data is damaged: the stream goes on there. f.mu is held.
func (f *Fetcher) undecodable(b *slot, end int64, err error) {
	s := b.s
	b.Next = end
	if s.once != nil && len(b.Records) > 0 {
		f.answer(s, b.Batch)
		return
	}
	i := slices.Index(s.slots, b)
	if len(b.Records) > 0 {
		i++
		f.enqueue(s)
	}
	s.next = b.Next
	s.turn++
	f.drop(s, i)
	f.fail(s, err, false)
}
