package gateway

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

// takeBack has others be given at once what an answer would have given that does not come to its member. That counts as no attempt.
func takeBack(parts []*coopPart) {
	for _, part := range parts {
		if len(part.won) > 0 {
			part.place.takeBack(part.won)
		}
		part.won, part.acquired, part.batches = nil, nil, nil
	}
}

func (p *place) takeBack(won []*grant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range won {
		p.state.Untold(g.entry.ID, g.read)
	}
	p.outbox = append(p.outbox, p.state.Release(p.coop.id)...)
	p.start()
}
