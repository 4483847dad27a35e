package acquire

import (
	"fmt"
	"strings"
	"testing"
)

// script is a State and the log that it reads; each line of a script appends an entry, and says whether it wins.
type script struct {
	t        *testing.T
	s        *State
	position int64
	id       uint64
	now      int64
}

func begin(t *testing.T) *script { return &script{t: t, s: New(1)} }

// take appends what a member would, for the lowest range that it can have.
func (c *script) take(member string, most int64) string {
	f, ok := c.s.Next(0, c.now)
	if !ok {
		return "nothing"
	}
	c.id++
	return c.append(f.Acquire(c.s, c.id, Range{f.First, min(f.Last, f.First+most-1)}, member, 3000))
}

func (c *script) append(e Entry) string {
	verdict := "loses"
	if c.s.Apply(c.position, e, c.now) {
		verdict = "wins"
	}
	c.position++
	return fmt.Sprintf("%d-%d#%d %s", e.First, e.Last, e.Attempt, verdict)
}

func (c *script) want(got, want string) {
	c.t.Helper()
	if got != want {
		c.t.Errorf("%s, want %s", got, want)
	}
}

func TestTheFirstInTheLogWins(t *testing.T) {
	c := begin(t)
	f, _ := c.s.Next(0, 0)
	a, b := f.Acquire(c.s, 1, Range{0, 9}, "a", 3000), f.Acquire(c.s, 2, Range{5, 14}, "b", 3000)
	c.want(c.append(a), "0-9#1 wins")
	c.want(c.append(b), "5-14#1 loses")
	c.want(fmt.Sprint(c.s.Holds("a"), c.s.Holds("b")), "[{0 9}] []")
}

func TestWhatWasGivenOutComesBeforeWhatIsNew(t *testing.T) {
	c := begin(t)
	c.id = 10
	c.want(c.take("a", 10), "0-9#1 wins")
	c.want(c.take("b", 10), "10-19#1 wins")
	c.s.Done(Range{0, 3}, c.now)
	for _, e := range c.s.GiveBack("a", func() uint64 { c.id++; return c.id }) {
		c.want(c.append(e), "0-9#1 wins")
	}
	c.want(c.take("b", 4), "4-7#2 wins")
	c.want(c.take("b", 4), "8-9#2 wins")
	c.want(c.take("b", 4), "20-23#1 wins")
}

func TestWhoIsThereAfterAllKeepsWhatItHas(t *testing.T) {
	c := begin(t)
	c.want(c.take("a", 10), "0-9#1 wins")
	c.now = 4001 // 4/3 of the session timeout
	f, _ := c.s.Next(0, c.now)
	late := f.Acquire(c.s, 7, Range{0, 9}, "b", 3000)
	c.append(c.s.Session(8, "a", 3000))
	c.want(c.append(late), "0-9#2 loses")
	c.now += 4001
	c.want(c.take("b", 10), "0-9#2 wins")
}

func TestEntriesThatHaveLostAreDeletedFirst(t *testing.T) {
	c := begin(t)
	f, _ := c.s.Next(0, 0)
	c.append(f.Acquire(c.s, 1, Range{0, 9}, "a", 3000))
	c.append(f.Acquire(c.s, 2, Range{0, 9}, "b", 3000))
	c.s.Done(Range{0, 9}, 0)
	var ids []string
	for _, e := range c.s.Garbage(0, func(id uint64) bool { return id == 1 }) {
		ids = append(ids, fmt.Sprint(e.ID))
		c.append(e)
	}
	c.want(strings.Join(ids, " "), "2 1")
	if n := c.s.Size(); n != 0 {
		t.Errorf("%d entries are left", n)
	}
	if f, _ := c.s.Next(0, 0); f.First != 10 || f.Again {
		t.Errorf("next is %+v", f)
	}
}

func TestALowerEraCountsWhenNothingOfTheHigherIsLeft(t *testing.T) {
	c := begin(t)
	c.want(c.take("a", 10), "0-9#1 wins")
	if d := c.s.Restart(0); len(d) != 1 || !d[0].Delete || d[0].Era != 1 || c.s.Era() != 0 || !c.s.Doubtful() {
		t.Errorf("deletions %v, era %d", d, c.s.Era())
	}
	c.want(c.take("a", 5), "0-4#1 wins")
}

func TestAnewWhatWasDoneIsFreeAgainAndWhoHasSomethingKeepsIt(t *testing.T) {
	c := begin(t)
	c.want(c.take("a", 10), "0-9#1 wins")
	c.want(c.take("b", 10), "10-19#1 wins")
	c.s.Done(Range{0, 14}, c.now)
	c.s.Settled()
	c.s.Anew()
	if !c.s.Doubtful() {
		t.Error("what is done is to be read")
	}
	c.want(fmt.Sprint(c.s.Holds("a"), c.s.Holds("b"), c.s.Undone(Range{0, 30})), "[{0 9}] [{10 19}] [{0 30}]")
	c.s.Done(Range{0, 9}, c.now)
	c.want(fmt.Sprint(len(c.s.Garbage(c.now, func(uint64) bool { return true })), c.s.Holds("b")), "1 [{10 19}]")
}

// What is given back, or not with its member, without that it was told counts no attempt; but it may have been given out and done, when that came late: it is read first.
func TestWhatWasNeverToldCountsNoAttemptAndIsReadFirst(t *testing.T) {
	c := begin(t)
	next := func(want string) {
		t.Helper()
		f, _ := c.s.Next(0, c.now)
		c.want(fmt.Sprintf("%d-%d again %t, attempts %d", f.First, min(f.Last, 99), f.Again, f.Attempts), want)
	}
	next("0-99 again false, attempts 0")
	c.want(c.take("a", 10), "0-9#1 wins")
	c.s.Keep(c.id)
	next("10-99 again false, attempts 0")
	c.s.Leave("a", Everything)
	next("0-9 again false, attempts 0") // only this State knows of it
	for _, e := range c.s.Release(func() uint64 { return 50 }) {
		c.want(c.append(e), "0-9#0 wins")
	}
	next("0-9 again true, attempts 0")
	c.want(c.take("b", 10), "0-9#1 wins")
	c.s.Has("b", nil, c.now)
	next("0-9 again true, attempts 0")
}
