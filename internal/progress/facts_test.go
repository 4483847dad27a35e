package progress

import (
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
)

// done is facts for one key range: the offsets [first, last] are done.
type done struct {
	keys        keyrange.Range
	first, last int64
}

func (d done) Next(keys keyrange.Range, from int64, empty func(int64) int64) int64 {
	covers := d.keys.Covers(keys)
	for {
		at := from
		if covers && at >= d.first && at <= d.last {
			at = d.last + 1
		}
		if empty != nil {
			at = empty(at)
		}
		if at == from {
			return at
		}
		from = at
	}
}

func sourceText(offset int64, text string) Row {
	return Row{Offset: offset, LeaderEpoch: -1, Metadata: &text}
}

func TestFactsCountInTheirEraOnly(t *testing.T) {
	half := keyrange.OfSlice(1, 2)
	facts := done{half, 5, 9}
	for name, c := range map[string]struct {
		source Row
		era    int64 // the facts'
		start  int64 // of slice 1 of 2
		now    int64 // the era
	}{
		"their era":              {sourceText(5, "tandem:1:3:5"), 3, 10, 3},
		"another era":            {sourceText(5, "tandem:1:4:5"), 3, 5, 4},
		"a plain commit":         {sourceText(5, "elsewhere"), 3, 5, 4},
		"the source row is gone": {NoRow, 3, -1, 4},
		"not adjacent":           {sourceText(4, "tandem:1:3:4"), 3, 4, 3},
	} {
		p := NewPicture([]View{{Name: "v", K: 2}})
		p.SetSource(c.source)
		p.SetFacts(c.era, facts)
		if got := p.Start(0, 1, false).Offset; got != c.start {
			t.Errorf("%s: slice 1 begins at %d, not %d", name, got, c.start)
		}
		if got := p.Start(0, 0, false).Offset; got != c.source.Offset {
			t.Errorf("%s: slice 0 begins at %d, not %d", name, got, c.source.Offset)
		}
		if got := p.Era(); got != c.now {
			t.Errorf("%s: era %d, not %d", name, got, c.now)
		}
	}
}

// The stable offset moves over facts, view rows and what is empty together, whatever their order.
func TestStableMovesOverFactsAndRows(t *testing.T) {
	p := NewPicture([]View{{Name: "v", K: 2}})
	p.SetSource(sourceText(5, "tandem:1:0:5"))
	p.SetFacts(0, done{keyrange.OfSlice(1, 2), 7, 9})
	row := viewText(nil, tag{}, 20)
	p.SetView(0, 0, Row{Offset: 20, LeaderEpoch: -1, Metadata: &row})
	empty := func(_ int, slice int32, from int64) int64 {
		if slice == 1 && from >= 5 && from < 7 {
			return 7
		}
		return from
	}
	if got := p.Stable(0, nil); got != 5 {
		t.Errorf("stable %d without knowing what is empty, not 5", got)
	}
	if got := p.Stable(0, empty); got != 10 {
		t.Errorf("stable %d, not 10", got)
	}
	plan := p.Plan(nil, Env{Next: empty, Facts: func(era int64) Facts {
		if era != 0 {
			t.Errorf("asked for era %d", era)
		}
		return done{keyrange.OfSlice(1, 2), 7, 14}
	}})
	if plan.Source.Offset != 15 || plan.Era != 0 {
		t.Errorf("the commit writes %d in era %d, not 15 in 0", plan.Source.Offset, plan.Era)
	}
}

// A topic without views has one position, and facts alone.
func TestFactsWithoutViews(t *testing.T) {
	p := NewPicture(nil)
	p.SetSource(sourceText(42, "tandem:1:1:42"))
	p.SetFacts(1, done{keyrange.Full, 42, 49})
	if got := p.Stable(0, nil); got != 50 {
		t.Errorf("stable %d, not 50", got)
	}
	p.SetSource(sourceText(60, "a plain commit"))
	opened := p.Plan(nil, Env{Facts: func(era int64) Facts {
		if era != 2 {
			t.Errorf("era %d, not 2", era)
		}
		return done{keyrange.Full, 60, 61}
	}})
	if opened.Source.Offset != 62 || !opened.Opens || opened.Era != 2 {
		t.Errorf("%+v", opened)
	}
}

// A commit that goes back in a group with facts leaves all of them behind: they could not be taken back one by one.
func TestGoingBackLeavesFactsBehind(t *testing.T) {
	p := NewPicture([]View{{Name: "v", K: 2}})
	p.SetSource(sourceText(5, "tandem:1:3:5"))
	row := viewText(nil, tag{era: 3}, 20)
	p.SetView(0, 1, Row{Offset: 20, LeaderEpoch: -1, Metadata: &row})
	p.SetFacts(3, done{keyrange.Full, 0, 9})
	back := []Commit{{View: 0, Slice: 1, Offset: 8, LeaderEpoch: -1, Began: 20}}
	if plan := p.Plan(back, Env{}); len(plan.Back) != 1 || !p.HasFacts() {
		t.Fatalf("it does not go back: %+v", plan)
	}
	plan := p.Plan(back, Env{Renew: true})
	if plan.Era != 4 || !plan.Opens || plan.Source.Offset != 5 { // not 8: slice 0 is done below 5 only
		t.Errorf("%+v", plan)
	}
	p.Apply(plan)
	if p.HasFacts() {
		t.Error("the facts still count")
	}
	for s, want := range []int64{5, 8} {
		if got := p.Start(0, int32(s), false).Offset; got != want {
			t.Errorf("slice %d begins at %d, not %d", s, got, want)
		}
	}
}
