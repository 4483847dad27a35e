package client

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client/internal/assignor"
	"github.com/tandem-kafka/tandem/client/internal/balancer"
	"github.com/tandem-kafka/tandem/client/internal/commits"
	"github.com/tandem-kafka/tandem/client/internal/executor"
	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
)

// join joins the group, or takes what Assign says.
func (s *session) join(ctx context.Context, opts []kgo.Opt) error {
	if s.cfg.standalone() {
		return s.gain(ctx, s.cfg.parts())
	}
	if s.coop != nil {
		return s.joinByRecord(opts)
	}
	var err error
	s.balancer, err = balancer.New(balancer.Config{
		Share: s.cfg.share && s.features.IndividualCommit && s.features.KeyRangeFetch, Cooperative: s.cfg.cooperative, Sharing: s.sharing,
		Revoked: s.onRevoked, Assigned: s.onAssigned, Lost: s.onLost, Doubted: s.onDoubted, Kept: s.onKept, Log: s.log,
	})
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	opts = append(opts, kgo.ConsumerGroup(s.cfg.group), kgo.ConsumeTopics(s.cfg.topics...), kgo.DisableAutoCommit())
	opts = append(opts, s.balancer.Opts()...)
	// Its callbacks may come before NewClient returns.
	s.mu.Lock()
	defer s.mu.Unlock()
	if err = s.enter(opts); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	s.joinedBy.Store(s.group)
	s.group.PauseFetchTopics(s.cfg.topics...) // the fetcher reads, it is in the group only
	s.work.Go(s.watchGroup)
	return nil
}

// joined waits until join has made the clients that callbacks need.
func (s *session) joined() {
	s.mu.Lock()
	defer s.mu.Unlock()
}

// member is who commits.
func (s *session) member() commits.Member {
	if s.cfg.standalone() {
		return commits.NoMember
	}
	id, generation := s.group.GroupMetadata()
	m := commits.Member{ID: id, Generation: generation}
	if v := s.group.OptValues(kgo.InstanceID); len(v) == 2 && v[1] == true {
		if name, ok := v[0].(string); ok {
			m.InstanceID = &name
		}
	}
	return m
}

// fetchMember is who fetches; zero: no member. Locks are held when it is called.
func (s *session) fetchMember() (m tandemmsg.Member) {
	if c := s.joinedBy.Load(); c != nil {
		if id, generation := c.GroupMetadata(); id != "" && generation >= 0 {
			m = tandemmsg.Member{Group: s.cfg.group, ID: id, Generation: generation}
		}
	}
	return m
}

// watchGroup looks for errors of the member: kgo gives them to who polls, and there is nothing else to poll.
func (s *session) watchGroup() {
	for s.ctx.Err() == nil {
		fetches := s.group.PollFetches(s.ctx)
		if fetches.IsClientClosed() {
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			var session *kgo.ErrGroupSession
			if s.ctx.Err() != nil || !errors.As(err, &session) {
				return
			}
			if refused(err) {
				if errors.Is(err, kerr.InconsistentGroupProtocol) {
					err = fmt.Errorf("%w Members of a group all share by record (ShareByRecord, --no-order), or none does", err)
				}
				s.fail(fmt.Errorf("client: group %s: %w", s.cfg.group, err))
				return
			}
			s.log.Warn("the member has to join its group again", "error", err)
		})
	}
}

