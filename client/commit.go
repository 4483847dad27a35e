package client

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tandem-kafka/tandem/client/internal/commits"
	"github.com/tandem-kafka/tandem/client/internal/executor"
)

const (
	commitTimeout = 5 * time.Second       // of a commit, with what is tried again
	rejoinPause   = 20 * time.Millisecond // before a commit that came in the middle of a rebalance is tried again
)

// commit commits what is done.
func (s *session) commit(ctx context.Context, list []executor.Commit) []error {
	if s.commits == nil {
		return nil
	}
	if s.coop != nil {
		return s.commitAcquired(ctx, list)
	}
	entries, at := make([]commits.Entry, len(list)), make([]int, len(list))
	s.mu.Lock()
	for i, c := range list {
		e := commits.Entry{Partition: commits.Partition{Topic: c.TP.Topic, Partition: c.TP.Partition, Keys: c.Keys, Plain: !s.individual()}, Watermark: c.Watermark}
		if p := s.parts[c.TP]; p != nil {
			e.Base = p.base
		}
		if !e.Plain {
			e.Ranges = c.Ranges
		}
		entries[i], at[i] = e, i
	}
	s.mu.Unlock()
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.commitLimit())
	defer cancel()
	lost := s.losses.Load()
	errs := s.commitOnce(ctx, list, entries, at)
	for between(errs) && pause(ctx, rejoinPause) && s.losses.Load() == lost {
		errs = s.commitOnce(ctx, list, entries, at)
	}
	errs = s.keepAttempts(ctx, list, errs)
	for i, err := range errs {
		if err != nil {
			s.commitFailed(list[i].TP, err)
		}
	}
	s.tellCommitted(entries, errs, time.Since(began))
	return errs
}

// tellCommitted tells the hook how commits ended; no errs: well.
func (s *session) tellCommitted(entries []commits.Entry, errs []error, took time.Duration) {
	f := s.cfg.hook.Committed
	if f == nil {
		return
	}
	for i := range entries {
		e := &entries[i]
		var err error
		if errs != nil {
			err = errs[i]
		}
		f(e.Topic, e.Partition.Partition, e.Keys, len(e.Ranges), took, err)
	}
}

// commitAcquired commits what is done of acquired ranges.
func (s *session) commitAcquired(ctx context.Context, list []executor.Commit) []error {
	entries, at := s.coop.entries(list)
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.commitLimit())
	defer cancel()
	failed := s.commitOnce(ctx, list, entries, at)
	for between(failed) && pause(ctx, rejoinPause) {
		failed = s.commitOnce(ctx, list, entries, at)
	}
	var errs []error
	var first error
	for i := range list {
		if failed == nil || at[i] < 0 || failed[at[i]] == nil {
			continue
		}
		if errs == nil {
			errs = make([]error, len(list))
		}
		if errs[i] = failed[at[i]]; first == nil {
			first = errs[i]
			s.commitFailed(tpOf(entries[at[i]].Topic, entries[at[i]].Partition.Partition), first)
		}
	}
	errs = s.keepAttempts(ctx, list, errs)
	s.coop.committed(list, errs)
	s.tellCommitted(entries, failed, time.Since(began))
	return errs
}

// between reports whether the member is between two generations, which passes: a cooperative member goes on meanwhile, and may
// commit what it keeps in the next one. If it is in none any more it will be told so.
func between(errs []error) bool {
	for _, err := range errs {
		if errors.Is(err, kerr.RebalanceInProgress) || errors.Is(err, kerr.IllegalGeneration) {
			return true
		}
	}
	return false
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (s *session) commitFailed(tp executor.TP, err error) {
	switch commits.Classify(err) {
	case commits.Fatal:
		s.log.Error("what is done cannot be committed; it is tried again, and done again after a restart", "topic", tp.Topic, "partition", tp.Partition, "error", err)
	case commits.Fenced:
		s.log.Info("a commit was refused: the member's generation is over", "topic", tp.Topic, "partition", tp.Partition, "error", err)
	default:
		s.log.Warn("a commit failed; it is tried again", "topic", tp.Topic, "partition", tp.Partition, "error", err)
	}
}
