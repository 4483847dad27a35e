package progress

import (
	"fmt"
	"testing"
)

func text(offset int64, metadata string) Row {
	return Row{Offset: offset, LeaderEpoch: -1, Metadata: &metadata}
}

func tagged(offset, era int64) Row { return text(offset, fmt.Sprintf("|tandem:1:%d:%d", era, offset)) }

func source(offset, era int64) Row { return text(offset, fmt.Sprintf("tandem:1:%d:%d", era, offset)) }

// narrow has 2 slices, wide 4: slice s of narrow is made of s and s+2 of wide.
func picture() *Picture { return NewPicture([]View{{"narrow", 2}, {"wide", 4}}) }

const narrow, wide = 0, 1

func TestStarts(t *testing.T) {
	for _, c := range []struct {
		name         string
		set          func(*Picture)
		narrow, wide string
		era          int64
	}{
		{"nothing", func(*Picture) {}, "[-1 -1]", "[-1 -1 -1 -1]", 0},
		{"a plain consumer", func(p *Picture) { p.SetSource(text(40, "")) }, "[40 40]", "[40 40 40 40]", 1},
		{"a coarse row", func(p *Picture) { p.SetSource(source(10, 3)); p.SetView(narrow, 0, tagged(50, 3)) }, "[50 10]", "[50 10 50 10]", 3},
		{"a fine row", func(p *Picture) { p.SetSource(source(10, 3)); p.SetView(wide, 2, tagged(50, 3)) }, "[10 10]", "[10 10 50 10]", 3},
		{"the highest row", func(p *Picture) {
			p.SetSource(source(10, 3))
			p.SetView(narrow, 0, tagged(50, 3))
			p.SetView(wide, 2, tagged(60, 3))
			p.SetView(wide, 0, tagged(30, 3))
		}, "[50 10]", "[50 10 60 10]", 3},
		{"rows of another era", func(p *Picture) { p.SetSource(source(10, 3)); p.SetView(narrow, 0, tagged(50, 2)) }, "[10 10]", "[10 10 10 10]", 3},
		{"a reset", func(p *Picture) { p.SetSource(text(5, "tandem:1:3:10")); p.SetView(narrow, 0, tagged(50, 3)) }, "[5 5]", "[5 5 5 5]", 4},
		{"a reset, with rows of other bases", func(p *Picture) {
			p.SetSource(text(5, ""))
			p.SetView(narrow, 0, tagged(50, 3))
			p.SetApart(tagged(50, 7))
			p.SetApart(tagged(50, 6))
		}, "[5 5]", "[5 5 5 5]", 8},
		{"an era below that of other bases", func(p *Picture) {
			p.SetSource(source(10, 3))
			p.SetView(narrow, 0, tagged(50, 3))
			p.SetApart(tagged(90, 7))
		}, "[50 10]", "[50 10 50 10]", 3},
		{"an expired source row", func(p *Picture) { p.SetView(narrow, 0, tagged(50, 3)); p.SetView(wide, 1, tagged(9, 2)) }, "[50 -1]", "[50 -1 50 -1]", 3},
		{"a tool's row", func(p *Picture) {
			p.SetSource(source(10, 3))
			p.SetView(narrow, 0, tagged(50, 3))
			p.SetView(wide, 2, text(0, ""))
		}, "[0 10]", "[50 10 0 10]", 3},
		{"a tool's row and a reset", func(p *Picture) {
			p.SetSource(text(20, ""))
			p.SetView(wide, 2, text(0, ""))
			p.SetView(wide, 3, text(90, "by hand"))
		}, "[0 20]", "[20 20 0 20]", 1},
	} {
		p := picture()
		c.set(p)
		var n, w []int64
		for s := range int32(2) {
			n = append(n, p.Start(narrow, s, false).Offset)
		}
		for s := range int32(4) {
			w = append(w, p.Start(wide, s, false).Offset)
		}
		if fmt.Sprint(n) != c.narrow || fmt.Sprint(w) != c.wide || p.Era() != c.era {
			t.Errorf("%s: %v %v in era %d, want %s %s in era %d", c.name, n, w, p.Era(), c.narrow, c.wide, c.era)
		}
	}
}

func TestPlanHoldsTheLowestSliceAndMovesOverWhatIsEmpty(t *testing.T) {
	p := picture()
	p.SetSource(source(10, 0))
	env := Env{Next: func(view int, slice int32, from int64) int64 {
		if view == wide && slice != 3 && from < 70 {
			return 70 // slices 0, 1 and 2 hold nothing below 70
		}
		return from
	}}
	plan := p.Plan([]Commit{{View: narrow, Slice: 0, Offset: 20, LeaderEpoch: -1, Began: 10}, {View: wide, Slice: 3, Offset: 30, LeaderEpoch: -1, Began: 10}}, env)
	if plan.Source.Offset != 30 || *plan.Source.Metadata != "tandem:1:0:30" || len(plan.Back) != 0 || len(plan.Added) != 0 {
		t.Errorf("%+v", plan)
	}
	p.Apply(plan)
	if offset, ours := p.Source(); offset != 30 || !ours || p.Row(narrow, 0) != 20 {
		t.Error("the picture does not show the plan")
	}
}

