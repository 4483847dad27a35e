package slicecache

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/split"
)

// memoryLog serves a ready made log as fast as memory is.
type memoryLog struct {
	raw  []byte
	base []int64 // of the batches
	at   []int
	end  int64
}

func newMemoryLog(bytes, recordBytes int) *memoryLog {
	l := &memoryLog{}
	value := strings.Repeat("v", recordBytes-12)
	for len(l.raw) < bytes {
		rs := make([]rec, max(1, 64<<10/recordBytes))
		for i := range rs {
			o := l.end + int64(i)
			rs[i] = rec{offset: o, ts: o, key: fmt.Append(nil, "key-", o%1000), value: value}
		}
		l.base, l.at = append(l.base, l.end), append(l.at, len(l.raw))
		l.raw = append(l.raw, encodeBatch(logBatch{base: l.end, last: l.end + int64(len(rs)) - 1, recs: rs, pid: -1})...)
		l.end += int64(len(rs))
	}
	return l
}

func (l *memoryLog) Fetch(ctx context.Context, _ Source, offset int64, _ bool, wait time.Duration, _, maxBytes int32) (Fetched, error) {
	f := Fetched{HighWatermark: l.end, LastStableOffset: l.end}
	if offset >= l.end {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		return f, ctx.Err()
	}
	i := sort.Search(len(l.base), func(i int) bool { return l.base[i] > offset }) - 1
	f.Raw = l.raw[l.at[i]:min(len(l.raw), l.at[i]+int(maxBytes))]
	return f, nil
}

func (l *memoryLog) ListOffset(context.Context, Source, int64, bool) (int64, int64, int32, error) {
	return l.end, -1, 0, nil
}

// BenchmarkRead reads a log through the cache: by one consumer of all slices, and by one consumer for each slice. MB/s are of the source.
func BenchmarkRead(b *testing.B) {
	for _, size := range []int{100, 1000} {
		log := newMemoryLog(256<<20, size)
		for _, consumers := range []int{1, 8, 16} {
			b.Run(fmt.Sprintf("record=%d/K=16/consumers=%d", size, consumers), func(b *testing.B) {
				b.SetBytes(int64(len(log.raw)))
				b.ReportAllocs()
				for b.Loop() {
					readAll(b, log, 16, consumers)
				}
			})
		}
	}
}

// BenchmarkReadKeys is BenchmarkRead for key-range fetches by the members of one group.
func BenchmarkReadKeys(b *testing.B) {
	for _, size := range []int{100, 1000} {
		log := newMemoryLog(256<<20, size)
		for _, members := range []int{1, 8, 16} {
			b.Run(fmt.Sprintf("record=%d/members=%d", size, members), func(b *testing.B) {
				b.SetBytes(int64(len(log.raw)))
				b.ReportAllocs()
				for b.Loop() {
					readAll(b, log, 0, members)
				}
			})
		}
	}
}

// readAll reads the log with some consumers: each of k/consumers slices, or if k is 0 of its share of the key axis.
func readAll(b *testing.B, log *memoryLog, k, consumers int) {
	c := New(log, Config{})
	defer c.Close()
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for n := range consumers {
		wg.Go(func() {
			var lease Lease
			req := FetchRequest{MaxWait: time.Second, MinBytes: 1, MaxBytes: 50 << 20, Lease: &lease}
			for s := n; s < k; s += consumers {
				req.Slices = append(req.Slices, SliceRequest{Source: src, Slicing: split.Slicing{Base: 1, K: int32(k)}, Slice: int32(s), MaxBytes: 1 << 20})
			}
			if k == 0 {
				req.Slices = []SliceRequest{{Source: src, Slicing: split.Slicing{Base: 1}, Keys: equalSets(consumers)[n], MaxBytes: 1 << 20}}
			}
			got, open := 0, len(req.Slices)
			for open > 0 {
				open = len(req.Slices)
				for i, res := range c.Fetch(context.Background(), req) {
					for _, d := range res.Data {
						got += len(d)
					}
					req.Slices[i].Offset = res.Scanned
					if res.Scanned >= log.end {
						open--
					}
				}
				lease.Release()
			}
			mu.Lock()
			total += got
			mu.Unlock()
		})
	}
	wg.Wait()
	if total < len(log.raw)*9/10 {
		b.Fatalf("%d bytes of %d", total, len(log.raw))
	}
	b.ReportMetric(float64(c.metrics.BytesLoaded.Load())/float64(len(log.raw)), "read/byte")
}

// BenchmarkTail measures the time from an append to the return of the fetch that waits for it.
func BenchmarkTail(b *testing.B) {
	for _, waiting := range []int{1, 64} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			s := split.Slicing{Base: 1, K: 64}
			log := newFakeLog()
			c := New(log, Config{Logger: quiet()})
			defer c.Close()
			ctx, cancel := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			for slice := 1; slice < waiting; slice++ {
				wg.Go(func() {
					for ctx.Err() == nil {
						c.Fetch(ctx, ask(s, int32(slice), log.end))
					}
				})
			}
			key := keyFor(s, 0)
			var took time.Duration
			got := make(chan time.Time)
			pos := int64(0)
			for b.Loop() {
				ready := make(chan struct{})
				go func() {
					close(ready)
					req := ask(s, 0, pos)
					req.MaxWait = time.Minute
					c.Fetch(ctx, req)
					got <- time.Now()
				}()
				<-ready
				start := time.Now()
				log.append(-1, rec{key: key, value: "v"})
				took += (<-got).Sub(start)
				pos++
				if pos%1000 == 0 {
					b.StopTimer()
					log.deleteBefore(pos - 10)
					b.StartTimer()
				}
			}
			b.ReportMetric(float64(took.Microseconds())/float64(b.N), "us/record")
			cancel()
			wg.Wait()
		})
	}
}
