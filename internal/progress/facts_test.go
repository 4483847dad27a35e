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
		"the source row is gone": {NoRow, 3, -1, 0},
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

// Facts cannot be taken back one by one: after a commit that goes back none counts, and the next individual commit opens a new era
// at the stable offset.
func TestGoingBackLeavesFactsBehind(t *testing.T) {
	p := NewPicture([]View{{Name: "v", K: 2}})
	p.SetSource(sourceText(5, "tandem:1:3:5"))
	row := viewText(nil, tag{era: 3}, 20)
	p.SetView(0, 1, Row{Offset: 20, LeaderEpoch: -1, Metadata: &row})
	p.SetFacts(3, done{keyrange.Full, 0, 9})
	if got := p.Start(0, 0, false).Offset; got != 10 || !p.HasFacts() {
		t.Fatalf("slice 0 begins at %d, not 10", got)
	}
	plan := p.Plan([]Commit{{View: 0, Slice: 1, Offset: 8, LeaderEpoch: -1, Began: 20}}, Env{})
	if len(plan.Back) != 1 || plan.Era != 3 || plan.Source.Offset > 8 {
		t.Fatalf("%+v", plan)
	}
	p.Apply(plan)
	starts := func(when string, want ...int64) {
		t.Helper()
		for s, want := range want {
			if got := p.Start(0, int32(s), false).Offset; got != want || p.HasFacts() {
				t.Errorf("%s: slice %d begins at %d, not %d", when, s, got, want)
			}
		}
	}
	starts("gone back", 5, 8)
	// A source row of somebody who did not know of it is no bound for that slice, and counts no facts either.
	p.SetSource(sourceText(20, "tandem:1:3:20"))
	starts("unaware", 20, 8)
	plan = p.Plan(nil, Env{Facts: func(era int64) Facts {
		if era != 4 {
			t.Errorf("era %d, not 4", era)
		}
		return done{keyrange.OfSlice(0, 2), 8, 11}
	}})
	if plan.Era != 4 || !plan.Opens || plan.Source.Offset != 8 {
		t.Errorf("%+v", plan)
	}
}

// A row that a tool wrote for a slice sets it back, too. The first individual commit adopts it, the next one opens an era.
func TestRowsOfToolsLeaveFactsBehind(t *testing.T) {
	p := NewPicture([]View{{Name: "v", K: 2}})
	p.SetSource(sourceText(5, "tandem:1:3:5"))
	p.SetFacts(3, done{keyrange.Full, 0, 9})
	p.SetView(0, 1, sourceText(7, "by hand"))
	of := func(int64) Facts { return done{keyrange.Full, 0, 9} }
	for n, want := range []struct{ era, stable, start int64 }{{3, 5, 7}, {4, 10, 10}} {
		if got := p.Start(0, 1, false).Offset; got != 7 || p.HasFacts() {
			t.Errorf("commit %d: the slice begins at %d, not 7", n, got)
		}
		plan := p.Plan(nil, Env{Facts: of})
		if plan.Era != want.era || len(plan.Added) != 1-n || plan.Source.Offset != want.stable {
			t.Errorf("commit %d: %+v", n, plan)
		}
		p.Apply(plan)
		p.SetFacts(want.era, of(0))
		if got := p.Start(0, 1, false).Offset; got != want.start {
			t.Errorf("commit %d: the slice begins at %d, not %d", n, got, want.start)
		}
	}
}

