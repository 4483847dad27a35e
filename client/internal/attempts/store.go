package attempts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client/internal/fetcher"
	"github.com/tandem-kafka/tandem/keyrange"
)

// newPartitions is how many partitions the topic is made with.
const newPartitions = 8

// Store is what one process knows of one group's records. Its methods may be called by several goroutines at once.
type Store struct {
	client *kgo.Client // must produce to the partition that a record names (kgo.ManualPartitioner)
	reader *fetcher.Fetcher
	group  string
	log    *slog.Logger

	mu         sync.Mutex // held while the topic is asked and written
	partitions int32      // of the topic, 0: not known
	partition  int32      // the group's
	next       int64      // to be read
	refused    bool       // there are no rights
	states     map[ID]State
}

// New returns a Store that knows nothing yet.
func New(client *kgo.Client, reader *fetcher.Fetcher, group string, log *slog.Logger) *Store {
	return &Store{client: client, reader: reader, group: group, log: log, states: map[ID]State{}}
}

// CatchUp returns when everything that was in the topic at the time of the call is known here.
func (s *Store) CatchUp(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused {
		return nil
	}
	err := s.catchUp(ctx)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		s.partitions, s.next = 0, 0
		clear(s.states)
		return nil
	}
	return s.checked(err)
}

// checked notes that there are no rights.
func (s *Store) checked(err error) error {
	for _, e := range []error{kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.PolicyViolation, kerr.InvalidReplicationFactor} {
		if errors.Is(err, e) {
			s.refused = true
			s.log.Warn("attempts and the times of next attempts do not survive this process: the topic for them cannot be used; it needs the rights to create, write and read it",
				"topic", TopicName, "error", err)
			return nil
		}
	}
	return err
}

func (s *Store) catchUp(ctx context.Context) error {
	admin := kadm.NewClient(s.client)
	if err := s.find(ctx, admin); err != nil {
		return err
	}
	end, err := at(admin.ListEndOffsets(ctx, TopicName))(s.partition)
	if err != nil {
		return err
	}
	if s.next > end { // the topic was made anew
		s.next = 0
		clear(s.states)
	}
	if s.next < end {
		start, err := at(admin.ListStartOffsets(ctx, TopicName))(s.partition)
		if err != nil {
			return err
		}
		s.next = max(s.next, start)
	}
	for s.next < end {
		b, err := s.reader.Read(ctx, fetcher.Stream{Topic: TopicName, Partition: s.partition, Offset: s.next})
		if err != nil {
			return fmt.Errorf("reading %s: %w", TopicName, err)
		}
		for _, r := range b.Records {
			s.apply(r)
		}
		s.next = max(s.next, b.Next)
	}
	return nil
}

func (s *Store) apply(r *kgo.Record) {
	k, state, err := decode(r)
	if err != nil {
		s.log.Warn("a record of retries cannot be read; it is skipped", "topic", TopicName, "partition", r.Partition, "offset", r.Offset, "error", err)
		return
	}
	if k.Group != s.group {
		return
	}
	id := ID{k.Topic, k.Partition, k.Offset}
	if state == nil {
		delete(s.states, id)
	} else {
		s.states[id] = *state
	}
}

// find finds the group's partition.
func (s *Store) find(ctx context.Context, admin *kadm.Client) error {
	if s.partitions > 0 {
		return nil
	}
	topics, err := admin.ListTopics(ctx, TopicName)
	if err != nil {
		return err
	}
	d := topics[TopicName]
	if d.Err != nil {
		return d.Err
	}
	if len(d.Partitions) == 0 {
		return kerr.UnknownTopicOrPartition
	}
	s.partitions = int32(len(d.Partitions))
	s.partition = int32(keyrange.Hash([]byte(s.group)) % uint32(s.partitions))
	return nil
}

func at(list kadm.ListedOffsets, err error) func(partition int32) (int64, error) {
	return func(partition int32) (int64, error) {
		if err != nil {
			return 0, err
		}
		o, ok := list.Lookup(TopicName, partition)
		if !ok {
			return 0, kerr.UnknownTopicOrPartition
		}
		return o.Offset, o.Err
	}
}

// Of returns what is kept of a partition's records, by offset.
func (s *Store) Of(topic string, partition int32) map[int64]State {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := map[int64]State{}
	for id, state := range s.states {
		if id.Topic == topic && id.Partition == partition {
			list[id.Offset] = state
		}
	}
	return list
}

// Change is a new state of a record; nil: nothing is to be kept of it any more.
type Change struct {
	ID
	*State
}

// Save makes changes durable (acks=all). Those that change nothing cost nothing.
func (s *Store) Save(ctx context.Context, changes []Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var news []Change
	for _, c := range changes {
		if old, ok := s.states[c.ID]; c.State == nil && ok || c.State != nil && old != *c.State {
			news = append(news, c)
		}
	}
	if len(news) == 0 {
		return nil
	}
	if !s.refused {
		if err := s.checked(s.write(ctx, news)); err != nil {
			return err
		}
	}
	for _, c := range news {
		if c.State == nil {
			delete(s.states, c.ID)
		} else {
			s.states[c.ID] = *c.State
		}
	}
	return nil
}

func (s *Store) write(ctx context.Context, news []Change) error {
	if err := s.ensure(ctx); err != nil {
		return err
	}
	records := make([]*kgo.Record, len(news))
	for i, c := range news {
		r, err := encode(s.group, s.partition, c.ID, c.State)
		if err != nil {
			return err
		}
		records[i] = r
	}
	err := s.client.ProduceSync(ctx, records...).FirstErr()
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		s.partitions = 0 // it was deleted
	}
	return err
}

// ensure makes the topic where it is missing.
func (s *Store) ensure(ctx context.Context) error {
	admin := kadm.NewClient(s.client)
	err := s.find(ctx, admin)
	if !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return err
	}
	compact := "compact"
	_, err = admin.CreateTopic(ctx, newPartitions, -1, map[string]*string{"cleanup.policy": &compact}, TopicName)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return err
	}
	return s.find(ctx, admin)
}
