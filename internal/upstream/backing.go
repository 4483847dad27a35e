package upstream

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// backingConfigs are the settings of a view's backing topic. 78 bytes is the
// size of a transaction's end marker: with less, transactions that were begun
// on the topic would hang; with it every producer's batch is refused.
var backingConfigs = map[string]*string{
	"max.message.bytes": kadm.StringPtr("78"),
	"cleanup.policy":    kadm.StringPtr("delete"),
}

// CreateBacking creates the backing topic of a view; one that is there already
// is no error.
func (c *Cluster) CreateBacking(ctx context.Context, name string, partitions int32, replication int16) error {
	resp, err := c.admin.CreateTopic(ctx, partitions, replication, backingConfigs, name)
	if err == nil {
		err = resp.Err
	}
	if err == kerr.TopicAlreadyExists {
		return nil
	}
	return err
}

// GrowBacking brings a topic to at least the given number of partitions.
func (c *Cluster) GrowBacking(ctx context.Context, name string, partitions int32) error {
	resp, err := c.admin.UpdatePartitions(ctx, int(partitions), name)
	if err != nil {
		return err
	}
	r, err := resp.On(name, nil)
	if err == nil {
		err = r.Err
	}
	if err == kerr.InvalidPartitions { // another gateway was faster
		return nil
	}
	return err
}

// DeleteTopic deletes a topic; one that is not there is no error.
func (c *Cluster) DeleteTopic(ctx context.Context, name string) error {
	resp, err := c.admin.DeleteTopic(ctx, name)
	if err == nil {
		err = resp.Err
	}
	if err == kerr.UnknownTopicOrPartition {
		return nil
	}
	return err
}

// DeleteTopicID deletes a topic by its id, so that one made anew with the same
// name stays; by name where the cluster has no ids.
func (c *Cluster) DeleteTopicID(ctx context.Context, name string, id [16]byte) error {
	if id == ([16]byte{}) {
		return c.DeleteTopic(ctx, name)
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 15_000
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.TopicID = id
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, c.client)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil && err != kerr.UnknownTopicID && err != kerr.UnknownTopicOrPartition {
			return err
		}
	}
	return nil
}
