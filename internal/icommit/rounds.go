package icommit

import (
	"context"
	"sync"
)

// rounds asks one question for many callers: each gets an answer that was asked for after it came. However many callers there are, there is one
// question under way and one that waits for it.
type rounds[T any] struct {
	mu   sync.Mutex
	busy bool
	next *round[T] // begins when the one under way has ended
}

type round[T any] struct {
	done   chan struct{}
	answer T
	err    error
}

// do returns the answer of the next round. start runs a function in a goroutine, false if it cannot; then the error is ErrClosed. ask
// must end by itself: that callers give up does not stop it.
func (r *rounds[T]) do(ctx context.Context, start func(func()) bool, ask func() (T, error)) (answer T, err error) {
	r.mu.Lock()
	if r.next == nil {
		r.next = &round[T]{done: make(chan struct{})}
	}
	mine := r.next
	if !r.busy {
		if !start(func() { r.run(ask) }) {
			r.mu.Unlock()
			return answer, ErrClosed
		}
		r.busy = true
	}
	r.mu.Unlock()
	select {
	case <-mine.done:
		return mine.answer, mine.err
	case <-ctx.Done():
		return answer, ctx.Err()
	}
}

func (r *rounds[T]) run(ask func() (T, error)) {
	for {
		r.mu.Lock()
		cur := r.next
		r.next = nil
		r.busy = cur != nil
		r.mu.Unlock()
		if cur == nil {
			return
		}
		cur.answer, cur.err = ask()
		close(cur.done)
	}
}
