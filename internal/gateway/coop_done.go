package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandem-kafka/tandem/internal/acquire"
	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file finds out what a group has done of a partition, before offsets are
// given out that were given out before.

// errNoStart says that a group has committed nothing for a partition, errOpens that its next individual commit opens an era.
var (
	errNoStart = errors.New("nothing is committed")
	errOpens   = errors.New("the group's progress starts over with its next commit")
)

// refresh reads what is done on the connection of one who waits. It reports
// whether that went well.
func (p *place) refresh(ctx context.Context, open []*waiting) bool {
	for _, w := range open {
		if !w.hold() {
			continue
		}
		err := p.settle(ctx, w.waiter, w.part)
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

// settleTimes is how often a place is read anew because the group had to begin first: a tool's row is adopted by one commit, and the next one opens the era.
const settleTimes = 3

// settle reads what is done. Where a group has committed nothing it first begins. Where its next individual commit would open an era, such as after a reset, that is
// opened first: what is handed out before would not count in it, and be given out again while members have it.
func (p *place) settle(ctx context.Context, w *waiter, part *coopPart) error {
	for try := 1; ; try++ {
		err := p.look(ctx, w.c, part.part)
		from := int64(0)
		switch {
		case err == nil || try > settleTimes:
			return err
		case errors.Is(err, errNoStart):
			from = part.offset
		case !errors.Is(err, errOpens):
			return err
		}
		if err := w.c.begin(ctx, w.ask, part.part, from); err != nil {
			return err
		}
	}
}

// look reads what is done: first the fact log, so that what was deleted there is in what is read then.
func (p *place) look(ctx context.Context, c *conn, part *groupPart) error {
	codes, err := c.refresh(ctx, p.key.group, []*groupPart{part}, nil)
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
	var unopened error
	if offset, _ := picture.Source(); offset < 0 {
		unopened = errNoStart
	} else if picture.Opens() {
		unopened = errOpens
	}
	if unopened != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.state.Doubt()
		return unopened
	}
	next := part.next(c.gw, views, c.readsCommitted(p.key.group, picture, views))
	stable := picture.Stable(0, next)
	done := c.gw.facts.whole(part.key, picture, stable)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outbox = append(p.outbox, p.state.Restart(picture.Era())...)
	now := nowMs()
	p.state.Stable(stable, now)
	for _, f := range done {
		p.state.Done(acquire.Range{First: f.First, Last: f.Last}, now)
	}
	p.state.Settled()
	p.unclean = true
	return nil
}

// begin opens what the group commits individually, in the member's name: what lies before an offset counts as done. A group that has committed nothing begins so.
func (c *conn) begin(ctx context.Context, ask tandemmsg.Cooperative, part *groupPart, offset int64) error {
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition = part.key.source.Partition
	commit := tandemmsg.Commit{Keys: keyrange.Set{keyrange.Full}, Watermark: max(offset, 0)}
	if err := tandemmsg.WriteCommit(&p, commit); err != nil {
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
