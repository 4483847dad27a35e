package ledger

import (
	"testing"

	"github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/region"
	"github.com/tandem-kafka/tandem/keyrange"
)

// write has a ledger commit facts, and returns what the log gets.
func write(l *Ledger, era, stable int64, facts ...region.Fact) (log []record.Record) {
	a, _ := l.Add(base, [16]byte{1}, era, facts, stable)
	log = append(log, a.Puts()...)
	gone := a.Stored()
	a.Deleted(true)
	return append(log, gone...)
}

func fact(first, last int64) region.Fact {
	return region.Fact{Keys: keyrange.Full, First: first, Last: last}
}

// What is left of a group that is gone is one record, which keeps the era from being used again; then nothing, and the ledger knows as
// little as one that reads the log anew.
func TestRemains(t *testing.T) {
	for _, marked := range []bool{true, false} {
		l := New(Place{Group: "g", Topic: "t"})
		stable := int64(0)
		if marked {
			stable = 10
		}
		log := write(l, 3, stable, fact(12, 13), fact(20, 20), fact(30, 34), fact(40, 40))
		if l.Remains(2, 100, false) != nil {
			t.Error("a later era is deleted")
		}
		for n := 0; ; n++ {
			gone := l.Remains(3, 2, false)
			if len(gone) == 0 {
				if n < 2 {
					t.Errorf("all at once: %d times", n)
				}
				break
			}
			log = append(log, gone...)
			l.Left(3, gone)
		}
		left := map[record.Record]bool{}
		replayed := New(Place{Group: "g", Topic: "t"})
		for _, r := range log {
			replayed.Replay([]record.Record{r})
			if r.Delete {
				delete(left, of(r))
			} else {
				left[of(r)] = true
			}
		}
		if len(left) != 1 || l.Era() != 3 || replayed.Era() != 3 {
			t.Errorf("in the log are %v; the eras are %d and %d", left, l.Era(), replayed.Era())
		}
		if of := l.region(1); of.Size().Others > 0 {
			t.Errorf("what was deleted is known still: %+v", of.Size())
		}
		last := l.Remains(3, 100, true)
		if len(last) != 1 || !left[of(last[0])] {
			t.Fatalf("the last is %v", last)
		}
		l.Left(3, last)
		replayed.Replay(last)
		if l.Era() != -1 || replayed.Era() != -1 {
			t.Errorf("in the end the eras are %d and %d", l.Era(), replayed.Era())
		}
	}
}

// of is what two records of one key have in common.
func of(r record.Record) record.Record {
	r.TopicID, r.Delete = [16]byte{}, false
	return r
}

// Who opened a later era meanwhile keeps all of it.
func TestRemainsOfAGroupThatIsThereAgain(t *testing.T) {
	l := New(Place{Group: "g", Topic: "t"})
	write(l, 3, 10, fact(12, 13))
	gone := l.Remains(3, 100, true)
	write(l, 4, 20, fact(22, 23))
	l.Left(3, gone)
	if l.Remains(3, 100, true) != nil || l.Era() != 4 || !l.region(1).Holds(fact(22, 23)) {
		t.Error("the later era lost something")
	}
}
