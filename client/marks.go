package client

import (
	"context"
	"time"

	"github.com/tandem-kafka/tandem/client/internal/assignor"
	"github.com/tandem-kafka/tandem/client/internal/attempts"
	"github.com/tandem-kafka/tandem/client/internal/executor"
	"github.com/tandem-kafka/tandem/keyrange"
)

// A record may kill the process that handles it, again and again, on one member after the other. So each process marks durably what it works on,
// and takes the mark off when it has ended in order. Who gets key ranges with another's mark on them guards their first records: each is handled
// alone, and its attempt is counted before it begins. Without a limit of attempts nothing would come of it, and it is left out.

// markTimeout bounds how long work on key ranges waits for marks. It goes on without.
const markTimeout = 5 * time.Second

// guarded is how many records are guarded after a crash: some more than could have been in the middle.
func (c *config) guarded() int { return max(64, 4*c.concurrency) }

func (s *session) marks() bool { return s.attempts != nil && s.cfg.attempts > 0 }

// mark marks key ranges of partitions as this process's, and returns how many records of each are to be guarded.
func (s *session) mark(ctx context.Context, ranges assignor.Ranges) map[executor.TP]int {
	guard := map[executor.TP]int{}
	if !s.marks() {
		return guard
	}
	var changes []attempts.MarkChange
	s.mu.Lock()
	s.eachPart(ranges, func(tp executor.TP, keys keyrange.Set) {
		p := s.part(tp)
		for session, m := range s.attempts.Marks(tp.Topic, tp.Partition) {
			if session == s.id || m.TopicID == p.id && m.Base == p.base && len(keyrange.AppendIntersect(nil, m.Keys, keys)) == 0 {
				continue
			}
			if m.TopicID == p.id {
				guard[tp] = s.cfg.guarded()
			}
			m.Keys = keyrange.AppendSubtract(nil, m.Keys, keys)
			changes = append(changes, markChange(tp, session, m, m.TopicID == p.id && m.Base == p.base))
		}
		p.marked = keyrange.AppendUnion(nil, p.marked, keys)
		changes = append(changes, markChange(tp, s.id, attempts.Mark{Keys: p.marked, Base: p.base, TopicID: p.id}, true))
	})
	s.mu.Unlock()
	for tp := range guard {
		s.log.Warn("another process ended in the middle of its work; its first records are handled one by one", "topic", tp.Topic, "partition", tp.Partition, "records", guard[tp])
	}
	s.saveMarks(ctx, changes)
	return guard
}

// unmark takes the marks off key ranges on which the work has ended.
func (s *session) unmark(ctx context.Context, ranges assignor.Ranges) {
	if !s.marks() {
		return
	}
	var changes []attempts.MarkChange
	s.mu.Lock()
	s.eachPart(ranges, func(tp executor.TP, keys keyrange.Set) {
		m, ok := s.attempts.Marks(tp.Topic, tp.Partition)[s.id]
		if !ok {
			return
		}
		m.Keys = keyrange.AppendSubtract(nil, m.Keys, keys)
		if p := s.parts[tp]; p != nil {
			p.marked = m.Keys
		}
		changes = append(changes, markChange(tp, s.id, m, true))
	})
	s.mu.Unlock()
	s.saveMarks(ctx, changes)
}

// markChange is a change to a mark; without key ranges, or if it is not to stay, it goes.
func markChange(tp executor.TP, session string, m attempts.Mark, stays bool) attempts.MarkChange {
	c := attempts.MarkChange{MarkID: attempts.MarkID{Topic: tp.Topic, Partition: tp.Partition, Session: session}}
	if stays && len(m.Keys) > 0 {
		c.Mark = &m
	}
	return c
}

func (s *session) saveMarks(ctx context.Context, changes []attempts.MarkChange) {
	if len(changes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	if err := s.attempts.SaveMarks(ctx, changes); err != nil && ctx.Err() == nil {
		s.log.Warn("what this process works on cannot be marked; a record that kills it may not be found", "error", err)
	}
}
