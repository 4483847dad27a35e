package run

import (
	"context"
	"errors"

	"github.com/tandem-kafka/tandem/client/internal/executor"
)

// Config is what a Runner needs. Functions without a note may be nil.
type Config[R any] struct {
	executor.Config

	// Describe says what the machine has to know of a record. It is called often. Required.
	Describe func(R) executor.Meta
	// Keep returns a copy of a record that shares no memory with others.
	Keep func(R) R
	// Pull: records are handed out by Runner.Pull, and not to handlers. Order must be executor.Unordered.
	Pull bool
	// Handle handles a record. The task is valid until it returns. Required without Pull.
	Handle func(ctx context.Context, t *executor.Task[R]) executor.Result
	// DeadLetter writes a dead letter: when it succeeds, the record is done. Required if Last is executor.DeadLetter and
	// attempts may end.
	DeadLetter func(ctx context.Context, t *executor.Task[R]) executor.Result
	// Commit commits, in one request if it can. It returns an error for each commit that is not known to be durable, at its
	// index; nil if there is none. The next call waits for it to return. Required.
	Commit func(ctx context.Context, commits []executor.Commit) []error
	// Reread fetches once from r.From: all records of r.Keys, or of the partition, up to to, exclusive. It is called from
	// several goroutines, for different partitions. Required if MaxShed is not 0.
	Reread func(ctx context.Context, r executor.Reread) (records []R, to int64, err error)
	// Flow pauses and resumes partitions. It must not block.
	Flow func([]executor.Flow)
	// Report is told what happened, in order. When it is slow, reports are collected.
	Report func([]executor.Report)
	// Stopped is told that nothing starts any more, by executor.Stop. It may call Close.
	Stopped func(executor.Report)
}

// ErrClosed is returned after Close.
var ErrClosed = errors.New("closed")

// errGoexit is the failure of a handler that ended its goroutine.
var errGoexit = errors.New("the handler ended its goroutine")

func (c *Config[R]) validate() error {
	switch {
	case c.Describe == nil || c.Handle == nil && !c.Pull || c.Commit == nil:
		return errors.New("run: Describe, Handle and Commit are required")
	case c.Pull && c.Order != executor.Unordered:
		return errors.New("run: Pull knows no order")
	case c.Last == executor.DeadLetter && c.DeadLetter == nil:
		return errors.New("run: DeadLetter is required with executor.DeadLetter")
	case c.MaxShed > 0 && c.Reread == nil:
		return errors.New("run: Reread is required with MaxShed")
	}
	return nil
}
