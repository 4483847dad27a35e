package client

import (
	"testing"
	"time"
)

// A member asks for what it works on in a moment: a longer one as long as there is a backlog, and a short one again when records come one by one.
func TestPaceOfMembersThatShareByRecord(t *testing.T) {
	c := newCoop(&session{cfg: &config{concurrency: 4}})
	now, handed := time.Now(), int64(0)
	works := func(n int64, d time.Duration) {
		now, handed = now.Add(d), handed+n
		c.pace(now, handed)
	}
	want := func(what string, rate, off float64, ahead time.Duration) {
		t.Helper()
		if c.rate < rate-off || c.rate > rate+off || c.ahead != ahead {
			t.Errorf("%s: %.0f records/s for %v, not %.0f for %v", what, c.rate, c.ahead, rate, ahead)
		}
	}
	works(0, time.Hour)
	works(10, 40*time.Millisecond)
	want("too few to tell", 0, 0, leastAhead)
	works(10, 10*time.Millisecond)
	c.reach(100, 100, 3*time.Millisecond)
	want("where work takes long", 400, 1, leastAhead)
	for range 10 {
		c.reach(100, 100, 3*time.Millisecond)
		works(2000, 20*time.Millisecond)
	}
	want("in a backlog", 100_000, 1, backlogAhead)
	c.reach(75, 100, 2*time.Second)
	want("when a fetch takes long", 100_000, 1, mostAhead)
	for range 20 {
		c.reach(100, 100, 3*time.Millisecond)
	}
	c.reach(1, 100, time.Second)
	works(1, 200*time.Millisecond)
	want("at the end of a backlog", 50_000, 10, backlogAhead/2)
	for range 20 {
		c.reach(0, 100, time.Second)
		works(5, 200*time.Millisecond)
	}
	want("when records come one by one", 25, 1, leastAhead)
}
