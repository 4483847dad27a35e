package commits

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/client/internal/done"
	"github.com/tandem-kafka/tandem/client/internal/offsets"
	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
)

// Committed is what a group has committed of a Partition.
type Committed struct {
	Partition
	Offset      int64 // the stable offset, with Plain the committed one: everything below it is done. -1: nothing was committed
	LeaderEpoch int32 // -1: not known
	Metadata    string
	// Above is what is done of the Partition's key ranges above Offset, for their Base.
	Above []done.Committed
	Err   error // of this partition alone, such as TOPIC_AUTHORIZATION_FAILED
}

// Has reports whether the record of an offset, at this position of the key axis, is committed.
func (c *Committed) Has(position uint32, offset int64) bool {
	if offset < c.Offset {
		return true
	}
	for _, a := range c.Above {
		if a.Keys.Contains(position) && slices.ContainsFunc(a.Ranges, func(r offsets.Range) bool { return r.Contains(offset) }) {
			return true
		}
	}
	return false
}

// Fetch returns what the group has committed of partitions, in their order. It waits for transactions that are undecided. Errors that pass are tried again until ctx ends.
// The error is ErrUnsupported if the coordinator does not know individual commits and not all partitions are Plain. All
// partitions of a topic that are not Plain have to have one Base; where it is 0 the answer names it.
func (c *Commits) Fetch(ctx context.Context, parts []Partition) ([]Committed, error) {
	list := make([]Committed, len(parts))
	for i, p := range parts {
		list[i] = Committed{Partition: p, Offset: -1, LeaderEpoch: -1}
	}
	if len(parts) == 0 {
		return list, nil
	}
	q, err := question(c.group, parts)
	if err != nil {
		return nil, err
	}
	err = again(ctx, func() error {
		at, err := c.coordinator(ctx)
		if err == nil && q.additions && !at.features.IndividualCommit {
			c.lost(ctx, at, kerr.NotCoordinator)
			err = ErrUnsupported
		}
		if err != nil {
			return err
		}
		answer, err := c.ask(ctx, at, q)
		if err == nil {
			err = answer.into(list)
		}
		c.lost(ctx, at, err)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// asking is an OffsetFetch to be, in the form of v8+.
type asking struct {
	topics    []kmsg.OffsetFetchRequestGroupTopic
	additions bool
	group     string
}

// question puts together what is asked for: each topic once with the additions, with all key ranges that anybody wants, and once without.
func question(group string, parts []Partition) (*asking, error) {
	type kind struct {
		topic string
		plain bool
	}
	q := &asking{group: group}
	index := make(map[kind]int)
	keys := make(map[kind][]keyrange.Range)
	base := make(map[kind]int32)
	for _, p := range parts {
		k := kind{p.Topic, p.Plain}
		i, ok := index[k]
		if !ok {
			i = len(q.topics)
			index[k], base[k] = i, p.Base
			t := kmsg.NewOffsetFetchRequestGroupTopic()
			t.Topic = p.Topic
			q.topics = append(q.topics, t)
		}
		if t := &q.topics[i]; !slices.Contains(t.Partitions, p.Partition) {
			t.Partitions = append(t.Partitions, p.Partition)
		}
		if p.Plain {
			continue
		}
		if base[k] != p.Base {
			return nil, fmt.Errorf("%w: topic %q with the bases %d and %d", errInvalid, p.Topic, base[k], p.Base)
		}
		q.additions = true
		if len(p.Keys) == 0 {
			keys[k] = append(keys[k], keyrange.Full)
		}
		keys[k] = append(keys[k], p.Keys...)
	}
	for k, i := range index {
		if k.plain {
			continue
		}
		set := keyrange.Normalize(keys[k])
		if len(set) > tandemmsg.MaxKeyRanges {
			set = keyrange.Set{keyrange.Full}
		}
		err := tandemmsg.SetKeyRanges(&q.topics[i], set)
		if err == nil {
			err = tandemmsg.SetKeyAxisBase(&q.topics[i], base[k])
		}
		if err != nil {
			return nil, fmt.Errorf("%w: topic %q: %v", errInvalid, k.topic, err)
		}
	}
	return q, nil
}

// answer are the partitions of an OffsetFetch answer, with those of topics that were asked for twice in both.
type answer map[string]map[int32]*kmsg.OffsetFetchResponseGroupTopicPartition

// ask sends the question: what is asked for with additions in one request, the rest in another, since they may be of one topic.
func (c *Commits) ask(ctx context.Context, at *coordinator, q *asking) (answers, error) {
	var all answers
	for plain := range all {
		var topics []kmsg.OffsetFetchRequestGroupTopic
		for _, t := range q.topics {
			if (t.UnknownTags.Len() == 0) == (plain == 1) {
				topics = append(topics, t)
			}
		}
		if len(topics) == 0 {
			continue
		}
		req := newFetchRequest(q.group, topics)
		kresp, err := c.client.Broker(int(at.id)).Request(ctx, req)
		if err != nil {
			return all, err
		}
		if plain == 0 && req.Version < firstTagged {
			return all, ErrUnsupported
		}
		if all[plain], err = read(kresp.(*kmsg.OffsetFetchResponse)); err != nil {
			return all, err
		}
	}
	return all, nil
}

// answers are those to what was asked for with additions, and without.
type answers [2]answer

// into fills in the list. It returns an error if something has to be asked for again.
func (a answers) into(list []Committed) error {
	for i := range list {
		if err := a.one(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

func (a answers) one(c *Committed) error {
	plain := 0
	if c.Plain {
		plain = 1
	}
	if a[plain] == nil {
		return nil // the group does not exist
	}
	p := a[plain][c.Topic][c.Partition.Partition]
	if p == nil {
		return errMissing
	}
	if c.Err = kerr.ErrorForCode(p.ErrorCode); c.Err != nil {
		if Classify(c.Err) == Retriable {
			return c.Err
		}
		return nil
	}
	c.Offset, c.LeaderEpoch, c.Metadata, c.Above = p.Offset, p.LeaderEpoch, "", nil
	if p.Metadata != nil {
		c.Metadata = *p.Metadata
	}
	if c.Plain {
		return nil
	}
	of, err := tandemmsg.CommittedRangeOffsets(p)
	if err != nil {
		return fmt.Errorf("%w: the answer: %v", errInvalid, err)
	}
	if c.Base == 0 {
		if c.Base, err = tandemmsg.KeyAxisBase(p); err != nil {
			return fmt.Errorf("%w: the answer: %v", errInvalid, err)
		}
	}
	c.Above = clip(of, c.Keys)
	return nil
}

// clip returns what is committed of keys.
func clip(of []tandemmsg.KeyRangeOffsets, keys keyrange.Set) (list []done.Committed) {
	if len(keys) == 0 {
		keys = keyrange.Set{keyrange.Full}
	}
	for i := range of {
		var ranges []offsets.Range
		for _, k := range keyrange.AppendIntersect(nil, keys, keyrange.Set{of[i].Keys}) {
			if ranges == nil {
				ranges = make([]offsets.Range, len(of[i].Offsets))
				for j, o := range of[i].Offsets {
					ranges[j] = offsets.Range{First: o.First, Last: o.Last}
				}
			}
			list = append(list, done.Committed{Keys: k, Ranges: ranges})
		}
	}
	return list
}
