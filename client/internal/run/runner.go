package run

import (
	"context"
	"sync"
	"time"

	"github.com/tandem-kafka/tandem/client/internal/executor"
	"github.com/tandem-kafka/tandem/keyrange"
)

// chunk is how many fetched records are taken in without giving others the lock.
const chunk = 256

// Runner runs a Machine.
type Runner[R any] struct {
	cfg    Config[R]
	values context.Context // what handlers' contexts have
	ctx    context.Context // of everything else
	stop   context.CancelFunc
	began  time.Time
	wall   int64 // of began, ns since the epoch

	mu        sync.Mutex
	m         *executor.Machine[R]
	idle      []*worker[R]
	workers   int
	batches   []*worker[R] // those that have several tasks
	runTime   time.Duration
	armed     int64 // when the driver wakes by itself; 0: it does not
	closing   bool
	ending    bool
	waiting   map[int64]chan executor.Released // by id of the revocation
	flushing  map[int64]chan error             // by id of the flush
	commitErr error                            // the last
	pulled    map[executor.TP]map[int64]*executor.Task[R]
	there     chan struct{} // holds an element when Pull has something to look at

	kick    chan struct{}
	working sync.WaitGroup // workers
	serving sync.WaitGroup // the driver and what it starts
}

// Start makes a Runner. The contexts of handlers have the values of ctx; they are not cancelled with it, but when the record
// is lost, and when Close's time limit is over.
func Start[R any](ctx context.Context, cfg Config[R]) (*Runner[R], error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	m, err := executor.New(cfg.Config, cfg.Describe, cfg.Keep)
	if err != nil {
		return nil, err
	}
	r := &Runner[R]{cfg: cfg, m: m, kick: make(chan struct{}, 1), waiting: map[int64]chan executor.Released{}, flushing: map[int64]chan error{}, runTime: batchTime,
		pulled: map[executor.TP]map[int64]*executor.Task[R]{}, there: make(chan struct{}, 1)}
	r.values = context.WithoutCancel(ctx)
	r.ctx, r.stop = context.WithCancel(r.values)
	r.began = time.Now()
	r.wall = r.began.UnixNano()
	r.serving.Add(1)
	go r.drive()
	return r, nil
}

// now is the time in ns since the epoch. It goes on steadily when the wall clock is set.
func (r *Runner[R]) now() int64 { return r.wall + int64(time.Since(r.began)) }

// leave unlocks mu, and makes sure that the driver does what came up.
func (r *Runner[R]) leave(now int64) {
	cancelled := r.m.Cancelled()
	if r.cfg.Pull {
		r.takeBack(cancelled, now)
		cancelled = nil
	}
	for _, t := range cancelled {
		if c, ok := t.Host.(*taskContext[R]); ok {
			c.cancel()
		}
	}
	wake := r.wake(now)
	kick := r.m.Pending() || wake != 0 && (r.armed == 0 || wake < r.armed)
	r.mu.Unlock()
	if kick {
		r.kickDriver()
	}
}

func (r *Runner[R]) kickDriver() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// wake is when the driver has to look.
func (r *Runner[R]) wake(now int64) int64 {
	at := r.m.NextWake()
	if len(r.batches) > 0 {
		if limit := now + int64(batchLimit); at == 0 || limit < at {
			at = limit
		}
	}
	return at
}

// Assign adds key ranges of a partition.
func (r *Runner[R]) Assign(tp executor.TP, a executor.Assignment) error {
	r.mu.Lock()
	now := r.now()
	defer func() { r.leave(now) }()
	if r.closing {
		return ErrClosed
	}
	return r.m.Assign(tp, a, now)
}

// Fetched takes records in, and reports whether the partition is to be paused. Fetches of one partition come one after the other.
func (r *Runner[R]) Fetched(tp executor.TP, f executor.Fetch[R]) (paused bool) {
	for {
		part := f
		if len(f.Records) > chunk {
			part.Records = f.Records[:chunk]
			part.To = 0 // up to its last record
			f.Records = f.Records[chunk:]
			f.From = r.cfg.Describe(part.Records[chunk-1]).Offset + 1
		} else {
			f.Records = nil
		}
		r.mu.Lock()
		now := r.now()
		r.m.Fetched(tp, part, now)
		paused = r.m.Paused(tp)
		r.wakeOne()
		r.leave(now)
		if len(f.Records) == 0 {
			return paused
		}
	}
}

