package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tandem-kafka/tandem/client/internal/assignor"
	"github.com/tandem-kafka/tandem/client/internal/commits"
	"github.com/tandem-kafka/tandem/client/internal/executor"
	"github.com/tandem-kafka/tandem/keyrange"
)

// gainTimeout bounds how long the questions take that come before work on new key ranges.
const gainTimeout = 30 * time.Second

// gain begins to work on key ranges.
func (s *session) gain(ctx context.Context, ranges assignor.Ranges) error {
	ctx, cancel := context.WithTimeout(ctx, gainTimeout)
	defer cancel()
	topics, err := s.findTopics(ctx, slices.Sorted(maps.Keys(ranges)))
	if err != nil {
		return err
	}
	for topic, partitions := range ranges {
		for _, part := range partitions {
			if part.Base > 0 { // the leader's, so that all members mean the same keys
				topics[topic] = topicInfo{base: part.Base, id: topics[topic].id}
			}
		}
	}
	var parts []commits.Partition
	s.eachPart(ranges, func(tp executor.TP, keys keyrange.Set) {
		p := commits.Partition{Topic: tp.Topic, Partition: tp.Partition, Keys: keys, Base: topics[tp.Topic].base, Plain: !s.individual()}
		if whole(ranges[tp.Topic]) {
			p.Base = 0 // the gateway knows it: a view has another one than its number of partitions
		}
		parts = append(parts, p)
	})
	list, err := s.committed(ctx, parts)
	if err != nil {
		return fmt.Errorf("client: what group %s has done cannot be read: %w", s.cfg.group, err)
	}
	for i := range list {
		if c := &list[i]; c.Base == 0 {
			c.Base = topics[c.Topic].base
		}
	}
	if s.attempts != nil {
		if err := s.attempts.CatchUp(ctx); err != nil {
			s.log.Warn("the attempts of records that are not done cannot be read; they count from what is known", "error", err)
		}
	}
	s.mu.Lock()
	for i := range list {
		c := &list[i]
		p := s.part(tpOf(c.Topic, c.Partition.Partition))
		p.base, p.id, p.keyed = c.Base, topics[c.Topic].id, s.features.KeyRangeFetch && !c.Keys.Covers(keyrange.Full)
	}
	s.mu.Unlock()
	guard := s.mark(ctx, ranges)
	for i := range list {
		c := &list[i]
		if c.Err != nil {
			return fmt.Errorf("client: what group %s has done of topic %s, partition %d cannot be read: %w", s.cfg.group, c.Topic, c.Partition.Partition, c.Err)
		}
		tp := tpOf(c.Topic, c.Partition.Partition)
		a := executor.Assignment{Keys: c.Keys, Base: c.Base, Start: c.Offset, Committed: c.Above, Retries: s.retriesOf(tp, c.Keys, c.Base, topics[c.Topic].id), Guard: guard[tp]}
		if c.Offset < 0 {
			s.findStart(tp, a)
			continue
		}
		if err := s.take(tp, a); err != nil {
			return err
		}
	}
	return nil
}

// whole reports whether all parts of a topic are whole partitions.
func whole(partitions map[int32]assignor.Part) bool {
	for _, part := range partitions {
		if !part.Whole() {
			return false
		}
	}
	return true
}

// committed is what the group has committed.
func (s *session) committed(ctx context.Context, parts []commits.Partition) ([]commits.Committed, error) {
	if s.commits != nil {
		list, err := s.commits.Fetch(ctx, parts)
		if !errors.Is(err, kerr.GroupIDNotFound) {
			return list, err
		}
	}
	list := make([]commits.Committed, len(parts))
	for i, p := range parts {
		list[i] = commits.Committed{Partition: p, Offset: -1}
	}
	return list, nil
}

// take begins to work on key ranges whose start is known.
func (s *session) take(tp executor.TP, a executor.Assignment) error {
	if err := s.runner.Assign(tp, a); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	s.settle(tp)
	s.log.Debug("begin with key ranges", "topic", tp.Topic, "partition", tp.Partition, "keys", a.Keys, "offset", a.Start, "committed_above", len(a.Committed))
	return nil
}

// topicInfo is what is to be known of a topic.
type topicInfo struct {
	base int32 // of key positions: how many partitions it has
	id   string
}

// findTopics finds topics. Errors that may pass are waited out.
func (s *session) findTopics(ctx context.Context, names []string) (map[string]topicInfo, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		topics := map[string]topicInfo{}
		details, err := kadm.NewClient(s.data[0]).ListTopicsWithInternal(ctx, names...)
		for _, name := range names {
			d := details[name]
			if err == nil {
				err = d.Err
			}
			if err == nil && len(d.Partitions) == 0 {
				err = kerr.UnknownTopicOrPartition
			}
			topics[name] = topicInfo{int32(len(d.Partitions)), d.ID.String()}
		}
		if err == nil {
			return topics, nil
		}
		if ctx.Err() != nil || !kerr.IsRetriable(err) && isKafka(err) {
			return nil, fmt.Errorf("client: topics %v cannot be found: %w", names, err)
		}
		pause(ctx, wait)
	}
}
