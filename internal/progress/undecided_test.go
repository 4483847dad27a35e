package progress

import (
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
)

// open is a fact of each era, in transactions, for some keys.
type open struct {
	keys keyrange.Range
	eras []int64
}

func (o open) Eras() []int64 { return o.eras }

func (o open) Touches(era int64, keys keyrange.Range) bool {
	for _, e := range o.eras {
		if e == era {
			return o.keys.Overlaps(keys)
		}
	}
	return false
}

// pending is a row that a transaction has written, and what was decided before.
func pending(r Row) Row {
	r.Pending = true
	return r
}

func TestKeysThatWaitForTransactions(t *testing.T) {
	left, right := keyrange.OfSlice(0, 2), keyrange.OfSlice(1, 2)
	ours := sourceText(5, "tandem:1:3:5")
	for name, c := range map[string]struct {
		source, view Row // of slice 0 of 2
		facts        int64
		open         Undecided
		left, right  bool
	}{
		"nothing is open":                       {ours, NoRow, 3, nil, false, false},
		"facts":                                 {pending(ours), NoRow, 3, open{left, []int64{3}}, true, false},
		"facts whose source row is decided":     {ours, NoRow, 3, open{left, []int64{3}}, true, false},
		"a source row whose facts are decided":  {pending(ours), NoRow, 3, open{}, true, true},
		"a plain consumer":                      {pending(ours), NoRow, 3, nil, true, true},
		"facts, and a slice":                    {pending(ours), pending(sourceText(4, "tandem:1:3:4")), 3, open{right, []int64{3}}, true, true},
		"a slice":                               {pending(ours), pending(sourceText(4, "tandem:1:3:4")), 3, nil, true, false},
		"facts of an era that is over":          {ours, NoRow, 3, open{left, []int64{2}}, false, false},
		"a later era":                           {pending(ours), NoRow, 3, open{left, []int64{4}}, true, true},
		"the first era":                         {pending(NoRow), NoRow, -1, open{left, []int64{0}}, true, true},
		"the first era, and no source row yet":  {NoRow, NoRow, -1, open{left, []int64{0}}, true, true},
		"a reset":                               {pending(sourceText(5, "elsewhere")), NoRow, 3, open{left, []int64{1001}}, true, true},
		"a reset, and facts of before":          {sourceText(5, "elsewhere"), NoRow, 3, open{left, []int64{3}}, true, true},
		"facts of a later era, and others":      {pending(ours), NoRow, 4, open{left, []int64{3}}, true, true},
		"facts whose source row is not decided": {pending(ours), NoRow, 4, open{}, true, true},
	} {
		p := NewPicture([]View{{Name: "v", K: 2}})
		p.SetSource(c.source)
		p.SetView(0, 0, c.view)
		p.SetFacts(c.facts, done{})
		p.SetUndecided(c.open)
		if got := p.Unstable(left); got != c.left {
			t.Errorf("%s: left waits: %v", name, got)
		}
		if got := p.Start(0, 1, true).Unstable; got != c.right {
			t.Errorf("%s: right waits: %v", name, got)
		}
	}
}

// Members of one generation open the same era, so they need not wait for each other; any other they would leave behind what one did.
func TestErasThatWaitForTransactions(t *testing.T) {
	facts := func(int64) Facts { return done{} }
	ours, reset := sourceText(5, "tandem:1:3:5"), sourceText(5, "elsewhere")
	for name, c := range map[string]struct {
		source Row
		facts  int64
		open   []int64
		plain  bool // the commit has no facts
		era    int64
		want   bool
	}{
		"an era that is there":                   {pending(ours), 3, []int64{3}, false, 3, false},
		"facts of before":                        {reset, 3, []int64{3}, false, 1007, false},
		"nobody else":                            {reset, 3, nil, false, 1007, false},
		"another member":                         {pending(reset), 3, []int64{1007}, false, 1007, false},
		"another member, before its source row":  {reset, 3, []int64{1007}, false, 1007, false},
		"a member of another generation":         {pending(reset), 3, []int64{1006}, false, 1007, true},
		"facts that were decided first":          {pending(reset), 1006, nil, false, 2007, true},
		"a slice":                                {pending(reset), 3, nil, false, 1007, true},
		"a slice, without facts":                 {pending(reset), -1, nil, true, 1, false},
		"a slice, beside facts":                  {pending(reset), 3, []int64{1007}, true, 1007, false},
		"a slice, after facts":                   {pending(reset), 3, nil, true, 1007, true},
		"a slice, beside the first facts":        {pending(reset), -1, []int64{1007}, true, 1, true},
		"the first":                              {NoRow, -1, nil, false, 0, false},
		"the first, another member":              {pending(NoRow), -1, []int64{0}, false, 0, false},
		"the first, beside a slice":              {pending(NoRow), -1, nil, false, 0, true},
		"the first slice, beside another":        {pending(NoRow), -1, nil, true, 0, false},
		"the first, after a group that is gone":  {NoRow, -1, []int64{0}, false, 0, true},
		"the first facts that were decided":      {pending(NoRow), 0, nil, false, 1007, true},
		"the first, and another after a picture": {pending(NoRow), -1, []int64{1006}, false, 0, true},
	} {
		p := NewPicture(nil)
		p.SetSource(c.source)
		if c.facts >= 0 {
			p.SetFacts(c.facts, done{})
		}
		p.SetUndecided(open{keyrange.Full, c.open})
		env := Env{Generation: 7, Facts: facts}
		if c.plain {
			env.Facts = nil
		}
		if plan := p.Plan(nil, env); plan.Era != c.era || plan.Unsettled != c.want {
			t.Errorf("%s: era %d, unsettled %v", name, plan.Era, plan.Unsettled)
		}
	}
}
