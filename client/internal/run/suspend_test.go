package run

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// While a Runner is suspended nothing begins, not even what workers have been handed together with the record at which they are. What is done is committed.
func TestSuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, log(1000, "a", "b", "c"))
		var r *Runner[*record]
		var suspended atomic.Bool
		h.work = func(_ context.Context, rec *record) error {
			if suspended.Load() {
				t.Errorf("%d began", rec.offset)
			}
			if rec.offset == 500 && !suspended.Load() {
				r.Suspend()
				suspended.Store(true)
			}
			return nil
		}
		r = start(t, h.config(1))
		h.assign(t, r)
		h.feed(r, 1000)
		until(t, "it is suspended", suspended.Load)
		time.Sleep(time.Second) // on the fake clock
		h.mu.Lock()
		for o := range h.done {
			if !h.isCommitted(o) {
				t.Errorf("%d is done, and not committed", o)
			}
		}
		h.mu.Unlock()
		suspended.Store(false)
		r.Resume()
		until(t, "all is done", func() bool { return h.count() == 1000 })
		closed(t, r, time.Second)
		h.onceEach(t)
	})
}
