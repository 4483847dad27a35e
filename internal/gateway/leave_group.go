package gateway

import (
	"context"
	"maps"
	"slices"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// LeaveGroup, all versions, and a ConsumerGroupHeartbeat that leaves, of groups
// whose source rows may be lower than all that is done; others pass as bytes.
//
// Members that end together commit side by side, and then no heartbeat is left
// to bring the source row up to date (heartbeat.go). So before the last one is
// told that it has left, the source row is written as tools write offsets: without
// a member. Kafka refuses that while the group has members, whose heartbeats will
// do it.

func init() {
	register(wire.LeaveGroup, &api{
		decode: true,
		owns: typedOwns(func(c *conn, req *kmsg.LeaveGroupRequest) (bool, error) {
			return c.gw.groups.low(req.Group), nil
		}),
		handle: typed(func(c *conn, ctx context.Context, req *kmsg.LeaveGroupRequest) (kmsg.Response, error) {
			resp, err := c.roundTrip(ctx, req)
			if err == nil {
				c.settleEmpty(ctx, req.Group)
			}
			return resp, err
		}),
	})
}

// low reports whether source rows of a group may be lower than all that is done.
func (g *groups) low(group string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.unsettled[group]) > 0
}

// lowParts returns the parts of which that is so.
func (g *groups) lowParts(group string) (plans []*partPlan) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range slices.Collect(maps.Keys(g.unsettled[group])) {
		plans = append(plans, &partPlan{part: p})
	}
	return plans
}

// settleEmpty writes the source rows of a group without members that are lower
// than its rows allow.
func (c *conn) settleEmpty(ctx context.Context, group string) {
	plans := c.gw.groups.lowParts(group)
	if len(plans) == 0 {
		return
	}
	if _, err := c.raiseSources(ctx, &commitCall{group: group, generation: -1}, plans); err != nil {
		c.log.Debug("the source rows of a group that was left stay as they are", "group", group, "cause", err)
	}
}
