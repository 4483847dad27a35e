package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// settle makes sure that a commit that went back is honoured before it is
// answered: other gateways may have written a source row from rows that they
// read before, or opened an era. In that the rows of this commit do not count, so
// they are committed again.
func (c *conn) settle(ctx context.Context, call *commitCall, plans []*partPlan) error {
	for try := 0; ; try++ {
		back := slices.DeleteFunc(slices.Clone(plans), func(p *partPlan) bool {
			return len(p.plan.Back) == 0 || p.plain || time.Since(c.gw.signs(p.part)) > 2*c.gw.cfg.Limits.RefreshRows && !(p.plan.Exposed && c.gw.facts.possible())
		})
		if len(back) == 0 {
			return nil
		}
		select {
		case <-time.After(c.gw.cfg.Limits.RefreshRows + 500*time.Millisecond):
		case <-ctx.Done():
			return errDone
		case <-c.gw.drainCtx.Done():
		}
		moved, err := c.moved(ctx, call, back)
		if err != nil {
			return err
		}
		if moved && try == settleTries {
			for _, p := range back {
				call.fail(p, kerr.CoordinatorLoadInProgress.Code) // it comes again, or somebody is told
			}
			return nil
		}
		if !moved {
			return c.writeSources(ctx, call, back, func(p *progress.Picture, stable int64) bool {
				offset, ours := p.Source()
				return ours && offset > stable
			})
		}
		if err := c.commitAlone(ctx, call, plans); err != nil {
			return err
		}
	}
}

// settleTries bounds how often a commit that went back is committed anew.
const settleTries = 3

// signs is when another gateway was last seen to write for the group.
func (g *Gateway) signs(p *groupPart) time.Time {
	p.mu.Lock()
	at := p.others
	p.mu.Unlock()
	if s := g.facts.state(p.key.facts()); s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.others.After(at) {
			at = s.others
		}
	}
	return at
}

// moved reports whether another gateway has written a source row of another era
// than a plan was for. Where that cannot be seen the commit fails.
func (c *conn) moved(ctx context.Context, call *commitCall, plans []*partPlan) (moved bool, err error) {
	parts := make([]*groupPart, len(plans))
	for i, p := range plans {
		parts[i] = p.part
	}
	if err := c.read(ctx, call, plans, parts); err != nil {
		return false, err
	}
	for _, p := range plans {
		p.part.mu.Lock()
		if picture := p.part.picture; picture != nil {
			_, ours := picture.Source()
			moved = moved || ours && picture.Era() != p.plan.Era
		}
		p.part.mu.Unlock()
	}
	return moved, nil
}

// writeSources reads parts afresh and writes the source rows of those that wanted
// selects, in a request of their own. No commit that goes back is under way
// meanwhile: a source row from rows of before would count what it takes back.
// Nobody is to hold the gates of the parts, which are in the order of partKey. refused of each plan is what keeps its row from being written.
func (c *conn) writeSources(ctx context.Context, call *commitCall, plans []*partPlan, wanted func(*progress.Picture, int64) bool) error {
	var parts []*groupPart
	for _, p := range plans {
		p.part.gate.enter(ctx, false)
		defer p.part.gate.leave(false)
		parts = append(parts, p.part)
	}
	codes, err := c.refresh(ctx, call.group, parts, nil)
	if err != nil {
		return err
	}
	var added []addition
	var sent, of []*partPlan
	for _, old := range plans {
		p := &partPlan{part: old.part}
		p.part.mu.Lock()
		p.picture, p.views, p.reads = p.part.picture, p.part.views, p.part.reads
		if p.picture != nil {
			p.picture = p.picture.Clone()
		}
		p.part.mu.Unlock()
		if old.refused = codes[p.part]; old.refused == 0 && p.picture == nil {
			old.refused = kerr.CoordinatorLoadInProgress.Code // dropped since
		}
		if old.refused != 0 {
			continue
		}
		c.gw.facts.attach(p.picture, p.part.key)
		env, err := c.env(ctx, call, p)
		if err != nil {
			return err
		}
		if !wanted(p.picture, p.picture.Stable(env.LogStart, env.Next)) {
			continue
		}
		if p.plan = p.picture.Plan(nil, env); p.plan.Opens && p.factsEra() >= 0 {
			if env.Generation, err = c.epoch(ctx, call); err != nil {
				return err
			}
			p.plan = p.picture.Plan(nil, env)
		}
		if p.plan.Unsettled {
			continue // a transaction that is not decided may open the era: whoever comes next writes the row
		}
		for _, w := range append(p.plan.Added, p.plan.Source) {
			added = append(added, p.addition(w))
		}
		sent, of = append(sent, p), append(of, old)
	}
	if len(added) == 0 {
		return nil
	}
	results, err := c.commitSources(ctx, call, added)
	if err != nil {
		return err
	}
	for i, p := range sent {
		if n := slices.IndexFunc(results, func(code int16) bool { return code != 0 }); n >= 0 {
			of[i].refused = results[n]
			p.part.drop()
		} else {
			p.applied()
			c.gw.facts.below(p.part.key, p.plan)
		}
	}
	return nil
}

