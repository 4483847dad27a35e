package embedded

import (
	"encoding/binary"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// leftWhileJoining takes a member out of its group whose connection ended while
// it waited for the answer to a JoinGroup. kfake starts a member's session with
// an answer that arrives: without one the member would never expire, keep its
// partitions, and hold up each rebalance for the whole rebalance timeout. A client
// that lives is told UNKNOWN_MEMBER_ID and joins again.
func (e *Engine) leftWhileJoining(frame []byte, host string) {
	join, ok := parseJoin(frame)
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing || len(e.addrs) == 0 {
		return
	}
	e.done.Go(func() {
		if err := e.leave(join, host); err != nil {
			e.log.Debug("embedded engine: a member that is gone stays in its group until the next rebalance", "group", join.Group, "error", err)
		}
	})
}

func parseJoin(frame []byte) (*kmsg.JoinGroupRequest, bool) {
	r := kbin.Reader{Src: frame[4:]}
	_, version, _, _ := r.Int16(), r.Int16(), r.Int32(), r.NullableString()
	join := kmsg.NewPtrJoinGroupRequest()
	if join.SetVersion(version); join.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	return join, r.Complete() == nil && join.ReadFrom(r.Src) == nil
}

// leave leaves the group in place of a member. One that joined without a member
// id, before version 4, is found by the connection that it joined on.
func (e *Engine) leave(join *kmsg.JoinGroupRequest, host string) error {
	conn, err := net.DialTimeout("tcp", e.addrs[0], 2*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	member := join.MemberID
	if member == "" {
		ask := kmsg.NewPtrDescribeGroupsRequest()
		ask.Groups = []string{join.Group}
		var groups kmsg.DescribeGroupsResponse
		if err := ask1(conn, ask, &groups); err != nil {
			return err
		}
		for _, g := range groups.Groups {
			for _, m := range g.Members {
				if m.ClientHost == host {
					member = m.MemberID
				}
			}
		}
		if member == "" {
			return nil
		}
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = 3, join.Group
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = member
	req.Members = append(req.Members, m)
	var resp kmsg.LeaveGroupResponse
	return ask1(conn, req, &resp)
}

// ask1 sends one request that is not flexible, and reads its answer.
func ask1(conn net.Conn, req kmsg.Request, resp kmsg.Response) error {
	head := binary.BigEndian.AppendUint32(nil, 0)
	head = binary.BigEndian.AppendUint16(head, uint16(req.Key()))
	head = binary.BigEndian.AppendUint16(head, uint16(req.GetVersion()))
	head = binary.BigEndian.AppendUint32(head, 1)
	head = binary.BigEndian.AppendUint16(head, 0xffff) // no client id
	frame := req.AppendTo(head)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	if _, err := conn.Write(frame); err != nil {
		return err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(conn, body); err != nil {
		return err
	}
	resp.SetVersion(req.GetVersion())
	return resp.ReadFrom(body[4:])
}
