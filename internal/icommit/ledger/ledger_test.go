package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/region"
	"github.com/tandem-kafka/tandem/keyrange"
)

const base = 1

// log is what several ledgers append to, and how far each has read it.
type log struct {
	records []record.Record
	read    map[*Ledger]int
}

func newLog() *log { return &log{read: map[*Ledger]int{}} }

func newLedger() *Ledger { return New(Place{Group: "g", Topic: "t"}) }

func (l *log) follow(of *Ledger) {
	of.Replay(l.records[l.read[of]:])
	l.read[of] = len(l.records)
}

// text is the records of the log, as "[5-9]", "mark 5" and "null ...".
func (l *log) text() string {
	var all []string
	for _, r := range l.records {
		text := r.Fact.Offsets().String()
		if r.Base == anyBase {
			text = fmt.Sprint("mark ", r.Fact.Last+1)
		}
		if r.Delete {
			text = "null " + text
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func single(first, last int64) []region.Fact { return []region.Fact{fact(first, last)} }

// add is a commit of which everything goes well.
func (l *log) add(t *testing.T, to *Ledger, era int64, facts []region.Fact, stable int64) {
	t.Helper()
	a, err := to.Add(base, [16]byte{}, era, facts, stable)
	if err != nil {
		t.Fatal(err)
	}
	if a == nil {
		return
	}
	l.records = append(l.records, a.Puts()...)
	l.records = append(l.records, a.Stored()...)
	a.Deleted(true)
}

func (l *log) want(t *testing.T, text string) {
	t.Helper()
	if got := l.text(); got != text {
		t.Errorf("the log has\n%s, not\n%s", got, text)
	}
}

// A source row that another gateway planned before may be written last: what facts are deleted for, or not written for, has to be in
// the log.
func TestMarksTellWhatVanishesBelowTheStableOffset(t *testing.T) {
	l, g := newLog(), newLedger()
	l.add(t, g, 0, single(5, 9), 0)
	l.add(t, g, 0, single(0, 4), 10)
	l.want(t, "[5-9], mark 10, null [5-9]")
	l.add(t, g, 0, single(10, 11), 12) // in order: a fact that is never written
	l.want(t, "[5-9], mark 10, null [5-9], mark 12, null mark 10")
	l.add(t, g, 0, nil, 20) // by a view's row, which says so itself
	l.want(t, "[5-9], mark 10, null [5-9], mark 12, null mark 10")
	fresh := newLedger()
	l.follow(fresh)
	if next := fresh.look(base).Next(keyrange.Full, 0, nil); next != 12 {
		t.Errorf("from the log everything below %d is done, not below 12", next)
	}
}

// Another gateway puts a record again just when this one has deleted it. It goes with the next commit, though the
// answer to the deletion comes after this ledger has read that it is back.
func TestARecordThatIsBackBeforeItsDeletionIsAnsweredGoes(t *testing.T) {
	l, g := newLog(), newLedger()
	l.add(t, g, 0, single(5, 9), 0)
	l.follow(g)
	put := l.records[0]
	a, err := g.Add(base, [16]byte{}, 0, single(4, 12), 0)
	if err != nil {
		t.Fatal(err)
	}
	l.records = append(l.records, a.Puts()...)
	l.records = append(l.records, a.Stored()...)
	l.records = append(l.records, put)
	l.follow(g)
	a.Deleted(true)
	l.add(t, g, 0, single(20, 20), 0)
	l.want(t, "[5-9], [4-12], null [5-9], [5-9], [20-20], null [5-9]")
}

// While a deletion is under way no other commit deletes the same record, and after a failure the next one does.
func TestARecordIsDeletedByOneCommitAtATime(t *testing.T) {
	l, g := newLog(), newLedger()
	l.add(t, g, 0, single(5, 9), 0)
	first, err := g.Add(base, [16]byte{}, 0, single(4, 12), 0)
	if err != nil {
		t.Fatal(err)
	}
	beside, err := g.Add(base, [16]byte{}, 0, single(4, 13), 0)
	if err != nil {
		t.Fatal(err)
	}
	deletes := func(a *Append) (of []string) {
		for _, r := range a.Stored() {
			of = append(of, r.Fact.Offsets().String())
		}
		return of
	}
	if got := deletes(first); !slices.Equal(got, []string{"[5-9]"}) {
		t.Errorf("the first deletes %v", got)
	}
	if got := deletes(beside); len(got) > 0 {
		t.Errorf("the one beside deletes %v", got)
	}
	first.Deleted(false)
	beside.Deleted(true)
	after, err := g.Add(base, [16]byte{}, 0, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := deletes(after); !slices.Equal(got, []string{"[4-12]", "[5-9]"}) {
		t.Errorf("the next deletes %v", got)
	}
}

// Facts of an era that is over are not taken in: their client has to commit them again.
func TestFactsOfAnEraThatIsOver(t *testing.T) {
	l, g := newLog(), newLedger()
	l.add(t, g, 2, single(5, 9), 0)
	if a, err := g.Add(base, [16]byte{}, 1, single(5, 9), 0); a != nil || !errors.Is(err, ErrOver) {
		t.Errorf("facts of the era before: %v, %v", a, err)
	}
	if a, err := g.Add(base, [16]byte{}, 1, nil, 7); a != nil || err != nil {
		t.Errorf("a commit without facts in the era before: %v, %v", a, err)
	}
}

// Clients ask for any base; only those with facts take memory.
func TestBasesThatAreAskedForTakeNoMemory(t *testing.T) {
	l, g := newLog(), newLedger()
	l.add(t, g, 0, single(0, 9), 10)
	for other := range int32(100) {
		if next := g.With(other, [16]byte{}, 0, nil).Next(keyrange.Full, 0, nil); next != 10 {
			t.Fatalf("base %d: everything below %d is done, not below 10", other, next)
		}
		g.Grows(other, 0, single(20, 20), 10)
		l.add(t, g, 0, nil, 10)
	}
	if n := len(g.regions); n != 1 {
		t.Errorf("there are %d regions", n)
	}
}

// What is known of eras does not depend on how much of the log is read at a time, nor on its compaction.
func TestErasOfALogThatIsReadInPieces(t *testing.T) {
	rec := func(era int64, gone bool) record.Record {
		return record.Record{Group: "g", Topic: "t", Base: base, Era: era, Fact: fact(era, era+9), Delete: gone}
	}
	for name, c := range map[string]struct {
		log  []record.Record
		want int64
	}{
		"a group that is there again":             {[]record.Record{rec(5, false), rec(5, true), rec(1, false)}, 1},
		"an era before that was not deleted":      {[]record.Record{rec(2, false), rec(5, false), rec(5, true)}, 2},
		"a group that is gone":                    {[]record.Record{rec(5, false), rec(5, true)}, -1},
		"a deletion of what nobody knows is late": {[]record.Record{rec(3, false), rec(5, true), rec(1, true)}, 3},
	} {
		whole, pieces := newLedger(), newLedger()
		whole.Replay(c.log)
		for _, r := range c.log {
			pieces.Replay([]record.Record{r})
		}
		if whole.Era() != c.want || pieces.Era() != c.want {
			t.Errorf("%s: era %d, in pieces %d, not %d", name, whole.Era(), pieces.Era(), c.want)
		}
	}
}
