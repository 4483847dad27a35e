package balancer

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// trouble answers requests of member B: the first heartbeat, and so many times it wants to join then.
func (c *cluster) trouble(heartbeat, join *kerr.Error, joins int) {
	isB := func(id string) bool { return strings.HasPrefix(id, "B") }
	c.fake.ControlKey(int16(kmsg.Heartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
		hb := req.(*kmsg.HeartbeatRequest)
		if !isB(hb.MemberID) {
			c.fake.KeepControl()
			return nil, nil, false
		}
		c.fake.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
			r := req.(*kmsg.JoinGroupRequest)
			if !isB(r.MemberID) || joins == 0 {
				return nil, nil, false
			}
			if joins--; joins > 0 {
				c.fake.KeepControl()
			}
			resp := r.ResponseKind().(*kmsg.JoinGroupResponse)
			resp.ErrorCode = join.Code
			return resp, nil, true
		})
		resp := hb.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = heartbeat.Code
		return resp, nil, true
	})
}

// When the management of the group ends with an error, a member keeps what it has until it knows that it is out: what it lost with that, it lost for certain.
func TestDoubt(t *testing.T) {
	for _, test := range []struct {
		name            string
		heartbeat, join *kerr.Error
		joins           int
		lost            int32
	}{
		{"out", kerr.UnknownMemberID, nil, 0, 1},
		{"another took its place", kerr.FencedInstanceID, nil, 0, 1},
		{"an error", kerr.UnknownServerError, nil, 0, 0},
		{"another generation", kerr.IllegalGeneration, nil, 0, 0},
		{"errors, again and again", kerr.UnknownServerError, kerr.UnknownServerError, 3, 0},
		{"out when it joins", kerr.UnknownServerError, kerr.UnknownMemberID, 1, 1},
	} {
		for _, cooperative := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, cooperative=%v", test.name, cooperative), func(t *testing.T) {
				c := newCluster(t, map[string]int32{"t": 1})
				cfg := Config{Share: true, Cooperative: cooperative, Sharing: allowed("t")}
				c.join("A", cfg)
				b := c.join("B", cfg, kgo.SessionTimeout(2*time.Second)) // so long the cluster waits for a B that it only seems not to know
				c.until(1, 2)
				has, generation := b.balancer.Ranges()
				c.owners.moved()
				c.trouble(test.heartbeat, test.join, test.joins)
				c.wait(func() error {
					if c.doubted.Load() == 0 {
						return errors.New("B does not doubt")
					}
					return nil
				})
				c.wait(func() error {
					if c.kept.Load()+c.lost.Load() == 0 || b.balancer.InDoubt() {
						return errors.New("B does not know yet")
					}
					if _, g := b.balancer.Ranges(); g == generation {
						return errors.New("B is not in a later generation")
					}
					return nil
				})
				c.until(1, 2)
				if c.lost.Load() != test.lost || c.kept.Load() != 1-test.lost || c.doubted.Load() != 1 {
					t.Errorf("lost %d times, want %d; kept %d times; doubted %d times", c.lost.Load(), test.lost, c.kept.Load(), c.doubted.Load())
				}
				if now, _ := b.balancer.Ranges(); test.lost == 0 && len(has.Minus(now)) > 0 {
					t.Errorf("B had %v and has %v", has, now)
				}
			})
		}
	}
}

// Who doubts and leaves has the work on what it has ended.
func TestWhoLeavesInDoubtGivesUp(t *testing.T) {
	for _, asks := range []bool{false, true} { // kgo may, or may not, call then
		b := newBalancer(t, Config{Share: true})
		cl, err := kgo.NewClient() // never connects
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		var gave int
		b.cfg.Revoked = count(&gave)
		b.now = state{ranges: wholes(map[string][]int32{"t": {0, 1}}), generation: 5}
		b.doubt = &doubt{ctx: t.Context(), client: cl, member: "B"}
		if asks {
			b.onRevoked(t.Context(), cl, nil)
		} else {
			b.GiveUp(t.Context())
			b.onRevoked(t.Context(), cl, nil)
		}
		if now, _ := b.Ranges(); gave != 1 || len(now) > 0 || b.InDoubt() {
			t.Errorf("gave up %d times, and has %v", gave, now)
		}
	}
}