func TestGoingBackVoidsRowsOfOtherViewsForTheSliceOnly(t *testing.T) {
	p := picture()
	p.SetSource(source(50, 1))
	p.SetView(narrow, 0, tagged(60, 1))
	p.SetView(narrow, 1, tagged(50, 1))
	plan := p.Plan([]Commit{{View: wide, Slice: 2, Offset: 5, LeaderEpoch: -1, Began: 60}}, Env{})
	if len(plan.Back) != 1 || plan.Source.Offset != 5 {
		t.Fatalf("%+v", plan)
	}
	p.Apply(plan)
	for s, want := range []int64{60, 50, 5, 50} {
		if got := p.Start(wide, int32(s), false).Offset; got != want {
			t.Errorf("slice %d starts at %d, want %d", s, got, want)
		}
	}
	// A gateway that has not seen it writes the old source row: no slice begins above what was taken back.
	p.SetSource(source(50, 1))
	if got := p.Start(wide, 2, false).Offset; got != 5 {
		t.Errorf("after an old source row: %d, want 5", got)
	}
	if got := p.Stable(0, nil); got != 5 {
		t.Errorf("stable offset %d, want 5", got)
	}
}

func TestVerdict(t *testing.T) {
	p := picture()
	plan := p.Plan([]Commit{{View: narrow, Slice: 0, Offset: 20, Began: -1}, {View: narrow, Slice: 1, Offset: 20, Began: -1}}, Env{})
	for _, c := range []struct {
		rows   []int16
		source int16
		want   string
		repair bool
	}{
		{[]int16{0, 0}, 0, "[0 0]", false},
		{[]int16{0, 0}, 29, "[29 29]", false},
		{[]int16{12, 0}, 0, "[12 0]", true},
		{[]int16{25, 25}, 25, "[25 25]", false},
	} {
		codes, repair := plan.Verdict(c.rows, nil, c.source)
		if fmt.Sprint(codes) != c.want || repair != c.repair {
			t.Errorf("%v and %d: %v %v, want %s %v", c.rows, c.source, codes, repair, c.want, c.repair)
		}
	}
}

func TestTransactionsMakeSlicesWait(t *testing.T) {
	pending := func(r Row) Row { r.Pending = true; return r }
	for _, c := range []struct {
		name string
		set  func(*Picture)
		want string // which slices of wide wait
	}{
		{"none", func(p *Picture) { p.SetSource(source(10, 1)) }, "[]"},
		{"one of ours", func(p *Picture) { p.SetSource(pending(source(10, 1))); p.SetView(wide, 2, pending(tagged(10, 1))) }, "[2]"},
		{"one of another view", func(p *Picture) { p.SetSource(pending(source(10, 1))); p.SetView(narrow, 1, pending(NoRow)) }, "[1 3]"},
		{"a plain one", func(p *Picture) { p.SetSource(pending(source(10, 1))) }, "[0 1 2 3]"},
		{"one that opens an era", func(p *Picture) { p.SetSource(pending(text(10, ""))); p.SetView(wide, 2, pending(NoRow)) }, "[0 1 2 3]"},
		{"the first of a group", func(p *Picture) { p.SetSource(pending(NoRow)); p.SetView(wide, 2, pending(NoRow)) }, "[0 1 2 3]"},
	} {
		p := picture()
		c.set(p)
		got := []int32{}
		for s := range int32(4) {
			if p.Start(wide, s, true).Unstable {
				got = append(got, s)
			}
			if p.Start(wide, s, false).Unstable {
				t.Errorf("%s: %d waits without being asked to", c.name, s)
			}
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v wait, want %s", c.name, got, c.want)
		}
	}
}

func TestAToolsRowThatStaysDoesNotRaiseTheStableOffset(t *testing.T) {
	p := picture()
	p.SetSource(text(5, ""))
	p.SetView(narrow, 0, text(11, "by hand"))
	p.SetView(narrow, 1, text(11, "by hand"))
	commits := []Commit{{View: narrow, Slice: 0, Offset: 20, Began: 5, Uncounted: true}, {View: narrow, Slice: 1, Offset: 20, Began: 5}}
	if plan := p.Plan(commits, Env{}); plan.Source.Offset != 5 {
		t.Errorf("stable offset %d, want 5: the first commit is likely to be refused", plan.Source.Offset)
	}
}
