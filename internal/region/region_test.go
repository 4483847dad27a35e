package region

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
	"pgregory.net/rapid"
)

// Any history gives what the dumb model gives, after each step.
func TestRegionAgreesWithDumbOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t, rapid.IntRange(1, 9).Draw(t, "positions"), 30, 0)
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			h.step(t)
			h.check(t)
		}
	})
}

// The same with lists of many chunks.
func TestLargeRegionAgreesWithDumbOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t, 3, 3000, rapid.SampledFrom([]int64{2, 3, 7}).Draw(t, "every"))
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			h.step(t)
		}
		h.check(t)
	})
}

// history is what happens to a region and to its model.
type history struct {
	*model
	r     *Region
	every int64
}

func newHistory(t *rapid.T, positions int, offsets, every int64) *history {
	m := newModel(t, positions, offsets)
	return &history{m, New(m.stable), every}
}

func (h *history) step(t *rapid.T) {
	switch rapid.SampledFrom([]string{"add", "replay", "replay", "delete", "stable", "commit", "commit", "commit"}).Draw(t, "step") {
	case "add":
		facts, want := h.facts(t, h.every), false
		for _, f := range facts {
			want = h.add(f) || want
		}
		if got := h.r.Add(facts...); got != want {
			t.Fatalf("add %s: changed %v", short(facts), got)
		}
	case "replay": // of what another gateway wrote
		for _, f := range h.facts(t, h.every) {
			for range 1 + f.Last%2 {
				h.r.Replay(f)
			}
			h.add(f)
			h.log[f] = true
		}
	case "delete": // by whomever, or of what never was
		if len(h.log) == 0 {
			return
		}
		for range rapid.IntRange(1, 3).Draw(t, "deletes") {
			f := rapid.SampledFrom(sorted(append(slices.Collect(maps.Keys(h.log)), h.fact(t)))).Draw(t, "deleted")
			h.r.ReplayDelete(f)
			delete(h.log, f)
		}
	case "stable":
		h.setStable(rapid.Int64Range(0, h.offsets/2).Draw(t, "stable"))
	case "commit":
		h.commit(t)
	}
}

func (h *history) setStable(offset int64) {
	h.r.SetStable(offset)
	h.raise(offset)
}

// commit does what a gateway does, up to where it fails.
func (h *history) commit(t *rapid.T) {
	facts := h.facts(t, h.every)
	full := h.axis()
	stable := h.r.With(facts).Next(full, h.r.Stable(), nil)
	was := h.r.Next(full, 0, nil)
	end := rapid.SampledFrom([]string{"primary refused", "lost", "half", "stored", "done", "done", "done"}).Draw(t, "end")
	if end == "primary refused" {
		if next := h.r.Next(full, 0, nil); next != was {
			t.Fatalf("the preview changed the region: %d, not %d", next, was)
		}
		return
	}
	for _, f := range facts {
		h.add(f)
	}
	if want := h.next(full, h.stable, nil); stable != want {
		t.Fatalf("the preview's stable offset with %s: %d, want %d", short(facts), stable, want)
	}
	limit := rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "limit")
	puts, deletes := h.r.Amend(facts, stable, limit)
	h.checkAmend(t, facts, stable, limit, puts, deletes)
	if end == "lost" || rapid.Bool().Draw(t, "add") {
		h.r.Add(facts...)
	}
	if rapid.Bool().Draw(t, "stable first") {
		h.setStable(stable)
	}
	switch end {
	case "half":
		puts, deletes = puts[:len(puts)/2], nil
		h.r.Add(facts...)
	case "stored":
		deletes = nil
	case "lost":
		puts, deletes = nil, nil
	}
	h.r.Stored(puts)
	for _, f := range puts {
		h.log[f] = true
	}
	h.r.Deleted(deletes)
	for _, f := range deletes {
		delete(h.log, f)
	}
	h.setStable(stable)
	if end == "done" && limit == 0 {
		for _, f := range deletes {
			if h.r.Holds(f) {
				t.Fatalf("%v was deleted", f)
			}
		}
		if puts, deletes = h.r.Amend(facts, stable, 0); len(puts)+len(deletes) > 0 {
			t.Fatalf("nothing is left to do: puts %s, deletes %s", short(puts), short(deletes))
		}
	}
}

