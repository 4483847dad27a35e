package executor

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tandem-kafka/tandem/keyrange"
)

var modelKeys = [][]byte{[]byte("a"), []byte("b"), []byte("c"), []byte("d"), []byte("e"), []byte("f"), []byte(""), nil}

func drawConfig(t *rapid.T) Config {
	return Config{
		Handlers:       rapid.IntRange(1, 4).Draw(t, "handlers"),
		Order:          rapid.SampledFrom([]Order{ByKey, ByKey, ByKey, ByPartition, Unordered}).Draw(t, "order"),
		MaxRecords:     rapid.SampledFrom([]int{4, 10, 64, 1000}).Draw(t, "records"),
		MaxBytes:       rapid.SampledFrom([]int64{0, 3000}).Draw(t, "bytes"),
		WatermarkOnly:  rapid.IntRange(0, 3).Draw(t, "watermark only") == 0,
		MaxShed:        rapid.SampledFrom([]int{0, 5, 1000}).Draw(t, "shed"),
		MaxAttempts:    rapid.Int32Range(0, 3).Draw(t, "attempts"),
		Last:           rapid.SampledFrom([]Outcome{DeadLetter, DeadLetter, Skip}).Draw(t, "last"),
		MaxRanges:      rapid.SampledFrom([]int{1, 3, 100}).Draw(t, "ranges"),
		Lease:          rapid.SampledFrom([]int64{0, Second}).Draw(t, "lease"),
		Backoff:        Backoff{First: 10 * Millisecond, Max: 5 * Second, Jitter: 20},
		CommitInterval: 100 * Millisecond,
	}
}

// drawKeys is the whole axis, a part of it, or several.
func drawKeys(t *rapid.T) keyrange.Set {
	switch rapid.IntRange(0, 3).Draw(t, "kind of keys") {
	case 0:
		return keyrange.Set{keyrange.Full}
	case 1:
		s := rapid.Int32Range(0, 3).Draw(t, "slice")
		return keyrange.Set{keyrange.OfSlice(s, 4)}
	case 2:
		s := rapid.Int32Range(0, 1).Draw(t, "half")
		return keyrange.Set{keyrange.OfSlice(s, 2)}
	}
	return keyrange.Normalize([]keyrange.Range{keyrange.OfSlice(0, 4), keyrange.OfSlice(3, 8)})
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, drawConfig(t), rapid.IntRange(1, 2).Draw(t, "partitions"))
		tp := func(t *rapid.T) TP { return rapid.SampledFrom(w.tps).Draw(t, "partition") }
		anyWorker := func(t *rapid.T) *worker { return w.workers[rapid.IntRange(0, len(w.workers)-1).Draw(t, "worker")] }
		produce := func(t *rapid.T) {
			p := tp(t)
			for range rapid.IntRange(1, 12).Draw(t, "n") {
				w.produce(p, rapid.SampledFrom(modelKeys).Draw(t, "key"), rapid.SampledFrom([]int64{0, 0, 1, 5}).Draw(t, "gap"))
			}
		}
		fetch := func(t *rapid.T) {
			if p := tp(t); !w.paused[p] {
				w.fetch(p, rapid.IntRange(1, 10).Draw(t, "n"), rapid.IntRange(0, 3).Draw(t, "one") == 0)
			}
		}
		take := func(t *rapid.T) { w.take(anyWorker(t), rapid.SampledFrom([]int{1, 1, 5}).Draw(t, "n")) }
		begin := func(t *rapid.T) { w.begin(anyWorker(t)) }
		end := func(t *rapid.T) {
			res := Result{}
			k := anyWorker(t)
			often := 3
			if k.begun && string(k.rec.key) == "a" {
				often = 0 // a key that is blocked for long
			}
			if rapid.IntRange(0, often).Draw(t, "fails") == 0 {
				res = Result{Err: errHandler, Delay: rapid.SampledFrom([]int64{0, 50 * Millisecond, Second}).Draw(t, "delay")}
			}
			w.end(k, res)
		}
		t.Repeat(map[string]func(*rapid.T){
			"produce": produce, "produce more": produce,
			"fetch": fetch, "fetch more": fetch,
			"take": take, "take more": take, "begin": begin, "begin more": begin, "end": end, "end more": end,
			"recall": func(t *rapid.T) { w.recall(anyWorker(t)) },
			"assign": func(t *rapid.T) { w.assign(tp(t), drawKeys(t), rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "guard")) },
			"ask": func(t *rapid.T) {
				p := tp(t)
				if positions := w.m.Positions(p); len(positions) > 0 && !w.paused[p] && len(w.flights) < 2 {
					w.flights = append(w.flights, flight{p, w.request(p, positions, rapid.IntRange(1, 10).Draw(t, "n"), false)})
				}
			},
			"arrive": func(*rapid.T) {
				if len(w.flights) > 0 {
					w.deliver(w.flights[0])
					w.flights = w.flights[1:]
				}
			},
			"revoke": func(t *rapid.T) {
				w.revoke(tp(t), drawKeys(t), rapid.SampledFrom([]int64{0, Second}).Draw(t, "limit"))
			},
			"flush":   func(*rapid.T) { w.flush() },
			"suspend": func(t *rapid.T) { w.suspend(rapid.IntRange(0, 3).Draw(t, "really") == 0) },
			"lose":    func(t *rapid.T) { w.lose(tp(t), drawKeys(t)) },
			"commit": func(t *rapid.T) {
				if len(w.commits) > 0 {
					ok := rapid.IntRange(0, 2).Draw(t, "ok") > 0
					w.commitDone(ok, !ok && rapid.Bool().Draw(t, "arrived"))
				}
			},
			"reread": func(t *rapid.T) {
				if len(w.rereads) > 0 {
					w.reread(rapid.IntRange(1, 20).Draw(t, "n"), rapid.IntRange(0, 3).Draw(t, "ok") > 0)
				}
			},
			"compact": func(t *rapid.T) {
				p := tp(t)
				if len(w.logs[p]) == 0 {
					return
				}
				w.logs[p][rapid.IntRange(0, len(w.logs[p])-1).Draw(t, "record")].gone = true
			},
			"delete": func(t *rapid.T) {
				p := tp(t)
				o := rapid.Int64Range(0, w.ends[p]/4+1).Draw(t, "log start")
				for _, f := range w.logs[p] {
					f.gone = f.gone || f.offset < min(o, w.ends[p])
				}
				w.m.LogStart(p, min(o, w.ends[p]), w.now)
			},
			"restart": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
					w.start()
				}
			},
			"wait": func(t *rapid.T) {
				w.now += rapid.SampledFrom([]int64{1, Millisecond, 100 * Millisecond, Second}).Draw(t, "for")
				w.m.Tick(w.now)
			},
			"wait until due": func(*rapid.T) {
				if at := w.m.NextWake(); at > w.now {
					w.now = at
				}
				w.m.Tick(w.now)
			},
			"": func(*rapid.T) {
				w.steps++
				w.output()
				w.checkInside()
			},
		})
		w.finish()
	})
}