// refused reports whether the coordinator does not want this member, whatever it does.
func refused(err error) bool {
	for _, e := range []error{kerr.GroupAuthorizationFailed, kerr.InconsistentGroupProtocol, kerr.FencedInstanceID, kerr.InvalidGroupID, kerr.InvalidSessionTimeout,
		kerr.GroupMaxSizeReached, kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (s *session) onAssigned(ctx context.Context, _ *kgo.Client, ranges assignor.Ranges) {
	s.joined()
	if err := s.gain(ctx, ranges); err != nil {
		if ctx.Err() == nil {
			s.fail(err)
		}
		return
	}
	if s.cfg.onAssigned != nil {
		s.cfg.onAssigned(ctx, public(ranges))
	}
}

func (s *session) onRevoked(ctx context.Context, _ *kgo.Client, ranges assignor.Ranges) {
	s.joined()
	var work sync.WaitGroup
	again := assignor.Ranges{}
	s.eachPart(ranges, func(tp executor.TP, keys keyrange.Set) {
		if base := ranges[tp.Topic][tp.Partition].Base; s.otherBase(tp, base) {
			// A part of a whole partition goes, whose positions are of another base than those it is worked on with.
			has, _ := s.balancer.Ranges()
			rest := keyrange.AppendSubtract(nil, has.Set(tp.Topic, tp.Partition), keys)
			again.Put(tp.Topic, tp.Partition, rest, base)
			keys = keyrange.Set{keyrange.Full}
		}
		work.Go(func() { s.giveUp(ctx, tp, keys) })
	})
	work.Wait()
	s.unmark(ctx, ranges)
	if len(again) > 0 {
		if err := s.gain(ctx, again); err != nil && ctx.Err() == nil {
			s.fail(err)
		}
	}
	if s.cfg.onRevoked != nil {
		s.cfg.onRevoked(ctx, public(ranges))
	}
}

// otherBase reports whether a partition is worked on with key positions of another base. 0 is none.
func (s *session) otherBase(tp executor.TP, base int32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.parts[tp]
	return base > 0 && p != nil && p.base != base
}

func (s *session) onLost(ctx context.Context, _ *kgo.Client, ranges assignor.Ranges) {
	s.joined()
	s.losses.Add(1)
	s.log.Warn("key ranges are lost: the coordinator does not know this member any more", "ranges", ranges)
	s.eachPart(ranges, func(tp executor.TP, keys keyrange.Set) {
		s.stopReset(tp, keys)
		s.runner.Lost(tp, keys)
		s.settle(tp)
	})
	s.runner.Resume()
	s.unmark(ctx, ranges)
	if s.cfg.onLost != nil {
		s.cfg.onLost(ctx, public(ranges))
	}
}

// onDoubted lets end what runs, and keeps what is done. Nothing begins: if the group has dropped this member, others may have begun with its keys.
func (s *session) onDoubted(_ context.Context, _ *kgo.Client, ranges assignor.Ranges) {
	s.joined()
	s.runner.Suspend()
	s.log.Warn("nothing begins until the member is in its group again: the coordinator cannot be reached, or answers with errors", "ranges", ranges)
}

// onKept goes on with what the member has kept, as if nothing had been: what is done is committed in the new generation.
func (s *session) onKept(_ context.Context, _ *kgo.Client, ranges assignor.Ranges) {
	s.runner.Resume()
	s.log.Info("the member is in its group again, and has kept key ranges", "ranges", ranges)
}

// public are key ranges as users see them.
func public(ranges assignor.Ranges) Ranges {
	out := Ranges{}
	for topic, partitions := range ranges {
		out[topic] = make(map[int32]keyrange.Set, len(partitions))
		for p, part := range partitions {
			out[topic][p] = part.Set()
		}
	}
	return out
}

// parts are what Assign names.
func (c *config) parts() assignor.Ranges {
	out := assignor.Ranges{}
	for topic, partitions := range c.assign {
		for p, keys := range partitions {
			if len(keys) == 0 {
				keys = keyrange.Set{keyrange.Full}
			}
			out.Put(topic, p, keys, 0)
		}
	}
	return out
}

func (s *session) eachPart(ranges assignor.Ranges, f func(tp executor.TP, keys keyrange.Set)) {
	for topic, partitions := range ranges {
		for p := range partitions {
			f(tpOf(topic, p), ranges.Set(topic, p))
		}
	}
}

// giveUp ends the work on key ranges, and commits what is done.
func (s *session) giveUp(ctx context.Context, tp executor.TP, keys keyrange.Set) {
	s.stopReset(tp, keys)
	rel, err := s.runner.Revoke(ctx, tp, keys, s.drain())
	s.settle(tp)
	switch {
	case err != nil:
		s.log.Warn("giving up key ranges was cut short", "topic", tp.Topic, "partition", tp.Partition, "keys", keys, "error", err)
	case len(rel.Running) > 0 && s.handler == nil:
		s.log.Info("polled records were not committed in time; they are done again by others", "topic", tp.Topic, "partition", tp.Partition,
			"records", len(rel.Running), "first", rel.Running[0].Offset)
	case len(rel.Running) > 0:
		s.log.Warn("handlers took longer than the drain timeout; their records are done again by others", "topic", tp.Topic, "partition", tp.Partition,
			"handlers", len(rel.Running), "first", rel.Running[0].Offset, "timeout", s.cfg.drain)
	case rel.Uncommitted:
		s.log.Warn("what was done could not be committed; it is done again by others", "topic", tp.Topic, "partition", tp.Partition)
	}
}
