package done

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tandem-kafka/tandem/client/internal/offsets"
)

// model is the dumb tracker: a flag for each offset.
type model struct {
	next      int64
	undone    map[int64]bool
	committed map[int64]bool // done and acknowledged
}

func (m *model) watermark() int64 {
	w := m.next
	for o := range m.undone {
		w = min(w, o)
	}
	return w
}

// check looks at a batch before it is sent.
func (m *model) check(t *rapid.T, b Batch, limit int) {
	if b.Watermark >= 0 && b.Watermark != m.watermark() {
		t.Fatalf("watermark %d, want %d", b.Watermark, m.watermark())
	}
	if len(b.Ranges) > limit {
		t.Fatalf("%d ranges, limit %d", len(b.Ranges), limit)
	}
	last := m.watermark()
	for _, r := range b.Ranges {
		if r.First <= last || r.Last < r.First || r.Last >= m.next {
			t.Fatalf("range %v of %v, after %d, next %d", r, b.Ranges, last, m.next)
		}
		for o := r.First; o <= r.Last; o++ {
			if m.undone[o] {
				t.Fatalf("%v holds %d, which is not done", r, o)
			}
		}
		if !m.undone[r.First-1] || r.Last+1 < m.next && !m.undone[r.Last+1] {
			t.Fatalf("%v could be longer", r)
		}
		last = r.Last + 1
	}
}

func (m *model) acknowledge(b Batch, from int64) {
	for o := from; o < b.Watermark; o++ {
		m.committed[o] = true
	}
	for _, r := range b.Ranges {
		for o := r.First; o <= r.Last; o++ {
			m.committed[o] = true
		}
	}
}

func TestWhatIsCutIsDoneAndAllThatIsDoneIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Int64Range(0, 100).Draw(t, "start")
		tracker := NewTracker(start)
		m := &model{next: start, undone: map[int64]bool{}, committed: map[int64]bool{}}
		var sent *Batch
		done := map[int64]bool{} // records, and done
		t.Repeat(map[string]func(*rapid.T){
			"give": func(t *rapid.T) {
				o := m.next + rapid.Int64Range(0, 3).Draw(t, "gap")
				tracker.Give(o)
				m.undone[o], m.next = true, o+1
			},
			"scanned": func(t *rapid.T) {
				m.next += rapid.Int64Range(0, 5).Draw(t, "by")
				tracker.Scanned(m.next)
			},
			"done": func(t *rapid.T) {
				o := start + rapid.Int64Range(0, m.next-start).Draw(t, "offset")
				if tracker.Done(o) != m.undone[o] {
					t.Fatalf("Done(%d) when undone: %v", o, m.undone[o])
				}
				if m.undone[o] {
					done[o] = true
				}
				delete(m.undone, o)
			},
			"cut": func(t *rapid.T) {
				if sent != nil {
					t.Skip()
				}
				limit := rapid.IntRange(1, 5).Draw(t, "limit")
				if tracker.Reached(limit) && len(m.undone) == 0 {
					t.Fatal("ranges without a gap")
				}
				dirty := tracker.Dirty()
				b, ok := tracker.Cut(limit)
				if ok && !dirty {
					t.Fatalf("cut %+v from a clean tracker", b)
				}
				m.check(t, b, limit)
				if ok {
					sent = &b
				}
			},
			"committed": func(t *rapid.T) {
				if sent == nil {
					t.Skip()
				}
				m.acknowledge(*sent, start)
				tracker.Committed(*sent)
				sent = nil
			},
			"failed": func(t *rapid.T) {
				if sent == nil {
					t.Skip()
				}
				if rapid.Bool().Draw(t, "though it arrived") {
					m.acknowledge(*sent, start)
				}
				tracker.Failed(*sent)
				sent = nil
			},
			"": func(t *rapid.T) {
				if tracker.Next() != m.next || tracker.Watermark() != m.watermark() || tracker.Undone() != len(m.undone) {
					t.Fatalf("next %d watermark %d undone %d, want %d %d %d", tracker.Next(), tracker.Watermark(), tracker.Undone(), m.next, m.watermark(), len(m.undone))
				}
			},
		})
		if sent != nil {
			tracker.Failed(*sent)
		}
		for tracker.Dirty() {
			b, ok := tracker.Cut(3)
			if !ok {
				break
			}
			m.check(t, b, 3)
			m.acknowledge(b, start)
			tracker.Committed(b)
		}
		for _, o := range slices.Sorted(maps.Keys(done)) {
			if !m.committed[o] {
				t.Fatalf("%d is done and was never committed", o)
			}
		}
		if tracker.Stored() != m.watermark() {
			t.Fatalf("stored %d, watermark %d", tracker.Stored(), m.watermark())
		}
	})
}