// checkInside looks at what the machine holds.
func (w *world) checkInside() {
	handed := 0
	for _, k := range w.workers {
		handed += len(k.tasks) - k.ran
	}
	s := w.m.Stats()
	records, ready, late, bytes := 0, 0, 0, int64(0)
	w.m.each(func(t *Task[*rec]) {
		records++
		bytes += int64(t.size)
		switch {
		case t.state.isReady():
			ready++
		case t.state == delayed:
			late++
		}
	})
	for _, p := range w.m.order {
		for _, h := range p.holdings {
			bytes += int64(len(h.outputs)) * broughtSize
		}
	}
	if s.Delayed != late {
		w.t.Fatalf("%d delayed, counted %d", late, s.Delayed)
	}
	if s.Running != handed || s.Records != records || s.Bytes != bytes || w.m.ready != ready {
		w.t.Fatalf("%+v, but %d handed, %d records, %d bytes, %d ready", s, handed, records, bytes, ready)
	}
	if limit := w.m.cfg.MaxRecords + 10*(len(w.tps)+2) + 3*w.m.keep; s.Records > limit {
		w.t.Fatalf("%d records in memory, limit %d", s.Records, limit)
	}
	shed := 0
	w.m.keys.each(func(k *key[*rec]) {
		n := 0
		for t := k.head; t != nil; t = t.next {
			n++
		}
		if n != k.waiting || k.handed == 0 && !k.armed && k.head != nil || k.head == nil && k.handed == 0 && k.shed == nil {
			w.t.Fatalf("key %q: %d waiting, counted %d, handed %d, armed %v", k.name, n, k.waiting, k.handed, k.armed)
		}
		if k.shed != nil {
			shed += len(k.shed.offsets)
		}
	})
	if s.Shed != shed || w.m.cfg.MaxShed == 0 && shed > 0 {
		w.t.Fatalf("%d shed, counted %d", s.Shed, shed)
	}
}

// finish owns everything again, lets nothing fail any more, and waits until all is done.
func (w *world) finish() {
	w.suspend(false)
	for round := 0; ; round++ {
		if round > 1000 {
			w.t.Fatalf("not done: %v", w)
		}
		w.steps++
		for _, tp := range w.tps {
			w.assign(tp, keyrange.Set{keyrange.Full}, 0)
			if !w.paused[tp] {
				w.fetch(tp, 10, false)
			}
		}
		for _, k := range w.workers {
			w.take(k, 1)
			w.begin(k)
			w.end(k, Result{})
		}
		for len(w.commits) > 0 {
			w.commitDone(true, false)
		}
		for len(w.rereads) > 0 {
			w.reread(10, true)
		}
		w.output()
		w.checkInside()
		if w.isOver() {
			break
		}
		if at := w.m.NextWake(); at > w.now && w.m.Ready() == 0 {
			w.now = at
		}
		w.m.Tick(w.now)
	}
	if s := w.m.Stats(); s.Records != 0 || s.Bytes != 0 || s.Shed != 0 || s.Running != 0 {
		w.t.Fatalf("left over: %+v", s)
	}
	for _, tp := range w.tps {
		for _, p := range w.m.Positions(tp) {
			if p.Next != w.ends[tp] {
				w.t.Fatalf("%v stands at %d of %d", p.Keys, p.Next, w.ends[tp])
			}
		}
		if r := w.m.Retries(tp); len(r) > 0 {
			w.t.Fatalf("retries are left: %+v", r)
		}
	}
	if len(w.flushes) > 0 {
		w.t.Fatalf("%d flushes are not over", len(w.flushes))
	}
	if w.m.keys.n != 0 {
		w.t.Fatalf("%d keys are left", w.m.keys.n)
	}
}

func (w *world) isOver() bool {
	if len(w.revokes)+len(w.commits)+len(w.rereads) > 0 {
		return false
	}
	for _, tp := range w.tps {
		if p := w.m.parts[tp]; p == nil || len(w.free[tp]) > 0 || !p.clean() {
			return false
		}
		if slices.ContainsFunc(w.logs[tp], func(f *fate) bool { return !f.gone && (f.done == 0 || !f.committed) }) {
			return false
		}
		for _, p := range w.m.Positions(tp) {
			if p.Next != w.ends[tp] {
				return false
			}
		}
	}
	s := w.m.Stats()
	return s.Running+s.Records+s.Shed == 0
}
