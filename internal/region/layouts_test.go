package region

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
)

// layout cuts the key axis into n key ranges, anywhere.
func layout(rnd *rand.Rand, n int) (keys keyrange.Set) {
	cuts := make([]uint32, n-1)
	for i := range cuts {
		cuts[i] = 1 + rnd.Uint32N(math.MaxUint32)
	}
	slices.Sort(cuts)
	first := uint32(0)
	for _, c := range slices.Compact(cuts) {
		keys = append(keys, keyrange.Range{First: first, Last: c - 1})
		first = c
	}
	return append(keys, keyrange.Range{First: first, Last: math.MaxUint32})
}

// generation is what the members of one layout commit, after which all is done up to offset end but the record of the stuck key
// at offset at.
func generation(t testing.TB, r *Region, keys keyrange.Set, end int64, stuck uint32, at int64) {
	var facts []Fact
	for _, k := range keys {
		first := r.Next(k, 0, nil)
		if k.Contains(stuck) && first <= at {
			if first < at {
				facts = append(facts, Fact{k, first, at - 1})
			}
			first = r.Next(k, at+1, nil)
		}
		if first < end {
			facts = append(facts, Fact{k, first, end - 1})
		}
	}
	stable := r.With(facts).Next(keyrange.Full, 0, nil)
	if stable > at {
		t.Fatalf("stable offset %d passed %d", stable, at)
	}
	puts, deletes := r.Amend(facts, stable, 0)
	r.Stored(puts)
	r.Deleted(deletes)
	r.SetStable(stable)
}

// Members come and go while one key is stuck: what is kept grows with the generations, not with the product of key ranges
// and offset ranges, and none of it is left once the key is done.
func TestLayoutsThatComeAndGoLeaveNothing(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	r := New(0)
	const stuck = 0x12345678
	for round := range int64(3) {
		at := r.Stable() + 10
		const generations, members = 200, 16
		var keys keyrange.Set
		for g := range int64(generations) {
			keys = layout(rnd, members)
			generation(t, r, keys, at+10+20*g, stuck, at)
		}
		if s := r.Size(); s.Strips > 3*members || s.Records > generations*members {
			t.Errorf("round %d: %+v", round, s)
		}
		end := at + 10 + 20*(generations-1)
		owner := slices.IndexFunc(keys, func(k keyrange.Range) bool { return k.Contains(stuck) })
		facts := []Fact{{keys[owner], at, at}}
		stable := r.With(facts).Next(keyrange.Full, 0, nil)
		if stable != end {
			t.Fatalf("round %d: stable offset %d, want %d", round, stable, end)
		}
		puts, deletes := r.Amend(facts, stable, 0)
		r.Stored(puts)
		r.SetStable(stable)
		r.Deleted(deletes)
		if s := r.Size(); s.Records+s.Others > 0 || s.Strips != 1 || len(r.records.lanes)+len(r.others.lanes) > 0 {
			t.Fatalf("round %d: %+v is left", round, s)
		}
	}
}

// BenchmarkLayouts is one generation of 16 members, with so many before it since a key got stuck.
func BenchmarkLayouts(b *testing.B) {
	for _, before := range []int64{100, 1000} {
		b.Run(fmt.Sprint(before), func(b *testing.B) {
			rnd, r := rand.New(rand.NewPCG(5, 6)), New(0)
			g := int64(0)
			next := func() {
				g++
				generation(b, r, layout(rnd, 16), 20+20*g, 0x12345678, 10)
			}
			for g < before {
				next()
			}
			for b.Loop() {
				next()
			}
			b.ReportMetric(float64(r.Size().Bytes), "bytes")
		})
	}
}
