package run

import (
	"context"
	"time"

	"github.com/tandem-kafka/tandem/client/internal/executor"
)

// cancelGrace is how long Close waits for handlers to return whose contexts are cancelled.
const cancelGrace = time.Second

// Close revokes everything as Revoke does, with the same limit, and ends the Runner. It returns what was released. When ctx ends
// before, what is not committed by then is not, and its error is returned. Handlers that have not returned a second after
// their contexts were cancelled are left alone, and are among Released.Running.
func (r *Runner[R]) Close(ctx context.Context, limit time.Duration) ([]executor.Released, error) {
	r.mu.Lock()
	if r.closing {
		r.mu.Unlock()
		return nil, ErrClosed
	}
	now := r.now()
	r.ending = true
	r.signal()
	r.recallAll(now, now)
	var wait []chan executor.Released
	for _, id := range r.m.Close(now+int64(limit), now) {
		wait = append(wait, r.await(id))
	}
	r.leave(now)

	var list []executor.Released
	var err error
	for _, c := range wait {
		select {
		case rel := <-c:
			list = append(list, rel)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}

	r.mu.Lock()
	if err != nil {
		r.m.Abandon(now)
	}
	r.closing = true
	for _, w := range r.idle {
		w.wake <- struct{}{}
	}
	r.idle = nil
	r.leave(now)
	over := make(chan struct{})
	go func() {
		r.working.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(cancelGrace):
	}
	r.stop()
	r.serving.Wait()
	return list, err
}
