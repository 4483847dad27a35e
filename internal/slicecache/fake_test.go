package slicecache

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/internal/split"
	"github.com/tandem-kafka/tandem/keyrange"
)

// rec is a record of the fake log; a nil key is a null key.
type rec struct {
	offset int64
	ts     int64
	key    []byte
	value  string
}

type logBatch struct {
	base, last int64
	raw        []byte
	recs       []rec
	pid        int64
	control    bool
	aborted    bool // known when its transaction has ended
}

var nonsense = bytes.Repeat([]byte{0xee}, 64<<10)

// fakeLog is an Upstream over one partition in memory.
type fakeLog struct {
	mu       sync.Mutex
	batches  []logBatch
	start    int64
	end      int64
	open     map[int64]int64 // producer id: first offset of its open transaction
	aborted  []split.Aborted
	abortEnd []int64
	changed  chan struct{}

	latency time.Duration
	cut     bool // cut the last batch of an answer off, as brokers do
	err     error
	hang    bool // answer nothing until the context ends
	bytes   atomic.Int64
	fetches atomic.Int64
	lists   atomic.Int64
}

func newFakeLog() *fakeLog {
	return &fakeLog{open: map[int64]int64{}, changed: make(chan struct{})}
}

func (l *fakeLog) touch() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// append writes one batch; offset and ts of the records are set. pid >= 0 makes it part of a transaction.
func (l *fakeLog) append(pid int64, recs ...rec) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.open[pid]; pid >= 0 && !ok {
		l.open[pid] = l.end
	}
	for i := range recs {
		recs[i].offset = l.end + int64(i)
		if recs[i].ts == 0 {
			recs[i].ts = recs[i].offset * 10
		}
	}
	l.add(logBatch{base: l.end, last: l.end + int64(len(recs)) - 1, recs: recs, pid: pid})
}

func (l *fakeLog) add(b logBatch) {
	b.raw = encodeBatch(b)
	l.batches = append(l.batches, b)
	l.end = b.last + 1
	l.touch()
}

func (l *fakeLog) now() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// skip leaves a hole of n offsets, as compaction does, before the next batch.
func (l *fakeLog) skip(n int64) {
	l.mu.Lock()
	l.end += n
	l.mu.Unlock()
}

// finish ends a transaction with a marker.
func (l *fakeLog) finish(pid int64, commit bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first, ok := l.open[pid]
	if !ok {
		return
	}
	delete(l.open, pid)
	if !commit {
		for i := range l.batches {
			if b := &l.batches[i]; b.pid == pid && b.base >= first && !b.control {
				b.aborted = true
			}
		}
		l.aborted = append(l.aborted, split.Aborted{ProducerID: pid, FirstOffset: first})
		l.abortEnd = append(l.abortEnd, l.end)
	}
	marker := byte(0)
	if commit {
		marker = 1
	}
	l.add(logBatch{base: l.end, last: l.end, pid: pid, control: true, recs: []rec{{offset: l.end, ts: l.end * 10, key: []byte{0, 0, 0, marker}}}})
}

func (l *fakeLog) deleteBefore(offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.start = max(l.start, min(offset, l.end))
	for len(l.batches) > 0 && l.batches[0].last < l.start {
		l.batches = l.batches[1:]
	}
}

// truncate cuts the log like an unclean leader election.
func (l *fakeLog) truncate(end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := len(l.batches); n > 0 && l.batches[n-1].last >= end; n-- {
		l.batches = l.batches[:n-1]
	}
	l.end = end
	l.touch()
}

func (l *fakeLog) fail(err error) {
	l.mu.Lock()
	l.err = err
	l.touch()
	l.mu.Unlock()
}

func (l *fakeLog) setHang(on bool) {
	l.mu.Lock()
	l.hang = on
	l.touch()
	l.mu.Unlock()
}

func (l *fakeLog) stable() int64 {
	end := l.end
	for _, o := range l.open {
		end = min(end, o)
	}
	return end
}

func (l *fakeLog) Fetch(ctx context.Context, _ Source, offset int64, readCommitted bool, maxWait time.Duration, minBytes, maxBytes int32) (Fetched, error) {
	if l.latency > 0 {
		time.Sleep(l.latency)
	}
	deadline := time.NewTimer(maxWait)
	defer deadline.Stop()
	l.mu.Lock()
	l.fetches.Add(1)
	for last := maxWait <= 0; ; {
		f, err := l.read(offset, readCommitted, int(maxBytes))
		if hang := l.hang; !hang && (err != nil || len(f.Raw) > 0 || last) {
			l.bytes.Add(int64(len(f.Raw)))
			l.mu.Unlock()
			f.Raw = bytes.Clone(f.Raw)
			f.Free = func() { // whoever still uses it will see nonsense
				for rest := f.Raw; len(rest) > 0; {
					rest = rest[copy(rest, nonsense):] // quick under the race detector too
				}
			}
			return f, err
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-deadline.C:
			last = true
		case <-ctx.Done():
			return Fetched{}, ctx.Err()
		}
		l.mu.Lock()
	}
}