// LogStart says that a partition begins at offset now.
func (r *Runner[R]) LogStart(tp executor.TP, offset int64) {
	r.mu.Lock()
	now := r.now()
	r.m.LogStart(tp, offset, now)
	r.wakeOne()
	r.leave(now)
}

// Lost says that key ranges of a partition, nil: all, belong to somebody else: their handlers' contexts are cancelled, and
// nothing of them is committed.
func (r *Runner[R]) Lost(tp executor.TP, keys keyrange.Set) {
	r.mu.Lock()
	now := r.now()
	r.recallAll(now, now)
	r.m.Lost(tp, keys, now)
	r.wakeOne()
	r.leave(now)
}

// Suspend has nothing begin until Resume. What runs may end, and what is done is committed.
func (r *Runner[R]) Suspend() {
	r.mu.Lock()
	now := r.now()
	r.m.Suspend(true)
	r.recallAll(now, now)
	r.leave(now)
}

// Resume ends what Suspend began.
func (r *Runner[R]) Resume() {
	r.mu.Lock()
	r.m.Suspend(false)
	r.wakeOne()
	r.leave(r.now())
}

// Wanted reports whether a commit is still to be made: all that it is of may have been lost since.
func (r *Runner[R]) Wanted(c executor.Commit) bool {
	return inspect(r, func(m *executor.Machine[R]) bool { return m.Wanted(c.ID) })
}

// Revoke gives key ranges of a partition back, nil: all: nothing of theirs starts any more, handlers may end within limit, then
// their contexts are cancelled, and what is done is committed. It returns once that is over, or with ctx's error when ctx ends
// before; the revocation then goes on. ErrClosed: the Runner has ended, and nobody knows what is committed.
func (r *Runner[R]) Revoke(ctx context.Context, tp executor.TP, keys keyrange.Set, limit time.Duration) (executor.Released, error) {
	r.mu.Lock()
	now := r.now()
	r.recallAll(now, now)
	id := r.m.Revoke(tp, keys, now+int64(limit), now)
	released := r.await(id)
	r.wakeOne()
	r.leave(now)
	select {
	case rel := <-released:
		return rel, nil
	case <-ctx.Done():
		return executor.Released{ID: id, TP: tp}, ctx.Err()
	case <-r.ctx.Done():
	}
	select {
	case rel := <-released:
		return rel, nil
	default: // Close was cut short, or came before
		return executor.Released{ID: id, TP: tp}, ErrClosed
	}
}

func (r *Runner[R]) await(id int64) chan executor.Released {
	c := make(chan executor.Released, 1)
	r.waiting[id] = c
	return c
}

// inspect reads something from the machine.
func inspect[R, T any](r *Runner[R], f func(m *executor.Machine[R]) T) T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return f(r.m)
}

// Paused reports whether the fetch of a partition is to be paused.
func (r *Runner[R]) Paused(tp executor.TP) bool {
	return inspect(r, func(m *executor.Machine[R]) bool { return m.Paused(tp) })
}

// Positions are the holdings of a partition and where they are to be fetched from.
func (r *Runner[R]) Positions(tp executor.TP) []executor.Position {
	return inspect(r, func(m *executor.Machine[R]) []executor.Position { return m.Positions(tp) })
}

// Stats is what the machine holds.
func (r *Runner[R]) Stats() executor.Stats { return inspect(r, (*executor.Machine[R]).Stats) }

// Slow are up to n records that run or wait for their next attempt, those first that do so longest.
func (r *Runner[R]) Slow(n int) []executor.Info {
	return inspect(r, func(m *executor.Machine[R]) []executor.Info { return m.Slow(n) })
}
