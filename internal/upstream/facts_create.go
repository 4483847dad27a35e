package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetsTopic is Kafka's own topic of committed offsets, the model of the topic
// of individual commits: a group's records are then where its offsets are, with
// the same durability.
const offsetsTopic = "__consumer_offsets"

// offsetsPartitions is Kafka's default of offsets.topic.num.partitions, for
// engines that keep committed offsets in no topic, as the embedded one.
const offsetsPartitions = 50

// copied are the settings that the topic takes from the offsets topic. Small
// segments are compacted, and read again, sooner.
var copied = []string{"min.insync.replicas", "segment.bytes"}

// layout is how a topic is to be made: a replica assignment, or its size.
type layout struct {
	assignment  []kmsg.CreateTopicsRequestTopicReplicaAssignment
	partitions  int32
	replication int16
	configs     map[string]string
}

// Create implements icommit.Upstream: partitions, replication factor,
// min.insync.replicas and replica assignment are those of __consumer_offsets.
func (f *Facts) Create(ctx context.Context) (icommit.Topic, error) {
	for {
		t, ok, err := f.Topic(ctx)
		if ok {
			return t, nil
		}
		if err == nil {
			var l layout
			if l, err = f.layout(ctx); err == nil {
				err = f.create(ctx, l)
			}
		}
		if err != nil && !kerr.IsRetriable(err) {
			return t, fmt.Errorf("creating %s: %w", icommit.TopicName, err)
		}
		// It, or the offsets topic, was just made, and a broker does not know yet.
		select {
		case <-ctx.Done():
			if err == nil {
				err = ctx.Err()
			}
			return t, fmt.Errorf("creating %s: %w", icommit.TopicName, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (f *Facts) create(ctx context.Context, l layout) error {
	err := f.c.createTopic(ctx, icommit.TopicName, l)
	if errors.Is(err, kerr.InvalidReplicaAssignment) {
		// A broker of the offsets topic's assignment has left the cluster.
		f.c.log.Warn("the topic of individual commits gets another replica assignment than "+offsetsTopic, "topic", icommit.TopicName, "error", err)
		l.assignment = nil
		err = f.c.createTopic(ctx, icommit.TopicName, l)
	}
	if err == nil {
		f.c.log.Info("topic created", "topic", icommit.TopicName, "partitions", l.partitions, "replicas", l.replication, "settings", l.configs)
	}
	if errors.Is(err, kerr.TopicAlreadyExists) { // another gateway was faster
		return nil
	}
	return err
}

// layout is the offsets topic's.
func (f *Facts) layout(ctx context.Context) (layout, error) {
	c := f.c
	model, err := c.offsetsTopic(ctx)
	if err != nil {
		return layout{}, err
	}
	c.mu.RLock()
	live := int16(c.live)
	c.mu.RUnlock()
	l := layout{configs: map[string]string{"cleanup.policy": "compact"}}
	if model == nil {
		l.partitions, l.replication = offsetsPartitions, min(3, live)
		l.configs["min.insync.replicas"] = strconv.Itoa(max(1, int(l.replication)-1))
		return l, nil
	}
	l.partitions = int32(len(model.Partitions))
	for _, p := range model.Partitions {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = p.Partition, p.Replicas
		l.assignment = append(l.assignment, a)
		l.replication = max(l.replication, int16(len(p.Replicas)))
	}
	l.replication = min(l.replication, live) // counts only without the assignment
	var settings kadm.ResourceConfig
	described, err := c.admin.DescribeTopicConfigs(ctx, offsetsTopic)
	if err == nil {
		settings, err = described.On(offsetsTopic, nil)
	}
	if err == nil {
		err = settings.Err
	}
	if errors.Is(err, kerr.TopicAuthorizationFailed) {
		err = fmt.Errorf("%w: give the gateway's user DESCRIBE and DESCRIBE_CONFIGS on it", err)
	}
	if err != nil {
		return l, fmt.Errorf("settings of %s: %w", offsetsTopic, err)
	}
	for _, k := range settings.Configs {
		if k.Value != nil && slices.Contains(copied, k.Key) {
			l.configs[k.Key] = *k.Value
		}
	}
	return l, nil
}

// offsetsTopic returns the metadata of the offsets topic, which Kafka makes when
// it is asked for a group's coordinator for the first time. It is nil where the
// engine has no such topic.
func (c *Cluster) offsetsTopic(ctx context.Context) (*kmsg.MetadataResponseTopic, error) {
	var last error
	for {
		for id := range c.Brokers() {
			t, err := c.offsetsTopicAt(ctx, id)
			if err == nil || errors.Is(err, kerr.TopicAuthorizationFailed) {
				return t, err
			}
			last = err
		}
		if errors.Is(last, kerr.GroupAuthorizationFailed) {
			return nil, last
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: %w: %w", offsetsTopic, ctx.Err(), last)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// offsetsTopicAt asks one broker for the topic and, where it knows none, for a
// coordinator, which it finds by the topic as it knows it. Users that may not
// describe every group need the topic to be there.
func (c *Cluster) offsetsTopicAt(ctx context.Context, broker int32) (*kmsg.MetadataResponseTopic, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second) // another one may answer
	defer cancel()
	t, err := c.topicAt(ctx, broker, offsetsTopic)
	if t != nil || err != nil {
		return t, err
	}
	if err := c.findCoordinator(ctx, broker); err != nil {
		return nil, err
	}
	return c.topicAt(ctx, broker, offsetsTopic)
}

// topicAt asks one broker for a topic, nil if it does not know it.
func (c *Cluster) topicAt(ctx context.Context, broker int32, name string) (*kmsg.MetadataResponseTopic, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(name)
	req.Topics = append(req.Topics, t)
	kresp, err := c.client.Broker(int(broker)).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := kresp.(*kmsg.MetadataResponse)
	c.NoteBrokers(resp)
	if len(resp.Topics) != 1 {
		return nil, fmt.Errorf("broker %d: metadata of %d topics instead of %s", broker, len(resp.Topics), name)
	}
	switch err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err {
	case nil:
		return &resp.Topics[0], nil
	case kerr.UnknownTopicOrPartition:
		return nil, nil
	case kerr.TopicAuthorizationFailed:
		return nil, fmt.Errorf("%s: %w: give the gateway's user DESCRIBE and DESCRIBE_CONFIGS on it", name, err)
	default:
		return nil, fmt.Errorf("metadata of %s: %w", name, err)
	}
}

// findCoordinator asks a broker for the coordinator of some group.
func (c *Cluster) findCoordinator(ctx context.Context, broker int32) error {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = "tandem", []string{"tandem"}
	kresp, err := c.client.Broker(int(broker)).Request(ctx, req)
	if err != nil {
		return err
	}
	resp := kresp.(*kmsg.FindCoordinatorResponse)
	code := resp.ErrorCode
	for _, r := range resp.Coordinators {
		code = r.ErrorCode
	}
	return kerr.ErrorForCode(code)
}

func (c *Cluster) createTopic(ctx context.Context, name string, l layout) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 15_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, l.partitions, l.replication
	if l.assignment != nil {
		t.NumPartitions, t.ReplicationFactor, t.ReplicaAssignment = -1, -1, l.assignment
	}
	for k, v := range l.configs {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = k, kadm.StringPtr(v)
		t.Configs = append(t.Configs, config)
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, c.client)
	if err != nil {
		return err
	}
	if len(resp.Topics) != 1 {
		return fmt.Errorf("answer for %d topics", len(resp.Topics))
	}
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		if text := resp.Topics[0].ErrorMessage; text != nil {
			return fmt.Errorf("%w: %s", err, *text)
		}
		return err
	}
	return nil
}
