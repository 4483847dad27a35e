package icommit

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/split"
)

// reader decodes what was fetched. It is used by one goroutine at a time and keeps its buffers.
type reader struct {
	splitter *split.Splitter
	buffer   buffer
	records  record.Decoder
	batch    []record.Record
	handouts []record.Handout
	group    string // of the last record, and
	home     int32  // the partition that its records belong in
	count    int32  // of so many
	of       origin // of what is in batch
}

const (
	maxBatch  = 64 << 20 // uncompressed bytes of one record batch
	maxBlock  = 4 << 20  // uncompressed bytes at a time
	handOver  = 1024     // records at a time
	batchHead = 61       // bytes before a batch's records
)

func newReader() *reader {
	r := &reader{batch: make([]record.Record, 0, handOver)}
	r.splitter = split.New(split.Config{MaxBatchBytes: maxBatch, MaxBlockBytes: maxBlock, Alloc: r.buffer.take})
	return r
}

// whole is a slicing into one slice: it leaves batches as they are, but uncompressed.
var whole = split.Slicing{Base: 1, K: 1}

// read hands over the records of got, which was fetched from offset position on, and returns the offset to go on at.
func (r *reader) read(f *follower, got Fetched, position int64) (next int64, err error) {
	next = position
	for raw := got.Raw; len(raw) > 0; {
		n, of := stretch(raw)
		if of != r.of {
			r.flush(f)
			r.of = of
		}
		used, end, err := r.part(f, raw[:n], next, position)
		if next = max(next, end); err != nil {
			if next > position {
				break // it comes first in the next answer
			}
			return f.skip(got, position, err)
		}
		if raw = raw[used:]; used < n {
			break
		}
	}
	r.flush(f)
	if next == position {
		return next, fmt.Errorf("the broker gives %d bytes, and no whole batch from offset %d on", len(got.Raw), position)
	}
	return next, nil
}

// part reads batches of one origin, and returns how many of their bytes it took, and the offset behind them. Records below from were handed
// over before.
func (r *reader) part(f *follower, raw []byte, position, from int64) (used int, end int64, err error) {
	end = position
	if r.of.control {
		commit, decides, next, err := marker(raw)
		if err != nil {
			return 0, end, err
		}
		if h, ok := f.l.handler.(TransactionHandler); ok && decides && next > from {
			h.Decide(f.partition, r.of.producer.ID, commit)
		}
		return len(raw), next, nil
	}
	for used < len(raw) {
		r.buffer.free()
		block, err := r.splitter.Split(raw[used:], end, whole, false, nil)
		if err != nil || block.Used == 0 {
			return used, end, err
		}
		for _, piece := range block.Slices[0] {
			r.piece(f, piece.Data, from)
		}
		used, end = used+block.Used, max(end, block.End)
	}
	return used, end, nil
}

// piece reads the records of an uncompressed batch that the splitter has checked; those below from were handed over before.
func (r *reader) piece(f *follower, data []byte, from int64) {
	base := int64(binary.BigEndian.Uint64(data))
	for data = data[batchHead:]; len(data) > 0; {
		length, n := binary.Varint(data)
		body := data[n : n+int(length)]
		data = data[n+int(length):]
		delta, key, value, ok := parse(body)
		offset := base + delta
		switch {
		case !ok:
			f.skipped(offset, record.ErrDamaged)
		case offset >= from:
			r.record(f, offset, key, value)
		}
	}
}

func (r *reader) record(f *follower, offset int64, key, value []byte) {
	if record.IsHandout(key) {
		r.handout(f, offset, key, value)
		return
	}
	rec, err := r.records.Decode(key, value)
	if err != nil {
		f.skipped(offset, err)
		return
	}
	if !r.isHome(f, rec.Group) {
		f.skipped(offset, errMisplaced)
		return
	}
	if len(r.handouts) > 0 { // each kind in the order of the log
		r.flush(f)
	}
	if r.batch = append(r.batch, rec); len(r.batch) == handOver {
		r.flush(f)
	}
}

func (r *reader) handout(f *follower, offset int64, key, value []byte) {
	if _, ok := f.l.handler.(HandoutHandler); !ok {
		return
	}
	if r.of.open { // nobody could judge it in the order of the log
		f.skipped(offset, record.ErrForeign)
		return
	}
	h, err := r.records.DecodeHandout(key, value)
	if err != nil {
		f.skipped(offset, err)
		return
	}
	if !r.isHome(f, h.Group) {
		f.skipped(offset, errMisplaced)
		return
	}
	if len(r.batch) > 0 {
		r.flush(f)
	}
	h.Position = offset
	if r.handouts = append(r.handouts, h); len(r.handouts) == handOver {
		r.flush(f)
	}
}

// isHome reports whether a group's records belong in the partition that is followed.
func (r *reader) isHome(f *follower, group string) bool {
	if r.group != group || r.count != f.topic.Partitions {
		r.group, r.count = group, f.topic.Partitions
		r.home = record.PartitionOf(group, r.count)
	}
	return r.home == f.partition
}

