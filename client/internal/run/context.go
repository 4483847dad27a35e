package run

import (
	"context"
	"sync"
	"time"

	"github.com/tandem-kafka/tandem/client/internal/executor"
)

// taskContext is the context of one run. It is made for every record, so it makes nothing until it is asked: no channel, and
// no goroutine for the contexts made from it (AfterFunc).
type taskContext[R any] struct {
	context.Context // its values
	r               *Runner[R]
	task            *executor.Task[R] // under Runner.mu; nil: the run is over

	mu    sync.Mutex
	done  chan struct{}
	err   error
	funcs map[*func()]struct{}
}

type taskKey struct{}

// extender is what Extend finds in a context.
type extender interface{ extend(d time.Duration) bool }

// Extend moves the end of the run's lease to d from now. It reports false if ctx is of no run, or of one that is over.
func Extend(ctx context.Context, d time.Duration) bool {
	e, ok := ctx.Value(taskKey{}).(extender)
	return ok && e.extend(d)
}

func (c *taskContext[R]) extend(d time.Duration) bool {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	if c.task == nil {
		return false
	}
	c.r.m.Extend(c.task, c.r.now()+int64(d))
	return true
}

func (c *taskContext[R]) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

func (c *taskContext[R]) Value(key any) any {
	if key == (taskKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func (c *taskContext[R]) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

func (c *taskContext[R]) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// AfterFunc calls f in a goroutine when c is cancelled. Package context uses it in place of a goroutine of its own.
func (c *taskContext[R]) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	if c.funcs == nil {
		c.funcs = map[*func()]struct{}{}
	}
	c.funcs[&f] = struct{}{}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, ok := c.funcs[&f]
		delete(c.funcs, &f)
		return ok
	}
}

// cancel cancels the context, once: when its record is lost, and when the run is over.
func (c *taskContext[R]) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = context.Canceled
	if c.done != nil {
		close(c.done)
	}
	for f := range c.funcs {
		go (*f)()
	}
	c.funcs = nil
}
