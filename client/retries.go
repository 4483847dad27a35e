package client

import (
	"context"
	"fmt"

	"github.com/tandem-kafka/tandem/client/internal/attempts"
	"github.com/tandem-kafka/tandem/client/internal/executor"
	"github.com/tandem-kafka/tandem/keyrange"
)

// retriesOf are the attempts that are kept of records of key ranges.
func (s *session) retriesOf(tp executor.TP, keys keyrange.Set, base int32, id string) (list []executor.Retry) {
	if s.attempts == nil {
		return nil
	}
	for offset, state := range s.attempts.Of(tp.Topic, tp.Partition) {
		r := executor.Retry{Offset: offset, Attempts: state.Attempts, NextAt: state.NextAt, Final: state.Final, Cause: state.Cause, Hash: state.Hash, Keyed: state.Keyed}
		if state.TopicID == id && keys.Contains(r.Position(base)) {
			list = append(list, r)
		}
	}
	return list
}

// keepAttempts makes the attempts durable that belong to commits which are. An error takes the place of a commit's success.
func (s *session) keepAttempts(ctx context.Context, list []executor.Commit, errs []error) []error {
	if s.attempts == nil {
		return errs
	}
	var changes []attempts.Change
	for i := range list {
		if errs == nil || errs[i] == nil {
			changes = s.attemptsOf(changes, &list[i])
		}
	}
	if len(changes) == 0 {
		return errs
	}
	err := s.attempts.Save(ctx, changes)
	if err == nil {
		return errs
	}
	err = fmt.Errorf("the attempts of records cannot be kept: %w", err)
	if errs == nil {
		errs = make([]error, len(list))
	}
	for i := range errs {
		if errs[i] == nil {
			errs[i] = err
		}
	}
	return errs
}

// attemptsOf appends what a commit changes: its retries take the place of all that is kept of its key ranges.
func (s *session) attemptsOf(changes []attempts.Change, c *executor.Commit) []attempts.Change {
	if s.coop != nil {
		return s.attemptsOfAcquired(changes, c)
	}
	kept := s.attempts.Of(c.TP.Topic, c.TP.Partition)
	if len(kept) == 0 && len(c.Retries) == 0 {
		return changes
	}
	s.mu.Lock()
	p := s.parts[c.TP]
	if p == nil {
		s.mu.Unlock()
		return changes
	}
	base, id := p.base, p.id
	s.mu.Unlock()
	for _, r := range c.Retries {
		delete(kept, r.Offset)
		changes = append(changes, attempts.Change{ID: attempts.ID{Topic: c.TP.Topic, Partition: c.TP.Partition, Offset: r.Offset},
			State: &attempts.State{Attempts: r.Attempts, NextAt: r.NextAt, Final: r.Final, Cause: r.Cause, Hash: r.Hash, Keyed: r.Keyed, TopicID: id}})
	}
	for offset, state := range kept {
		r := executor.Retry{Offset: offset, Hash: state.Hash, Keyed: state.Keyed}
		if state.TopicID != id || c.Keys.Contains(r.Position(base)) {
			changes = append(changes, attempts.Change{ID: attempts.ID{Topic: c.TP.Topic, Partition: c.TP.Partition, Offset: offset}})
		}
	}
	return changes
}

// attemptsOfAcquired is attemptsOf for an acquired range.
func (s *session) attemptsOfAcquired(changes []attempts.Change, c *executor.Commit) []attempts.Change {
	a := s.coop.of(c.TP)
	if a == nil {
		return changes
	}
	kept := s.attempts.Of(a.tp.Topic, a.tp.Partition)
	id := func(offset int64) attempts.ID {
		return attempts.ID{Topic: a.tp.Topic, Partition: a.tp.Partition, Offset: offset}
	}
	for _, r := range c.Retries {
		delete(kept, r.Offset)
		changes = append(changes, attempts.Change{ID: id(r.Offset), State: &attempts.State{Attempts: r.Attempts, NextAt: r.NextAt, Final: r.Final, Cause: r.Cause, Hash: r.Hash, Keyed: r.Keyed, TopicID: a.id}})
	}
	for offset := range kept {
		if a.first <= offset && offset <= a.last {
			changes = append(changes, attempts.Change{ID: id(offset)})
		}
	}
	return changes
}
