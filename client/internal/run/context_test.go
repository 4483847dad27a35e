package run

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-kafka/tandem/client/internal/executor"
)

type valueKey struct{}

// handleOne runs f as the handler of one record, and closes with a time limit of a second.
func handleOne(t *testing.T, f func(ctx context.Context) error, during func(r *Runner[*record])) {
	t.Helper()
	h := newHost(t, log(1, "a"))
	cfg := h.config(1)
	cfg.Handle = func(ctx context.Context, _ *executor.Task[*record]) executor.Result {
		err := f(ctx)
		if err == nil {
			h.mu.Lock()
			h.done[0] = 1
			h.mu.Unlock()
		}
		return executor.Result{Err: err}
	}
	r, err := Start(context.WithValue(t.Context(), valueKey{}, "v"), cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.assign(t, r)
	h.feed(r, 1)
	time.Sleep(time.Millisecond)
	during(r)
	if _, err := r.Close(context.Background(), time.Second); err != nil {
		t.Error(err)
	}
}

func TestContextEndsWithTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept, child context.Context
		called := make(chan struct{})
		handleOne(t, func(ctx context.Context) error {
			if ctx.Value(valueKey{}) != "v" || ctx.Err() != nil || context.Cause(ctx) != nil {
				t.Errorf("context %v with value %v, error %v", ctx, ctx.Value(valueKey{}), ctx.Err())
			}
			if _, ok := ctx.Deadline(); ok {
				t.Error("a deadline")
			}
			before := runtime.NumGoroutine()
			kept = ctx
			var cancel context.CancelFunc
			child, cancel = context.WithCancel(ctx)
			stopped := context.AfterFunc(ctx, func() { t.Error("called though it was stopped") })
			context.AfterFunc(ctx, func() { close(called) })
			if !stopped() || stopped() {
				t.Error("stop does not say whether it stopped the call")
			}
			if n := runtime.NumGoroutine(); n != before {
				t.Errorf("%d goroutines for the contexts", n-before)
			}
			_ = cancel // the run's end cancels it
			return nil
		}, func(*Runner[*record]) {
			<-called
			select {
			case <-child.Done():
			case <-kept.Done():
			}
			if !errors.Is(child.Err(), context.Canceled) || !errors.Is(kept.Err(), context.Canceled) || !errors.Is(context.Cause(kept), context.Canceled) {
				t.Errorf("errors %v, %v", child.Err(), kept.Err())
			}
			late := make(chan struct{})
			context.AfterFunc(kept, func() { close(late) })
			<-late
			if Extend(kept, time.Second) {
				t.Error("extended a run that is over")
			}
		})
	})
}

func TestExtendOutsideOfARun(t *testing.T) {
	if Extend(context.Background(), time.Second) {
		t.Error("extended nothing")
	}
}

func TestLostCancelsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		handleOne(t, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}, func(r *Runner[*record]) {
			r.Lost(orders, nil)
			until(t, "the handler returns", func() bool { return r.Stats().Records == 0 })
		})
		if d := time.Since(begin); d > 100*time.Millisecond {
			t.Errorf("took %v", d)
		}
	})
}

func TestCloseCancelsRunsThatAreLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		handleOne(t, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}, func(*Runner[*record]) {})
		if d := time.Since(begin); d < time.Second || d > 1100*time.Millisecond {
			t.Errorf("took %v", d)
		}
	})
}

// A handler that looks at nothing is left alone, and named.
func TestCloseDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, log(1, "a"))
		h.work = func(context.Context, *record) error { time.Sleep(time.Hour); return nil }
		r := start(t, h.config(1))
		h.assign(t, r)
		h.feed(r, 1)
		time.Sleep(time.Millisecond)
		begin := time.Now()
		rel := closed(t, r, time.Second)
		if d := time.Since(begin); d > 3*time.Second || len(rel) != 1 || len(rel[0].Running) != 1 || rel[0].Running[0].Offset != 0 {
			t.Errorf("closed after %v: %+v", d, rel)
		}
		if _, err := r.Close(context.Background(), 0); !errors.Is(err, ErrClosed) {
			t.Errorf("closed twice: %v", err)
		}
		if err := r.Assign(orders, executor.Assignment{Base: 1}); !errors.Is(err, ErrClosed) {
			t.Errorf("assigned after Close: %v", err)
		}
		time.Sleep(time.Hour) // the handler returns, and its worker ends
	})
}

// When the commits hang, Close ends with its context.
func TestCloseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, log(100, "a", "b"))
		cfg := h.config(2)
		cfg.Commit = func(ctx context.Context, commits []executor.Commit) []error {
			<-ctx.Done()
			return make([]error, len(commits))
		}
		r := start(t, cfg)
		h.assign(t, r)
		h.feed(r, 100)
		until(t, "all is done", func() bool { return h.count() == 100 })
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if _, err := r.Close(ctx, time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
	})
}

// A Revoke that waits for a commit when Close is cut short does not wait on, and none that comes later.
func TestRevokeEndsWithTheRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, log(1, "a"))
		c := h.config(1)
		c.Commit = func(ctx context.Context, list []executor.Commit) []error { // nobody answers
			<-ctx.Done()
			return slices.Repeat([]error{ctx.Err()}, len(list))
		}
		r := start(t, c)
		h.assign(t, r)
		h.feed(r, 1)
		time.Sleep(time.Millisecond)
		revoked := make(chan error, 1)
		revoke := func() {
			rel, err := r.Revoke(context.Background(), orders, nil, time.Second)
			if err == nil && rel.Uncommitted { // the commit's error came first: that is as good
				err = ErrClosed
			}
			revoked <- err
		}
		go revoke()
		time.Sleep(time.Millisecond)
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := r.Close(ended, time.Second); !errors.Is(err, context.Canceled) {
			t.Errorf("closed with %v", err)
		}
		if err := <-revoked; !errors.Is(err, ErrClosed) {
			t.Errorf("revoked with %v", err)
		}
		go revoke()
		if err := <-revoked; !errors.Is(err, ErrClosed) {
			t.Errorf("revoked after Close with %v", err)
		}
	})
}
