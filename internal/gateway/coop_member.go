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

// memberTrust is for how long it is believed that a member is one, while no later
// generation of its group is known: that may be one without it.
const memberTrust = time.Second

// checkMember asks Kafka, on the client's own connection and so with its
// principal, whether it is a member: by a heartbeat, which also says whether the
// principal may READ the group. Of the members of a group of the consumer protocol
// a heartbeat of theirs would have effects, so that they are looked up in
// the description of the group. Only the group's coordinator can tell. first says
// that the member is new here; members, where it is not nil, who else is one. An
// error means that the connection is gone.
func (c *conn) checkMember(ctx context.Context, ask tandemmsg.Cooperative) (code int16, first bool, members map[string]int32, err error) {
	k := memberKey{ask.Group, ask.Member, ask.Generation}
	at, known := c.members[k]
	trust := min(memberTrust, time.Duration(ask.SessionTimeout)*time.Millisecond/4)
	if known && time.Since(at) < trust && !c.gw.generations.over(ask.Group, ask.Generation) {
		return 0, false, nil, nil
	}
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = ask.Group, ask.Member, ask.Generation
	if err := c.setVersion(ctx, req, -1); err != nil {
		return 0, false, nil, err
	}
	resp, err := c.roundTrip(ctx, req)
	if err != nil {
		return 0, false, nil, err
	}
	switch code = resp.(*kmsg.HeartbeatResponse).ErrorCode; code {
	case kerr.RebalanceInProgress.Code: // until the rebalance ends it is one
		code = 0
	case kerr.UnknownMemberID.Code:
		if members, code, err = c.consumerMembers(ctx, ask.Group); err != nil {
			return 0, false, nil, err
		}
		if code == 0 {
			code = epochCode(members, ask)
		}
	}
	if code != 0 {
		delete(c.members, k)
		return code, false, nil, nil
	}
	if c.members == nil || len(c.members) >= maxMembers {
		c.members = make(map[memberKey]time.Time)
	}
	c.members[k] = time.Now()
	c.gw.generations.note(ask.Group, ask.Generation)
	return 0, !known, members, nil
}

// maxMembers bounds what a connection remembers.
const maxMembers = 1000

// epochCode is what a commit of the member of a group of the consumer protocol would be answered, whose generation is its epoch.
func epochCode(members map[string]int32, ask tandemmsg.Cooperative) int16 {
	switch epoch, ok := members[ask.Member]; {
	case !ok || epoch < 0:
		return kerr.UnknownMemberID.Code
	case ask.Generation < epoch:
		return kerr.StaleMemberEpoch.Code
	case ask.Generation > epoch:
		return kerr.FencedMemberEpoch.Code
	}
	return 0
}

// consumerMembers are the members of a group of the consumer protocol (KIP-848), each with
// its epoch; -1 if it is of the classic protocol. Where there is no such group the code is UNKNOWN_MEMBER_ID.
func (c *conn) consumerMembers(ctx context.Context, group string) (members map[string]int32, code int16, err error) {
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	if _, ok := c.versions[req.Key()]; !ok { // they are known since the last request
		return nil, kerr.UnknownMemberID.Code, nil
	}
	req.Groups = []string{group}
	if err := c.setVersion(ctx, req, -1); err != nil {
		return nil, 0, err
	}
	resp, err := c.roundTrip(ctx, req)
	if err != nil {
		return nil, 0, err
	}
	r := resp.(*kmsg.ConsumerGroupDescribeResponse)
	if len(r.Groups) != 1 {
		return nil, kerr.UnknownServerError.Code, nil
	}
	switch code := r.Groups[0].ErrorCode; code {
	case 0:
	case kerr.GroupIDNotFound.Code, kerr.UnsupportedVersion.Code:
		return nil, kerr.UnknownMemberID.Code, nil
	default:
		if c.gw.often.now("describe "+group, time.Minute) {
			c.log.Warn("a cooperative fetch was refused: who is a member of the group cannot be found out", "group", group, "cause", kerr.ErrorForCode(code),
				"cure", "give the client's principal DESCRIBE on the topics of the group's members")
		}
		return nil, code, nil
	}
	members = make(map[string]int32, len(r.Groups[0].Members))
	for i := range r.Groups[0].Members {
		m := &r.Groups[0].Members[i]
		if members[m.MemberID] = m.MemberEpoch; m.MemberType == classicMember {
			members[m.MemberID] = -1
		}
	}
	return members, 0, nil
}

// classicMember is the MemberType of those that a group of the consumer protocol has of the classic one.
const classicMember = 0

// membersOf are the members that a group has, nil if that cannot be found out: who
// has left is then known by its silence.
func (c *conn) membersOf(ctx context.Context, group string) (map[string]int32, error) {
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
	if len(r.Groups) != 1 || r.Groups[0].ErrorCode != 0 || r.Groups[0].State == "Dead" { // of the consumer protocol, with members of the classic one
		members, code, err := c.consumerMembers(ctx, group)
		if code != 0 {
			members = nil
		}
		return members, err
	}
	members := make(map[string]int32, len(r.Groups[0].Members))
	for i := range r.Groups[0].Members {
		members[r.Groups[0].Members[i].MemberID] = -1
	}
	return members, nil
}
