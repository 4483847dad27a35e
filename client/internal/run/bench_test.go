package run

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/client/internal/executor"
)

// bench runs records through a Runner, fetched 5,000 at a time, and returns how long that took.
func bench(b *testing.B, handlers int, records []*record, n int, work func(*record)) time.Duration {
	var done atomic.Int64
	over := make(chan struct{})
	h := newHost(b, records)
	cfg := h.config(handlers)
	cfg.Handle = func(_ context.Context, t *executor.Task[*record]) executor.Result {
		work(t.Record)
		if done.Add(1) == int64(n) {
			close(over)
		}
		return executor.Result{}
	}
	cfg.Commit = func(context.Context, []executor.Commit) []error { return nil }
	r := start(b, cfg)
	h.assign(b, r)
	begin := time.Now()
	go h.feed(r, 5000)
	<-over
	took := time.Since(begin)
	if _, err := r.Close(context.Background(), 0); err != nil {
		b.Fatal(err)
	}
	return took
}

func keyed(n int, key func(i int) int) (list []*record) {
	for i := range n {
		list = append(list, &record{offset: int64(i), key: fmt.Appendf(nil, "customer-%d", key(i)), value: make([]byte, 100)})
	}
	return list
}

// 500,000 records without work.
func BenchmarkNoWork(b *testing.B) {
	for _, handlers := range []int{4, 16, 100} {
		b.Run(fmt.Sprint(handlers), func(b *testing.B) {
			records := keyed(500_000, func(int) int { return rand.IntN(1000) })
			b.ReportAllocs()
			for b.Loop() {
				took := bench(b, handlers, records, len(records), func(*record) {})
				b.ReportMetric(float64(len(records))/took.Seconds(), "records/s")
			}
		})
	}
}

// 10,000 records, 1,000 keys, 0 to 5 ms, 100 at once: 40,000/s would be ideal.
func BenchmarkShortWork(b *testing.B) {
	records := keyed(10_000, func(int) int { return rand.IntN(1000) })
	for b.Loop() {
		took := bench(b, 100, records, len(records), func(*record) { time.Sleep(rand.N(5 * time.Millisecond)) })
		b.ReportMetric(float64(len(records))/took.Seconds(), "records/s")
	}
}

// 10,000 records, 200 keys by Zipf's law, 10 ms, 24 at once: as fast as the hottest key alone would be ideal.
func BenchmarkZipf(b *testing.B) {
	var weights []float64
	sum := 0.0
	for k := range 200 {
		sum += 1 / float64(k+1)
		weights = append(weights, sum)
	}
	records := keyed(10_000, func(int) int {
		k, _ := slices.BinarySearch(weights, rand.Float64()*sum)
		return k
	})
	for b.Loop() {
		var ideal time.Duration // a key's runs come one after the other
		took := bench(b, 24, records, len(records), func(r *record) {
			begin := time.Now()
			time.Sleep(10 * time.Millisecond)
			if string(r.key) == "customer-0" {
				ideal += time.Since(begin)
			}
		})
		b.ReportMetric(float64(ideal)/float64(took), "of-ideal")
	}
}

// 20,000 records, 200 keys, 1 ms, 16 at once, and one key takes 1 s a record: the rate of the others.
func BenchmarkStuckKey(b *testing.B) {
	for _, stuck := range []bool{false, true} {
		b.Run(fmt.Sprint(stuck), func(b *testing.B) {
			others := 0
			records := keyed(20_000, func(int) int {
				k := rand.IntN(200)
				if k > 0 {
					others++
				}
				return k
			})
			var n atomic.Int64
			for b.Loop() {
				n.Store(0)
				begin := time.Now()
				var took time.Duration
				bench(b, 16, records, others+1, func(r *record) {
					if string(r.key) == "customer-0" && stuck {
						time.Sleep(time.Second)
						return
					}
					time.Sleep(time.Millisecond)
					if n.Add(1) == int64(others) {
						took = time.Since(begin)
					}
				})
				b.ReportMetric(float64(others)/took.Seconds(), "others/s")
			}
		})
	}
}

// 1,000 records/s, 200 keys, 5 ms, 16 at once: from arrival to the end of the handler.
func BenchmarkLatency(b *testing.B) {
	for b.Loop() {
		records := keyed(5000, func(int) int { return rand.IntN(200) })
		arrived, took := make([]time.Time, len(records)), make([]time.Duration, len(records))
		over := make(chan struct{})
		var n atomic.Int64
		h := newHost(b, records)
		cfg := h.config(16)
		cfg.Handle = func(_ context.Context, t *executor.Task[*record]) executor.Result {
			time.Sleep(5 * time.Millisecond)
			took[t.Offset()] = time.Since(arrived[t.Offset()])
			if n.Add(1) == int64(len(records)) {
				close(over)
			}
			return executor.Result{}
		}
		cfg.Commit = func(context.Context, []executor.Commit) []error { return nil }
		r := start(b, cfg)
		h.assign(b, r)
		tick := time.NewTicker(time.Millisecond)
		for i := range records {
			arrived[i] = <-tick.C
			r.Fetched(orders, executor.Fetch[*record]{From: int64(i), Records: records[i : i+1]})
		}
		tick.Stop()
		<-over
		if _, err := r.Close(context.Background(), 0); err != nil {
			b.Fatal(err)
		}
		slices.Sort(took)
		at := func(p float64) float64 {
			return float64(took[int(math.Ceil(p*float64(len(took))))-1]) / float64(time.Millisecond)
		}
		b.ReportMetric(at(0.5), "p50-ms")
		b.ReportMetric(at(0.99), "p99-ms")
	}
}
