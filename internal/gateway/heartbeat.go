package gateway

import (
	"context"
	"time"

	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Heartbeat, all versions, and ConsumerGroupHeartbeat (in subscriptions.go), of
// groups that have committed to views a moment ago; others pass as bytes.
//
// Members that commit at the same time, through one gateway or several, do not
// know of each other's rows yet: the source row that is written last may be
// lower than all that is done, and would stay so while the group is idle. So when
// a group's commits have come to rest, the next heartbeat reads its rows and,
// where they allow a higher stable offset, writes it, with the member's own
// generation. Then the heartbeat itself goes on.

func init() {
	register(wire.Heartbeat, &api{
		decode: true,
		owns: typedOwns(func(c *conn, req *kmsg.HeartbeatRequest) (bool, error) {
			return c.gw.groups.atRest(req.Group), nil
		}),
		handle: typed(func(c *conn, ctx context.Context, req *kmsg.HeartbeatRequest) (kmsg.Response, error) {
			c.settleSources(ctx, &commitCall{group: req.Group, generation: req.Generation, member: req.MemberID, instance: req.InstanceID})
			return c.roundTrip(ctx, req)
		}),
	})
}

// restFor is how long a group must not have committed for a source partition
// before its source row is looked at.
const restFor = 500 * time.Millisecond

// committed takes note of an accepted commit.
func (g *groups) committed(p *groupPart) {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.unsettled[p.key.group]
	if of == nil {
		if len(g.unsettled) >= maxParts {
			return // the source rows then stay low until the groups commit again
		}
		of = make(map[*groupPart]time.Time)
		g.unsettled[p.key.group] = of
	}
	of[p] = time.Now()
}

// atRest reports whether takeRested has something to give.
func (g *groups) atRest(group string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, at := range g.unsettled[group] {
		if time.Since(at) > restFor {
			return true
		}
	}
	return false
}

// takeRested returns the parts whose commits have come to rest, once.
func (g *groups) takeRested(group string) []*partPlan {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []*partPlan
	for p, at := range g.unsettled[group] {
		if time.Since(at) > restFor {
			delete(g.unsettled[group], p)
			out = append(out, &partPlan{part: p})
		}
	}
	if len(g.unsettled[group]) == 0 {
		delete(g.unsettled, group)
	}
	return out
}

// settleSources writes those source rows of a group that are lower than its rows
// allow. What fails is only put off: the next commit writes them as well.
func (c *conn) settleSources(ctx context.Context, call *commitCall) {
	plans := c.gw.groups.takeRested(call.group)
	if len(plans) == 0 {
		return
	}
	for _, p := range plans {
		p.part.gate.enter(ctx, false)
		defer p.part.gate.leave(false)
	}
	err := c.writeSources(ctx, call, plans, func(p *progress.Picture, stable int64) bool {
		offset, ours := p.Source()
		return ours && offset >= 0 && offset < stable
	})
	if err != nil {
		c.log.Debug("the source rows of a group stay as they are", "group", call.group, "cause", err)
	}
}
