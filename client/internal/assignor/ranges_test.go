package assignor

import (
	"reflect"
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
)

func TestPartsOfPartitions(t *testing.T) {
	lower, upper := keyrange.Range{Last: 1<<31 - 1}, keyrange.Range{First: 1 << 31, Last: 1<<32 - 1}
	part := func(base int32, set ...keyrange.Range) *Part { return &Part{set, base} }
	whole, none := &Part{}, (*Part)(nil)
	for name, c := range map[string]struct{ a, b, minus, overlap *Part }{
		"the same":                      {part(3, lower), part(3, lower), none, part(3, lower)},
		"disjoint":                      {part(3, lower), part(3, upper), part(3, lower), none},
		"a part of a whole one":         {part(3, lower), whole, none, part(3, lower)},
		"a whole one and a part":        {whole, part(3, lower), part(3, upper), part(3, lower)},
		"two whole ones":                {whole, whole, none, whole},
		"nothing":                       {part(3, lower), none, part(3, lower), none},
		"the same numbers, other bases": {part(3, lower), part(4, lower), part(3, lower), part(3, lower)},
		"other numbers, other bases":    {part(3, lower), part(4, upper), part(3, lower), part(3, lower)},
	} {
		ranges := func(p *Part) Ranges {
			if p == nil {
				return Ranges{}
			}
			return Ranges{"t": {7: *p}}
		}
		if got := ranges(c.a).Minus(ranges(c.b)); !reflect.DeepEqual(got, ranges(c.minus)) {
			t.Errorf("%s: minus is %v, want %v", name, got, ranges(c.minus))
		}
		if got := ranges(c.a).Overlap(ranges(c.b)); !reflect.DeepEqual(got, ranges(c.overlap)) {
			t.Errorf("%s: overlap is %v, want %v", name, got, ranges(c.overlap))
		}
	}
}
