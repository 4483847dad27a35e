package run

import (
	"context"

	"github.com/tandem-kafka/tandem/client/internal/executor"
	"github.com/tandem-kafka/tandem/client/internal/offsets"
)

// With Config.Pull there are no workers: others take records with Pull, and say with Settle which are done. Records that are
// revoked or lost meanwhile are taken back.

// Pull waits until there are records to be handed out, and returns up to n of them. It returns ErrClosed once Close was called.
func (r *Runner[R]) Pull(ctx context.Context, n int) ([]*executor.Task[R], error) {
	for {
		r.mu.Lock()
		now := r.now()
		if r.closing || r.ending {
			r.signal()
			r.mu.Unlock()
			return nil, ErrClosed
		}
		tasks := r.m.Take(nil, n, now)
		for _, t := range tasks {
			of := r.pulled[t.TP()]
			if of == nil {
				of = map[int64]*executor.Task[R]{}
				r.pulled[t.TP()] = of
			}
			of[t.Offset()] = t
		}
		r.wakeOne() // others who wait
		r.leave(now)
		if len(tasks) > 0 {
			return tasks, nil
		}
		select {
		case <-r.there:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// signal tells Pull to look.
func (r *Runner[R]) signal() {
	select {
	case r.there <- struct{}{}:
	default:
	}
}

// Settle says that the records of a partition in offset ranges are done, as far as they were pulled and not taken back, and
// returns how many those are.
func (r *Runner[R]) Settle(tp executor.TP, ranges []offsets.Range) (n int) {
	r.mu.Lock()
	now := r.now()
	defer func() { r.leave(now) }()
	of := r.pulled[tp]
	settle := func(t *executor.Task[R]) {
		delete(of, t.Offset())
		n++
		r.m.Finish(t, executor.Result{}, now)
	}
	for _, o := range ranges {
		if o.Last-o.First < int64(len(of)) {
			for offset := o.First; offset <= o.Last; offset++ {
				if t := of[offset]; t != nil {
					settle(t)
				}
			}
			continue
		}
		for offset, t := range of {
			if o.Contains(offset) {
				settle(t)
			}
		}
	}
	if len(of) == 0 {
		delete(r.pulled, tp)
	}
	return n
}

// Claims sorts pulled records of a partition by the key ranges that they belong to. missing is how many of them are not this process's, or done.
func (r *Runner[R]) Claims(tp executor.TP, offsets []int64) (list []executor.Claim, missing int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var tasks []*executor.Task[R]
	for _, o := range offsets {
		if t := r.pulled[tp][o]; t != nil {
			tasks = append(tasks, t)
		} else {
			missing++
		}
	}
	return r.m.Claims(tasks), missing
}

// takeBack takes back pulled records that are not this process's any more.
func (r *Runner[R]) takeBack(tasks []*executor.Task[R], now int64) {
	for _, t := range tasks {
		delete(r.pulled[t.TP()], t.Offset())
		r.m.GiveBack([]*executor.Task[R]{t}, now)
	}
}
