package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tandem-kafka/tandem/client/internal/commits"
	"github.com/tandem-kafka/tandem/client/internal/executor"
	"github.com/tandem-kafka/tandem/keyrange"
)

// reset looks for the offset where to begin. Partitions without a leader must not hold up others, so each has its own.
type reset struct {
	assignment executor.Assignment
	cancel     context.CancelFunc
	done       chan struct{}
}

// findStart begins with key ranges of which nothing is committed, once it is known where.
func (s *session) findStart(tp executor.TP, a executor.Assignment) {
	ctx, cancel := context.WithCancel(s.ctx)
	r := &reset{assignment: a, cancel: cancel, done: make(chan struct{})}
	s.mu.Lock()
	p := s.part(tp)
	p.resets = append(p.resets, r)
	s.mu.Unlock()
	s.work.Go(func() {
		defer cancel()
		defer close(r.done)
		start, err := s.startOf(ctx, tp)
		if err == nil && s.commits != nil && s.cfg.reset == Latest {
			err = s.commitStart(ctx, tp, start)
		}
		// As long as it may begin, whoever gives the key ranges up has to find it.
		defer s.endReset(p, r)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			r.assignment.Start = start
			err = s.take(tp, r.assignment)
		}
		if err != nil {
			s.fail(err)
		}
	})
}

func (s *session) endReset(p *part, r *reset) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.resets = slices.DeleteFunc(p.resets, func(o *reset) bool { return o == r })
}

// stopReset ends what findStart began for key ranges. What it was to begin with beside them is begun again.
func (s *session) stopReset(tp executor.TP, keys keyrange.Set) {
	s.mu.Lock()
	var stop []*reset
	if p := s.parts[tp]; p != nil {
		for _, r := range p.resets {
			if len(keyrange.AppendIntersect(nil, r.assignment.Keys, keys)) > 0 {
				r.cancel()
				stop = append(stop, r)
			}
		}
	}
	s.mu.Unlock()
	for _, r := range stop {
		<-r.done
		if r.assignment.Start >= 0 { // it was done before
			continue
		}
		if rest := keyrange.AppendSubtract(nil, r.assignment.Keys, keys); len(rest) > 0 {
			a := r.assignment
			a.Keys = rest
			s.findStart(tp, a)
		}
	}
}

// stopResets ends all that findStart began.
func (s *session) stopResets() {
	s.mu.Lock()
	var all []executor.TP
	for tp := range s.parts {
		all = append(all, tp)
	}
	s.mu.Unlock()
	for _, tp := range all {
		s.stopReset(tp, keyrange.Set{keyrange.Full})
	}
}

// startOf asks for the offset where the reset policy begins.
func (s *session) startOf(ctx context.Context, tp executor.TP) (int64, error) {
	if s.cfg.reset == NoReset {
		return 0, fmt.Errorf("client: group %q has committed nothing of topic %s, partition %d, and ResetOffset is NoReset", s.cfg.group, tp.Topic, tp.Partition)
	}
	admin := kadm.NewClient(s.data[0])
	list := admin.ListStartOffsets
	if s.cfg.reset == Latest {
		if list = admin.ListEndOffsets; s.cfg.isolation == ReadCommitted {
			list = admin.ListCommittedOffsets
		}
	}
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		offsets, err := list(ctx, tp.Topic)
		o, ok := offsets.Lookup(tp.Topic, tp.Partition)
		if ok {
			if err = o.Err; err == nil {
				return o.Offset, nil
			}
		}
		if err == nil {
			err = kerr.UnknownTopicOrPartition
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if isKafka(err) && !kerr.IsRetriable(err) {
			return 0, fmt.Errorf("client: the offsets of topic %s, partition %d cannot be read: %w", tp.Topic, tp.Partition, err)
		}
		s.log.Debug("an offset cannot be read; trying again", "topic", tp.Topic, "partition", tp.Partition, "error", err)
		pause(ctx, wait)
	}
}

// commitStart commits an offset as it is, for all key ranges: what was done before counts no more.
func (s *session) commitStart(ctx context.Context, tp executor.TP, offset int64) error {
	e := commits.Entry{Partition: commits.Partition{Topic: tp.Topic, Partition: tp.Partition, Plain: true}, Watermark: offset}
	if errs := s.commits.CommitUntil(ctx, s.member(), []commits.Entry{e}); errs != nil && commits.Classify(errs[0]) == commits.Fatal {
		return fmt.Errorf("client: group %s cannot commit topic %s, partition %d: %w", s.cfg.group, tp.Topic, tp.Partition, errs[0])
	}
	return nil // whoever is not in the generation any more is told otherwise
}

// rewind goes on with key ranges at a lower offset: the topic is another one, or its end was lost.
func (s *session) rewind(tp executor.TP, keys keyrange.Set, to int64) {
	s.log.Warn("a partition ends below the offset that was read last: it was made anew, or its end is lost", "topic", tp.Topic, "partition", tp.Partition, "next", to)
	s.runner.Lost(tp, keys)
	if s.commits != nil {
		ctx, cancel := context.WithTimeout(s.ctx, gainTimeout)
		defer cancel()
		if err := s.commitStart(ctx, tp, to); err != nil {
			s.fail(err)
			return
		}
	}
	s.mu.Lock()
	p := s.part(tp)
	base := p.base
	for token, of := range p.streams {
		if slices.Equal(of, keys) {
			s.fetcher.Remove(token)
			delete(p.streams, token)
		}
	}
	s.mu.Unlock()
	if err := s.take(tp, executor.Assignment{Keys: keys, Base: base, Start: to}); err != nil {
		s.log.Debug("key ranges were given up meanwhile", "error", err)
	}
}

// isKafka reports whether an error is Kafka's own.
func isKafka(err error) bool {
	var ke *kerr.Error
	return errors.As(err, &ke)
}
