package region

import (
	"fmt"
	"slices"

	"github.com/tandem-kafka/tandem/keyrange"
	"pgregory.net/rapid"
)

// model is the dumb region: one bool for each position and offset of a small plane, which lies somewhere on the real axis, and the
// fact log as a map.
type model struct {
	shift     uint32 // where the axis begins
	positions int
	offsets   int64
	stable    int64
	done      [][]bool // [position][offset]
	log       map[Fact]bool
}

func newModel(t *rapid.T, positions int, offsets int64) *model {
	m := &model{positions: positions, offsets: offsets, log: map[Fact]bool{}, done: make([][]bool, positions)}
	m.shift = rapid.SampledFrom([]uint32{0, 1 << 31, uint32(1<<32 - positions)}).Draw(t, "shift")
	for p := range m.done {
		m.done[p] = make([]bool, offsets)
	}
	m.raise(rapid.SampledFrom([]int64{0, offsets / 4}).Draw(t, "stable"))
	return m
}

func (m *model) keys(t *rapid.T) keyrange.Range {
	first := rapid.IntRange(0, m.positions-1).Draw(t, "first key")
	last := rapid.IntRange(first, m.positions-1).Draw(t, "last key")
	return keyrange.Range{First: m.shift + uint32(first), Last: m.shift + uint32(last)}
}

func (m *model) fact(t *rapid.T) Fact {
	keys := m.keys(t)
	first := rapid.Int64Range(0, m.offsets-1).Draw(t, "first")
	if rapid.IntRange(0, 4).Draw(t, "watermark") == 0 {
		first = 0
	}
	last := min(m.offsets-1, first+rapid.Int64Range(0, 5).Draw(t, "length"))
	if first == 0 {
		last = rapid.Int64Range(0, m.offsets-1).Draw(t, "last")
	}
	return Fact{keys, first, last}
}

// facts are some; with every > 0 there are long rows of them, every so many offsets.
func (m *model) facts(t *rapid.T, every int64) (facts []Fact) {
	for range rapid.IntRange(1, 3).Draw(t, "facts") {
		f := m.fact(t)
		facts = append(facts, f)
		if every > 0 {
			for o := f.First; o < m.offsets; o += every {
				facts = append(facts, Fact{f.Keys, o, min(m.offsets-1, o+f.First%2)})
			}
		}
	}
	return facts
}

func (m *model) add(f Fact) (changed bool) {
	for p := f.Keys.First - m.shift; p <= f.Keys.Last-m.shift; p++ {
		for o := f.First; o <= f.Last; o++ {
			changed = changed || !m.done[p][o]
			m.done[p][o] = true
		}
	}
	return changed
}

func (m *model) raise(stable int64) {
	m.stable = max(m.stable, stable)
	if stable > 0 {
		m.add(Fact{keyrange.Range{First: m.shift, Last: m.shift + uint32(m.positions-1)}, 0, stable - 1})
	}
}

// axis is the whole of the model's; the real one's other positions are never done.
func (m *model) axis() keyrange.Range {
	return keyrange.Range{First: m.shift, Last: m.shift + uint32(m.positions-1)}
}

// next is what Region.Next has to say. empty may be nil.
func (m *model) next(keys keyrange.Range, from int64, empty []bool) int64 {
	next := int64(never)
	for p := keys.First - m.shift; p <= keys.Last-m.shift; p++ {
		o := max(from, m.stable)
		for o < m.offsets && (m.done[p][o] || empty != nil && empty[o]) {
			o++
		}
		next = min(next, o)
	}
	return next
}

// whole is what Region.Whole has to say.
func (m *model) whole(facts []Fact) map[int64]bool {
	whole := map[int64]bool{}
	for _, f := range facts {
		for o := f.First; o <= f.Last && f.Last >= m.stable; o++ {
			if !slices.ContainsFunc(m.done, func(of []bool) bool { return !of[o] }) {
				whole[o] = true
			}
		}
	}
	return whole
}

func offsetsOf(facts []Fact) map[int64]bool {
	offsets := map[int64]bool{}
	for _, f := range facts {
		for o := f.First; o <= f.Last; o++ {
			offsets[o] = true
		}
	}
	return offsets
}

// committed is what Region.Committed has to say.
func (m *model) committed(keys keyrange.Set, from int64) (all []Committed) {
	for _, k := range keys {
		for p := k.First - m.shift; p <= k.Last-m.shift; p++ {
			var offsets []OffsetRange
			for o := from; o < m.offsets; o++ {
				if m.done[p][o] {
					offsets = appendTouching(offsets, OffsetRange{o, o})
				}
			}
			n, at := len(all)-1, p+m.shift
			switch {
			case offsets == nil:
			case n >= 0 && all[n].Keys.Last+1 == at && slices.Equal(all[n].Offsets, offsets):
				all[n].Keys.Last = at
			default:
				all = append(all, Committed{keyrange.Range{First: at, Last: at}, offsets})
			}
		}
	}
	return all
}

// durable reports whether the log, or the stable offset, has all of f.
func durable(log map[Fact]bool, stable int64, f Fact) bool {
	for p := f.Keys.First; ; p++ {
		for o := max(f.First, stable); o <= f.Last; o++ {
			found := false
			for r := range log {
				found = found || r.Keys.Contains(p) && r.First <= o && o <= r.Last
			}
			if !found {
				return false
			}
		}
		if p == f.Keys.Last {
			return true
		}
	}
}

func covers(a, b Fact) bool { return a.Keys.Covers(b.Keys) && a.Offsets().covers(b.Offsets()) }

// checkShape checks what has to hold inside a region.
func checkShape(r *Region) error {
	for i, s := range r.strips {
		switch {
		case i == 0 && s.first != 0, i > 0 && (s.first <= r.strips[i-1].first || s.low == r.strips[i-1].low), s.low < r.stable:
			return fmt.Errorf("strips %v with stable offset %d", r.strips, r.stable)
		}
	}
	for _, p := range []*plane{&r.records, &r.others} {
		for i, l := range p.lanes {
			if i > 0 && compareKeys(p.lanes[i-1].keys, l.keys) >= 0 || l.empty() {
				return fmt.Errorf("lane %d of %v", i, l.keys)
			}
			before := OffsetRange{-1, -1}
			for at := (place{}); l.in(at); at = l.next(at) {
				if o := *l.at(at); o.First <= before.First || o.Last <= before.Last || p == &r.others && o.First <= before.Last+1 && before.Last >= 0 {
					return fmt.Errorf("%v follows %v in lane %v", o, before, l.keys)
				}
				before = *l.at(at)
			}
			for at := (place{}); l.covered.in(at); at = l.covered.next(at) {
				if o := *l.covered.at(at); !l.hides(o) || l.has(o) {
					return fmt.Errorf("%v of lane %v is not covered", o, l.keys)
				}
			}
		}
	}
	return nil
}