func (r *reader) flush(f *follower) {
	if len(r.batch) > 0 {
		f.l.metrics.Applied.Add(int64(len(r.batch)))
		if h, ok := f.l.handler.(TransactionHandler); !r.of.open {
			f.l.handler.Apply(f.partition, r.batch)
		} else if ok {
			h.ApplyOpen(f.partition, r.of.producer, r.batch)
		}
		clear(r.batch)
		r.batch = r.batch[:0]
	}
	if len(r.handouts) > 0 {
		f.l.metrics.Applied.Add(int64(len(r.handouts)))
		f.l.handler.(HandoutHandler).ApplyHandouts(f.partition, r.handouts)
		clear(r.handouts)
		r.handouts = r.handouts[:0]
	}
}

// parse takes a record of magic 2 apart, from behind its length on: attributes int8, timestamp delta, offset delta, key and value,
// each with its length before it, -1 for null. All numbers are zigzag varints.
func parse(b []byte) (delta int64, key, value []byte, ok bool) {
	p := 1
	number := func() (v int64) {
		if p < 0 || p > len(b) {
			p = -1
			return 0
		}
		v, n := binary.Varint(b[p:])
		if p += n; n <= 0 {
			p = -1
		}
		return v
	}
	field := func() []byte {
		n := number()
		if p < 0 || n > int64(len(b)-p) {
			p = -1
			return nil
		}
		if n < 0 {
			return nil
		}
		v := b[p : p+int(n) : p+int(n)]
		p += int(n)
		return v
	}
	number()
	delta = number()
	key, value = field(), field()
	return delta, key, value, p >= 0
}

var errMisplaced = errors.New("record in a partition that is not its group's")

// skipped counts a record that is not handed over.
func (f *follower) skipped(offset int64, why error) {
	m := &f.l.metrics
	kind, counter := "damaged", &m.Damaged
	switch {
	case errors.Is(why, record.ErrForeign):
		kind, counter = "foreign", &m.Foreign
	case errors.Is(why, record.ErrNewer):
		kind, counter = "newer", &m.Newer
	case why == errMisplaced:
		kind, counter = "misplaced", &m.Misplaced
	}
	counter.Add(1)
	f.l.warn.log(f.l.cfg.Logger, kind, "a record of the topic of individual commits is skipped", "topic", TopicName, "partition", f.partition, "offset", offset, "reason", why)
}

// skip goes past the batch at the front of got, which cannot be read for the reason why.
func (f *follower) skip(got Fetched, position int64, why error) (next int64, err error) {
	f.l.metrics.Batches.Add(1)
	f.l.warn.log(f.l.cfg.Logger, "batch", "a batch of the topic of individual commits is skipped; where there are many, delete the topic: its facts are then delivered again",
		"topic", TopicName, "partition", f.partition, "offset", position, "reason", why)
	return behind(got.Raw, position, got.End), nil
}

// behind is the offset to go on at behind the damaged batch at the front of raw, which holds position. What the batch says of itself may be
// damaged, too: the next batch says better where it ends. Never is it beyond the end that the leader tells.
func behind(raw []byte, position, end int64) int64 {
	be := binary.BigEndian
	if len(raw) >= 12 {
		if size := int64(int32(be.Uint32(raw[8:]))) + 12; size >= 12 && size+8 <= int64(len(raw)) {
			if next := int64(be.Uint64(raw[size:])); next > position && next <= end {
				return next
			}
		}
	}
	if len(raw) >= batchHead && raw[16] >= 2 {
		if next := int64(be.Uint64(raw)) + int64(int32(be.Uint32(raw[23:]))) + 1; next > position {
			return min(next, max(end, position+1))
		}
	}
	return position + 1
}

// epochs are the leader epochs of the first and the last complete batch of raw, false where there is none that has one.
func epochs(raw []byte) (first, last int32, ok bool) {
	for len(raw) >= 17 && raw[16] >= 2 {
		size := int64(int32(binary.BigEndian.Uint32(raw[8:]))) + 12
		if size < 17 || size > int64(len(raw)) {
			break
		}
		last = int32(binary.BigEndian.Uint32(raw[12:]))
		if !ok {
			first, ok = last, true
		}
		raw = raw[size:]
	}
	return first, last, ok && first >= 0
}

// buffer gives the splitter its output memory, which is free again when the records of a block were decoded.
type buffer struct {
	mem  []byte
	used int
}

func (b *buffer) free() { b.used = 0 }

func (b *buffer) take(n int) []byte {
	if n > len(b.mem)-b.used {
		if n > 2*maxBlock {
			return make([]byte, n) // an exceptional batch
		}
		b.mem, b.used = make([]byte, max(n, min(2*len(b.mem), 2*maxBlock))), 0
	}
	out := b.mem[b.used : b.used+n : b.used+n]
	b.used += n
	return out
}
