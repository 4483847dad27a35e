package icommit_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit"
	"github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/keyrange"
)

// counter is a handler that counts only.
type counter struct{ n int }

func (h *counter) Apply(_ int32, rs []record.Record) { h.n += len(rs) }
func (h *counter) Reset(int32)                       { h.n = 0 }

// open are n facts of one group: every second offset.
func open(n int) []record.Record {
	rs := make([]record.Record, n)
	for i := range rs {
		first := 8_000_000_000 + 2*int64(i)
		rs[i] = record.Record{Group: "invoice-workers", Topic: "customer.orders", Partition: 11, Fact: record.Fact{Keys: keyrange.Full, First: first, Last: first}, TopicID: [16]byte{9}, Era: 3}
	}
	return rs
}

func (c *cluster) bench(b *testing.B, h icommit.Handler) *icommit.Log {
	facts := c.cluster.Facts()
	l := icommit.New(facts, h, icommit.Config{Logger: quiet})
	b.Cleanup(func() {
		l.Close()
		facts.Close()
	})
	return l
}

// The ranges of one full OffsetCommit request.
func BenchmarkAppend60000(b *testing.B) {
	c := newCluster(b)
	l := c.bench(b, &counter{})
	rs := open(60_000)
	for b.Loop() {
		if err := l.Append(context.Background(), "invoice-workers", rs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*60_000/b.Elapsed().Seconds(), "facts/s")
}

func BenchmarkAppendOneByOne(b *testing.B) {
	c := newCluster(b)
	l := c.bench(b, &counter{})
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		rs := open(1)
		for pb.Next() {
			if err := l.Append(context.Background(), "invoice-workers", rs); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "facts/s")
}

// A gateway that was restarted reads a group with a million open ranges.
func BenchmarkCatchUpWithAMillion(b *testing.B) {
	const million = 1_000_000
	c := newCluster(b)
	w := c.bench(b, &counter{})
	rs := open(million)
	for ; len(rs) > 0; rs = rs[min(50_000, len(rs)):] {
		if err := w.Append(context.Background(), "invoice-workers", rs[:min(50_000, len(rs))]); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		h := &counter{}
		facts := c.cluster.Facts()
		l := icommit.New(facts, h, icommit.Config{Logger: quiet})
		if err := l.CatchUp(context.Background(), "invoice-workers"); err != nil {
			b.Fatal(err)
		}
		if h.n != million {
			b.Fatalf("%d records", h.n)
		}
		b.ReportMetric(float64(l.Metrics().Bytes.Load()), "compressed-B")
		l.Close()
		facts.Close()
	}
}

// Reading must not take as much memory as what is read.
func TestMemoryOfAMillion(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	c := newCluster(t)
	w := c.gateway(icommit.Config{})
	rs := open(50_000)
	for i := range 20 {
		for j := range rs {
			rs[j].Fact.First += int64(i) * 200_000
			rs[j].Fact.Last = rs[j].Fact.First
		}
		w.append("invoice-workers", rs...)
	}
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	facts := c.cluster.Facts()
	defer facts.Close()
	h := &counter{}
	l := icommit.New(facts, h, icommit.Config{Logger: quiet})
	defer l.Close()
	done := make(chan error, 1)
	start := time.Now()
	go func() { done <- l.CatchUp(t.Context(), "invoice-workers") }()
	most := uint64(0)
	for {
		select {
		case err := <-done:
			if err != nil || h.n != 1_000_000 {
				t.Fatalf("%d records, %v", h.n, err)
			}
			t.Logf("%v, at most %d MiB more", time.Since(start), most>>20)
			if most > 96<<20 { // of records alone it would be 90 MB
				t.Error("that is too much")
			}
			return
		case <-time.After(5 * time.Millisecond):
			runtime.ReadMemStats(&now)
			if now.HeapAlloc > before.HeapAlloc {
				most = max(most, now.HeapAlloc-before.HeapAlloc)
			}
		}
	}
}
