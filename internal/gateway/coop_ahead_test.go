package gateway

import (
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/acquire"
)

// beside is a gateway before the same cluster.
func (w *world) beside() *world {
	w.t.Helper()
	return ranged(w.t, func(c *Config) { c.Upstream.Bootstrap, c.CooperativeFetch = w.gw.cfg.Upstream.Bootstrap, true })
}

// at is the member as another gateway sees it.
func (m *cooperating) at(w *world) *cooperating {
	o := *m
	o.w = w
	return &o
}

// What a member does not come for, or does not have, goes to others when it works for long, wherever those fetch.
func TestWhatABusyMemberDoesNotHaveGoesToOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		records int // that are there at first
		busy    func(m *cooperating)
	}{
		"it is kept, and nobody comes": {0, func(m *cooperating) {
			p := m.w.gw.coop.known(factKey{m.ask.Group, m.topic, 0})
			m.w.until("the place rests", func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return !p.running
			})
		}},
		"it is kept, and the member comes on another connection": {0, func(m *cooperating) { _ = m.fetch(0) }},
		"the answer was lost": {10, func(m *cooperating) { _ = m.fetch(0) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, group, topic, m, _ := cooperation(t, c.records)
			m.ask.MaxRecords = 10 // as there are: nothing is kept beside them
			_ = m.fetch(time.Second)
			if m.ask.MaxRecords = 0; len(w.holds(group, topic, m.ask.Member)) == 0 {
				t.Fatal("nothing is acquired")
			}
			c.busy(m)
			w.produce(topic, 10-c.records)
			w.cooperate(group, topic).at(w.beside()).wantGiven("0-9#1")
		})
	}
}

// holds are the offsets of partition 0 that a member has by the log, or that are kept for it.
func (w *world) holds(group, topic, member string) []acquire.Range {
	p := w.gw.coop.known(factKey{group, topic, 0})
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.Holds(member)
}
