package gateway

import (
	"context"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetForLeaderEpoch, all versions, for requests that name a view; others
// pass as bytes.
//
// Batches of a view carry no leader epoch, so consumers have none to ask about
// but those that a commit on the source brought along: answered with the
// source's end of that epoch. The request's current leader epoch is the backing
// topic's and is not looked at.

func init() {
	register(wire.OffsetForLeaderEpoch, &api{
		decode: true,
		owns: typedOwns(func(c *conn, req *kmsg.OffsetForLeaderEpochRequest) (bool, error) {
			refs := make([]topicRef, 0, 8)
			for i := range req.Topics {
				refs = append(refs, topicRef{name: req.Topics[i].Topic})
			}
			return c.namesView(refs)
		}),
		handle: typed((*conn).handleOffsetForLeaderEpoch),
	})
}

func (c *conn) handleOffsetForLeaderEpoch(ctx context.Context, req *kmsg.OffsetForLeaderEpochRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	var plain []kmsg.OffsetForLeaderEpochRequestTopic
	for _, t := range req.Topics {
		w := c.gw.views.Name(t.Topic)
		if w == nil {
			plain = append(plain, t)
			continue
		}
		code, err := c.mayReadView(w)
		if err != nil {
			return nil, err
		}
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			rp.Partition, rp.LeaderEpoch, rp.EndOffset = p.Partition, -1, -1
			src, _, ok := w.SourceOf(p.Partition)
			switch {
			case code != 0:
				rp.ErrorCode = code
			case !ok:
				rp.ErrorCode = kerr.UnknownTopicOrPartition.Code
			default:
				epoch, end, err := c.gw.reader.EpochEnd(ctx, src, p.LeaderEpoch)
				if err != nil {
					rp.ErrorCode = codeOf(err)
				} else {
					rp.LeaderEpoch, rp.EndOffset = epoch, end
				}
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	if len(plain) > 0 {
		ask := *req
		ask.Topics = plain
		kresp, err := c.roundTrip(ctx, &ask)
		if err != nil {
			return nil, err
		}
		r := kresp.(*kmsg.OffsetForLeaderEpochResponse)
		resp.ThrottleMillis = r.ThrottleMillis
		resp.Topics = append(resp.Topics, r.Topics...)
	}
	return resp, nil
}
