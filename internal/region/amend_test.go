package region

import (
	"slices"
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
)

var left, right = keyrange.OfSlice(0, 2), keyrange.OfSlice(1, 2)

func all(pairs ...int64) (facts []Fact) { return of(keyrange.Full, pairs...) }

func of(keys keyrange.Range, pairs ...int64) (facts []Fact) {
	for i := 0; i < len(pairs); i += 2 {
		facts = append(facts, Fact{keys, pairs[i], pairs[i+1]})
	}
	return facts
}

func join(facts ...[]Fact) []Fact { return slices.Concat(facts...) }

// The first three are the proposal's own examples. They say "stable at 42" where 43 is the next to read.
func TestAmend(t *testing.T) {
	for _, c := range []struct {
		name          string
		stored        []Fact
		stable, after int64
		facts         []Fact
		puts, deletes []Fact
	}{
		{"a gap is closed", all(45, 47, 50, 50), 43, 43, all(48, 49), all(45, 50), all(45, 47, 50, 50)},
		{"the stable offset passes all", all(45, 50), 43, 51, all(43, 44), nil, all(45, 50)},
		{"the stable offset passes one", all(45, 47, 50, 50), 43, 48, all(43, 44), nil, all(45, 47)},
		{"nothing is near", all(45, 47), 43, 43, all(50, 50), all(50, 50), nil},
		{"the stable offset is held back elsewhere", of(left, 45, 50), 43, 43, of(left, 43, 44), of(left, 43, 50), of(left, 45, 50)},
		{"a repetition", all(45, 47, 50, 50), 43, 43, all(46, 47, 50, 50), nil, nil},
		{"new ones that touch each other", nil, 0, 0, all(7, 8, 5, 5, 6, 6, 10, 11), all(5, 8, 10, 11), nil},
		{"one over many", all(45, 47, 50, 50, 60, 61), 43, 43, all(44, 70), all(44, 70), all(45, 47, 50, 50, 60, 61)},
		{"a watermark", all(45, 47, 50, 50), 0, 0, all(0, 47), all(0, 47), all(45, 47)},
		{"a watermark moves on", all(0, 47), 20, 20, all(0, 57), all(0, 57), all(0, 47)},
		{"below the stable offset", nil, 43, 43, all(10, 42), nil, nil},
		{"what lies below is not merged", all(10, 42), 43, 43, all(43, 44), all(43, 44), all(10, 42)},
		{"what is new and lies below is not merged", nil, 43, 43, all(10, 42, 43, 44), all(43, 44), nil},
		{"all of it above the stable offset is there", all(43, 50), 43, 43, all(40, 50), nil, nil},
		{"another key range does not merge", of(left, 45, 47), 43, 43, of(right, 48, 49), of(right, 48, 49), nil},
		{"a wider one makes narrower ones redundant", join(of(left, 45, 47, 60, 60), of(right, 46, 46)), 43, 43, all(45, 50), all(45, 50), join(of(left, 45, 47), of(right, 46, 46))},
		{"a wider one is there", all(45, 50), 43, 43, of(left, 46, 50), nil, nil},
		{"narrower ones are there, together", join(of(left, 45, 50), of(right, 45, 50)), 43, 43, all(46, 50), nil, nil},
		{"a new wider and a new narrower one", nil, 0, 0, join(of(left, 5, 6), all(5, 9)), all(5, 9), nil},
		{"not valid", nil, 0, 0, []Fact{{keyrange.Range{First: 2, Last: 1}, 1, 2}, {keyrange.Full, 3, 2}, {keyrange.Full, -1, 2}, {keyrange.Full, 1, 1<<63 - 1}}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := New(c.stable)
			r.Stored(c.stored)
			for range 2 { // the first did not get written, and left things as they were
				puts, deletes := r.Amend(c.facts, c.after, 0)
				if !slices.Equal(puts, c.puts) || !slices.Equal(deletes, c.deletes) {
					t.Fatalf("puts %v, want %v; deletes %v, want %v", puts, c.puts, deletes, c.deletes)
				}
			}
		})
	}
}

// Gateways that write at the same time leave records that overlap. The next one cleans up.
func TestAmendAfterOthers(t *testing.T) {
	r := New(43)
	for _, f := range all(45, 49, 45, 47, 48, 50, 43, 43) {
		r.Replay(f)
	}
	if _, deletes := r.Amend(nil, 43, 0); !slices.Equal(deletes, all(45, 47)) {
		t.Errorf("deletes %v", deletes)
	}
	puts, deletes := r.Amend(all(44, 44), 43, 0)
	if !slices.Equal(puts, all(43, 50)) || !slices.Equal(sorted(deletes), all(43, 43, 45, 47, 45, 49, 48, 50)) {
		t.Errorf("puts %v, deletes %v", puts, deletes)
	}
}

