package upstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DefinitionsTopic is the compacted topic with one partition that holds what
// all gateways of a cluster must agree on: the views, and the ports of brokers
// with large ids.
const DefinitionsTopic = "__tandem_views"

// Record is one record of the definitions topic; a nil Value is a tombstone.
type Record struct {
	Offset     int64
	Key, Value []byte
}

// Definitions reads and writes the definitions topic. CatchUp and Append may be
// called from any goroutine.
type Definitions struct {
	c  *Cluster
	mu sync.Mutex // one reader at a time, so that records are applied in order

	topicID [16]byte
	next    int64
}

// Definitions returns the reader and writer of the definitions topic.
func (c *Cluster) Definitions() *Definitions { return &Definitions{c: c} }

// CatchUp reads everything between the last call and the topic's end of this
// moment, and gives it to apply in log order. A topic that does not exist holds
// nothing; one that may not be described is an error. reset tells apply's owner
// that the topic was deleted, made anew or cut short: what is applied from then
// on begins at its start.
func (d *Definitions) CatchUp(ctx context.Context, reset func(), apply func(Record)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	topics, denied, err := d.c.topics(ctx, []string{DefinitionsTopic})
	if err != nil {
		return err
	}
	if len(denied) > 0 {
		return fmt.Errorf("%s: %w: give the gateway's user READ, WRITE and DESCRIBE on it", DefinitionsTopic, kerr.TopicAuthorizationFailed)
	}
	restart := func() {
		if d.next > 0 {
			d.next = 0
			reset()
		}
	}
	t, ok := topics[DefinitionsTopic]
	if !ok || t.ID != d.topicID {
		restart()
		d.topicID = t.ID
		if !ok {
			return nil
		}
	}
	ends, err := d.c.admin.ListEndOffsets(ctx, DefinitionsTopic)
	if err != nil {
		return err
	}
	end, ok := ends.Lookup(DefinitionsTopic, 0)
	if !ok {
		return fmt.Errorf("%s has no partition 0", DefinitionsTopic)
	}
	if end.Err != nil {
		return fmt.Errorf("end of %s: %w", DefinitionsTopic, end.Err)
	}
	if end.Offset < d.next {
		restart() // its leader lost records
	}
	for d.next < end.Offset {
		if err := d.read(ctx, t, apply); err != nil {
			return err
		}
	}
	return nil
}

// read fetches once and applies what came.
func (d *Definitions) read(ctx context.Context, t Topic, apply func(Record)) error {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 500, 1, 4<<20
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic, ft.TopicID = t.Name, t.ID
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.FetchOffset, fp.PartitionMaxBytes, fp.CurrentLeaderEpoch = d.next, 4<<20, -1
	ft.Partitions = append(ft.Partitions, fp)
	req.Topics = append(req.Topics, ft)
	if len(t.Leaders) == 0 || t.Leaders[0] < 0 {
		return fmt.Errorf("%s: %w", DefinitionsTopic, kerr.LeaderNotAvailable)
	}
	kresp, err := d.c.client.Broker(int(t.Leaders[0])).RetriableRequest(ctx, req)
	if err != nil {
		return err
	}
	resp := kresp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return errors.New("definitions: the broker's answer does not name the partition asked for")
	}
	p := &resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		if err == kerr.OffsetOutOfRange && p.LogStartOffset > d.next {
			d.next = p.LogStartOffset
			return nil
		}
		return fmt.Errorf("reading %s: %w", DefinitionsTopic, err)
	}
	part, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: d.next, Topic: t.Name}, p, kgo.DefaultDecompressor(), nil)
	if part.Err != nil {
		return fmt.Errorf("reading %s: %w", DefinitionsTopic, part.Err)
	}
	for _, r := range part.Records {
		apply(Record{Offset: r.Offset, Key: r.Key, Value: r.Value})
	}
	if next <= d.next {
		return fmt.Errorf("reading %s: no progress at offset %d", DefinitionsTopic, d.next)
	}
	d.next = next
	return nil
}

// Append writes one record (a nil value deletes the key) and waits until all
// in-sync replicas have it. The topic is made where it is missing.
func (d *Definitions) Append(ctx context.Context, key, value []byte) error {
	topics, err := d.c.Topics(ctx, DefinitionsTopic)
	if err != nil {
		return err
	}
	if _, ok := topics[DefinitionsTopic]; !ok {
		if err := d.create(ctx); err != nil {
			return fmt.Errorf("creating %s: %w", DefinitionsTopic, err)
		}
	}
	r := &kgo.Record{Topic: DefinitionsTopic, Key: key, Value: value}
	for attempt := 0; ; attempt++ {
		err := d.c.client.ProduceSync(ctx, r).FirstErr()
		if err == nil {
			return nil
		}
		if attempt == 3 || !errors.Is(err, kerr.UnknownTopicID) {
			return fmt.Errorf("writing %s: %w", DefinitionsTopic, err)
		}
		// The topic was made anew: the producer knows the old one's id only.
		d.c.client.PurgeTopicsFromProducing(DefinitionsTopic)
		r = &kgo.Record{Topic: DefinitionsTopic, Key: key, Value: value}
	}
}

// create makes the definitions topic. Nothing works for long without it, so it
// gets three replicas where there are as many brokers, and then survives the
// loss of one. Gateways have a day to repeat what wins before compaction could
// leave what lost (see view.Log), and a week to see a tombstone.
func (d *Definitions) create(ctx context.Context) error {
	d.c.mu.RLock()
	replicas := min(3, d.c.live)
	d.c.mu.RUnlock()
	inSync := max(1, replicas-1)
	configs := map[string]*string{
		"cleanup.policy":        kadm.StringPtr("compact"),
		"min.compaction.lag.ms": kadm.StringPtr("86400000"),
		"delete.retention.ms":   kadm.StringPtr("604800000"),
		"min.insync.replicas":   kadm.StringPtr(strconv.Itoa(inSync)),
	}
	resp, err := d.c.admin.CreateTopic(ctx, 1, int16(replicas), configs, DefinitionsTopic)
	if err == nil {
		err = resp.Err
	}
	if err == kerr.TopicAlreadyExists {
		return nil
	}
	return err
}
