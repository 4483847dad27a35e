package gateway

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/acquire"
	"github.com/tandem-kafka/tandem/tandemmsg"
)

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
			w.until("something is acquired", func() bool {
				_ = m.fetch(time.Second)
				return len(w.holds(group, topic, m.ask.Member)) > 0
			})
			m.ask.MaxRecords = 0
			c.busy(m)
			w.produce(topic, 10-c.records)
			w.cooperate(group, topic).at(w.another()).wantGiven("0-9#1")
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

// What wins for a member that fetches on another connection by now is kept for it no more: others can have it.
func TestWhatWinsForWhoHasGoneIsLeft(t *testing.T) {
	w := ranged(t, func(c *Config) { c.CooperativeFetch = true })
	p := w.gw.coop.place(factKey{"g", "orders", 0}, 3)
	p.running = true // as if it waited
	was, is := new(conn), new(conn)
	p.fetchers["m"] = &placeMember{c: is, timeout: 9000}
	for i, c := range []*conn{is, was} {
		f, _ := p.state.Next(int64(10*i), 0)
		g := &grant{c: c, entry: f.Acquire(p.state, uint64(i+1), acquire.Range{First: int64(10 * i), Last: int64(10*i + 9)}, "m", 9000)}
		p.state.Apply(int64(i), g.entry, 0)
		p.keep(g)
		next, _ := p.state.Next(0, 0)
		if left := c == was; left != (p.left != 0) || left != next.Untold {
			t.Errorf("acquisition %d: left at %d, next is %+v", i, p.left, next)
		}
	}
}

// What is on its way to a member is not acquired for it once more; what does not come is free again, once.
func TestRoomForGrants(t *testing.T) {
	w := newWaiter(nil, tandemmsg.Cooperative{MaxRecords: 10, SessionTimeout: 60_000}, time.Now(), false, 1000, 1000)
	want := func(records, bytes int64) {
		t.Helper()
		if r, b := w.wants(); r != records || b != bytes {
			t.Errorf("it wants %d records and %d bytes, not %d and %d", r, b, records, bytes)
		}
	}
	if !w.reserve(6, 100) || w.reserve(6, 100) {
		t.Error("there is room for 10 records, and then for 4")
	}
	want(4, 900)
	g := &grant{w: w, records: 6, bytes: 100}
	g.free()
	g.free()
	want(10, 1000)
	if w.end(); w.reserve(1, 1) {
		t.Error("it is over")
	}
}

// What a member gives back counts as given, wherever it fetches next and whatever it says that it has then.
func TestWhatIsGivenBackCounts(t *testing.T) {
	t.Parallel()
	w, _, _, m, _ := cooperation(t, 10)
	m.ask.MaxRecords = 10
	members := []*cooperating{m, m.at(w.another())}
	for attempt := 1; attempt <= 20; attempt++ {
		members[attempt/2%2].wantGiven(fmt.Sprintf("0-9#%d", attempt))
		members[attempt/2%2].giveBack()
	}
}

// So does what it gives back while it is being announced, by which the entry that gives back loses.
func TestWhatIsGivenBackBesideAnAnnouncementCounts(t *testing.T) {
	t.Parallel()
	w, group, topic, m, _ := cooperation(t, 10)
	m.ask.MaxRecords = 10
	for attempt := 1; attempt <= 100; attempt++ {
		m.wantGiven(fmt.Sprintf("0-9#%d", attempt))
		p := w.gw.coop.place(factKey{group, topic, 0}, -1)
		p.mu.Lock()
		session := p.state.Session(p.coop.id(), m.ask.Member, m.ask.SessionTimeout)
		p.mu.Unlock()
		if err := p.write(t.Context(), []acquire.Entry{session}); err != nil {
			t.Fatal(err)
		}
		if code := p.giveBack(t.Context(), m.ask.Member, nil); code != 0 {
			t.Errorf("giving back ends with error %d", code)
		}
	}
}

// What is to be given back is tried again ever later, up to 1 s, while the log takes nothing; and soon when it has taken something.
func TestGivingBackToALogThatTakesNothing(t *testing.T) {
	w := ranged(t, func(c *Config) { c.CooperativeFetch = true })
	p := w.gw.coop.place(factKey{"g", "orders", 0}, -1)
	p.running = true // as if it waited
	entries := []acquire.Entry{{First: 1, Last: 2, ID: 3, Attempt: 1}}
	none, cancel := context.WithCancel(t.Context())
	cancel()
	for _, want := range []int64{100, 200, 400, 800, 1000, 1000} {
		p.append(none, nil, entries)
		if p.left == 0 {
			t.Fatal("it is not tried again")
		}
		left := p.left
		if p.release(left + want - 1); p.left == 0 {
			t.Errorf("it is tried again within %d ms", want)
		}
		if p.release(left + want); p.left != 0 {
			t.Errorf("it is not tried again after %d ms", want)
		}
	}
	if p.append(t.Context(), nil, entries); p.releaseIn() != releaseAfter {
		t.Errorf("what is left next is given back after %d ms", p.releaseIn())
	}
}
