package gateway

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// epoch is the generation of a call's group, progress.Env.Generation: the same for all
// members that commit at a time. Those of the consumer protocol (KIP-848) have epochs of
// their own while they go over to an assignment; the group's is in their place. An
// error means that the connection is gone.
func (c *conn) epoch(ctx context.Context, call *commitCall) (int32, error) {
	if call.generation <= 0 || call.epoch > 0 {
		return max(call.epoch, call.generation), nil
	}
	call.epoch = call.generation
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = []string{call.group}
	if c.setVersion(ctx, req, -1) != nil {
		return call.epoch, nil // a broker before Kafka 4
	}
	resp, err := c.roundTrip(ctx, req)
	if err != nil {
		return 0, err
	}
	if r := resp.(*kmsg.ConsumerGroupDescribeResponse); len(r.Groups) == 1 && r.Groups[0].ErrorCode == 0 {
		call.epoch = r.Groups[0].Epoch // of a classic group it is an error
	}
	return call.epoch, nil
}