func (h *history) checkAmend(t *rapid.T, facts []Fact, stable int64, limit int, puts, deletes []Fact) {
	if limit > 0 && len(deletes) > limit {
		t.Fatalf("%d deletes", len(deletes))
	}
	after := maps.Clone(h.log)
	for _, f := range puts {
		if after[f] || !f.Valid() || f.Last < stable {
			t.Fatalf("put %v", f)
		}
		after[f] = true
	}
	both := maps.Clone(after)
	for i, f := range deletes {
		if h.every > 0 && i == 200 {
			return // the rest takes too long
		}
		if !after[f] || slices.Contains(puts, f) {
			t.Fatalf("delete %v, which is not there or put", f)
		}
		delete(after, f)
		covered := f.Last < stable
		for o := range both {
			covered = covered || o != f && covers(o, f)
		}
		if !covered {
			t.Fatalf("delete %v: nothing covers it", f)
		}
	}
	if h.every > 0 {
		return
	}
	for f := range h.log {
		if !durable(after, stable, f) {
			t.Fatalf("%v is lost by puts %v, deletes %v", f, puts, deletes)
		}
	}
	for _, f := range facts {
		if !durable(after, stable, f) {
			t.Fatalf("%v is not durable by puts %v", f, puts)
		}
	}
	for i, f := range puts {
		others := maps.Clone(h.log)
		for _, o := range puts[:i] { // the wider ones come first
			others[o] = true
		}
		if durable(others, stable, f) {
			t.Fatalf("put %v is not needed", f)
		}
		for o := range both {
			if touch := o != f && o.Keys == f.Keys && o.Last >= stable && o.First <= f.Last+1 && f.First <= o.Last+1; touch && !covers(f, o) {
				t.Fatalf("put %v does not merge %v", f, o)
			}
		}
	}
	for f := range after {
		if limit == 0 && (f.Last < stable || slices.ContainsFunc(puts, func(o Fact) bool { return o != f && covers(o, f) })) {
			t.Fatalf("%v stays, with puts %v and stable offset %d", f, puts, stable)
		}
	}
}

func (h *history) check(t *rapid.T) {
	if err := checkShape(h.r); err != nil {
		t.Fatal(err)
	}
	if h.r.Stable() != h.stable {
		t.Fatalf("stable offset %d, want %d", h.r.Stable(), h.stable)
	}
	if got, want := sorted(slices.Collect(h.r.Records())), sorted(slices.Collect(maps.Keys(h.log))); !slices.Equal(got, want) {
		t.Fatalf("records %s, want %s", short(got), short(want))
	}
	keys, from := h.keys(t), rapid.Int64Range(0, h.offsets-1).Draw(t, "from")
	if got, want := h.r.Next(keys, from, nil), h.next(keys, from, nil); got != want {
		t.Fatalf("next of %v from %d: %d, want %d", keys, from, got, want)
	}
	some := h.facts(t, h.every)
	if got, want := offsetsOf(h.r.Whole(h.axis(), some...)), h.whole(some); !maps.Equal(got, want) {
		t.Fatalf("done at all positions of %s: %v, want %v", short(some), got, want)
	}
	extra := h.facts(t, 0)
	preview, with := h.r.With(extra), h.model.clone()
	for _, f := range extra {
		with.add(f)
	}
	empty := rapid.SliceOfN(rapid.Bool(), 30, 30).Draw(t, "empty")
	isEmpty := make([]bool, h.offsets)
	for o := range isEmpty {
		isEmpty[o] = empty[o%30] && int64(o) < h.offsets-1
	}
	over := func(from int64) int64 {
		for from < h.offsets && isEmpty[from] {
			from++
		}
		return from
	}
	if got, want := h.r.Next(keys, from, over), h.next(keys, from, isEmpty); got != want {
		t.Fatalf("next of %v from %d with empty stretches: %d, want %d", keys, from, got, want)
	}
	if got, want := preview.Next(keys, from, over), with.next(keys, from, isEmpty); got != want {
		t.Fatalf("next of %v from %d with empty stretches and %v: %d, want %d", keys, from, extra, got, want)
	}
	h.checkCommitted(t, from)
	set := keyrange.Normalize([]keyrange.Range{h.keys(t), h.keys(t)})
	if got, _ := preview.Committed(set, from, 0); !reflect.DeepEqual(got, with.committed(set, from)) {
		t.Fatalf("committed in %v from %d with %v: %s, want %s", set, from, extra, short(got), short(with.committed(set, from)))
	}
}

func (h *history) checkCommitted(t *rapid.T, from int64) {
	set := keyrange.Normalize([]keyrange.Range{h.keys(t), h.keys(t)})
	want := h.committed(set, from)
	got, isCut := h.r.Committed(set, from, 0)
	if isCut || !reflect.DeepEqual(got, want) {
		t.Fatalf("committed in %v from %d: %s (cut: %v), want %s", set, from, short(got), isCut, short(want))
	}
	n := 0
	for _, c := range want {
		n += len(c.Offsets)
	}
	limit := rapid.IntRange(1, 12).Draw(t, "most offset ranges")
	got, isCut = h.r.Committed(set, from, limit)
	if isCut != (n > limit) || !isCut && !reflect.DeepEqual(got, want) {
		t.Fatalf("committed with limit %d: %s (cut: %v), of %s", limit, short(got), isCut, short(want))
	}
	last := int64(-1)
	for _, c := range got {
		if int64(c.Keys.First) <= last || len(c.Offsets) == 0 {
			t.Fatalf("committed with limit %d is not in order: %v", limit, got)
		}
		last = int64(c.Keys.Last)
		limit -= len(c.Offsets)
		for p := c.Keys.First - h.shift; p <= c.Keys.Last-h.shift; p++ {
			end := from - 1
			for _, o := range c.Offsets {
				// The lower offsets are given, completely: whatever is not done lies between them.
				for at := end + 1; at < o.First; at++ {
					if h.done[p][at] {
						t.Fatalf("committed leaves out %d at %d, but has %v", at, p, o)
					}
				}
				for at := o.First; at <= o.Last; at++ {
					if !h.done[p][at] {
						t.Fatalf("%d at %d is not done", at, p)
					}
				}
				end = o.Last
			}
		}
	}
	if limit < 0 {
		t.Fatalf("%d offset ranges too many", -limit)
	}
}