// Records that touch become one when a fact touches one of them.
func TestAmendGoesOnToBothSides(t *testing.T) {
	r := New(40)
	for _, f := range all(44, 44, 45, 45, 46, 46, 48, 48, 49, 49, 50, 50) {
		r.Replay(f)
	}
	if puts, _ := r.Amend(all(47, 47), 40, 0); !slices.Equal(puts, all(44, 50)) {
		t.Errorf("puts %v", puts)
	}
}

// A record that a wider one covers is deleted whichever was read first, and asked for until it is gone.
func TestAmendFindsWhatWasReadOutOfOrder(t *testing.T) {
	wide := of(keyrange.Full, 0, 299, 500, 599)
	narrow := []Fact(nil)
	for i := range int64(150) {
		narrow = append(narrow, of(left, 2*i, 2*i)...)
	}
	for name, order := range map[string][2][]Fact{"wider first": {wide, narrow}, "narrower first": {narrow, wide}} {
		r := New(0)
		for _, facts := range order {
			for _, f := range facts {
				r.Replay(f)
			}
			_, deletes := r.Amend(nil, 0, 0)
			if first := &facts[0] == &order[0][0]; first && deletes != nil {
				t.Errorf("%s: deletes %v", name, deletes)
			}
		}
		for range 2 {
			if puts, deletes := r.Amend(nil, 0, 0); puts != nil || !slices.Equal(deletes, narrow) {
				t.Errorf("%s: puts %v, deletes %v", name, puts, deletes)
			}
		}
	}
}

// A limit puts deletes off; none is forgotten, of no kind, and none is given before what covers it is stored.
func TestAmendGivesDeletesInPortions(t *testing.T) {
	r := New(0)
	var want []Fact
	for i := range int64(300) {
		want = append(want, join(of(left, 2*i, 2*i), of(right, 2*i, 2*i))...)
	}
	r.Stored(slices.Clone(want))
	want = append(want, all(300, 310)...) // the put covers one of its own lane, too
	r.Stored(all(300, 310))
	r.SetStable(100)
	facts, stored := of(keyrange.Full, 200, 598), []Fact(nil)
	var got []Fact
	for range 20 {
		puts, deletes := r.Amend(facts, 100, 50)
		if len(deletes) > 50 {
			t.Fatalf("%d deletes", len(deletes))
		}
		r.Stored(puts)
		r.Deleted(deletes)
		stored, got, facts = append(stored, puts...), append(got, deletes...), nil
	}
	if !slices.Equal(stored, all(200, 598)) {
		t.Errorf("stored %v", stored)
	}
	want = slices.DeleteFunc(want, func(f Fact) bool { return f.First >= 100 && f.First < 200 })
	if !slices.Equal(sorted(got), sorted(want)) {
		t.Errorf("%d deletes, want %d", len(got), len(want))
	}
	if _, deletes := r.Amend(nil, 100, 0); deletes != nil {
		t.Errorf("deleted again: %v", deletes)
	}
}

// A delete that failed is tried again, with whatever comes next.
func TestAmendRepeatsDeletesThatFailed(t *testing.T) {
	r := New(43)
	r.Stored(join(all(45, 47), of(left, 46, 49)))
	puts, _ := r.Amend(all(44, 49), 43, 0)
	r.Stored(puts)
	if puts, deletes := r.Amend(all(60, 60), 43, 0); !slices.Equal(puts, all(60, 60)) || !slices.Equal(sorted(deletes), sorted(join(all(45, 47), of(left, 46, 49)))) {
		t.Errorf("puts %v, deletes %v", puts, deletes)
	}
}

// Who deletes a record that others leaned on makes them needed again.
func TestRecordsThatWereCoveredComeBack(t *testing.T) {
	r := New(43)
	r.Stored(all(45, 47))
	r.Stored(all(45, 50))
	r.ReplayDelete(all(45, 50)[0])
	if puts, deletes := r.Amend(all(46, 46), 43, 0); puts != nil || deletes != nil {
		t.Errorf("puts %v, deletes %v", puts, deletes)
	}
	if next := r.Next(keyrange.Full, 45, nil); next != 51 {
		t.Errorf("what was deleted is not done any more: next %d", next)
	}
	if puts, _ := r.Amend(all(48, 50), 43, 0); !slices.Equal(puts, all(45, 50)) {
		t.Errorf("what is not in the log has to be written: %v", puts)
	}
}

func sorted(facts []Fact) []Fact {
	facts = slices.Clone(facts)
	slices.SortFunc(facts, func(a, b Fact) int {
		if c := compareKeys(a.Keys, b.Keys); c != 0 {
			return c
		}
		return a.Offsets().compare(b.Offsets())
	})
	return facts
}
