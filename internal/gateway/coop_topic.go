package gateway

import (
	"maps"
	"slices"

	"github.com/tandem-kafka/tandem/internal/acquire"
	factrecord "github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/slicecache"
)

// A topic can be deleted, and made anew under its name. Other gateways may see that sooner, and what they write must not be missed: else two gateways would judge differently, and give
// the same to two members. So a place keeps what the log says of each topic that had the name, by the topic's id, also before it knows which one members fetch.

// of says which topic a place is of.
func (p *place) of(source slicecache.Source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.source == source {
		return
	}
	p.source = source
	p.dropChunks()
	p.outbox, p.generation = nil, -1
	p.state = p.stateOf(source.TopicID)
	p.state.Anew()
}

// stateOf is what the log says of the topic with an id. p.mu is held.
func (p *place) stateOf(topicID [16]byte) *acquire.State {
	s := p.states[topicID]
	if s == nil {
		s = acquire.New(0)
		p.states[topicID] = s
	}
	return s
}

// take takes in a record of the fact log. current says that it is of the topic that members fetch, won that it is an acquisition that wins. p.mu is held.
func (p *place) take(r *factrecord.Handout, now int64) (current, won bool) {
	if !r.Entry.Delete {
		s := p.state
		if p.source == (slicecache.Source{}) || p.source.TopicID != [16]byte{} {
			s = p.stateOf(r.TopicID)
		}
		return s == p.state, s.Apply(r.Position, r.Entry, now)
	}
	// It does not say of which topic it is.
	of := slices.DeleteFunc(slices.Collect(maps.Values(p.states)), func(s *acquire.State) bool { return !s.Knows(r.Entry.ID) })
	if len(of) == 0 {
		of = slices.Collect(maps.Values(p.states))
	}
	for _, s := range of {
		s.Apply(r.Position, r.Entry, now)
	}
	return false, false
}

// remains are the deletions of all that the log has of the place.
func (p *place) remains() (deletions []acquire.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.states {
		deletions = append(deletions, s.Remains()...)
	}
	return deletions
}

func (p *place) topicID() [16]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.source.TopicID
}
