package embedded

import (
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A member whose connection ends while it waits for the others to join is gone, whatever version it joined with: otherwise it
// would keep its partitions for ever.
func TestMemberThatLeavesWhileJoining(t *testing.T) {
	for _, version := range []int16{2, 5, 9} {
		e := open(t, Options{Dir: t.TempDir()})
		dial := func() net.Conn {
			conn, err := net.Dial("tcp", e.Addrs()[0])
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			return conn
		}
		send := func(conn net.Conn, req kmsg.Request) {
			t.Helper()
			head := binary.BigEndian.AppendUint32(nil, 0)
			head = binary.BigEndian.AppendUint16(head, uint16(req.Key()))
			head = binary.BigEndian.AppendUint16(head, uint16(req.GetVersion()))
			head = append(head, 0, 0, 0, 1, 0xff, 0xff)
			if req.IsFlexible() {
				head = append(head, 0)
			}
			frame := req.AppendTo(head)
			binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
			if _, err := conn.Write(frame); err != nil {
				t.Fatal(err)
			}
		}
		join := func(version int16, member string) *kmsg.JoinGroupRequest {
			req := kmsg.NewPtrJoinGroupRequest()
			req.Version, req.Group, req.MemberID, req.ProtocolType = version, "g", member, "consumer"
			req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 60_000, 60_000
			p := kmsg.NewJoinGroupRequestProtocol()
			p.Name = "range"
			req.Protocols = append(req.Protocols, p)
			return req
		}
		members := func() int {
			req := kmsg.NewPtrDescribeGroupsRequest()
			req.Groups = []string{"g"}
			var resp kmsg.DescribeGroupsResponse
			if err := ask1(dial(), req, &resp); err != nil {
				t.Fatal(err)
			}
			return len(resp.Groups[0].Members)
		}
		await := func(want int) {
			t.Helper()
			for deadline := time.Now().Add(10 * time.Second); members() != want; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("v%d: the group has %d members, not %d", version, members(), want)
				}
			}
		}
		var first kmsg.JoinGroupResponse // is in the group, and does not join again
		if err := ask1(dial(), join(2, ""), &first); err != nil || first.ErrorCode != 0 {
			t.Fatal(err, first.ErrorCode)
		}
		second := dial()
		member := ""
		if version >= 4 {
			ask := join(5, "")
			var resp kmsg.JoinGroupResponse
			if err := ask1(second, ask, &resp); err != nil {
				t.Fatal(err)
			}
			member = resp.MemberID
		}
		send(second, join(version, member))
		await(2)
		second.Close()
		await(1)
		e.Close()
	}
}