func (l *fakeLog) read(offset int64, readCommitted bool, maxBytes int) (Fetched, error) {
	if l.err != nil {
		return Fetched{}, l.err
	}
	if offset < l.start || offset > l.end {
		return Fetched{}, kerr.OffsetOutOfRange
	}
	f := Fetched{HighWatermark: l.end, LastStableOffset: l.stable(), LogStart: l.start}
	limit := l.end
	if readCommitted {
		limit = f.LastStableOffset
	}
	first := sort.Search(len(l.batches), func(i int) bool { return l.batches[i].last >= offset })
	for _, b := range l.batches[first:] {
		if b.base >= limit {
			break
		}
		if len(f.Raw) > 0 && len(f.Raw)+len(b.raw) > maxBytes {
			if l.cut {
				f.Raw = append(f.Raw, b.raw[:max(0, maxBytes-len(f.Raw))]...)
			}
			break
		}
		f.Raw = append(f.Raw, b.raw...)
	}
	if readCommitted {
		for i, a := range l.aborted {
			if l.abortEnd[i] >= offset {
				f.Aborted = append(f.Aborted, a)
			}
		}
	}
	return f, nil
}

func (l *fakeLog) ListOffset(_ context.Context, _ Source, timestamp int64, readCommitted bool) (int64, int64, int32, error) {
	if l.latency > 0 {
		time.Sleep(l.latency)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists.Add(1)
	switch {
	case l.err != nil:
		return -1, -1, -1, l.err
	case timestamp == -1 && readCommitted:
		return l.stable(), -1, 0, nil
	case timestamp == -1:
		return l.end, -1, 0, nil
	case timestamp == -2:
		return l.start, -1, 0, nil
	}
	best, at := int64(-1), int64(-1)
	for _, b := range l.batches {
		for _, r := range b.recs {
			if r.offset < l.start {
				continue
			}
			if timestamp == -3 && r.ts > best {
				best, at = r.ts, r.offset
			}
			if timestamp >= 0 && r.ts >= timestamp {
				return r.offset, r.ts, 0, nil
			}
		}
	}
	return at, best, 0, nil
}

// visible returns the records of a slice that a consumer sees.
func (l *fakeLog) visible(holds func(rec) bool, readCommitted bool) (rs []rec) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.batches {
		if b.control || readCommitted && (b.aborted || b.base >= l.stable()) {
			continue
		}
		for _, r := range b.recs {
			if r.offset >= l.start && holds(r) {
				rs = append(rs, r)
			}
		}
	}
	return rs
}

func sliceOf(s split.Slicing, r rec) int32 {
	if r.key == nil {
		return int32(r.offset % int64(s.K))
	}
	return int32(keyrange.Murmur2(r.key)&0x7fffffff) / s.Base % s.K
}

func positionOf(r rec, base int32) uint32 {
	if r.key == nil {
		return keyrange.NullPosition(r.offset)
	}
	return keyrange.Position(r.key, base)
}

// keyFor returns a key of a slice.
func keyFor(s split.Slicing, slice int32) []byte {
	for i := 0; ; i++ {
		k := []byte(fmt.Sprint("k", i))
		if sliceOf(s, rec{key: k}) == slice {
			return k
		}
	}
}

func encodeBatch(b logBatch) []byte {
	var recs []byte
	for _, r := range b.recs {
		k := kmsg.Record{TimestampDelta64: r.ts - b.recs[0].ts, OffsetDelta: int32(r.offset - b.base), Key: r.key, Value: []byte(r.value)}
		body := k.AppendTo(nil)[1:] // the length was 0
		recs = append(kbin.AppendVarint(recs, int32(len(body))), body...)
	}
	attrs := int16(0)
	if b.pid >= 0 {
		attrs |= 0x10
	}
	if b.control {
		attrs |= 0x20
	}
	kb := kmsg.RecordBatch{FirstOffset: b.base, Magic: 2, Attributes: attrs, LastOffsetDelta: int32(b.last - b.base), FirstTimestamp: b.recs[0].ts,
		MaxTimestamp: b.recs[len(b.recs)-1].ts, ProducerID: b.pid, NumRecords: int32(len(b.recs)), Records: recs}
	raw := kb.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// failer is what testing.T and rapid.T have in common.
type failer interface {
	Helper()
	Fatalf(string, ...any)
}

// decode returns the records of an answer.
func decode(t failer, data [][]byte) (rs []rec) {
	t.Helper()
	for _, d := range data {
		var b kmsg.RecordBatch
		if err := b.ReadFrom(d); err != nil {
			t.Fatalf("bad batch: %v", err)
		}
		for in := b.Records; len(in) > 0; {
			n, used := kbin.Varint(in)
			var r kmsg.Record
			if err := r.ReadFrom(in[:used+int(n)]); err != nil {
				t.Fatalf("bad record: %v", err)
			}
			in = in[used+int(n):]
			rs = append(rs, rec{b.FirstOffset + int64(r.OffsetDelta), b.FirstTimestamp + r.TimestampDelta64, r.Key, string(r.Value)})
		}
	}
	return rs
}

var (
	src   = Source{Topic: "orders"}
	four  = split.Slicing{Base: 1, K: 4}
	eight = split.Slicing{Base: 1, K: 8}
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func newCache(t testing.TB, up Upstream, cfg Config) *Cache {
	if cfg.Logger == nil {
		cfg.Logger = quiet()
	}
	c := New(up, cfg)
	t.Cleanup(c.Close)
	return c
}

func ask(s split.Slicing, slice int32, offset int64) FetchRequest {
	return FetchRequest{MaxWait: 500 * time.Millisecond, MinBytes: 1, MaxBytes: 50 << 20,
		Slices: []SliceRequest{{Source: src, Slicing: s, Slice: slice, Offset: offset, MaxBytes: 1 << 20}}}
}

func fetchOne(c *Cache, req FetchRequest) SliceResult { return c.Fetch(context.Background(), req)[0] }
