package executor

import "testing"

func (w *world) flush() {
	var done []*fate
	for _, f := range w.byID {
		if f.done != 0 && f.done == w.ownerOf(f.rec) {
			done = append(done, f)
		}
	}
	id := w.m.Flush(w.now)
	w.log("flush %d", id)
	w.flushes[id] = done
	w.output()
}

// judgeFlushed sees to it that what was done at the call is committed.
func (w *world) judgeFlushed(list []Flushed) {
	for _, f := range list {
		w.log("flushed %+v", f)
		done, ok := w.flushes[f.ID]
		if !ok {
			w.t.Fatalf("flush %d is over twice", f.ID)
		}
		delete(w.flushes, f.ID)
		for _, of := range done {
			if f.OK && !of.committed && !w.cfg.WatermarkOnly {
				w.t.Fatalf("flush %d is over, and %v is not committed", f.ID, of.rec)
			}
		}
	}
}

func TestFlushTakesAsManyCommitsAsItNeeds(t *testing.T) {
	b := newBed(t, Config{Handlers: 20, MaxRanges: 100, CommitInterval: 1000 * Second}, Assignment{})
	b.fetch("abcdefghijkl")
	for i, task := range b.take(12) {
		if i%2 == 1 {
			b.Finish(task, Result{}, b.now)
		}
	}
	b.cfg.MaxRanges = 2 // six offset ranges
	id := b.Flush(b.now)
	for n := 1; ; n++ {
		out := b.Output()
		if len(out.Flushed) > 0 {
			if n != 4 || out.Flushed[0] != (Flushed{id, true}) {
				t.Errorf("after %d commits: %+v", n-1, out.Flushed)
			}
			return
		}
		if len(out.Commits) != 1 {
			t.Fatalf("commit %d: %+v", n, out.Commits)
		}
		b.CommitDone(out.Commits[0].ID, true, b.now)
	}
}
