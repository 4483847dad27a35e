package executor

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tandem-kafka/tandem/keyrange"
)

// Some keys are blocked for long, and others are not: those go on, whatever memory there is, and when the blocked ones go on
// everything is done, once and in order.
func TestBlockedKeysBlockOnlyThemselves(t *testing.T) {
	shed, again := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, Config{
			Handlers:   rapid.IntRange(1, 3).Draw(t, "handlers"),
			MaxRecords: rapid.SampledFrom([]int{8, 12, 30}).Draw(t, "records"),
			MaxShed:    1000,
			Backoff:    Backoff{First: 20 * Millisecond, Max: Second},
		}, rapid.IntRange(1, 2).Draw(t, "partitions"))
		for _, tp := range w.tps {
			w.assign(tp, keyrange.Set{keyrange.Full}, 0)
		}
		blocked := map[string]bool{}
		rounds := func(n int) {
			for range n {
				w.round(rapid.IntRange(1, 10).Draw(t, "n"), func(r *rec) bool { return r.key != nil && blocked[string(r.key)] })
			}
		}
		for range rapid.IntRange(1, 6).Draw(t, "phases") {
			for _, k := range [][]byte{[]byte("a"), []byte("b"), []byte("c")} {
				blocked[string(k)] = rapid.Bool().Draw(t, "blocked")
			}
			for range rapid.IntRange(0, 6).Draw(t, "produced") {
				tp := rapid.SampledFrom(w.tps).Draw(t, "partition")
				for range rapid.IntRange(1, 20).Draw(t, "many") {
					w.produce(tp, rapid.SampledFrom(append(modelKeys, []byte("a"), []byte("a"), []byte("b"))).Draw(t, "key"), 0)
				}
				rounds(rapid.IntRange(0, 5).Draw(t, "rounds"))
			}
			shed = max(shed, w.m.Stats().Shed)
			rounds(rapid.SampledFrom([]int{0, 400}).Draw(t, "until it is quiet"))
		}
		rounds(1000)
		again += w.again
		for _, tp := range w.tps {
			for _, f := range w.logs[tp] {
				if !blocked[string(f.key)] && f.done == 0 {
					t.Fatalf("%v is not done, though its key is not blocked: %v", f.rec, w)
				}
			}
		}
		w.finish()
	})
	if shed < 20 || again < 20 {
		t.Errorf("hardly anything was shed (%d at once) and read again (%d)", shed, again)
	}
}

// round fetches, lets every worker run something, answers everything, and goes on to when something is due.
func (w *world) round(n int, fails func(r *rec) bool) {
	w.steps++
	for _, tp := range w.tps {
		if !w.paused[tp] {
			w.fetch(tp, n, false)
		}
	}
	for _, k := range w.workers {
		w.take(k, 1+n%3)
		for range len(k.tasks) {
			if w.begin(k); k.begun {
				res := Result{}
				if fails(k.rec) {
					res.Err = errHandler
				}
				w.end(k, res)
			}
		}
	}
	for len(w.commits) > 0 {
		w.commitDone(true, false)
	}
	for len(w.rereads) > 0 {
		w.reread(n, n != 7)
		w.again++
	}
	w.output()
	w.checkInside()
	if at := w.m.NextWake(); at > w.now && w.m.Ready() == 0 {
		w.now = at
	}
	w.m.Tick(w.now)
}

func TestPartitionsShareTheMemory(t *testing.T) {
	m, err := New(Config{Handlers: 1, MaxRecords: 1000, Order: ByPartition}, (*rec).meta, nil)
	if err != nil {
		t.Fatal(err)
	}
	fill := func(tp TP, n int) (got int) {
		for ; got < n && !m.Paused(tp); got++ {
			m.Fetched(tp, Fetch[*rec]{From: m.Positions(tp)[0].Next, Records: []*rec{{tp: tp, offset: m.Positions(tp)[0].Next, key: bytes.Clone([]byte("k"))}}}, 1)
		}
		return got
	}
	var got []int
	for p := range int32(4) {
		tp := TP{"t", p}
		if err := m.Assign(tp, Assignment{Base: 1}, 1); err != nil {
			t.Fatal(err)
		}
		got = append(got, fill(tp, 2000))
	}
	if got[0] < 800 || got[0] > 802 || got[3] == 0 || !slices.IsSortedFunc(got, func(a, b int) int { return b - a }) || m.records >= 1000 {
		t.Errorf("partitions got %v records", got)
	}
	var flow []Flow
	for range 400 {
		task := m.Take(nil, 1, 1)[0]
		m.Finish(task, Result{}, 1)
		flow = append(flow, m.Output().Flow...)
	}
	if i := slices.Index(flow, Flow{TP{"t", 0}, true}); i < 0 {
		t.Errorf("nobody was told to pause: %v", flow)
	}
}
