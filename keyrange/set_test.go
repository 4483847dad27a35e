package keyrange

import (
	"testing"

	"pgregory.net/rapid"
)

// The dumb version of a set: one bool for each position of a small axis. It is tested at both ends of the real one.
type dumbSet [24]bool

func (d dumbSet) ranges(shift uint32) Set {
	var s Set
	for i, in := range d {
		if in {
			s = appendMerged(s, Range{shift + uint32(i), shift + uint32(i)})
		}
	}
	return s
}

func drawSet(t *rapid.T, label string) dumbSet {
	var d dumbSet
	for i := range d {
		d[i] = rapid.Bool().Draw(t, label)
	}
	return d
}

func TestSetsAgreeWithDumbOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shift := rapid.SampledFrom([]uint32{0, 1 << 31, 1<<32 - 24}).Draw(t, "shift")
		a, b := drawSet(t, "a"), drawSet(t, "b")
		sa, sb := a.ranges(shift), b.ranges(shift)
		var and, or, sub dumbSet
		n := uint64(0)
		for i := range a {
			and[i], or[i], sub[i] = a[i] && b[i], a[i] || b[i], a[i] && !b[i]
			if a[i] {
				n++
			}
			if sa.Contains(shift+uint32(i)) != a[i] {
				t.Fatalf("%v contains %d: not %v", sa, i, a[i])
			}
		}
		for name, c := range map[string]struct {
			got  Set
			want dumbSet
		}{
			"intersect": {AppendIntersect(nil, sa, sb), and},
			"union":     {AppendUnion(nil, sa, sb), or},
			"subtract":  {AppendSubtract(nil, sa, sb), sub},
			"normalize": {Normalize(append(append(Set{}, sa...), sb...)), or},
		} {
			if err := c.got.Validate(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if want := c.want.ranges(shift); !equal(c.got, want) {
				t.Fatalf("%s of %v and %v: %v, want %v", name, sa, sb, c.got, want)
			}
		}
		if sa.Len() != n {
			t.Fatalf("Len of %v: %d, want %d", sa, sa.Len(), n)
		}
		from := rapid.IntRange(0, len(a)-1).Draw(t, "from")
		to := rapid.IntRange(from, len(a)-1).Draw(t, "to")
		covers, overlaps := true, false
		for _, in := range a[from : to+1] {
			covers, overlaps = covers && in, overlaps || in
		}
		r := Range{shift + uint32(from), shift + uint32(to)}
		if sa.Covers(r) != covers || sa.Overlaps(r) != overlaps {
			t.Fatalf("%v, %v: covers %v, overlaps %v", sa, r, sa.Covers(r), sa.Overlaps(r))
		}
	})
}

func equal(a, b Set) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestCoversRangesThatTouch(t *testing.T) {
	if s := (Set{{0, 4}, {5, 9}}); !s.Covers(Range{3, 7}) || s.Covers(Range{3, 10}) {
		t.Error("touching ranges")
	}
	if s := (Set{Full}); !s.Covers(Full) || s.Len() != 1<<32 {
		t.Error("the full axis")
	}
}

func TestValidateNamesTheBadRange(t *testing.T) {
	for _, s := range []Set{{{5, 4}}, {{0, 5}, {5, 6}}, {{7, 8}, {1, 2}}} {
		if s.Validate() == nil {
			t.Errorf("%v is valid", s)
		}
	}
	if err := (Set{{0, 4}, {5, 5}}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestSetOperationsDoNotAllocate(t *testing.T) {
	a, b, dst := Set{{0, 10}, {20, 30}}, Set{{5, 25}}, make(Set, 0, 8)
	if n := testing.AllocsPerRun(100, func() {
		dst = AppendSubtract(AppendUnion(AppendIntersect(dst, a, b), a, b), a, b)
		a.Contains(7)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
