package icommit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// follower reads one partition of the topic and hands its records over, as long as somebody uses it. One whose topic is gone ends; the next
// CatchUp sees what there is instead.
type follower struct {
	l         *Log
	topic     Topic
	partition int32
	cancel    context.CancelFunc
	done      chan struct{} // closed when nothing more is handed over
	ends      rounds[int64]

	// Of its goroutine only.
	epoch  int32 // leader epoch of the last batch, -1: none yet
	hollow hollow

	mu        sync.Mutex
	position  int64 // what is below has been handed over
	resets    int   // how many times it began anew
	anew      bool  // it is to begin anew
	leaving   bool
	failure   error              // of the last fetch
	interrupt context.CancelFunc // of the fetch under way
	waiting   int                // CatchUps
	used      time.Time
	changed   chan struct{} // closed when position, resets, leaving or failure changed; nil: nobody waits
}

// run follows the partition until ctx ends or nobody uses it. after, where it is not nil, is the end of the last follower of the partition.
func (f *follower) run(ctx context.Context, after <-chan struct{}) {
	defer close(f.done)
	if after != nil {
		<-after
	}
	pause := f.l.cfg.backoff
	for ctx.Err() == nil && !f.idle() {
		err := f.step(ctx)
		if err == nil {
			pause = f.l.cfg.backoff
			continue
		}
		if ctx.Err() != nil {
			break
		}
		if gone(err) {
			f.l.cfg.Logger.Warn("the topic of individual commits is gone or was made anew: what it held is delivered again", "topic", TopicName, "partition", f.partition)
			break
		}
		if f.isAnew() { // this is why the fetch ended
			continue
		}
		f.failed(err)
		_ = f.l.pause(ctx, pause)
		pause = min(2*pause, maxPause)
	}
	f.leave()
	if f.l.ctx.Err() == nil {
		f.l.metrics.Resets.Add(1)
		f.l.handler.Reset(f.partition)
	}
}

// step fetches once and hands over what came.
func (f *follower) step(ctx context.Context) error {
	f.mu.Lock()
	if f.anew {
		f.mu.Unlock()
		f.reset(0)
		return nil
	}
	ctx, f.interrupt = context.WithCancel(ctx)
	cancel, position := f.interrupt, f.position
	f.mu.Unlock()
	defer cancel()

	l := f.l
	got, err := l.up.Fetch(ctx, f.topic, f.partition, position, l.cfg.Wait)
	if errors.Is(err, kerr.OffsetOutOfRange) {
		return f.outOfRange(ctx, position)
	}
	if err != nil {
		return err
	}
	l.metrics.Bytes.Add(int64(len(got.Raw)))
	if cut, err := f.diverged(ctx, got.Raw, position); err != nil || cut {
		if cut {
			f.reset(0)
		}
		return err
	}
	next := position
	if len(got.Raw) > 0 {
		var r *reader
		select {
		case r = <-l.readers:
		case <-ctx.Done():
			return ctx.Err()
		}
		next, err = r.read(f, got, position)
		l.readers <- r
		if got.Free != nil {
			got.Free()
		}
		if err != nil {
			return err
		}
	}
	if next == position && next < got.End {
		if !f.hollow.over(position, l.cfg.gap) {
			return l.pause(ctx, min(l.cfg.gap/8, 100*time.Millisecond))
		}
		next = got.End
	}
	f.advance(next)
	return nil
}

// outOfRange begins at the log's start: records before it were deleted, or the log is shorter than it was.
func (f *follower) outOfRange(ctx context.Context, position int64) error {
	start, err := f.l.up.Start(ctx, f.topic, f.partition)
	if err != nil {
		return err
	}
	if start == position {
		return fmt.Errorf("offset %d, where the log starts: %w", position, kerr.OffsetOutOfRange)
	}
	f.reset(start)
	return nil
}

