package client

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/keyrange"
)

// gauge counts how many run at once.
type gauge struct{ now, most atomic.Int32 }

func (g *gauge) enter() {
	n := g.now.Add(1)
	for {
		m := g.most.Load()
		if n <= m || g.most.CompareAndSwap(m, n) {
			return
		}
	}
}

func (g *gauge) leave() { g.now.Add(-1) }

func TestSoManyHandlersRunAtOnce(t *testing.T) {
	for _, c := range []struct {
		what             string
		opts             []Option
		keys, partitions int
		most             int32
	}{
		{"all keys", nil, 50, 1, 6},
		{"two keys", nil, 2, 1, 2},
		{"by partition", []Option{Order(ByPartition)}, 50, 2, 2},
		{"one key, no order", []Option{Order(NoOrder)}, 1, 1, 6},
	} {
		t.Run(c.what, func(t *testing.T) {
			w := newWorld(t, nil)
			w.Topic("t", int32(c.partitions))
			w.produce("t", 200, c.keys)
			var g gauge
			var done atomic.Int32
			member := w.run(func(context.Context, *Record) error {
				g.enter()
				defer g.leave()
				time.Sleep(2 * time.Millisecond)
				done.Add(1)
				return nil
			}, append(c.opts, Concurrency(6))...)
			w.until("200 records", func() bool { return done.Load() == 200 })
			member.close()
			if got := g.most.Load(); got != c.most {
				t.Errorf("%d ran at once, not %d", got, c.most)
			}
		})
	}
}

func TestAHandlerBeyondItsLeaseIsReportedUnlessItExtendsIt(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.produce("t", 2, 2)
	var overdue sync.Map
	release := make(chan struct{})
	c := w.run(func(_ context.Context, r *Record) error {
		if string(r.Key) == "k1" && !r.ExtendLease(time.Hour) {
			t.Error("the lease is not extended")
		}
		<-release
		return nil
	}, Lease(20*time.Millisecond), Metrics(Hook{Event: func(e Event) {
		if e.Kind == Overdue {
			overdue.Store(string(e.Key), e.Running)
		}
	}}))
	w.until("k0 is reported", func() bool { v, ok := overdue.Load("k0"); return ok && v == true })
	w.until("it is slow", func() bool { s := c.Slow(10); return len(s) == 2 && s[0].Running })
	if _, ok := overdue.Load("k1"); ok {
		t.Error("a handler is reported that has extended its lease")
	}
	close(release)
}

func TestHooksCountEverything(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 2)
	w.produce("t", 100, 10)
	var fetched, bytes, handled, failed, committed atomic.Int64
	c := w.run(func(_ context.Context, r *Record) error {
		if r.Attempt == 1 && string(r.Value) == "0" {
			return errPoison
		}
		return nil
	}, Retry(Backoff{First: time.Millisecond}, 0), Metrics(Hook{
		Fetched: func(topic string, _ int32, records, size int, lag int64) {
			if topic != "t" || lag < 0 {
				t.Errorf("topic %q, lag %d", topic, lag)
			}
			fetched.Add(int64(records))
			bytes.Add(int64(size))
		},
		Handled: func(_ string, _ int32, took time.Duration, err error) {
			if took <= 0 {
				t.Errorf("took %v", took)
			}
			if handled.Add(1); errors.Is(err, errPoison) {
				failed.Add(1)
			}
		},
		Committed: func(topic string, partition int32, keys keyrange.Set, _ int, took time.Duration, err error) {
			if err != nil || topic != "t" || partition < 0 || partition > 1 || keys.Len() != 1<<32 || took <= 0 {
				t.Errorf("commit of %v of partition %d of topic %q, %v: %v", keys, partition, topic, took, err)
			}
			committed.Add(1)
		},
	}))
	w.until("110 runs", func() bool { return handled.Load() == 110 })
	c.close()
	if f := fetched.Load(); f != 100 || failed.Load() != 10 || committed.Load() == 0 || bytes.Load() == 0 {
		t.Errorf("fetched %d records of %d bytes, %d runs failed, %d commits", f, bytes.Load(), failed.Load(), committed.Load())
	}
}

// The time of the next attempt outlives the process, and the handler has the values of Run's context.
func TestNextAttemptsOutliveTheProcess(t *testing.T) {
	t.Parallel() // most of the time something waits
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.produce("t", 10, 10)
	const later = 2 * time.Second
	var failedAt atomic.Int64
	type value struct{}
	w.ctx = context.WithValue(context.Background(), value{}, "here")
	c := w.run(w.judge("a", func(ctx context.Context, r *Record) error {
		if ctx.Value(value{}) != "here" {
			t.Error("the handler's context has not the values of Run's")
		}
		if string(r.Key) == "k4" {
			failedAt.Store(time.Now().UnixNano())
			return RetryAfter(errPoison, later)
		}
		return nil
	}))
	w.until("9 records", func() bool { return w.count() == 9 && failedAt.Load() > 0 })
	c.close()
	var again atomic.Int64
	d := w.run(func(_ context.Context, r *Record) error {
		if r.Attempt != 2 {
			t.Errorf("attempt %d of %q", r.Attempt, r.Key)
		}
		again.Store(time.Now().UnixNano())
		return nil
	})
	w.until("the second attempt", func() bool { return again.Load() > 0 })
	d.close()
	if waited := time.Duration(again.Load() - failedAt.Load()); waited < later-100*time.Millisecond {
		t.Errorf("the second attempt comes after %v, not after %v", waited, later)
	}
}

// A member that is told to end does not wait for handlers longer than the drain timeout, and their contexts tell them.
func TestDrainHasATimeLimit(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.produce("t", 3, 3)
	running, told := make(chan struct{}, 3), make(chan error, 3)
	c := w.run(func(ctx context.Context, _ *Record) error {
		running <- struct{}{}
		<-ctx.Done()
		told <- ctx.Err()
		return ctx.Err()
	}, DrainTimeout(100*time.Millisecond))
	for range 3 {
		<-running
	}
	start := time.Now()
	c.close()
	if took := time.Since(start); took < 100*time.Millisecond || took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	for range 3 {
		if err := <-told; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}
