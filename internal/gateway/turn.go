package gateway

import "context"

// turn is a lock that a caller can give up waiting for: what happens under it
// asks the cluster, which may be slow.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for its turn, or for the end of ctx.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }
