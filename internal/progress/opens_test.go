package progress

import (
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
)

// Where Opens says no, the next individual commits are in the era that the rows are read in; where it says yes, two commits that say nothing bring it there.
func TestOpensTellsWhetherTheNextIndividualCommitsStayInTheEra(t *testing.T) {
	nothing := func(int64) Facts { return done{keyrange.Full, 0, -1} }
	for name, c := range map[string]struct {
		source, wide Row
		facts        int64
		commits      int // until it says no
	}{
		"no facts":                        {sourceText(5, "tandem:1:3:5"), NoRow, -1, 0},
		"facts":                           {sourceText(5, "tandem:1:3:5"), tagged(9, 3), 3, 0},
		"a plain commit":                  {sourceText(5, "elsewhere"), NoRow, -1, 1},
		"a plain commit over facts":       {sourceText(5, "elsewhere"), tagged(9, 3), 3, 1},
		"a source row of an era before":   {sourceText(5, "tandem:1:2:5"), NoRow, 3, 1},
		"the source row has expired":      {NoRow, NoRow, 3, 1},
		"a slice was set back":            {sourceText(5, "tandem:1:3:5"), text(2, "|tandem:1:3.1:2"), 3, 1},
		"a tool's row":                    {sourceText(5, "tandem:1:3:5"), text(2, "elsewhere"), 3, 2},
		"a tool's row and a plain commit": {sourceText(5, "elsewhere"), text(2, "elsewhere"), 3, 2},
	} {
		p := picture()
		p.SetSource(c.source)
		p.SetView(1, 2, c.wide)
		p.SetFacts(c.facts, nil)
		commits := 0
		for ; p.Opens() && commits < 5; commits++ {
			p.Apply(p.Plan(nil, Env{Facts: nothing, Generation: 7}))
		}
		if commits != c.commits {
			t.Errorf("%s: %d commits open the era, not %d", name, commits, c.commits)
		}
		if plan := p.Plan(nil, Env{Facts: nothing, Generation: 8}); plan.Opens || plan.Era != p.Era() {
			t.Errorf("%s: the next commit is in era %d, opened %t; the rows are read in %d", name, plan.Era, plan.Opens, p.Era())
		}
	}
}