// short is the beginning of what may be long.
func short(v any) string { return fmt.Sprintf("%.500s", fmt.Sprint(v)) }

func (m *model) clone() *model {
	n := *m
	n.done = make([][]bool, len(m.done))
	for p := range n.done {
		n.done[p] = slices.Clone(m.done[p])
	}
	return &n
}

func TestWhatIsNotValidIsIgnored(t *testing.T) {
	r := New(-1)
	for _, f := range []Fact{
		{keyrange.Range{First: 2, Last: 1}, 1, 2}, {keyrange.Full, 3, 2}, {keyrange.Full, -1, 2}, {keyrange.Full, 1, 1<<63 - 1},
	} {
		if f.Valid() || r.Add(f) || r.Holds(f) {
			t.Errorf("%v is taken", f)
		}
		r.Replay(f)
		r.Stored([]Fact{f, {keyrange.Full, 7, 8}, f})
		r.ReplayDelete(f)
		r.With([]Fact{f})
	}
	if s := r.Size(); r.Stable() != 0 || s.Records != 1 || s.Others != 0 || r.Next(keyrange.Full, 7, nil) != 9 {
		t.Errorf("stable offset %d, %+v", r.Stable(), s)
	}
}

func TestHighestOffset(t *testing.T) {
	const last = 1<<63 - 2
	r := New(0)
	puts, _ := r.Amend([]Fact{{keyrange.Full, last - 1, last}, {keyrange.Full, 0, last - 2}}, 0, 0)
	if want := []Fact{{keyrange.Full, 0, last}}; !slices.Equal(puts, want) {
		t.Errorf("puts %v", puts)
	}
	r.Add(puts...)
	if next := r.Next(keyrange.Full, 0, nil); next != last+1 {
		t.Errorf("next %d", next)
	}
	r.Stored(puts)
	if got, _ := r.Committed(keyrange.Set{keyrange.Full}, 5, 0); len(got) != 1 || got[0].Offsets[0] != (OffsetRange{5, last}) {
		t.Errorf("committed %v", got)
	}
	r.SetStable(last + 1)
	if _, deletes := r.Amend(nil, 0, 0); !slices.Equal(deletes, puts) {
		t.Errorf("deletes %v", deletes)
	}
}

// What is done without a record takes no memory for longer than it says something.
func TestOthersGoWhenRecordsOrTheStableOffsetSayIt(t *testing.T) {
	r := New(0)
	r.Add(of(left, 5, 6, 10, 12, 20, 22)...)
	if s := r.Size(); s.Others != 3 {
		t.Errorf("%+v", s)
	}
	r.Stored(all(10, 15))
	if s := r.Size(); s.Others != 2 || s.Records != 1 {
		t.Errorf("after a record: %+v", s)
	}
	r.SetStable(7)
	if s := r.Size(); s.Others != 1 {
		t.Errorf("after the stable offset: %+v", s)
	}
	r.Stored(all(18, 30))
	if s := r.Size(); s.Others != 0 || len(r.others.lanes) != 0 {
		t.Errorf("after another record: %+v", s)
	}
}

func TestRecordsStopsWhenAsked(t *testing.T) {
	r := New(0)
	r.Stored(all(1, 1, 3, 3, 5, 5))
	for f := range r.Records() {
		if f.First != 1 {
			t.Errorf("%v comes first", f)
		}
		break
	}
}

// Where there is too much for an answer, each key range gets a share of it: a client reads all of them at once.
func TestCommittedIsCutFairly(t *testing.T) {
	r := New(0)
	for i := range int64(100) {
		r.Replay(Fact{left, 2*i + 1, 2*i + 1})
		r.Replay(Fact{right, 3*i + 1, 3*i + 1})
	}
	got, isCut := r.Committed(keyrange.Set{keyrange.Full}, 0, 20)
	if !isCut || len(got) != 2 || len(got[0].Offsets) != 10 || len(got[1].Offsets) != 10 {
		t.Errorf("%v (cut: %v)", got, isCut)
	}
}
