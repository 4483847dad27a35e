package gateway

import (
	"fmt"
	"testing"
)

func TestTransactionalCommitsCountAsTheGroupReads(t *testing.T) {
	const view = "orders.view4"
	consumer := func(n int) isolationKey { return isolationKey{"10.0.0.1", fmt.Sprintf("consumer-%d", n), view} }
	producer := isolationKey{"10.0.0.1", "producer-1", view}
	var i isolations
	check := func(want bool, what string) {
		t.Helper()
		if got := i.ofGroup("g", producer); got != want {
			t.Errorf("%s: read_committed only is %v, want %v", what, got, want)
		}
	}
	check(false, "nothing is known")
	i.noteReader("g", consumer(1))
	check(false, "a consumer has not fetched yet")
	i.note(consumer(1), true)
	check(true, "the only consumer reads read_committed")
	i.noteReader("g", isolationKey{"10.0.0.1", "adminclient-1", view})
	check(true, "a tool has looked at the offsets")
	i.noteReader("other", consumer(2))
	i.note(consumer(2), false)
	check(true, "a consumer of another group reads read_uncommitted")
	i.noteReader("g", consumer(2))
	check(false, "a second consumer reads read_uncommitted")
	for n := range maxReaders {
		i.noteReader("g", consumer(10+n))
		i.note(consumer(10+n), true)
	}
	check(true, "the second consumer is long gone")
	i.note(producer, false)
	check(false, "the committing client itself reads read_uncommitted")
}

func TestLatelyForgetsTheOldest(t *testing.T) {
	var l lately[int, string]
	for k := range 3 {
		l.put(k, fmt.Sprint(k), 3)
	}
	l.get(0)
	l.put(3, "3", 3)
	if _, ok := l.get(1); ok {
		t.Error("1 is still there")
	}
	for _, k := range []int{0, 2, 3} {
		if v, ok := l.get(k); !ok || v != fmt.Sprint(k) {
			t.Errorf("%d is %q", k, v)
		}
	}
}
