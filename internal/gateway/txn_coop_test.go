package gateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/acquire"
	"github.com/tandem-kafka/tandem/internal/icommit"
	factrecord "github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/region"
	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kerr"
)

// cooperation is a group with a member that fetches cooperatively from a topic with some records, and a producer of transactions.
func cooperation(t *testing.T, records int) (w *world, group, topic string, m *cooperating, x *transaction) {
	t.Helper()
	w = ranged(t, func(c *Config) { c.CooperativeFetch = true })
	topic, group = w.source(1)
	w.produce(topic, records)
	m = w.cooperate(group, topic)
	x = w.transaction(group)
	x.member, x.generation = m.ask.Member, m.ask.Generation
	return w, group, topic, m, x
}

// giveBack has a member give back these offsets, which are all that it has.
func (m *cooperating) giveBack(has ...tandemmsg.AcquiredRange) {
	m.w.t.Helper()
	timeout := m.ask.SessionTimeout
	m.has, m.ask.SessionTimeout = has, 0 // what it did not name would count as never given
	_ = m.fetch(0)
	m.has, m.ask.SessionTimeout = nil, timeout
}

func acquired(first, last int64) []tandemmsg.AcquiredRange {
	return []tandemmsg.AcquiredRange{{OffsetRange: tandemmsg.OffsetRange{First: first, Last: last}, Attempt: 1}}
}

func (m *cooperating) wantGiven(want string) {
	m.w.t.Helper()
	if got := m.fetch(10 * time.Second); got != want {
		m.w.t.Errorf("given is %q, not %q", got, want)
	}
}

// wantOffsets wants one of these answers to the member's next fetch, as offsets: how often they were given before is no matter of transactions.
func (m *cooperating) wantOffsets(want ...string) {
	m.w.t.Helper()
	given := m.fetch(10 * time.Second)
	var text []string
	first, last := int64(0), int64(-2)
	for _, part := range append(strings.Fields(given), "-9--9#0") {
		var f, l int64
		if _, err := fmt.Sscanf(part, "%d-%d#", &f, &l); err != nil {
			m.w.t.Fatal(part, err)
		}
		if f == last+1 {
			last = l
			continue
		}
		if last >= 0 {
			text = append(text, fmt.Sprintf("%d-%d", first, last))
		}
		first, last = f, l
	}
	if got := strings.Join(text, " "); !slices.Contains(want, got) {
		m.w.t.Errorf("given is %q, not %q", given, want)
	}
}

// What an open transaction says is done is given to nobody. When it is aborted it goes to the next who asks, before anything new; when it is committed it is done, also what
// the group had never given out.
func TestWhatAnOpenTransactionHasDoneIsNotGivenOut(t *testing.T) {
	t.Parallel()
	_, group, topic, m, x := cooperation(t, 60)
	m.ask.MaxRecords = 10
	m.wantOffsets("0-9")
	x.ranges(group, topic, rangesOf(whole, 0, 3, 6, 9))
	m.giveBack(acquired(0, 9)...)
	m.wantOffsets("4-5 10-17")
	m.giveBack(append(acquired(4, 5), acquired(10, 17)...)...)
	x.end(false)
	m.wantOffsets("0-9")
	x.ranges(group, topic, rangesOf(whole, 0, 9, 18, 19))
	x.end(true)
	m.giveBack()
	m.wantOffsets("10-17 20-21")
}

// So is it where the transaction is written while the offsets that it has done are on their way to a member.
func TestWhatATransactionHasDoneMeanwhileIsNotGivenOut(t *testing.T) {
	t.Parallel()
	w, group, topic, m, x := cooperation(t, 10)
	m.ask.MaxRecords = 1
	m.wantOffsets("0-0") // the group has begun
	m.has, m.ask.MaxRecords = acquired(0, 0), 10
	x.w = w.another()
	x.c = x.w.client()
	held, release := w.holdFacts()
	r := m.send(10 * time.Second)
	<-held
	x.ranges(group, topic, rangesOf(whole, 3, 4))
	close(release)
	if given, err := r.given(); given != "1-2#1 5-9#1" || err != nil {
		t.Errorf("given is %q: %v", given, err)
	}
	x.end(false)
}

// What is done in a transaction by somebody else, of what was never given out, is known from then on without another look.
func TestWhatATransactionHasDoneIsKnown(t *testing.T) {
	t.Parallel()
	_, group, topic, m, x := cooperation(t, 30)
	m.ask.MaxRecords = 10
	m.wantOffsets("0-9")
	m.has = acquired(0, 9)
	x.ranges(group, topic, rangesOf(whole, 10, 14))
	x.end(true)
	m.wantOffsets("15-24", "15-19") // where 10-19 was acquired ahead
}

// Who waits for what an open transaction holds is looked after when it is decided, not a while later.
func TestADecisionWakesWhoWaits(t *testing.T) {
	w := ranged(t, func(c *Config) { c.CooperativeFetch = true })
	k := factKey{"g", "orders", 0}
	p := w.gw.coop.place(k, 3)
	p.running = true // as if it waited
	producer := icommit.Producer{ID: 5, Epoch: 1}
	w.gw.facts.ApplyOpen(3, producer, []factrecord.Record{{Group: k.group, Topic: k.topic, Base: 1, Fact: region.Fact{Keys: keyrange.Full, First: 2, Last: 4}}})
	if len(p.wake) > 0 || len(w.gw.facts.undecided(k)) != 1 {
		t.Fatal("it is woken, or nothing is held")
	}
	w.gw.facts.Decide(3, producer.ID, false)
	if len(p.wake) == 0 || len(w.gw.facts.undecided(k)) != 0 {
		t.Error("it is not woken, or something is held")
	}
}

// While an acquisition is on its way another member has the same offsets and is done with them, through another gateway, and the group's progress starts over. The acquisition wins, in
// an era that is over: what it acquired is acquired anew before it is given out, since it would not keep others from the same in the new era.
func TestAcquisitionsOfAnEraThatIsOverAreNotGivenOut(t *testing.T) {
	t.Parallel()
	w, group, topic, m, _ := cooperation(t, 20)
	m.ask.MaxRecords = 5
	m.wantOffsets("0-4")
	m.has = acquired(0, 4)
	p := w.gw.coop.known(factKey{group, topic, 0})
	p.mu.Lock()
	era, id := p.state.Era(), p.source.TopicID
	p.mu.Unlock()
	other := w.another()
	held, release := w.holdFacts()
	m.ask.MaxRecords = 20
	r := m.send(10 * time.Second)
	<-held
	theirs := acquire.Entry{Era: era, First: 5, Last: 9, ID: 77, Attempt: 1, Member: "another", Timeout: 120_000}
	gone := theirs
	gone.Delete = true
	if err := other.gw.facts.log.AppendHandouts(t.Context(), group, handouts(p.key, []acquire.Entry{theirs, gone}, id)); err != nil {
		t.Fatal(err)
	}
	if codes := w.commitRows(group, topic, m.ask.Member, m.ask.Generation, row(0, 10)); codes[0] != 0 {
		t.Fatal(kerr.ErrorForCode(codes[0]))
	}
	close(release)
	given, err := r.given()
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if holds := p.state.Holds(m.ask.Member); given != "10-19#1" || p.state.Era() == era || len(holds) == 0 || holds[0].First != 10 || holds[len(holds)-1].Last < 19 { // and perhaps what has no records yet
		t.Errorf("given is %q, and in era %d, after %d, the member holds %v", given, p.state.Era(), era, holds)
	}
}
