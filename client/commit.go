package client

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tandem-kafka/tandem/client/internal/commits"
	"github.com/tandem-kafka/tandem/client/internal/executor"
	"github.com/tandem-kafka/tandem/client/internal/run"
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
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.commitLimit())
	defer cancel()
	of, as := make([]int, len(list)), &author{losses: s.losses.Load(), Member: s.member()}
	entries := s.entries(list, of) // once it is known as whom to commit, see again
	failed := s.commitOnce(ctx, as, list, entries, of)
	for s.again(ctx, failed, as) {
		failed = s.commitOnce(ctx, as, list, entries, of)
	}
	over := s.txn != nil && s.txn.over() != nil // that was said
	for e, err := range failed {
		if err != nil && !over {
			s.commitFailed(tpOf(entries[e].Topic, entries[e].Partition.Partition), err)
		}
	}
	errs := s.keepAttempts(ctx, list, errorsOf(of, failed))
	if s.coop != nil {
		s.coop.committed(list, errs)
	}
	s.tellCommitted(entries, of, errs, time.Since(began))
	return errs
}

// author is who commits, and how often key ranges had been lost before that was known.
type author struct {
	losses int32
	commits.Member
	ours func() bool // whether what is committed is this member's still; nil: as long as no key ranges are lost
}

// again reports whether to try a commit again that came between two generations, and as whom. Not if key ranges were lost meanwhile: they are lost before the member
// joins as another one, so what it has left once it is known as whom to commit is its own. Of offset ranges a commit that is too late would only be of little use, for who has them now
// does them again already; but an ordinary one would take back what that one has committed, and a transaction write twice.
func (s *session) again(ctx context.Context, errs []error, as *author) bool {
	if !between(errs) || !pause(ctx, rejoinPause) {
		return false
	}
	as.Member = s.member()
	return s.losses.Load() == as.losses && (as.ours == nil || as.ours())
}

// Of a commit, in place of an entry.
const (
	nothing = -1 // there is nothing to say
	lost    = -2 // it is of what this member has no more
)

// entries are what is to be said of commits; of is which entry says what of each.
func (s *session) entries(list []executor.Commit, of []int) (entries []commits.Entry) {
	for i := range list {
		switch of[i] = nothing; {
		case !s.runner.Wanted(list[i]):
			of[i] = lost
		case s.coop == nil:
			of[i] = len(entries)
			entries = append(entries, s.entry(&list[i]))
		}
	}
	if s.coop != nil {
		return s.coop.entries(list, of)
	}
	return entries
}

// entry is what is to be said of a commit of key ranges.
func (s *session) entry(c *executor.Commit) commits.Entry {
	e := commits.Entry{Partition: commits.Partition{Topic: c.TP.Topic, Partition: c.TP.Partition, Keys: c.Keys, Plain: !s.individual()}, Watermark: c.Watermark}
	if !e.Plain {
		e.Ranges = c.Ranges
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.parts[c.TP]; p != nil {
		e.Base = p.base
	}
	return e
}

// errorsOf are the errors of commits whose entries failed; nil: there are none.
func errorsOf(of []int, failed []error) (errs []error) {
	for i, e := range of {
		var err error
		switch {
		case e == lost:
			err = run.ErrLost
		case e >= 0 && failed != nil:
			err = failed[e]
		}
		if err == nil {
			continue
		}
		if errs == nil {
			errs = make([]error, len(of))
		}
		errs[i] = err
	}
	return errs
}

// tellCommitted tells the hook how entries ended.
func (s *session) tellCommitted(entries []commits.Entry, of []int, errs []error, took time.Duration) {
	f := s.cfg.hook.Committed
	if f == nil {
		return
	}
	ended := make([]error, len(entries))
	for i, err := range errs {
		if e := of[i]; e >= 0 && ended[e] == nil {
			ended[e] = err
		}
	}
	for i := range entries {
		e := &entries[i]
		f(e.Topic, e.Partition.Partition, e.Keys, len(e.Ranges), took, ended[i])
	}
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
