package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// manyTable runs 200 groups on views of one topic, 1,000 connections and more, on one gateway.
func manyTable(b *bench) (*result, error) {
	k, err := b.broker()
	if err != nil {
		return nil, err
	}
	g, err := b.gateway()
	if err != nil {
		return nil, err
	}
	defer g.stop()
	groups, members, partitions, rate, seconds := b.scaled(200, 10), 2, 8, 100, b.scaled(20, 3)
	topic := b.name("many")
	if err := b.topic(topic, 1); err != nil {
		return nil, err
	}
	view, err := b.view(g.addr, topic, partitions)
	if err != nil {
		return nil, err
	}
	defer b.dropTopics(view, topic)

	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Minute)
	defer cancel()
	m := &manyGroups{seen: make([]sync.Map, groups)}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	start := time.Now()
	for group := range groups {
		for range members {
			cl, err := m.member(ctx, g.addr, view, group)
			if err != nil {
				return nil, err
			}
			wg.Go(func() {
				defer cl.Close()
				for ctx.Err() == nil {
					m.took(group, cl.PollFetches(ctx))
				}
			})
		}
	}
	for m.assigned.Load() < int64(groups*partitions) {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%d of %d virtual partitions were assigned", m.assigned.Load(), groups*partitions)
		}
		time.Sleep(20 * time.Millisecond)
	}
	settled := time.Since(start)
	b.progress("many: %d groups settled after %v", groups, settled)
	time.Sleep(3 * time.Second)

	cl, err := client(k.addr, kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	used, begin := g.cpu(), time.Now()
	for i := range rate * seconds {
		v := binary.BigEndian.AppendUint64(make([]byte, 0, 100), uint64(time.Now().UnixNano()))
		cl.Produce(ctx, &kgo.Record{Key: key(i), Value: append(v, make([]byte, 92)...)}, nil)
		time.Sleep(time.Until(begin.Add(time.Duration(i+1) * time.Second / time.Duration(rate))))
	}
	if err := cl.Flush(ctx); err != nil {
		return nil, err
	}
	want := int64(groups * rate * seconds)
	for deadline := time.Now().Add(30 * time.Second); m.distinct.Load() < want && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	elapsed := time.Since(begin).Seconds()
	cores := (g.cpu() - used) / elapsed
	connections, err := metric(g.admin, "tandem_connections")
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &result{Head: []string{"what", "value"}}
	r.row("groups, members", fmt.Sprintf("%d, %d", groups, groups*members))
	r.row("client connections of the gateway", fmt.Sprintf("%.0f", connections))
	r.row("all members started to all virtual partitions assigned", fmt.Sprintf("%.1f s", settled.Seconds()))
	r.row("records delivered per second, all groups", fmt.Sprintf("%.0f", float64(m.distinct.Load())/elapsed))
	r.row("delivered, of due", fmt.Sprintf("%d, %d", m.distinct.Load(), want))
	r.row("delivered twice", fmt.Sprint(m.twice.Load()))
	r.row("producer to consumer, p50", fmt.Sprintf("%.1f ms", quantile(m.latency, 0.5)))
	r.row("producer to consumer, p99", fmt.Sprintf("%.1f ms", quantile(m.latency, 0.99)))
	r.row("gateway's CPU", fmt.Sprintf("%.2f cores", cores))
	r.row("gateway's resident memory", fmt.Sprintf("%.0f MB", g.resident()/1e6))
	r.note("Each group reads all of one view of %d virtual partitions with %d franz-go members (classic protocol, auto-commit every 5 s); %d records a second are written for %d s. Clients, broker and gateway share the cores.", partitions, members, rate, seconds)
	if m.distinct.Load() != want {
		return r, fmt.Errorf("%d of %d records were delivered", m.distinct.Load(), want)
	}
	return r, nil
}

// manyGroups counts what all groups do.
type manyGroups struct {
	assigned, distinct, twice atomic.Int64
	seen                      []sync.Map // by group: offset
	mu                        sync.Mutex
	latency                   []float64 // ms
}

func (m *manyGroups) member(_ context.Context, addr, view string, group int) (*kgo.Client, error) {
	return client(addr, kgo.ConsumeTopics(view), kgo.ConsumerGroup(fmt.Sprintf("%s-group-%d", view, group)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, a map[string][]int32) { m.assigned.Add(int64(len(a[view]))) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, a map[string][]int32) { m.assigned.Add(-int64(len(a[view]))) }))
}

func (m *manyGroups) took(group int, fetches kgo.Fetches) {
	now := time.Now().UnixNano()
	fetches.EachRecord(func(r *kgo.Record) {
		if _, again := m.seen[group].LoadOrStore(r.Offset, true); again {
			m.twice.Add(1)
			return
		}
		m.distinct.Add(1)
		m.mu.Lock()
		m.latency = append(m.latency, float64(now-int64(binary.BigEndian.Uint64(r.Value)))/1e6)
		m.mu.Unlock()
	})
}

// metric reads one number from a gateway's /metrics.
func metric(admin, name string) (float64, error) {
	resp, err := http.Get("http://" + admin + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	for scan := bufio.NewScanner(resp.Body); scan.Scan(); {
		if rest, ok := strings.CutPrefix(scan.Text(), name+" "); ok {
			var v float64
			_, err := fmt.Sscan(rest, &v)
			return v, err
		}
	}
	return 0, fmt.Errorf("the gateway has no metric %s", name)
}
