package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandem-kafka/tandem/client/internal/executor"
)

// ErrLost says that key ranges were lost before what was done of them could be committed.
var ErrLost = errors.New("key ranges were lost before what was done of them was committed")

// Flush commits at once what is done at the time of the call, and returns when it is durable. After an error that is not known of all of it; it is
// committed later, as far as it can be.
func (r *Runner[R]) Flush(ctx context.Context) error {
	r.mu.Lock()
	if r.closing {
		r.mu.Unlock()
		return ErrClosed
	}
	now := r.now()
	id := r.m.Flush(now)
	c := make(chan error, 1)
	r.flushing[id] = c
	r.leave(now)
	select {
	case err := <-c:
		return err
	case <-r.ctx.Done():
		return ErrClosed
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.flushing, id)
	if r.commitErr != nil {
		return fmt.Errorf("%w: %w", ctx.Err(), r.commitErr)
	}
	return ctx.Err()
}

// flushedAs is what Flush returns. r.mu is held.
func (r *Runner[R]) flushedAs(f executor.Flushed) error {
	switch {
	case f.OK:
		return nil
	case r.commitErr != nil:
		return r.commitErr
	}
	return ErrLost
}
