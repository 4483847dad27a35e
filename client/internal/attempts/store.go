package attempts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/client/internal/fetcher"
	"github.com/tandem-kafka/tandem/client/internal/produce"
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

	work       chan struct{} // holds a value while nobody asks or writes the topic; taken before mu
	partitions int32         // of the topic, 0: not known
	partition  int32         // the group's
	next       int64         // to be read
	refused    bool          // there are no rights

	mu     sync.Mutex
	states map[ID]State
	marks  map[MarkID]Mark
	doubt  map[ID]struct{} // what was written last of these may have come to the topic or not: states has what is there if it has, and it is written again in any case
}

// New returns a Store that knows nothing yet.
func New(client *kgo.Client, reader *fetcher.Fetcher, group string, log *slog.Logger) *Store {
	s := &Store{client: client, reader: reader, group: group, log: log, work: make(chan struct{}, 1), states: map[ID]State{}, marks: map[MarkID]Mark{}, doubt: map[ID]struct{}{}}
	s.work <- struct{}{}
	return s
}

// begin takes s.work, and returns what gives it back.
func (s *Store) begin(ctx context.Context) (end func(), err error) {
	select {
	case <-s.work:
		return func() { s.work <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// CatchUp returns when everything that was in the topic at the time of the call is known here.
func (s *Store) CatchUp(ctx context.Context) error {
	end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if s.refused {
		return nil
	}
	err = s.catchUp(ctx)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		s.partitions = 0
		s.forget()
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
	if err := s.find(ctx); err != nil {
		return err
	}
	end, err := s.offset(ctx, latest)
	if err != nil {
		return err
	}
	if s.next > end { // the topic was made anew
		s.forget()
	}
	if s.next < end {
		start, err := s.offset(ctx, earliest)
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

// forget forgets everything. s.work is held.
func (s *Store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = 0
	clear(s.states)
	clear(s.marks)
	clear(s.doubt)
}

func (s *Store) apply(r *kgo.Record) {
	k, state, mark, err := decode(r)
	if err != nil {
		s.log.Warn("a record of retries cannot be read; it is skipped", "topic", TopicName, "partition", r.Partition, "offset", r.Offset, "error", err)
		return
	}
	switch {
	case k.Group != s.group:
	case k.Session != "":
		s.setMark(MarkID{k.Topic, k.Partition, k.Session}, mark)
	default:
		s.set(ID{k.Topic, k.Partition, k.Offset}, state)
	}
}

func (s *Store) set(id ID, state *State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state == nil {
		delete(s.states, id)
	} else {
		s.states[id] = *state
	}
}

func (s *Store) setMark(id MarkID, mark *Mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mark == nil {
		delete(s.marks, id)
	} else {
		s.marks[id] = *mark
	}
}

// find finds the group's partition. It asks past kgo's cache, which believes for seconds that a new topic is not there.
func (s *Store) find(ctx context.Context) error {
	if s.partitions > 0 {
		return nil
	}
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(TopicName)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, s.client)
	if err != nil {
		return err
	}
	if len(resp.Topics) != 1 {
		return kerr.UnknownTopicOrPartition
	}
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		return err
	}
	if len(resp.Topics[0].Partitions) == 0 {
		return kerr.UnknownTopicOrPartition
	}
	s.partitions = int32(len(resp.Topics[0].Partitions))
	s.partition = int32(keyrange.Hash([]byte(s.group)) % uint32(s.partitions))
	return nil
}

// The timestamps that ask for the first offset and for the end.
const (
	earliest = -2
	latest   = -1
)

// offset asks for an offset of the group's partition.
func (s *Store) offset(ctx context.Context, timestamp int64) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = s.partition, timestamp, -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic, rt.Partitions = TopicName, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, s.client)
	if err != nil {
		return 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, kerr.UnknownTopicOrPartition
	}
	p := &resp.Topics[0].Partitions[0]
	return p.Offset, kerr.ErrorForCode(p.ErrorCode)
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

// Save makes changes durable (acks=all). Those that change nothing cost nothing. After an error each of them may be durable or not, and those that are saved next are after it.
func (s *Store) Save(ctx context.Context, changes []Change) error {
	end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	news := s.news(changes)
	err = s.write(ctx, len(news), func(i int) (*kgo.Record, error) {
		c := &news[i]
		return encode(s.partition, key{Group: s.group, Topic: c.Topic, Partition: c.Partition, Offset: c.Offset}, c.State)
	})
	for _, c := range news {
		s.saved(c, err == nil)
	}
	return err
}

// saved notes that a change was written; not sure: or it may be, so that the topic may have the state before or the one after: it must not be forgotten that it has one.
func (s *Store) saved(c Change, sure bool) {
	if sure || c.State != nil {
		s.set(c.ID, c.State)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sure {
		delete(s.doubt, c.ID)
	} else {
		s.doubt[c.ID] = struct{}{}
	}
}

// news are the changes that change something.
func (s *Store) news(changes []Change) (news []Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		if c.State != nil {
			c.Cause = c.Cause[:min(len(c.Cause), maxCause)]
		}
		_, doubted := s.doubt[c.ID]
		if old, ok := s.states[c.ID]; doubted || c.State == nil && ok || c.State != nil && old != *c.State {
			news = append(news, c)
		}
	}
	return news
}

// MarkChange is a new mark; nil: none.
type MarkChange struct {
	MarkID
	*Mark
}

// SaveMarks makes marks durable (acks=all). After an error each of them may be durable or not, and is kept in mind.
func (s *Store) SaveMarks(ctx context.Context, changes []MarkChange) error {
	end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	err = s.write(ctx, len(changes), func(i int) (*kgo.Record, error) {
		c := &changes[i]
		return encode(s.partition, key{Group: s.group, Topic: c.Topic, Partition: c.Partition, Session: c.Session}, c.Mark)
	})
	for _, c := range changes {
		if err == nil || c.Mark != nil {
			s.setMark(c.MarkID, c.Mark)
		}
	}
	return err
}

// Marks returns the marks of a partition, by session.
func (s *Store) Marks(topic string, partition int32) map[string]Mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := map[string]Mark{}
	for id, m := range s.marks {
		if id.Topic == topic && id.Partition == partition {
			list[id.Session] = m
		}
	}
	return list
}

// write writes n records. s.work is held.
func (s *Store) write(ctx context.Context, n int, record func(i int) (*kgo.Record, error)) error {
	if n == 0 || s.refused {
		return nil
	}
	if err := s.ensure(ctx); err != nil {
		return s.checked(err)
	}
	if s.refused {
		return nil
	}
	records := make([]*kgo.Record, n)
	for i := range records {
		r, err := record(i)
		if err != nil {
			return err
		}
		records[i] = r
	}
	err := produce.Sync(ctx, s.client, records...)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		s.partitions = 0 // it was deleted
	}
	return s.checked(err)
}

// ensure makes the topic where it is missing.
func (s *Store) ensure(ctx context.Context) error {
	err := s.find(ctx)
	if !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return err
	}
	compact := "compact"
	_, err = kadm.NewClient(s.client).CreateTopic(ctx, newPartitions, -1, map[string]*string{"cleanup.policy": &compact}, TopicName)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return err
	}
	for range 50 { // until it is known to the brokers, and to the client
		if err = s.find(ctx); !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return err
}
