package gateway

import (
	"context"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// CreatePartitions, all versions.
//
// A view has as many partitions as its source gives it, each with a meaning of
// its own: a client's wish for more is refused with POLICY_VIOLATION and a text.
// The other topics of the request go on.

const viewPartitions = "this topic is a view: it grows with its source; for more virtual partitions make another view"

func init() {
	register(wire.CreatePartitions, &api{
		decode: true,
		owns: typedOwns(func(c *conn, req *kmsg.CreatePartitionsRequest) (bool, error) {
			for _, t := range req.Topics {
				if c.gw.views.Name(t.Topic) != nil {
					return true, nil
				}
			}
			return false, nil
		}),
		handle: typed((*conn).handleCreatePartitions),
	})
}

func (c *conn) handleCreatePartitions(ctx context.Context, req *kmsg.CreatePartitionsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrCreatePartitionsResponse()
	var rest []kmsg.CreatePartitionsRequestTopic
	for _, t := range req.Topics {
		if c.gw.views.Name(t.Topic) == nil {
			rest = append(rest, t)
			continue
		}
		rt := kmsg.NewCreatePartitionsResponseTopic()
		rt.Topic, rt.ErrorCode, rt.ErrorMessage = t.Topic, kerr.PolicyViolation.Code, kmsg.StringPtr(viewPartitions)
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
	r := kresp.(*kmsg.CreatePartitionsResponse)
	resp.ThrottleMillis = r.ThrottleMillis
	resp.Topics = append(resp.Topics, r.Topics...)
	return resp, nil
}
