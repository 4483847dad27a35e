package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandem-kafka/tandem/internal/acquire"
	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file finds out what a group has done of a partition, before offsets are
// given out that were given out before.

// errNoStart says that a group has committed nothing for a partition.
var errNoStart = errors.New("nothing is committed")

// refresh reads what is done on the connection of one who waits. It reports
// whether that went well.
func (p *place) refresh(ctx context.Context, open []*waiting) bool {
	for _, w := range open {
		if !w.hold() {
			continue
		}
		err := p.settle(ctx, w.c, w.part.part)
		w.release()
		if err == nil {
			return true
		}
		p.coop.gw.unreadable(p.key.group, err)
	}
	return false
}

// hold keeps a fetch from being answered while its connection is used; false: it has been.
func (w *waiter) hold() bool {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return false
	}
	w.under++
	w.mu.Unlock()
	w.asking.Lock()
	return true
}

func (w *waiter) release() {
	w.asking.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.under--
	w.poke()
}

// settle reads what is done: first the fact log, so that what was deleted there is in what is read then.
func (p *place) settle(ctx context.Context, c *conn, part *groupPart) error {
	codes, err := c.refresh(ctx, p.key.group, []*groupPart{part})
	if err != nil {
		return err
	}
	if code := codes[part]; code != 0 {
		return kerr.ErrorForCode(code)
	}
	part.mu.Lock()
	picture, views := part.picture, part.views
	if picture != nil {
		picture = picture.Clone()
	}
	part.mu.Unlock()
	if picture == nil {
		return kerr.CoordinatorLoadInProgress
	}
	c.gw.facts.attach(picture, part.key)
	if offset, _ := picture.Source(); offset < 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.state.Doubt() // the next fetch begins anew
		return errNoStart
	}
	next := part.next(c.gw, views, c.readsCommitted(p.key.group, picture, views))
	stable := picture.Stable(0, next)
	done := doneOf(c.gw.facts.committed(part.key, picture, keyrange.Set{keyrange.Full}, stable))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outbox = append(p.outbox, p.state.Restart(era(picture))...)
	now := nowMs()
	p.state.Stable(stable, now)
	for _, r := range done {
		p.state.Done(r, now)
	}
	p.state.Settled()
	p.unclean = true
	return nil
}

// era is the era that the next commit is in.
func era(p *progress.Picture) int64 { return p.Plan(nil, progress.Env{}).Era }

// doneOf is what is done of all keys.
func doneOf(committed []tandemmsg.KeyRangeOffsets) []acquire.Range {
	var all []acquire.Range
	next := int64(0)
	for i, c := range committed {
		if int64(c.Keys.First) != next {
			return nil // of the keys between nothing is done
		}
		next = int64(c.Keys.Last) + 1
		var of []acquire.Range
		for _, o := range c.Offsets {
			of = append(of, acquire.Range{First: o.First, Last: o.Last})
		}
		if i == 0 {
			all = of
			continue
		}
		all = intersect(all, of)
	}
	if next != int64(keyrange.Full.Last)+1 {
		return nil
	}
	return all
}

func intersect(a, b []acquire.Range) (both []acquire.Range) {
	for len(a) > 0 && len(b) > 0 {
		r := acquire.Range{First: max(a[0].First, b[0].First), Last: min(a[0].Last, b[0].Last)}
		if r.First <= r.Last {
			both = append(both, r)
		}
		if a[0].Last < b[0].Last {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return both
}

// begin commits where a group begins that has committed nothing, in the member's
// name: what lies before counts as done.
func (c *conn) begin(ctx context.Context, ask tandemmsg.Cooperative, part *groupPart, offset int64) error {
	if offset <= 0 {
		call := &commitCall{group: ask.Group, generation: ask.Generation, member: ask.Member}
		return c.writeSources(ctx, call, []*partPlan{{part: part}}, func(p *progress.Picture, _ int64) bool {
			at, _ := p.Source()
			return at < 0
		})
	}
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition = part.key.source.Partition
	if err := tandemmsg.WriteCommit(&p, tandemmsg.Commit{Offsets: []tandemmsg.OffsetRange{{Last: offset - 1}}, Watermark: -1}); err != nil {
		return err
	}
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.Partitions = part.key.source.Topic, append(t.Partitions, p)
	req := kmsg.NewPtrOffsetCommitRequest()
	if err := c.setVersion(ctx, req, 9); err != nil {
		return err
	}
	req.Group, req.Generation, req.MemberID = ask.Group, ask.Generation, ask.Member
	req.Topics = append(req.Topics, t)
	resp, err := c.handleOffsetCommit(ctx, req)
	if err != nil {
		return err
	}
	for _, t := range resp.(*kmsg.OffsetCommitResponse).Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("committing where the group begins: %w", err)
			}
		}
	}
	return nil
}
