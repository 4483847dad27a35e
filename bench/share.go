package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// work is what the handler of the shared topic takes.
const work = 5 * time.Millisecond

// shareTable lets 1 to 32 consumers of one group share one partition, with handlers of 5 ms.
func shareTable(b *bench) (*result, error) {
	k, err := b.broker()
	if err != nil {
		return nil, err
	}
	g, err := b.gateway()
	if err != nil {
		return nil, err
	}
	defer g.stop()
	topic := b.name("work")
	if err := b.topic(topic, 1); err != nil {
		return nil, err
	}
	if err := b.fill(k.addr, topic, data{records: b.scaled(120_000, 40_000), bytes: 100, keys: 100_000}); err != nil {
		return nil, err
	}
	view, err := b.view(g.addr, topic, 32)
	if err != nil {
		return nil, err
	}
	defer b.dropTopics(view, topic)
	window := time.Duration(b.scaled(6000, 1500)) * time.Millisecond
	r := &result{Head: []string{"consumers", "plain topic, records/s", "view of 32, records/s", "of linear", "target", "gateway's CPU, cores"}}
	single := 0.0
	for _, n := range []int{1, 2, 4, 8, 16, 32} {
		plain := ""
		if n == 1 || n == 32 {
			rate, _, err := b.shared(k.addr, topic, b.name("plain"), 1, n, window, nil)
			if err != nil {
				return nil, err
			}
			plain = fmt.Sprintf("%.0f", rate)
		}
		rate, cores, err := b.shared(g.addr, view, b.name("shared"), 32, n, window, g)
		if err != nil {
			return nil, err
		}
		if n == 1 {
			single = rate
		}
		of := rate / single / float64(n)
		b.progress("share %d consumers: %.0f records/s, %.2f of linear", n, rate, of)
		r.row(fmt.Sprint(n), plain, fmt.Sprintf("%.0f", rate), fmt.Sprintf("%.3f", of), verdict(of >= 0.95, "≥ 0.95"), fmt.Sprintf("%.2f", cores))
	}
	r.note("One partition, 100 B records with 100,000 keys, a handler of 5 ms, one group (classic protocol) per line, auto-commit on; counted for %v once every consumer has its virtual partitions.", window)
	return r, nil
}

// shared runs a group of n members and returns its records per second while all have work.
func (b *bench) shared(addr, topic, group string, partitions, n int, window time.Duration, p *process) (rate, cores float64, err error) {
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute+window)
	defer cancel()
	var done, assigned atomic.Int64
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	working := make([]atomic.Bool, n)
	for i := range n {
		var mine atomic.Int64
		cl, err := client(addr, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitMarks(),
			kgo.AutoCommitInterval(time.Second), kgo.HeartbeatInterval(500*time.Millisecond),
			kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
				mine.Add(int64(len(m[topic])))
				assigned.Add(int64(len(m[topic])))
			}),
			kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
				mine.Add(-int64(len(m[topic])))
				assigned.Add(-int64(len(m[topic])))
			}))
		if err != nil {
			return 0, 0, err
		}
		wg.Go(func() {
			defer cl.Close()
			for ctx.Err() == nil {
				for _, rec := range cl.PollRecords(ctx, 50).Records() {
					if ctx.Err() != nil {
						return
					}
					time.Sleep(work)
					done.Add(1)
					working[i].Store(mine.Load() > 0)
					cl.MarkCommitRecords(rec)
				}
			}
		})
	}
	want := min(n, partitions)
	for ready := 0; ; time.Sleep(50 * time.Millisecond) {
		busy := 0
		for i := range working {
			if working[i].Load() {
				busy++
			}
		}
		if busy >= want && assigned.Load() == int64(partitions) {
			if ready++; ready > 10 { // and stays so for half a second
				break
			}
			continue
		}
		ready = 0
		if ctx.Err() != nil {
			return 0, 0, fmt.Errorf("a group of %d on %s did not settle: %d busy, %d of %d partitions assigned", n, topic, busy, assigned.Load(), partitions)
		}
	}
	before, start := done.Load(), time.Now()
	used := 0.0
	if p != nil {
		used = p.cpu()
	}
	time.Sleep(window)
	took := time.Since(start).Seconds()
	if p != nil {
		cores = (p.cpu() - used) / took
	}
	return float64(done.Load()-before) / took, cores, nil
}
