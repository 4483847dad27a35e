package gateway

import (
	"context"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteRecords, all versions.
//
// A view has no records of its own, and one virtual partition's offsets are all
// slices' offsets: deleting through a view is refused with POLICY_VIOLATION.
// The other topics of the request go on.

func init() {
	register(wire.DeleteRecords, &api{
		decode: true,
		owns: typedOwns(func(c *conn, req *kmsg.DeleteRecordsRequest) (bool, error) {
			for _, t := range req.Topics {
				if c.gw.views.Name(t.Topic) != nil {
					return true, nil
				}
			}
			return false, nil
		}),
		handle: typed((*conn).handleDeleteRecords),
	})
}

func (c *conn) handleDeleteRecords(ctx context.Context, req *kmsg.DeleteRecordsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrDeleteRecordsResponse()
	var rest []kmsg.DeleteRecordsRequestTopic
	for _, t := range req.Topics {
		if c.gw.views.Name(t.Topic) == nil {
			rest = append(rest, t)
			continue
		}
		rt := kmsg.NewDeleteRecordsResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewDeleteRecordsResponseTopicPartition()
			rp.Partition, rp.LowWatermark, rp.ErrorCode = p.Partition, -1, kerr.PolicyViolation.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	if len(rest) == 0 {
		return resp, nil
	}
	ask := *req
	ask.Topics = rest
	kresp, err := c.roundTrip(ctx, &ask)
	if err != nil {
		return nil, err
	}
	r := kresp.(*kmsg.DeleteRecordsResponse)
	resp.ThrottleMillis = r.ThrottleMillis
	resp.Topics = append(resp.Topics, r.Topics...)
	return resp, nil
}
