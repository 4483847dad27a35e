package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// commitsTable compares how fast members of groups commit, one commit at a time.
func commitsTable(b *bench) (*result, error) {
	const partitions = 16
	k, err := b.broker()
	if err != nil {
		return nil, err
	}
	g, err := b.gateway()
	if err != nil {
		return nil, err
	}
	defer g.stop()
	source, plain := b.name("commits"), b.name("commits16")
	for topic, n := range map[string]int{source: 1, plain: partitions} {
		if err := b.topic(topic, n); err != nil {
			return nil, err
		}
		if err := b.fill(k.addr, topic, data{records: 100_000, bytes: 100, keys: 10_000}); err != nil {
			return nil, err
		}
	}
	view, err := b.view(g.addr, source, partitions)
	if err != nil {
		return nil, err
	}
	defer b.dropTopics(view, source, plain)
	r := &result{Head: []string{"commits per second", "plain, direct", "plain, through the gateway", "view", "of direct", "target", "gateway's CPU per commit"}}
	for _, shape := range []struct{ groups, each int }{{1, 1}, {1, partitions}, {8, partitions}} {
		n := b.scaled(600, 60)
		committing := func(p *process, addr, topic string) func() (run, error) {
			return func() (run, error) { return b.commitRun(p, addr, topic, partitions, shape.groups, shape.each, n) }
		}
		what := fmt.Sprintf("%d groups, %d of %d partitions a commit", shape.groups, shape.each, partitions)
		all, err := b.turns(what, side{"direct", committing(nil, k.addr, plain)}, side{"gateway", committing(g, g.addr, plain)}, side{"view", committing(g, g.addr, view)})
		if err != nil {
			return nil, err
		}
		rates := make([][]float64, len(all))
		cells := []string{what}
		for i := range all {
			rates[i] = pick(all[i], func(r run) float64 { return r.bytes / r.seconds })
			cells = append(cells, fmt.Sprintf("%.0f", median(rates[i])))
		}
		of := ratio(rates[2], rates[0])
		each := median(pick(all[2], func(r run) float64 { return r.server / r.bytes * 1e6 }))
		r.row(append(cells, fmt.Sprintf("%.2f", of), verdict(of >= 0.5, "≥ 0.5"), fmt.Sprintf("%.0f µs", each))...)
	}
	r.note("Members of groups (classic protocol) that commit rising offsets one request after the other; medians of %d turns. For a view the gateway adds the source's stable offset to the same request.", b.rounds)
	return r, nil
}

// commitRun lets one member of each group commit n times; the run's bytes are commits.
func (b *bench) commitRun(p *process, addr, topic string, partitions, groups, each, n int) (run, error) {
	ctx, cancel := context.WithTimeout(b.ctx, 2*time.Minute)
	defer cancel()
	members := make([]*kgo.Client, groups)
	for i := range members {
		cl, err := b.member(ctx, addr, topic, partitions)
		if err != nil {
			return run{}, err
		}
		defer cl.Close()
		members[i] = cl
	}
	return b.measure(p, func() (float64, error) {
		errs := make([]error, groups)
		var wg sync.WaitGroup
		for i, cl := range members {
			wg.Go(func() {
				for c := range n {
					if errs[i] = commitOnce(ctx, cl, topic, c, partitions, each); errs[i] != nil {
						return
					}
				}
			})
		}
		wg.Wait()
		return float64(groups * n), errors.Join(errs...)
	})
}

// member joins a new group and returns when it has all partitions.
func (b *bench) member(ctx context.Context, addr, topic string, partitions int) (*kgo.Client, error) {
	have := make(chan int, 100)
	cl, err := client(addr, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(b.name("committer")), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { have <- len(m[topic]) }))
	if err != nil {
		return nil, err
	}
	for n := 0; n < partitions; {
		select {
		case got := <-have:
			n += got
		case <-ctx.Done():
			cl.Close()
			return nil, fmt.Errorf("a member on %s got %d of %d partitions", topic, n, partitions)
		}
	}
	return cl, nil
}

func commitOnce(ctx context.Context, cl *kgo.Client, topic string, c, partitions, each int) error {
	offsets := map[int32]kgo.EpochOffset{}
	for i := range each {
		offsets[int32((c+i)%partitions)] = kgo.EpochOffset{Epoch: -1, Offset: int64(c + 1)}
	}
	var failed error
	cl.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{topic: offsets}, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		failed = err
		if resp == nil {
			return
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if failed == nil {
					failed = kerr.ErrorForCode(p.ErrorCode)
				}
			}
		}
	})
	return failed
}