// The proposal's own example: 45-47 and 50 are done, then 48 and 49 come.
func TestGapsAreAmended(t *testing.T) {
	tracker := NewTracker(42)
	for o := range int64(10) {
		tracker.Give(42 + o)
	}
	cut := func(done ...int64) Batch {
		t.Helper()
		for _, o := range done {
			tracker.Done(o)
		}
		b, _ := tracker.Cut(100)
		tracker.Committed(b)
		return b
	}
	expect := func(b Batch, watermark int64, ranges ...offsets.Range) {
		t.Helper()
		if b.Watermark != watermark || !slices.Equal(b.Ranges, ranges) {
			t.Errorf("cut %+v, want %d %v", b, watermark, ranges)
		}
	}
	expect(cut(47, 45, 46, 50), -1, offsets.Range{First: 45, Last: 47}, offsets.Range{First: 50, Last: 50})
	expect(cut(48, 49), -1, offsets.Range{First: 45, Last: 50})
	expect(cut(), -1)
	expect(cut(43), -1, offsets.Range{First: 43, Last: 43})
	expect(cut(42), 44)
	expect(cut(44), 51)
	expect(cut(51), 52)
}

func TestSplitTakesItsOwnGapsAlong(t *testing.T) {
	tracker := NewTracker(0)
	for o := range int64(10) {
		tracker.Give(o)
	}
	tracker.Done(1)
	b, _ := tracker.Cut(10)
	tracker.Done(8)
	part := tracker.Split([]int64{2, 5}, []int64{0, 3, 4, 6, 7, 9})
	tracker.Failed(b)
	part.Failed(b)
	if got, _ := tracker.Cut(10); got.Watermark != -1 || !slices.Equal(got.Ranges, []offsets.Range{{First: 1, Last: 2}, {First: 8, Last: 8}}) {
		t.Errorf("the rest commits %+v", got)
	}
	if got, _ := part.Cut(10); got.Watermark != 2 || !slices.Equal(got.Ranges, []offsets.Range{{First: 6, Last: 9}}) {
		t.Errorf("the part commits %+v", got)
	}
}

// A batch is cut once it has about as many ranges as allowed, however the ranges come.
func TestReachedCountsRanges(t *testing.T) {
	tracker := NewTracker(0)
	for o := range int64(10_000) {
		tracker.Give(o)
	}
	for o := int64(1); o < 5000; o++ { // one long range
		tracker.Done(o)
		if tracker.Reached(80) {
			t.Fatalf("reached with one range of %d", o)
		}
	}
	n := 1
	for o := int64(5001); !tracker.Reached(80); o += 2 {
		tracker.Done(o)
		n++
	}
	if n < 70 || n > 80 {
		t.Errorf("reached at %d ranges", n)
	}
	if b, _ := tracker.Cut(80); len(b.Ranges) != n || tracker.Reached(80) {
		t.Errorf("cut %d ranges of %d, then reached: %v", len(b.Ranges), n, tracker.Reached(80))
	}
}

func BenchmarkGiveAndDone(b *testing.B) {
	tracker := NewTracker(0)
	b.ReportAllocs()
	o := int64(0)
	for b.Loop() {
		tracker.Give(o + 100)
		tracker.Done(o)
		if o++; o%100_000 == 0 {
			batch, _ := tracker.Cut(1000)
			tracker.Committed(batch)
		}
		tracker.Reached(1000)
	}
}
