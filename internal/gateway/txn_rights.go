package gateway

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// mayCommit fails ranges whose source row Kafka would refuse, as far as it can be
// asked without effect, before their facts are written: the gateway writes these in
// the client's transaction with rights of its own, and nobody could be sure to take
// them back from a client that commits it all the same. An error means that the
// connection is gone.
func (c *conn) mayCommit(ctx context.Context, call *commitCall) error {
	code, err := c.mayCommitFor(ctx, call)
	if err != nil {
		return err
	}
	for i := range call.ranges {
		r := &call.ranges[i]
		if r.code != 0 {
			continue
		}
		if r.code = code; code == 0 {
			if r.code, err = c.mayRead(r.part.key.source.Topic); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayCommitFor is whether the principal may READ the group, and is a member, if it says so: a
// heartbeat tells, which also knows old generations and other coordinators. It
// is asked again when the answer is older than memberTrust.
func (c *conn) mayCommitFor(ctx context.Context, call *commitCall) (code int16, err error) {
	k := memberKey{call.group, call.member, call.generation}
	if time.Since(c.committers[k]) < memberTrust {
		return 0, nil
	}
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.Generation, req.MemberID, req.InstanceID = call.group, call.generation, call.member, call.instance
	if err := c.setVersion(ctx, req, -1); err != nil {
		return 0, err
	}
	resp, err := c.roundTrip(ctx, req)
	if err != nil {
		return 0, err
	}
	switch code = resp.(*kmsg.HeartbeatResponse).ErrorCode; code {
	case 0,
		kerr.UnknownMemberID.Code, kerr.GroupIDNotFound.Code, // so are those of the consumer protocol, and those without a group: Kafka judges the row
		kerr.RebalanceInProgress.Code: // until it ends they may
	default:
		return code, nil
	}
	if c.committers == nil || len(c.committers) >= maxMembers {
		c.committers = make(map[memberKey]time.Time)
	}
	c.committers[k] = time.Now()
	return 0, nil
}
