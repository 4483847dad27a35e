package gateway

import (
	"context"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AddPartitionsToTxn, v0-v3 (later versions are the brokers' own).
//
// A request that names a view is refused as a whole, in Kafka's way: the view's
// partitions with POLICY_VIOLATION, the others with OPERATION_NOT_ATTEMPTED.
// All else passes as bytes.

func init() {
	register(wire.AddPartitionsToTxn, &api{
		decode: true,
		owns: typedOwns(func(c *conn, req *kmsg.AddPartitionsToTxnRequest) (bool, error) {
			if req.Version > 3 {
				return false, nil
			}
			refs := make([]topicRef, 0, 8)
			for _, t := range req.Topics {
				refs = append(refs, topicRef{name: t.Topic})
			}
			_ = c.gw.views.resolve(c.ctx, refs...) // what slips through is refused by the cluster
			for _, t := range req.Topics {
				if c.gw.views.Name(t.Topic) != nil {
					return true, nil
				}
			}
			return false, nil
		}),
		handle: typed(func(c *conn, _ context.Context, req *kmsg.AddPartitionsToTxnRequest) (kmsg.Response, error) {
			resp := kmsg.NewPtrAddPartitionsToTxnResponse()
			for _, t := range req.Topics {
				code := kerr.OperationNotAttempted.Code
				if c.gw.views.Name(t.Topic) != nil {
					code = kerr.PolicyViolation.Code
				}
				rt := kmsg.NewAddPartitionsToTxnResponseTopic()
				rt.Topic = t.Topic
				for _, p := range t.Partitions {
					rp := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
					rp.Partition, rp.ErrorCode = p, code
					rt.Partitions = append(rt.Partitions, rp)
				}
				resp.Topics = append(resp.Topics, rt)
			}
			return resp, nil
		}),
	})
}
