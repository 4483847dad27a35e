package main

import (
	"fmt"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit"
	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rangesRun is one turn of the table: a group commits single offsets of one partition, every second one, until so many ranges are open.
type rangesRun struct {
	rate, cpu            float64 // individual commits a second; the gateway's CPU seconds for each
	live, liveAnew       float64 // bytes more on the heap without garbage: of the gateway that took the commits, of one that read them
	grown, grownAnew     float64 // resident bytes more, garbage included
	start, answer, after float64 // seconds from the start of a new gateway to ready, to the answered OffsetFetch, and of one more OffsetFetch
}

// rangesTable holds a million open ranges in one partition.
func rangesTable(b *bench) (*result, error) {
	n := b.scaled(1_000_000, 100_000)
	var runs []rangesRun
	for range b.rounds {
		r, err := b.openRanges(n)
		if err != nil {
			return nil, err
		}
		b.progress("ranges: %.0f commits/s, heap %.1f and %.1f, resident %.1f and %.1f MiB more, restart %.2f s (ready after %.2f s)", r.rate, r.live/(1<<20), r.liveAnew/(1<<20), r.grown/(1<<20), r.grownAnew/(1<<20), r.answer, r.start)
		runs = append(runs, r)
	}
	of := func(f func(rangesRun) float64) float64 {
		var all []float64
		for _, r := range runs {
			all = append(all, f(r))
		}
		return median(all)
	}
	mib := func(v float64) string { return fmt.Sprintf("%.1f MiB", v/(1<<20)) }
	r := &result{Head: []string{fmt.Sprintf("%d open ranges", n), "measured", "target"}}
	rate := of(func(r rangesRun) float64 { return r.rate })
	r.row("individual commits per second", fmt.Sprintf("%.0f", rate), verdict(rate >= 100_000, "≥ 100,000"))
	r.row("gateway's CPU per individual commit", fmt.Sprintf("%.2f µs", of(func(r rangesRun) float64 { return r.cpu * 1e6 })), "")
	grown := of(func(r rangesRun) float64 { return r.grown })
	for _, of := range []struct {
		what string
		live float64
	}{{"that took them", of(func(r rangesRun) float64 { return r.live })}, {"that read them at its start", of(func(r rangesRun) float64 { return r.liveAnew })}} {
		r.row("heap more, in the gateway "+of.what, mib(of.live), verdict(of.live <= 64<<20, "≤ 64 MiB"))
	}
	r.row("resident memory more, in the gateway that took them", mib(grown), verdict(grown <= 64<<20, "≤ 64 MiB"))
	grown = of(func(r rangesRun) float64 { return r.grownAnew })
	r.row("resident memory more, in the gateway that read them at its start", mib(grown), verdict(grown <= 64<<20, "≤ 64 MiB"))
	answer := of(func(r rangesRun) float64 { return r.answer })
	r.row("from the start of a new gateway to the answered OffsetFetch", fmt.Sprintf("%.2f s", answer), verdict(answer <= 5, "≤ 5 s"))
	r.row("OffsetFetch of all of them after that", fmt.Sprintf("%.2f s", of(func(r rangesRun) float64 { return r.after })), "")
	r.note("One group and partition, offset 0 is not done; every second offset above it is committed on its own, %d in a request (the protocol's limit), one request after the other; each is an open range of its own. "+
		"Heap is what is in use just after a garbage collection; resident memory is what the process holds %v later: by then it has given back what it needed for the requests only (docs/operations.md). Medians of %d rounds.", tandemmsg.MaxOffsetRanges, restBefore, b.rounds)
	return r, nil
}

// restBefore is how long a gateway rests before its memory is measured.
const restBefore = 5 * time.Second

func (b *bench) openRanges(n int) (r rangesRun, err error) {
	topic, group := b.name("ranges"), b.name("opener")
	if _, err := b.broker(); err != nil {
		return r, err
	}
	if err := b.topic(topic, 1); err != nil {
		return r, err
	}
	defer b.dropTopics(topic, icommit.TopicName) // no round reads the facts of another
	g, err := b.gateway()
	if err != nil {
		return r, err
	}
	defer func() { g.stop() }()
	c, err := dial(g.addr)
	if err != nil {
		return r, err
	}
	defer func() { c.Close() }()
	if err := b.awaitCoordinator(g.addr, group); err != nil {
		return r, err
	}
	if err := b.commitOpen(c, group, topic, 2, 1); err != nil { // makes the topic of facts
		return r, err
	}
	idle, err := b.liveHeap(g, c, group, topic)
	if err != nil {
		return r, err
	}
	before, used, start := g.resident(), g.cpu(), time.Now()
	for done := 1; done < n; done += tandemmsg.MaxOffsetRanges {
		if err := b.commitOpen(c, group, topic, int64(2+2*done), min(tandemmsg.MaxOffsetRanges, n-done)); err != nil {
			return r, err
		}
	}
	r.rate, r.cpu = float64(n)/time.Since(start).Seconds(), (g.cpu()-used)/float64(n)
	time.Sleep(restBefore)
	r.grown = g.resident() - before
	if r.live, err = b.liveHeap(g, c, group, topic); err != nil {
		return r, err
	}
	r.live -= idle
	g.stop()

	start = time.Now()
	if g, err = b.gateway(); err != nil {
		return r, err
	}
	r.start, before = time.Since(start).Seconds(), g.resident()
	_ = c.Close()
	if c, err = dial(g.addr); err != nil {
		return r, err
	}
	open, err := b.fetchOpen(c, group, topic)
	if err != nil {
		return r, err
	}
	if r.answer = time.Since(start).Seconds(); open != n {
		return r, fmt.Errorf("%d of %d ranges are committed", open, n)
	}
	time.Sleep(restBefore)
	r.grownAnew = g.resident() - before
	start = time.Now()
	if _, err = b.fetchOpen(c, group, topic); err != nil {
		return r, err
	}
	r.after = time.Since(start).Seconds()
	if r.liveAnew, err = b.liveHeap(g, c, group, topic); err != nil {
		return r, err
	}
	r.liveAnew -= idle
	return r, nil
}

const heapMetric = "go_memstats_heap_alloc_bytes"

// liveHeap is the gateway's heap just after garbage collections: the least of what there is while commits that are refused make garbage.
func (b *bench) liveHeap(g *process, c *plainConn, group, topic string) (least float64, err error) {
	req, err := openRequest(group, topic, 2, tandemmsg.MaxOffsetRanges)
	if err != nil {
		return 0, err
	}
	req.Topics[0].Partitions[0].Offset = 1 // beside offset ranges it has to be -1
	for i := range 150 {
		resp, err := ask(c, req)
		if err != nil {
			return 0, err
		}
		if code := resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != kerr.InvalidRequest.Code {
			return 0, fmt.Errorf("a malformed commit: %w", kerr.ErrorForCode(code))
		}
		heap, err := metric(g.admin, heapMetric)
		if err != nil {
			return 0, err
		}
		if i == 0 || heap < least {
			least = heap
		}
	}
	return least, nil
}

// commitOpen commits n single offsets, every second one from first on.
func (b *bench) commitOpen(c *plainConn, group, topic string, first int64, n int) error {
	req, err := openRequest(group, topic, first, n)
	if err != nil {
		return err
	}
	return b.again(func() error {
		resp, err := ask(c, req)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
	})
}

func openRequest(group, topic string, first int64, n int) (*kmsg.OffsetCommitRequest, error) {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 8, group, -1
	t, p := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	t.Topic = topic
	commit := tandemmsg.Commit{Watermark: -1, Offsets: make([]tandemmsg.OffsetRange, n)}
	for i := range commit.Offsets {
		o := first + 2*int64(i)
		commit.Offsets[i] = tandemmsg.OffsetRange{First: o, Last: o}
	}
	if err := tandemmsg.WriteCommit(&p, commit); err != nil {
		return nil, err
	}
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req, nil
}

// fetchOpen counts the ranges that a group has committed.
func (b *bench) fetchOpen(c *plainConn, group, topic string) (n int, err error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = 8
	g, t := kmsg.NewOffsetFetchRequestGroup(), kmsg.NewOffsetFetchRequestGroupTopic()
	g.Group, t.Topic, t.Partitions = group, topic, []int32{0}
	if err := tandemmsg.SetKeyRanges(&t, keyrange.Set{keyrange.Full}); err != nil {
		return 0, err
	}
	g.Topics = append(g.Topics, t)
	req.Groups = append(req.Groups, g)
	err = b.again(func() error {
		resp, err := ask(c, req)
		if err != nil {
			return err
		}
		p := &resp.(*kmsg.OffsetFetchResponse).Groups[0].Topics[0].Partitions[0]
		of, err := tandemmsg.CommittedRangeOffsets(p)
		n = 0
		for _, k := range of {
			n += len(k.Offsets)
		}
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(p.ErrorCode)
	})
	return n, err
}

func ask(c *plainConn, req kmsg.Request) (kmsg.Response, error) {
	content, err := c.roundTrip(req)
	if err != nil {
		return nil, err
	}
	return wire.DecodeResponse(req.Key(), req.GetVersion(), content)
}

// again does something until its error is not one that passes.
func (b *bench) again(do func() error) error {
	for try := 0; ; try++ {
		err := do()
		if !kerr.IsRetriable(err) || try > 100 || b.ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}
