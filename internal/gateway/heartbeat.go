package gateway

import (
	"context"
	"slices"
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
// generation. Then the heartbeat itself goes on. Some later heartbeats look again:
// what lies behind a slice's last record may be found to be empty only after that
// record was committed.
//
// That holds for commits in transactions even more, which do not count each
// other until they are decided. A source row that waits for a transaction is left
// alone until a later heartbeat.

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

const (
	// restFor is how long a group must not have committed for a source partition
	// before its source row is looked at; twice as long before the next look.
	restFor  = 500 * time.Millisecond
	maxLooks = 6
)

// rest is a part whose source row may be lower than all that is done.
type rest struct {
	since time.Time // of the last commit, or look
	looks int
}

func (r rest) due(first time.Duration) bool { return time.Since(r.since) > first<<r.looks }

// The producers of a group's transactions, or other members of it, may commit through other gateways, which see no heartbeats of
// it: so the rows of a group whose members asked here where to begin are looked at now and then, more seldom the longer nothing changes.
const (
	lookElsewhere = 5 * time.Second
	seldom        = 6 // times twice as long: 5 minutes
)

// began takes note of a member that asked where to begin.
func (g *groups) began(k partKey, views []*View) {
	p := g.part(k)
	p.of(views)
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.begun[k.group]
	if of == nil {
		if len(g.begun) >= maxParts {
			clear(g.begun)
		}
		of = make(map[*groupPart]rest)
		g.begun[k.group] = of
	}
	of[p] = rest{since: time.Now()}
}

// takeElsewhere returns the parts of a group whose rows are to be read because others may have written them.
func (g *groups) takeElsewhere(group string) (plans []*partPlan) {
	g.mu.Lock()
	due := make(map[*groupPart]rest)
	for p, r := range g.begun[group] {
		if r.due(lookElsewhere) {
			due[p] = r
		}
	}
	g.mu.Unlock()
	for p, r := range due {
		looks := min(r.looks+1, seldom)
		if g.gw.signs(p).After(r.since) {
			looks = 0
		}
		due[p] = rest{time.Now(), looks}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for p, r := range due {
		if of := g.begun[group]; of != nil {
			of[p] = r
		}
		if _, ok := g.unsettled[group][p]; !ok { // that is looked at anyway
			plans = append(plans, &partPlan{part: p})
		}
	}
	return plans
}

// committed takes note of an accepted commit.
func (g *groups) committed(p *groupPart) {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.unsettled[p.key.group]
	if of == nil {
		if len(g.unsettled) >= maxParts {
			return // the source rows then stay low until the groups commit again
		}
		of = make(map[*groupPart]rest)
		g.unsettled[p.key.group] = of
	}
	of[p] = rest{since: time.Now()}
}

// atRest reports whether takeRested has something to give.
func (g *groups) atRest(group string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.unsettled[group] {
		if r.due(restFor) {
			return true
		}
	}
	for _, r := range g.begun[group] {
		if r.due(lookElsewhere) {
			return true
		}
	}
	return false
}

// takeRested returns the parts whose source rows are to be looked at: once by
// their rows, read afresh, and then, for a while, where more is known to be empty.
func (g *groups) takeRested(group string) (first, again []*partPlan) {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.unsettled[group]
	for p, r := range of {
		if !r.due(restFor) {
			continue
		}
		if r.looks == 0 {
			first = append(first, &partPlan{part: p})
		} else {
			again = append(again, &partPlan{part: p})
		}
		if r.looks++; r.looks < maxLooks {
			of[p] = r
		} else {
			delete(of, p)
		}
	}
	if len(of) == 0 {
		delete(g.unsettled, group)
	}
	return first, again
}

// mayRise reports whether a part's source row is lower than the rows allow that
// are known here.
func (c *conn) mayRise(group string, part *groupPart) bool {
	part.mu.Lock()
	defer part.mu.Unlock()
	if part.picture == nil {
		return false
	}
	c.gw.facts.attach(part.picture, part.key)
	offset, ours := part.picture.Source()
	next := part.next(c.gw, part.views, c.readsCommitted(group, part.picture, part.views))
	return ours && offset < part.picture.Stable(offset, next)
}

// undecided has a later heartbeat look at parts that wait for a transaction.
func (g *groups) undecided(parts []*partPlan) {
	for _, p := range parts {
		g.committed(p.part)
	}
}

// settleSources writes those source rows of a group that are lower than its rows
// allow. What fails is only put off: the next commit writes them as well.
func (c *conn) settleSources(ctx context.Context, call *commitCall) {
	plans, again := c.gw.groups.takeRested(call.group)
	plans = append(plans, c.gw.groups.takeElsewhere(call.group)...)
	for _, p := range again {
		if c.mayRise(call.group, p.part) {
			plans = append(plans, p)
		}
	}
	if len(plans) == 0 {
		return
	}
	waiting, err := c.raiseSources(ctx, call, plans)
	c.gw.groups.undecided(waiting)
	if err != nil {
		c.log.Debug("the source rows of a group stay as they are", "group", call.group, "cause", err)
	}
}

// raiseSources writes the source rows of parts that are lower than the rows allow. It returns the parts that wait for a transaction.
func (c *conn) raiseSources(ctx context.Context, call *commitCall, plans []*partPlan) (waiting []*partPlan, err error) {
	slices.SortFunc(plans, func(a, b *partPlan) int { return a.part.key.compare(b.part.key) })
	plans, waiting, err = c.decided(ctx, call.group, plans)
	if err != nil {
		return nil, err
	}
	return waiting, c.writeSources(ctx, call, plans, func(p *progress.Picture, stable int64) bool {
		offset, ours := p.Source()
		return ours && offset >= 0 && offset < stable
	})
}
