package gateway

import (
	"context"

	"github.com/tandem-kafka/tandem/internal/acquire"
	"github.com/twmb/franz-go/pkg/kerr"
)

// This file is about fetches that nobody waits for any more: a member that stops closes its connection in the middle of one, or leaves the group on another
// one. What such a fetch were given would be with nobody, until its member's session ends.

// outdated reports whether a fetch is of a member that the group had no more when it was asked, after the fetch had come. p.mu is held.
func (p *place) outdated(w *waiter) bool {
	_, is := p.members[w.ask.Member]
	return p.members != nil && !is && w.came.Before(p.asked)
}

// supersede ends the fetches that are outdated, and those of a member that comes with another one: what it has it says there. p.mu is held.
func (p *place) supersede(by *waiter) {
	for _, w := range p.waiters {
		if w.ask.Member == by.ask.Member || p.outdated(w.waiter) {
			w.leave()
		}
	}
}

// giveBack gives back what a member has. That is in the log, and known here, when the member is told so: else it could say in its next fetch that it has nothing, which would count as never given.
// An entry that says so loses if one that announced the member was on its way: then it is said again.
func (p *place) giveBack(ctx context.Context, member string, c *conn) (code int16) {
	ctx, cancel := context.WithTimeout(ctx, verdictTime)
	defer cancel()
	p.mu.Lock()
	p.forget(member, c)
	p.mu.Unlock()
	for {
		p.mu.Lock()
		entries := p.state.GiveBack(member, p.coop.id)
		p.mu.Unlock()
		if len(entries) == 0 {
			return 0
		}
		err := p.write(ctx, entries)
		if err == nil {
			err = p.coop.gw.facts.log.CatchUp(ctx, p.key.group)
		}
		if err != nil {
			p.coop.gw.unreadable(p.key.group, err)
			return kerr.CoordinatorLoadInProgress.Code
		}
	}
}

// takeBack has others be given at once what an answer would have given that does not come to its member, and what is kept for that. It counts as no attempt.
func (w *waiter) takeBack(parts []*coopPart) {
	for _, part := range parts {
		if part.place != nil {
			part.place.takeBack(w, part.told)
		}
		part.told, part.acquired, part.batches = nil, nil, nil
	}
}

func (p *place) takeBack(w *waiter, told []acquire.Kept) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(w.ask.Member, w.c)
	for _, k := range told {
		p.state.Untold(k.ID, k.Range, p.read)
		p.left = nowMs()
	}
	p.start()
}