// Facts of an era above the source row's: it was written by somebody who did not know of that era, or is gone.
func TestFactsOfLaterErasOpenANewOne(t *testing.T) {
	row := viewText(nil, tag{era: 2}, 20)
	for name, c := range map[string]struct {
		source Row
		row    bool // of a view, in era 2
		facts  int64
		era    int64
		opens  bool
		stable int64
	}{
		"nothing at all":                 {NoRow, false, -1, 0, false, 0},
		"only facts":                     {NoRow, false, 2, 3, true, 0},
		"a row of the era of the facts":  {NoRow, true, 2, 3, true, 0},
		"a row of an era that is later":  {NoRow, true, 1, 2, false, 0},
		"facts of the source row's era":  {sourceText(7, "tandem:1:2:7"), true, 2, 2, false, 7},
		"facts of a later era":           {sourceText(7, "tandem:1:2:7"), true, 3, 4, true, 7},
		"facts of an era before":         {sourceText(7, "tandem:1:2:7"), true, 1, 2, false, 7},
		"a plain commit":                 {sourceText(7, ""), true, 1, 3, true, 7},
		"a plain commit and later facts": {sourceText(7, ""), true, 5, 6, true, 7},
	} {
		p := NewPicture([]View{{Name: "v", K: 2}})
		p.SetSource(c.source)
		if c.row {
			p.SetView(0, 1, Row{Offset: 20, LeaderEpoch: -1, Metadata: &row})
		}
		if c.facts >= 0 {
			p.SetFacts(c.facts, nil)
		}
		if plan := p.Plan(nil, Env{}); plan.Era != c.era || plan.Opens != c.opens || plan.Source.Offset != c.stable {
			t.Errorf("%s: %+v", name, plan)
		}
	}
}

// What goes back can be forgotten where an era begins meanwhile: at once, or with whoever commits individually next.
func TestWhatGoesBackIsExposedToANewEra(t *testing.T) {
	text := func(tag, offset string) string { return "|tandem:1:" + tag + ":" + offset }
	for name, c := range map[string]struct {
		source, row string
		offset      int64
		facts       int64 // their era
		want        bool
	}{
		"the first to go back":   {"tandem:1:0:50", text("0", "80"), 60, -1, false},
		"another one did before": {"tandem:1:0.3:50", text("0.1", "80"), 60, -1, true},
		"there are facts":        {"tandem:1:0:50", text("0", "80"), 60, 0, true},
		"it opens an era":        {"elsewhere", text("0", "80"), 20, -1, true},
		"it does not go back":    {"tandem:1:0.3:50", text("0.1", "80"), 90, 0, false},
	} {
		p := NewPicture([]View{{Name: "v", K: 2}})
		p.SetFacts(c.facts, nil)
		p.SetSource(sourceText(50, c.source))
		p.SetView(0, 0, sourceText(80, c.row))
		plan := p.Plan([]Commit{{View: 0, Slice: 0, Offset: c.offset, Began: 80}}, Env{})
		if plan.Exposed != c.want || plan.Exposed && len(plan.Back) != 1 {
			t.Errorf("%s: exposed %v, goes back %v", name, plan.Exposed, plan.Back)
		}
	}
}

// Members of one generation open one era. After a reset it is another one even if the last had no fact in the log yet: its members are
// of another generation.
func TestErasOfFactsAreOfAGeneration(t *testing.T) {
	p := NewPicture([]View{{Name: "v", K: 2}})
	p.SetSource(sourceText(5, "elsewhere"))
	p.SetFacts(2003, nil)
	facts := func(int64) Facts { return done{} }
	for _, c := range []struct {
		env  Env
		want int64
	}{
		{Env{Facts: facts, Generation: 7}, 3007},
		{Env{Facts: facts, Generation: 7, NowMs: 5}, 3007},
		{Env{Facts: facts, Generation: 8}, 3008},
		{Env{Facts: facts, Generation: 1002}, 3002},
		{Env{Facts: facts, Generation: -1}, 2004},
		{Env{Generation: 7}, 3007}, // beside them, without facts
	} {
		if got := p.Plan(nil, c.env).Era; got != c.want {
			t.Errorf("generation %d: era %d, not %d", c.env.Generation, got, c.want)
		}
	}
	none := NewPicture(nil)
	none.SetSource(sourceText(5, "elsewhere"))
	if got := none.Plan(nil, Env{Generation: 7}).Era; got != 1 {
		t.Errorf("a group without facts: era %d, not 1", got)
	}
}
