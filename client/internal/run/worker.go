package run

import (
	"sync/atomic"
	"time"

	"github.com/tandem-kafka/tandem/client/internal/executor"
)

const (
	maxBatch    = 128
	batchTime   = 100 * time.Microsecond // what a batch is to take
	batchLimit  = time.Millisecond       // when what was not begun is taken back
	recalled    = 1 << 30                // in worker.claimed: more than any batch has
	slowestStep = 10 * time.Microsecond  // see sample
)

// worker is a goroutine that runs tasks, and its batch.
type worker[R any] struct {
	wake chan struct{} // while it is in Runner.idle

	tasks   []*executor.Task[R] // changed by the worker, under Runner.mu; read by it, or under Runner.mu
	claimed atomic.Int32        // how many of tasks were begun
	given   int                 // tasks from here on were taken back; under Runner.mu
	told    int                 // tasks before it are over, and the machine knows; under Runner.mu
	since   int64               // when it got tasks
	slot    int                 // in Runner.batches; -1: it is not

	ran  int             // how many runs are over
	last executor.Result // of the last of them: the others succeeded
}

// loop runs tasks until the Runner closes.
func (r *Runner[R]) loop(w *worker[R]) {
	defer func() {
		if len(w.tasks) > 0 {
			// The handler did not return, but called runtime.Goexit, or panics, and then the process is about to end.
			w.ran, w.last = w.ran+1, executor.Result{Err: errGoexit}
			go r.loop(w)
			return
		}
		r.working.Done()
	}()
	for r.next(w) {
		for w.last.Err == nil {
			i := int(w.claimed.Add(1)) - 1
			if i >= len(w.tasks) {
				break
			}
			w.last = r.handle(w.tasks[i])
			w.ran = i + 1
		}
	}
}

func (r *Runner[R]) handle(t *executor.Task[R]) executor.Result {
	ctx := t.Host.(*taskContext[R])
	defer ctx.cancel()
	if t.Kind() == executor.KindDeadLetter {
		return r.cfg.DeadLetter(ctx, t)
	}
	return r.cfg.Handle(ctx, t)
}

// next ends the worker's batch and waits for another. false: there will be none.
func (r *Runner[R]) next(w *worker[R]) bool {
	r.mu.Lock()
	now := r.now()
	r.finish(w, now)
	for {
		if r.closing {
			r.leave(now)
			return false
		}
		w.tasks = r.m.Take(w.tasks[:0], r.batchSize(), now)
		if n := len(w.tasks); n > 0 {
			contexts := make([]taskContext[R], n)
			for i, t := range w.tasks {
				c := &contexts[i]
				c.Context, c.r, c.task = r.values, r, t
				t.Host = c
			}
			w.given, w.told, w.since, w.ran, w.last = n, 0, now, 0, executor.Result{}
			w.claimed.Store(0)
			if w.slot = -1; n > 1 {
				w.slot = len(r.batches)
				r.batches = append(r.batches, w)
			}
			r.wakeOne()
			r.leave(now)
			return true
		}
		r.idle = append(r.idle, w)
		r.leave(now)
		<-w.wake
		r.mu.Lock()
		now = r.now()
	}
}

// finish tells the machine how the batch of w ended.
func (r *Runner[R]) finish(w *worker[R], now int64) {
	if len(w.tasks) == 0 {
		return
	}
	r.unlist(w)
	if w.ran > 0 {
		r.sample(time.Duration(now-w.since) / time.Duration(w.ran))
	}
	if w.ran < w.given {
		r.m.GiveBack(w.tasks[w.ran:w.given], now)
	}
	r.tell(w, w.ran-1, now)
	if w.ran > 0 {
		r.over(w.tasks[w.ran-1], w.last, now)
	}
	clear(w.tasks)
	w.tasks, w.last = w.tasks[:0], executor.Result{}
}

// tell tells the machine that the tasks of w before n are over: the next one begins only after a success.
func (r *Runner[R]) tell(w *worker[R], n int, now int64) {
	for ; w.told < n; w.told++ {
		r.over(w.tasks[w.told], executor.Result{}, now)
	}
}

func (r *Runner[R]) over(t *executor.Task[R], res executor.Result, now int64) {
	t.Host.(*taskContext[R]).task = nil
	r.m.Finish(t, res, now)
}

// recall takes from w what it has not begun. What is over before the run that goes on now is committed without waiting for that.
func (r *Runner[R]) recall(w *worker[R], now int64) {
	r.unlist(w)
	begun := min(int(w.claimed.Swap(recalled)), w.given)
	if begun < w.given {
		r.m.GiveBack(w.tasks[begun:w.given], now)
		w.given = begun
	}
	r.tell(w, begun-1, now)
}

// recallAll takes from all workers what they have not begun: batches that began before limit, or all.
func (r *Runner[R]) recallAll(limit, now int64) {
	for i := 0; i < len(r.batches); {
		if w := r.batches[i]; w.since <= limit {
			r.recall(w, now) // another comes to i
		} else {
			i++
		}
	}
}

func (r *Runner[R]) unlist(w *worker[R]) {
	if w.slot < 0 {
		return
	}
	n := len(r.batches) - 1
	r.batches[w.slot] = r.batches[n]
	r.batches[w.slot].slot = w.slot
	r.batches[n] = nil
	r.batches = r.batches[:n]
	w.slot = -1
}

// wakeOne makes sure that a worker looks for work, if there is some. It looks, and wakes the next one.
func (r *Runner[R]) wakeOne() {
	if r.m.Ready() == 0 || r.closing {
		return
	}
	if r.cfg.Pull {
		r.signal()
		return
	}
	if n := len(r.idle); n > 0 {
		w := r.idle[n-1]
		r.idle = r.idle[:n-1]
		w.wake <- struct{}{}
	} else if r.workers < r.cfg.Handlers {
		r.workers++
		r.working.Add(1)
		go r.loop(&worker[R]{wake: make(chan struct{}, 1), slot: -1})
	}
}

// sample learns how long a run takes. One run counts little, and a long one as little more than the runs before it, since
// on a busy machine a run also waits for the processor.
func (r *Runner[R]) sample(d time.Duration) {
	r.runTime += (min(d, 8*r.runTime+slowestStep) - r.runTime) / 8
}

// batchSize is how many tasks a worker takes.
func (r *Runner[R]) batchSize() int {
	n := int(batchTime / max(r.runTime, 1))
	return max(1, min(n, maxBatch))
}