// renew writes the source rows of all partitions of a view's source anew that
// have progress: Kafka would expire those that are quiet, because the group is
// not subscribed to them. The first time, rows that are not ours are left alone: a
// plain consumer may be at work, and they are not old yet.
func (c *conn) renew(ctx context.Context, call *commitCall, w *View, first bool) error {
	var plans []*partPlan
	views := c.gw.groups.viewsLike(w)
	for partition := range w.SourcePartitions {
		src, _, ok := w.SourceOf(w.Partition(partition, 0))
		if !ok || slices.ContainsFunc(call.rows, func(r commitRow) bool { return r.part != nil && r.part.key.source == src }) {
			continue
		}
		part := c.gw.groups.part(partKey{group: call.group, source: src, base: w.Base})
		part.of(views)
		plans = append(plans, &partPlan{part: part})
	}
	plans, _, err := c.decided(ctx, call.group, plans)
	if err != nil || len(plans) == 0 {
		return err
	}
	return c.writeSources(ctx, call, plans, func(p *progress.Picture, _ int64) bool { return p.Any() && !(first && p.Foreign()) })
}

// decided tells parts whose source rows wait for a transaction from the others: a
// row written now would take the place of the transaction's, or open an era that
// leaves behind what it did.
func (c *conn) decided(ctx context.Context, group string, plans []*partPlan) (decided, waiting []*partPlan, err error) {
	if len(plans) == 0 {
		return nil, nil, nil
	}
	tps := make(map[string][]int32)
	for _, p := range plans {
		src := p.part.key.source
		tps[src.Topic] = append(tps[src.Topic], src.Partition)
	}
	rows, _, err := c.rows(ctx, askRows{group: group, memberEpoch: -1, stable: true}, tps)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range plans {
		src := p.part.key.source
		if rows[tp{src.Topic, src.Partition}].code == kerr.UnstableOffsetCommit.Code {
			waiting = append(waiting, p)
		} else {
			decided = append(decided, p)
		}
	}
	return decided, waiting, nil
}

// commitSources commits rows of the gateway's own for a group, with the member
// and generation of a client's commit.
func (c *conn) commitSources(ctx context.Context, call *commitCall, added []addition) (codes []int16, err error) {
	req := kmsg.NewPtrOffsetCommitRequest()
	if err := c.setVersion(ctx, req, 9); err != nil { // v10 has topic ids
		return nil, err
	}
	req.Group, req.Generation, req.MemberID, req.InstanceID = call.group, call.generation, call.member, call.instance
	_, codes, err = c.sendOffsetCommit(ctx, call, req, nil, added)
	return codes, err
}

// afterCommit counts the results, and renews what is due.
func (c *conn) afterCommit(ctx context.Context, call *commitCall) {
	var seen []*View
	for i := range call.rows {
		r := &call.rows[i]
		if r.code != 0 {
			c.gw.metrics.commits.WithLabelValues("failed").Inc()
			continue
		}
		c.gw.metrics.commits.WithLabelValues("ok").Inc()
		if r.part == nil || slices.Contains(seen, r.view) {
			continue
		}
		seen = append(seen, r.view)
		if len(call.plain) > 0 {
			for at := range call.plain {
				if at.topic == r.view.Source {
					c.gw.warnDouble(call.group, at.topic, r.view.Name)
				}
			}
		}
		renew, first := c.gw.groups.noteView(call.group, r.view)
		if !renew {
			continue
		}
		if err := c.renew(ctx, call, r.view, first); err != nil {
			c.log.Info("renewing the source rows of a group", "group", call.group, "view", r.view.Name, "cause", err)
		}
	}
}

// answers gives each row of a request, and each addition, its error code.
func answers(codes map[rowKey]int16, added []addition, byID bool, key func(topic, index int) rowKey) (func(int, int) int16, []int16, error) {
	get := func(k rowKey) int16 {
		if code, ok := codes[k]; ok {
			return code
		}
		return -1 // UNKNOWN_SERVER_ERROR: the cluster left it out
	}
	addedCodes := make([]int16, len(added))
	for i, a := range added {
		addedCodes[i] = get(keyOf(a.topic, a.id, a.vp, byID))
	}
	return func(topic, index int) int16 { return get(key(topic, index)) }, addedCodes, nil
}
