package client

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/client/internal/balancer"
	"github.com/tandem-kafka/tandem/keyrange"
)

// keyRangeFetch is the topic config that says whether key ranges of it may be fetched.
const keyRangeFetch = "key.range.fetch.enable"

// sharingTimeout bounds how long a group waits for its leader's question.
const sharingTimeout = 5 * time.Second

// sharing finds out which of the group's topics may be shared.
func (s *session) sharing(topics []string) (balancer.Sharing, error) {
	answer := balancer.Sharing{IndividualCommits: s.features.IndividualCommit, KeyRangeFetch: map[string]bool{}}
	if !s.features.IndividualCommit || !s.features.KeyRangeFetch {
		return answer, nil
	}
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, topic := range topics {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, []string{keyRangeFetch}
		req.Resources = append(req.Resources, r)
	}
	ctx, cancel := context.WithTimeout(s.ctx, sharingTimeout)
	defer cancel()
	resp, err := req.RequestWith(ctx, s.data[0])
	if err != nil {
		return answer, fmt.Errorf("%s of %v: %w", keyRangeFetch, topics, err)
	}
	for i := range resp.Resources {
		r := &resp.Resources[i]
		switch err := kerr.ErrorForCode(r.ErrorCode); err {
		case nil:
			for _, c := range r.Configs {
				if c.Name == keyRangeFetch && c.Value != nil {
					answer.KeyRangeFetch[r.ResourceName], _ = strconv.ParseBool(*c.Value)
				}
			}
		case kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed:
			// Who may read a topic need not be allowed to see its configs. The gateway says that topics can be shared; where this one may
			// not, the fetches will say so.
			answer.KeyRangeFetch[r.ResourceName] = true
		case kerr.UnknownTopicOrPartition:
		default:
			return answer, fmt.Errorf("%s of %s: %w", keyRangeFetch, r.ResourceName, err)
		}
	}
	return answer, nil
}

// assignsKeys reports whether Assign names key ranges, and not whole partitions only.
func (c *config) assignsKeys() bool {
	for _, partitions := range c.assign {
		for _, keys := range partitions {
			if len(keys) > 0 && !keys.Covers(keyrange.Full) {
				return true
			}
		}
	}
	return false
}
