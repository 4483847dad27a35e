package ledger

import (
	"maps"
	"slices"
	"testing"

	"github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/region"
	"github.com/tandem-kafka/tandem/keyrange"
	"pgregory.net/rapid"
)

func put(first, last int64) record.Record {
	return record.Record{Group: "g", Topic: "t", Base: base, Fact: fact(first, last)}
}

func null(first, last int64) record.Record {
	r := put(first, last)
	r.Delete = true
	return r
}

// Whatever the order in which transactions are decided, each key is as the last record in the log says that is decided: that is the one
// which compaction keeps. Those of one transaction count all or not at all.
func TestUndecidedAgreesWithCompaction(t *testing.T) {
	type entry struct {
		record.Record
		txn *int // nil: outside of transactions; else undecided 0, committed 1, aborted 2
	}
	rapid.Check(t, func(t *rapid.T) {
		var u Undecided
		var log []entry
		states := map[int64]*int{}
		got := map[id]bool{}
		apply := func(records []record.Record) {
			for i := range records {
				got[idOf(&records[i])] = !records[i].Delete
			}
		}
		records := func() (records []record.Record) {
			for range rapid.IntRange(1, 3).Draw(t, "records") {
				r := put(rapid.Int64Range(0, 3).Draw(t, "offset"), 5)
				r.Delete = rapid.IntRange(0, 2).Draw(t, "deletes") == 0
				records = append(records, r)
			}
			return records
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			producer := rapid.Int64Range(1, 3).Draw(t, "producer")
			switch rapid.SampledFrom([]string{"add", "add", "pass", "commit", "abort"}).Draw(t, "step") {
			case "add":
				if states[producer] == nil {
					states[producer] = new(int)
				}
				of := records()
				for _, r := range of {
					log = append(log, entry{r, states[producer]})
				}
				u.Add(Producer{producer, 7}, of)
			case "pass":
				of := records()
				for _, r := range of {
					log = append(log, entry{r, nil})
				}
				u.Passed(of)
				apply(of)
			case "commit":
				if states[producer] != nil {
					*states[producer] = 1
				}
				states[producer] = nil
				apply(u.Decide(producer, true))
			case "abort":
				if states[producer] != nil {
					*states[producer] = 2
				}
				states[producer] = nil
				if of := u.Decide(producer, false); of != nil {
					t.Fatalf("aborted, and decided are %v", of)
				}
			}
			want, open := map[id]bool{}, map[id]map[*int]bool{}
			for _, e := range log {
				switch {
				case e.txn == nil || *e.txn == 1:
					want[idOf(&e.Record)] = !e.Delete
					open[idOf(&e.Record)] = nil // what was before says nothing any more
				case *e.txn == 0:
					if open[idOf(&e.Record)] == nil {
						open[idOf(&e.Record)] = map[*int]bool{}
					}
					open[idOf(&e.Record)][e.txn] = !e.Delete
				}
			}
			if !maps.Equal(got, want) {
				t.Fatalf("known is %v, in the log %v", got, want)
			}
			facts := 0
			for _, txns := range open {
				for _, is := range txns {
					if is {
						facts++
					}
				}
			}
			if u.Len() != facts || len(u.Over(base).Eras()) != min(facts, 1) || u.Over(base).Touches(0, keyrange.Full) != (facts > 0) {
				t.Fatalf("%d facts that are not decided, not %d; eras %v", u.Len(), facts, u.Over(base).Eras())
			}
		}
		for producer := range states {
			u.Decide(producer, true)
		}
		if len(u.open)+len(u.keys) > 0 {
			t.Fatalf("all is decided, and left are %v", u.keys)
		}
	})
}

// The markers of a transaction may come after the next one of its producer has begun, at the gateway: what it did is not
// the next one's.
func TestTransactionsOfAnotherEpoch(t *testing.T) {
	var u Undecided
	u.Add(Producer{1, 4}, []record.Record{put(5, 9)})
	if facts, era := u.Of(Producer{1, 4}, base); era != 0 || !slices.Equal(facts, single(5, 9)) {
		t.Errorf("its own: %v, era %d", facts, era)
	}
	if facts, era := u.Of(Producer{1, 5}, base); era != -1 || facts != nil {
		t.Errorf("of the next: %v, era %d", facts, era)
	}
	if of := u.Missing(Producer{1, 4}, []record.Record{put(5, 9), put(20, 20)}); len(of) != 1 || of[0].Fact.First != 20 {
		t.Errorf("it lacks %v", of)
	}
	if of := u.Missing(Producer{1, 5}, []record.Record{put(5, 9)}); len(of) != 1 {
		t.Errorf("the next lacks %v", of)
	}
	u.Add(Producer{1, 5}, []record.Record{put(30, 30)}) // a marker that could not be read
	if of := u.Decide(1, true); len(of) != 1 || of[0].Fact.First != 30 {
		t.Errorf("decided are %v", of)
	}
}

func TestOfOtherBases(t *testing.T) {
	var u Undecided
	left, right := keyrange.OfSlice(0, 2), keyrange.OfSlice(1, 2)
	r := put(5, 9)
	r.Fact.Keys, r.Era = left, 3
	u.Add(Producer{1, 4}, []record.Record{r, null(1, 1)})
	for _, c := range []struct {
		base    int32
		era     int64
		keys    keyrange.Range
		touches bool
	}{{base, 3, left, true}, {base, 3, right, false}, {base, 4, left, false}, {base + 1, 3, right, true}} {
		if got := u.Over(c.base).Touches(c.era, c.keys); got != c.touches {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if facts, era := u.Of(Producer{1, 4}, base+1); facts != nil || era != 3 {
		t.Errorf("of another base are %v, era %d", facts, era)
	}
}

// What a transaction said in an era before is not what it says now.
func TestOwnFactsAreOfTheLatestEra(t *testing.T) {
	var u Undecided
	later := put(20, 21)
	later.Era = 5
	u.Add(Producer{1, 4}, []record.Record{put(5, 9), later, put(7, 7)})
	if facts, era := u.Of(Producer{1, 4}, base); era != 5 || !slices.Equal(facts, single(20, 21)) {
		t.Errorf("%v of era %d", facts, era)
	}
	var all []int64
	u.Offsets(func(o region.OffsetRange) { all = append(all, o.First, o.Last) })
	if slices.Sort(all); !slices.Equal(all, []int64{5, 7, 7, 9, 20, 21}) {
		t.Errorf("offsets %v", all)
	}
}

// Who deletes a group deletes what is not decided as well, so that it does not count in a group of the same name.
func TestDeletions(t *testing.T) {
	var u Undecided
	u.Add(Producer{1, 0}, []record.Record{put(5, 9), put(7, 7), null(7, 7)})
	u.Add(Producer{2, 0}, []record.Record{put(5, 9), put(1, 1)})
	of := u.Deletions()
	if len(of) != 2 || !of[0].Delete || of[0].Fact != (region.Fact{Keys: keyrange.Full, First: 1, Last: 1}) {
		t.Fatalf("to be deleted are %v", of)
	}
	u.Passed(of)
	if u.Len() != 0 || len(u.Decide(1, true)) != 1 || len(u.Decide(2, true)) != 0 {
		t.Error("what was deleted counts")
	}
}