// diverged reports whether the log was cut off below position and grew again: then the leader epoch that was read last ended earlier
// than it was read to. raw is what the leader gives at position.
func (f *follower) diverged(ctx context.Context, raw []byte, position int64) (bool, error) {
	first, last, ok := epochs(raw)
	if !ok {
		return false, nil
	}
	if before := f.epoch; before >= 0 && first > before {
		epoch, end, err := f.l.up.EpochEnd(ctx, f.topic, f.partition, before)
		var ke *kerr.Error
		switch {
		case errors.As(err, &ke) && !ke.Retriable: // brokers before Kafka 2.1 do not tell this to everybody
		case err != nil:
			return false, err
		case epoch >= 0 && end >= 0 && end < position:
			return true, nil
		}
	}
	f.epoch = last
	return false, nil
}

// reset forgets what was handed over and goes on at start.
func (f *follower) reset(start int64) {
	f.l.metrics.Resets.Add(1)
	f.l.cfg.Logger.Info("reading individual commits from the start of the log again", "topic", TopicName, "partition", f.partition, "offset", start)
	f.l.handler.Reset(f.partition)
	f.epoch, f.hollow = -1, hollow{}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.position, f.anew, f.failure = start, false, nil
	f.resets++
	f.tell()
}

func (f *follower) advance(next int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.position, f.failure = next, nil
	f.tell()
}

func (f *follower) failed(err error) {
	f.l.metrics.Failures.Add(1)
	f.l.warn.log(f.l.cfg.Logger, "fetch", "reading individual commits failed, trying again", "topic", TopicName, "partition", f.partition, "error", err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failure = err
	f.tell()
}

// tell wakes those who wait. f.mu is held.
func (f *follower) tell() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// end asks for the end of the log. It is the question of f.ends.
func (f *follower) end() (int64, error) {
	ctx, cancel := context.WithTimeout(f.l.ctx, askTimeout)
	defer cancel()
	return f.l.up.End(ctx, f.topic, f.partition)
}

// state is how often the follower began anew, and its position.
func (f *follower) state() (resets int, position int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.resets, f.position
}

// wait waits until all below end has been handed over. again says that the follower began anew or ended.
func (f *follower) wait(ctx context.Context, end int64, resets int) (again bool, err error) {
	for {
		f.mu.Lock()
		switch failure := f.failure; {
		case f.leaving || f.resets != resets:
			f.mu.Unlock()
			return true, nil
		case f.position >= end:
			f.mu.Unlock()
			return false, nil
		case failure != nil && !passing(failure):
			f.mu.Unlock()
			return false, failure
		}
		if f.changed == nil {
			f.changed = make(chan struct{})
		}
		changed, failure, position := f.changed, f.failure, f.position
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			if failure == nil {
				failure = fmt.Errorf("partition %d was read up to offset %d of %d", f.partition, position, end)
			}
			return false, failure
		}
	}
}

// begin makes the follower begin anew, unless it did since it had begun so often.
func (f *follower) begin(resets int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.resets == resets && !f.anew {
		f.anew = true
		if f.interrupt != nil {
			f.interrupt()
		}
	}
}

func (f *follower) isAnew() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.anew
}

// use says that a caller needs the follower until it calls release; false when it ends.
func (f *follower) use() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leaving {
		return false
	}
	f.waiting++
	return true
}

func (f *follower) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting--
	f.used = time.Now()
}

// touch says that the follower is in use at this moment.
func (f *follower) touch() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used = time.Now()
}

// idle reports whether nobody uses the follower any more; then it is leaving.
func (f *follower) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiting > 0 || time.Since(f.used) < f.l.cfg.Idle {
		return false
	}
	f.leaving = true
	return true
}

// leave makes the follower end.
func (f *follower) leave() {
	f.cancel()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaving = true
	f.tell()
}

func (f *follower) left() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leaving
}

// hollow watches a place where the broker says that there is more and gives nothing. It is so where compaction
// removed the last records of a log, and, for a moment, where a new leader does not know yet what it may give.
type hollow struct {
	at    int64
	times int
	since time.Time
}

// over reports whether it was so at this offset for long enough to go on behind it.
func (h *hollow) over(at int64, long time.Duration) bool {
	if h.times == 0 || h.at != at {
		*h = hollow{at: at, since: time.Now()}
	}
	h.times++
	return h.times >= 3 && time.Since(h.since) >= long
}
