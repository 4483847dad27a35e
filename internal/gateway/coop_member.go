package gateway

import (
	"context"
	"time"

	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// memberKey names a member of a group in a generation.
type memberKey struct {
	group, member string
	generation    int32
}

// memberTrust is for how long it is believed that a member is one.
const memberTrust = time.Second

// checkMember asks Kafka, on the client's own connection and so with its
// principal, whether it is a member: by a heartbeat. Only the group's coordinator
// can tell. An error means that the connection is gone.
func (c *conn) checkMember(ctx context.Context, ask tandemmsg.Cooperative) (code int16, first bool, err error) {
	k := memberKey{ask.Group, ask.Member, ask.Generation}
	at, known := c.members[k]
	if known && time.Since(at) < min(memberTrust, time.Duration(ask.SessionTimeout)*time.Millisecond/4) {
		return 0, false, nil
	}
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = ask.Group, ask.Member, ask.Generation
	if err := c.setVersion(ctx, req, -1); err != nil {
		return 0, false, err
	}
	resp, err := c.roundTrip(ctx, req)
	if err != nil {
		return 0, false, err
	}
	switch code := resp.(*kmsg.HeartbeatResponse).ErrorCode; code {
	case 0, kerr.RebalanceInProgress.Code: // until the rebalance ends it is one
	default:
		delete(c.members, k)
		return code, false, nil
	}
	if c.members == nil || len(c.members) >= maxMembers {
		c.members = make(map[memberKey]time.Time)
	}
	c.members[k] = time.Now()
	return 0, !known, nil
}

// maxMembers bounds what a connection remembers.
const maxMembers = 1000

// membersOf are the members that a group has, nil if that cannot be found out: who
// has left is then known by its silence.
func (c *conn) membersOf(ctx context.Context, group string) (map[string]bool, error) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	if err := c.setVersion(ctx, req, -1); err != nil {
		return nil, err
	}
	resp, err := c.roundTrip(ctx, req)
	if err != nil {
		return nil, err
	}
	r := resp.(*kmsg.DescribeGroupsResponse)
	if len(r.Groups) != 1 || r.Groups[0].ErrorCode != 0 {
		return nil, nil
	}
	members := make(map[string]bool, len(r.Groups[0].Members))
	for i := range r.Groups[0].Members {
		members[r.Groups[0].Members[i].MemberID] = true
	}
	return members, nil
}
