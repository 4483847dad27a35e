package upstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Committed returns the partitions of topics of which a group has a committed
// offset. The gateway's user needs DESCRIBE on the group and the topics; an error
// says that it is not known.
func (c *Cluster) Committed(ctx context.Context, group string, topics ...string) (kadm.TopicsSet, error) {
	_, denied, err := c.topics(ctx, topics) // the answer below would leave them out
	if err == nil && len(denied) > 0 {
		err = fmt.Errorf("%v: %w", denied, kerr.TopicAuthorizationFailed)
	}
	if err != nil {
		return nil, err
	}
	all, err := c.admin.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, err
	}
	found := kadm.TopicsSet{}
	for _, o := range all.Sorted() {
		if o.Err != nil {
			return nil, o.Err
		}
		if o.At >= 0 {
			found.Add(o.Topic, o.Partition)
		}
	}
	return found, nil
}
