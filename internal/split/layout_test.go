package split

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tandem-kafka/tandem/keyrange"
)

// drawSets draws disjoint key sets that may leave some of the axis out: intervals between random bounds, each in one set or in none.
func drawSets(t *rapid.T) []keyrange.Set {
	sets := make([]keyrange.Set, rapid.IntRange(1, 6).Draw(t, "sets"))
	bounds := rapid.SliceOfNDistinct(rapid.OneOf(rapid.Uint32(), rapid.Uint32Range(1<<31-20, 1<<31+20)), 0, 40, rapid.ID).Draw(t, "bounds")
	bounds = append(bounds, 0)
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)
	for i, first := range bounds {
		last := keyrange.Full.Last
		if i+1 < len(bounds) {
			last = bounds[i+1] - 1
		}
		if s := rapid.IntRange(-1, len(sets)-1).Draw(t, "owner"); s >= 0 {
			sets[s] = append(sets[s], keyrange.Range{First: first, Last: last})
		}
	}
	return sets
}

// equalSets cuts the whole axis into n sets of one range each.
func equalSets(t fataler, n int) *Layout {
	var sets []keyrange.Set
	for i := range uint64(n) {
		sets = append(sets, keyrange.Set{{First: uint32(i << 32 / uint64(n)), Last: uint32((i+1)<<32/uint64(n) - 1)}})
	}
	l, err := NewLayout(sets)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return l
}

func TestSliceOfAgreesWithTheSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sets := drawSets(t)
		l, err := NewLayout(sets)
		if err != nil {
			t.Fatal(err)
		}
		try := []uint32{0, keyrange.Full.Last, rapid.Uint32().Draw(t, "position")}
		for _, s := range sets {
			for _, r := range s {
				try = append(try, r.First, r.First-1, r.Last, r.Last+1)
			}
		}
		for _, position := range try {
			want := slices.IndexFunc(sets, func(s keyrange.Set) bool { return s.Contains(position) })
			got, ok := l.SliceOf(position)
			if ok != (want >= 0) || ok && int(got) != want {
				t.Fatalf("position %08x is in %d (%v), want %d of %v", position, got, ok, want, sets)
			}
		}
	})
}

func TestLayoutsThatCannotBe(t *testing.T) {
	for name, sets := range map[string][]keyrange.Set{
		"no slice":       {},
		"reversed range": {{{First: 5, Last: 4}}},
		"out of order":   {{{First: 7, Last: 8}, {First: 1, Last: 2}}},
		"overlap":        {{{First: 0, Last: 9}}, {{First: 20, Last: 30}}, {{First: 9, Last: 10}}},
		"the same twice": {{keyrange.Full}, {keyrange.Full}},
		"too many":       make([]keyrange.Set, MaxLayoutSlices+1),
	} {
		if _, err := NewLayout(sets); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := NewLayout(make([]keyrange.Set, MaxLayoutSlices)); err != nil {
		t.Error(err)
	}
}

// What nobody asked for takes no memory and no copying.
func TestRecordsOfNoSliceAreNotCopied(t *testing.T) {
	raw, uncompressed, _ := benchInput(None, 1000, 100_000, 1_000_000)
	l, err := NewLayout([]keyrange.Set{{{First: 0, Last: 1<<28 - 1}}, nil})
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Config{}).Split(raw, 0, l.Slicing(1), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Slices) != 2 || len(b.Slices[0]) == 0 || len(b.Slices[1]) != 0 || b.Used != len(raw) {
		t.Errorf("%d slices, used %d of %d", len(b.Slices), b.Used, len(raw))
	}
	if b.Bytes > uncompressed/8 {
		t.Errorf("a sixteenth of %d bytes takes %d", uncompressed, b.Bytes)
	}
}

// One Splitter goes from layouts to equal slices and back without leftovers.
func TestSlicingsTakeTurns(t *testing.T) {
	s, rs := New(Config{}), someRecords(300, 100)
	raw := testBatch{base: 100, last: 399, baseTime: 1e12, maxTime: 1e12 + 400, records: rs}.encode()
	sets := []keyrange.Set{{{First: 0, Last: 1 << 29}}, {{First: 1 << 30, Last: 1 << 31}}}
	l, err := NewLayout(sets)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []int32{8, 1, 2, 16, 4} {
		sl := Slicing{Base: 1, K: k}
		got, _ := splitAll(t, s, raw, 100, sl, false, nil)
		compareSlices(t, got, dumbSplit(rs, sl))
		got, _ = splitAll(t, s, raw, 100, l.Slicing(1), false, nil)
		compareSlices(t, got, dumbSplit(rs, l.Slicing(1), sets...))
	}
}
