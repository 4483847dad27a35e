package icommit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Log is the log of facts. Its methods may be called from any goroutine.
type Log struct {
	up      Upstream
	handler Handler
	cfg     Config
	metrics Metrics
	warn    limiter
	readers chan *reader // who decodes has one of them: it bounds memory when many partitions are read at once

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	lookup rounds[seen]
	create rounds[Topic]

	mu        sync.Mutex
	closed    bool
	topic     Topic // the last that was seen; no partitions: none, or it is not sure that it is still there
	followers map[int32]*follower
}

type seen struct {
	topic Topic
	found bool
}

// askTimeout bounds one question to the cluster, maxPause the pause between two attempts.
const (
	askTimeout = 15 * time.Second
	maxPause   = time.Second
)

// New returns a Log over the topic in up, which hands what it reads to handler. Close ends it; up stays open.
func New(up Upstream, handler Handler, cfg Config) *Log {
	ctx, cancel := context.WithCancel(context.Background())
	l := &Log{
		up: up, handler: handler, cfg: cfg.withDefaults(), ctx: ctx, cancel: cancel,
		followers: make(map[int32]*follower), readers: make(chan *reader, min(4, runtime.GOMAXPROCS(0))),
	}
	for range cap(l.readers) {
		l.readers <- newReader()
	}
	return l
}

// Close ends all reading and waits until the handler is not called any more; CatchUp and Append that are under way return.
func (l *Log) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.wg.Wait()
}

// Metrics counts what the log did.
func (l *Log) Metrics() *Metrics { return &l.metrics }

// Followed is the number of partitions that are followed now.
func (l *Log) Followed() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.followers {
		if !f.left() {
			n++
		}
	}
	return n
}

// CatchUp returns when the handler has everything of the group that was in the log at the time of the call. Without a
// topic there is nothing, and the handler has forgotten what it had. It waits as long as ctx allows for brokers that do not answer; what
// waiting does not cure (no permission to read) is returned at once.
func (l *Log) CatchUp(ctx context.Context, group string) error {
	return l.catchUpOn(ctx, func(partitions int32) int32 { return record.PartitionOf(group, partitions) })
}

// CatchUpOn is CatchUp for all groups of a partition of the topic, where it has so many.
func (l *Log) CatchUpOn(ctx context.Context, partition int32) error {
	return l.catchUpOn(ctx, func(partitions int32) int32 { return partition % partitions })
}

// Partitions is how many partitions the topic has, 0: there is none.
func (l *Log) Partitions(ctx context.Context) (int32, error) {
	s, err := l.lookup.do(ctx, l.start, l.look)
	return s.topic.Partitions, err
}

func (l *Log) catchUpOn(ctx context.Context, partition func(partitions int32) int32) error {
	var last error
	for pause := l.cfg.backoff; ; pause = min(2*pause, maxPause) {
		again, err := l.catchUp(ctx, partition)
		switch {
		case err == nil && !again:
			return nil
		case err == nil:
		case ctx.Err() != nil:
			return failed("catching up with", ctx.Err(), cmp.Or(last, err))
		case !passing(err):
			return failed("catching up with", err, nil)
		default:
			last = err
		}
		if err := l.pause(ctx, pause); err != nil {
			return failed("catching up with", err, last)
		}
	}
}

// failed is the error of a call that ended with err; before is what it tried to outlast.
func failed(what string, err, before error) error {
	if before == nil || before == err {
		return fmt.Errorf("%s %s: %w", what, TopicName, err)
	}
	return fmt.Errorf("%s %s: %w; before that: %w", what, TopicName, err, before)
}

// catchUp is one attempt; again says that the log was another one at its end than at its beginning.
func (l *Log) catchUp(ctx context.Context, partition func(partitions int32) int32) (again bool, err error) {
	s, err := l.lookup.do(ctx, l.start, l.look)
	if err != nil {
		return false, err
	}
	if err := l.settle(ctx, s.topic); err != nil || !s.found {
		return false, err
	}
	f, err := l.follow(s.topic, partition(s.topic.Partitions))
	if err != nil {
		return false, err
	}
	defer f.release()
	resets, position := f.state()
	end, err := f.ends.do(ctx, l.start, f.end)
	if err != nil {
		return false, err
	}
	if end < position {
		f.begin(resets) // the log is shorter than what was read of it
		return true, nil
	}
	return f.wait(ctx, end, resets)
}

// look asks for the topic, and stops following one that is no longer it.
func (l *Log) look() (seen, error) {
	ctx, cancel := context.WithTimeout(l.ctx, askTimeout)
	defer cancel()
	t, found, err := l.up.Topic(ctx)
	if err == nil && found && t.Partitions < 1 {
		err = kerr.LeaderNotAvailable
	}
	if err != nil {
		return seen{}, err
	}
	l.see(t)
	return seen{t, found}, nil
}

func (l *Log) see(t Topic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.topic = t
	for _, f := range l.followers {
		if f.topic != t {
			f.leave()
		}
	}
}

// settle waits until nothing of another topic than t is handed over any more.
func (l *Log) settle(ctx context.Context, t Topic) error {
	l.mu.Lock()
	var ends []<-chan struct{}
	for _, f := range l.followers {
		if f.topic != t && f.left() {
			ends = append(ends, f.done)
		}
	}
	l.mu.Unlock()
	for _, done := range ends {
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// follow returns the follower of a partition, which it starts where there is none. The caller releases it.
func (l *Log) follow(t Topic, partition int32) (*follower, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	old := l.followers[partition]
	if old != nil && old.topic == t && old.use() {
		return old, nil
	}
	var after <-chan struct{}
	if old != nil {
		old.leave()
		after = old.done
	}
	ctx, cancel := context.WithCancel(l.ctx)
	f := &follower{l: l, topic: t, partition: partition, cancel: cancel, done: make(chan struct{}), epoch: -1, waiting: 1}
	l.followers[partition] = f
	l.wg.Go(func() { f.run(ctx, after) })
	return f, nil
}

// start runs do in a goroutine that Close waits for, false when the log is closed.
func (l *Log) start(do func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.wg.Go(do)
	return true
}

// pause waits before another attempt.
func (l *Log) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.ctx.Done():
		return ErrClosed
	}
}

// gone says that the topic is not there, or not the one that was asked for.
func gone(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.InconsistentTopicID)
}

// passing says that an error may go away by waiting.
func passing(err error) bool {
	if errors.Is(err, ErrClosed) {
		return false
	}
	var ke *kerr.Error
	return !errors.As(err, &ke) || ke.Retriable
}
