package gateway

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kerr"
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
	return len(g.unsettled[group]) > 0 || len(g.begun[group]) > 0
}

// lowParts returns the parts of which that is so.
func (g *groups) lowParts(group string) (plans []*partPlan) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := range g.unsettled[group] {
		plans = append(plans, &partPlan{part: p})
	}
	for p := range g.begun[group] { // others may have committed elsewhere
		if _, ok := g.unsettled[group][p]; !ok {
			plans = append(plans, &partPlan{part: p})
		}
	}
	return plans
}

const (
	// emptyFor bounds for how long the source rows of a group that was left are tried to be written: who has left waits for the answer.
	emptyFor     = 5 * time.Second
	emptyBackoff = 20 * time.Millisecond // the first pause; each is twice as long as the one before, up to emptyPause
	emptyPause   = 500 * time.Millisecond
)

// settleEmpty writes the source rows of a group without members that are lower
// than its rows allow. Nobody does it later: so what passes is tried again for a while, such as transactions whose end
// was answered before the coordinator has it.
func (c *conn) settleEmpty(ctx context.Context, group string) {
	plans := c.gw.groups.lowParts(group)
	until := time.Now().Add(emptyFor)
	for pause := emptyBackoff; len(plans) > 0; pause = min(2*pause, emptyPause) {
		waiting, err := c.raiseSources(ctx, &commitCall{group: group, generation: -1}, plans)
		if err == nil {
			plans, err = lowStill(plans, waiting)
		} else if c.ctx.Err() != nil {
			return // the client leaves again, on another connection
		}
		if err == nil || len(plans) > 0 && c.hasMembers(ctx, group) {
			return
		}
		if len(plans) > 0 && time.Now().Add(pause).Before(until) {
			select {
			case <-time.After(pause):
				continue
			case <-ctx.Done():
			case <-c.gw.drainCtx.Done():
			}
		}
		c.log.Warn("the source rows of a group that was left stay lower than all that is done, until it commits again", "group", group, "cause", err)
		return
	}
}

// hasMembers reports whether a group is known to have members, whose heartbeats write its source rows.
func (c *conn) hasMembers(ctx context.Context, group string) bool {
	members, err := c.membersOf(ctx, group)
	return err == nil && len(members) > 0
}

// errWaits says that a source row waits for a transaction.
var errWaits = errors.New("a transaction that is not decided has written the source row")

// lowStill are those parts whose source rows could not be written for a reason that passes, and the reason; without any, it is why some are
// not written at all. Where that is because the group has members, or another coordinator, or the source is gone, there is none.
func lowStill(plans, waiting []*partPlan) (again []*partPlan, cause error) {
	for _, p := range plans {
		err := kerr.ErrorForCode(p.refused)
		switch {
		case slices.Contains(waiting, p):
			again, cause = append(again, p), errWaits
		case err == nil, errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.NotCoordinator), errors.Is(err, kerr.UnknownTopicOrPartition):
		case kerr.IsRetriable(err):
			again, cause = append(again, p), err
		default:
			cause = cmp.Or(cause, err)
		}
	}
	return again, cause
}
