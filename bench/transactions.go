package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/bench/peers"
)

// copier is who copies a topic with one partition, and how.
type copier struct {
	name    string
	how     string // of transactionsWorker
	gateway bool
	members int
}

var copiers = []copier{
	{"franz-go's GroupTransactSession, whole partition, direct", "plain", false, 1},
	{"Tandem, whole partition, direct", "whole", false, 1},
	{"Tandem, key ranges, gateway, 4 processes", "keys", true, 4},
	{"Tandem, key ranges, in process, 4 processes", "in-process", false, 4},
	{"Tandem, key ranges, gateway, 4 processes, without transactions", "at-least-once", true, 4},
}

// copied is what a turn of a copier gave.
type copied struct {
	perSecond               float64
	p50, p99                float64 // ms
	workers, gateway, broke float64 // CPU seconds
}

// transactionsTable copies a topic exactly once.
func transactionsTable(b *bench) (*result, error) {
	if _, err := b.copyTurn(copiers[0]); err != nil { // the broker makes its topics for groups and transactions, and gets warm
		return nil, err
	}
	turns := make([][]copied, len(copiers))
	for range b.rounds {
		for i, c := range copiers {
			t, err := b.copyTurn(c)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			b.progress("%s: %.0f records/s, p50 %.0f ms, p99 %.0f ms", c.name, t.perSecond, t.p50, t.p99)
			turns[i] = append(turns[i], t)
		}
	}
	r := &result{Head: []string{"exactly once", "records/s", "copiers' CPU s", "gateway's", "broker's", "p50 at 1,000/s, ms", "p99, ms"}}
	for i, c := range copiers {
		cell := func(format string, f func(copied) float64) string {
			var all []float64
			for _, t := range turns[i] {
				all = append(all, f(t))
			}
			return fmt.Sprintf(format, median(all))
		}
		gateway := ""
		if c.gateway {
			gateway = cell("%.2f", func(t copied) float64 { return t.gateway })
		}
		r.row(c.name, cell("%.0f", func(t copied) float64 { return t.perSecond }), cell("%.2f", func(t copied) float64 { return t.workers }), gateway,
			cell("%.2f", func(t copied) float64 { return t.broke }), cell("%.0f", func(t copied) float64 { return t.p50 }), cell("%.0f", func(t copied) float64 { return t.p99 }))
	}
	r.note("A topic with one partition, %d records of 100 B with 10,000 keys, is copied to a topic with 4 partitions, in a transaction each 100 ms and process. Counted from the first record that is written to the source, as fast as one producer can, to the last that is committed in the output. Then "+
		"1,000 records a second: from the producer's send to a consumer with read_committed, which waits for the transaction to end: half of the interval on average, and what the end takes. "+
		"Without transactions: each handler writes its record and waits for it, 256 at once in each process, commits each 100 ms, at least once.", b.scaled(copyRecords, 20_000))
	return r, nil
}

const copyRecords = 200_000

// copyTurn has a copier copy a topic, and then what comes at a steady rate.
func (b *bench) copyTurn(c copier) (t copied, err error) {
	k, err := b.broker()
	if err != nil {
		return t, err
	}
	to := k.addr
	var g *process
	if c.gateway {
		if g, err = b.gateway(); err != nil {
			return t, err
		}
		defer g.stop()
		to = g.addr
	}
	in, out, group := b.name("orders"), b.name("copies"), b.name("copiers")
	if err := b.topic(in, 1); err != nil {
		return t, err
	}
	if err := b.topic(out, 4); err != nil {
		return t, err
	}
	defer b.dropTopics(in, out)
	n := b.scaled(copyRecords, 20_000)
	self, err := os.Executable()
	if err != nil {
		return t, err
	}
	var workers []*process
	defer func() {
		for _, w := range workers {
			w.stop()
		}
	}()
	for i := range c.members {
		w, err := b.start(self, "transactions-worker", c.how, to, in, out, group, fmt.Sprintf("%s-%d", group, i))
		if err != nil {
			return t, err
		}
		workers = append(workers, w)
	}
	if err := b.awaitMembers(group, c.members); err != nil {
		return t, err
	}
	reader, err := client(k.addr, kgo.ConsumeTopics(out), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return t, err
	}
	defer reader.Close()
	cpu := func() (workersCPU, gateway, broker float64) {
		for _, w := range workers {
			workersCPU += w.cpu()
		}
		if g != nil {
			gateway = g.cpu()
		}
		return workersCPU, gateway, peers.CPU(k.pid)
	}
	w0, g0, b0 := cpu()
	start := time.Now()
	if err := b.fill(k.addr, in, data{records: n, bytes: 100, keys: 10_000}); err != nil {
		return t, err
	}
	if err := b.readCopies(reader, n, func(*kgo.Record) {}); err != nil {
		return t, err
	}
	t.perSecond = float64(n) / time.Since(start).Seconds()
	w1, g1, b1 := cpu()
	t.workers, t.gateway, t.broke = w1-w0, g1-g0, b1-b0
	t.p50, t.p99, err = b.copyLatency(reader, in, b.scaled(3000, 500))
	return t, err
}

// readCopies reads n records of the output.
func (b *bench) readCopies(reader *kgo.Client, n int, each func(*kgo.Record)) error {
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	for got := 0; got < n; {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d records are copied: %w", got, n, ctx.Err())
		}
		fetches.EachRecord(func(r *kgo.Record) {
			each(r)
			got++
		})
	}
	return nil
}

// copyLatency is how long records take from the producer to the reader of the output, in ms.
func (b *bench) copyLatency(reader *kgo.Client, in string, n int) (p50, p99 float64, err error) {
	cl, err := client(b.kafka.addr, kgo.DefaultProduceTopic(in), kgo.ProducerLinger(0))
	if err != nil {
		return 0, 0, err
	}
	defer cl.Close()
	var stop atomic.Bool
	defer stop.Store(true)
	go func() {
		start := time.Now()
		for i := range n {
			time.Sleep(time.Until(start.Add(time.Duration(i) * time.Millisecond)))
			if stop.Load() {
				return
			}
			v := binary.BigEndian.AppendUint64(make([]byte, 0, 100), uint64(time.Now().UnixNano()))
			cl.Produce(b.ctx, &kgo.Record{Key: key(i % 10_000), Value: v[:100]}, nil)
		}
	}()
	var took []float64
	err = b.readCopies(reader, n, func(r *kgo.Record) {
		took = append(took, float64(time.Now().UnixNano()-int64(binary.BigEndian.Uint64(r.Value)))/1e6)
	})
	if err != nil {
		return 0, 0, err
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100], nil
}

// awaitMembers waits until a group has settled with so many members.
func (b *bench) awaitMembers(group string, n int) error {
	cl, err := client(b.kafka.addr)
	if err != nil {
		return err
	}
	defer cl.Close()
	admin, since := kadm.NewClient(cl), time.Now()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		groups, err := admin.DescribeGroups(b.ctx, group)
		if err != nil || groups[group].State != "Stable" || len(groups[group].Members) != n {
			since = time.Now()
			continue
		}
		if time.Since(since) > time.Second { // and has its partitions
			return nil
		}
	}
	return fmt.Errorf("group %s does not get %d members", group, n)
}
