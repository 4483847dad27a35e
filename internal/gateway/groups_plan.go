package gateway

import (
	"context"
	"slices"
	"time"

	factrecord "github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/twmb/franz-go/pkg/kerr"
)

// partPlan is what a call does to one source partition.
type partPlan struct {
	part    *groupPart
	views   []*View
	rows    []int // indexes in call.rows
	ranges  []int // indexes in call.ranges
	plan    progress.Plan
	added   []addition
	first   int  // of its additions in the request
	plain   bool // the client commits to the source as well
	picture *progress.Picture
	reads   int          // of the part, when it was planned
	env     progress.Env // that it was planned with

	appended []factrecord.Record // in the call's transaction

	// What became of it.
	refused int16 // the cluster's code for an addition
	failed  bool  // facts may not be in the log
}

func goesBack(plans []*partPlan) bool {
	return slices.ContainsFunc(plans, func(p *partPlan) bool { return len(p.plan.Back) > 0 })
}

func opens(plans []*partPlan) bool {
	return slices.ContainsFunc(plans, func(p *partPlan) bool { return p.picture != nil && p.plan.Opens })
}

// byPart sorts the rows by source partition, in the order of partKey.compare.
func (call *commitCall) byPart() []*partPlan {
	var plans []*partPlan
	planOf := func(part *groupPart) *partPlan {
		j := slices.IndexFunc(plans, func(p *partPlan) bool { return p.part == part })
		if j < 0 {
			j = len(plans)
			plans = append(plans, &partPlan{part: part, plain: call.plain[tp{part.key.source.Topic, part.key.source.Partition}]})
		}
		return plans[j]
	}
	for i := range call.rows {
		if part := call.rows[i].part; part != nil {
			p := planOf(part)
			p.rows = append(p.rows, i)
		}
	}
	for i := range call.ranges {
		if r := &call.ranges[i]; r.code == 0 {
			p := planOf(r.part)
			p.ranges = append(p.ranges, i)
		}
	}
	slices.SortFunc(plans, func(a, b *partPlan) int { return a.part.key.compare(b.part.key) })
	return plans
}

// planCommit has those pictures read that are not there or too old, or that were
// not read on this connection in this generation, and plans each part.
func (c *conn) planCommit(ctx context.Context, call *commitCall, plans []*partPlan) error {
	call.pictures = make(map[*groupPart]readPicture)
	var stale []*groupPart
	now := time.Now()
	for _, p := range plans {
		p.part.mu.Lock()
		call.pictures[p.part] = readPicture{p.part.picture, p.part.views}
		old := p.part.picture == nil || now.Sub(p.part.readAt) > c.gw.cfg.Limits.RefreshRows
		begins := false
		for _, i := range p.rows {
			begins = call.rows[i].state.begins(call) || begins
		}
		for _, i := range p.ranges {
			begins = call.ranges[i].state.begins(call) || begins
		}
		p.part.mu.Unlock()
		// Without members Kafka takes anybody's commit at any time, past this gateway too.
		old = old || begins || call.generation < 0 && len(p.ranges) > 0
		if old || call.txn {
			stale = append(stale, p.part)
		}
	}
	if err := c.read(ctx, call, plans, stale); err != nil {
		return err
	}
	for _, p := range plans {
		if err := c.plan(ctx, call, p); err != nil {
			return err
		}
	}
	return nil
}

// readPicture is a picture as a call found it, or as it was read for it. It serves
// the call also when another connection drops the part's, since its own commit has
// failed.
type readPicture struct {
	*progress.Picture
	views []*View
}

// read reads parts afresh; rows of parts that cannot be read fail.
func (c *conn) read(ctx context.Context, call *commitCall, plans []*partPlan, parts []*groupPart) error {
	if call.pictures == nil {
		call.pictures = make(map[*groupPart]readPicture)
	}
	codes, err := c.refresh(ctx, call.group, parts, call)
	if err != nil {
		return err
	}
	for part, code := range codes {
		call.pictures[part] = readPicture{} // it was tried
		for _, p := range plans {
			if p.part != part {
				continue
			}
			call.fail(p, code)
		}
	}
	return nil
}

// fail fails what a call does to a part.
func (call *commitCall) fail(p *partPlan, code int16) {
	for _, i := range p.rows {
		call.rows[i].code, call.rows[i].state.committed = code, false
	}
	p.failRanges(call, code)
}

// plan plans the rows of one source partition and writes their texts into the
// request.
func (c *conn) plan(ctx context.Context, call *commitCall, p *partPlan) error {
	p.part.mu.Lock()
	p.picture = p.part.picture
	if own := call.pictures[p.part]; p.picture == nil && slices.Equal(own.views, p.part.views) {
		p.picture = own.Picture
	}
	if p.picture != nil {
		p.picture = p.picture.Clone()
	}
	p.views, p.reads = p.part.views, p.part.reads
	p.part.mu.Unlock()
	if p.picture == nil { // could not be read
		p.plan = progress.Plan{}
		for _, i := range p.rows {
			if call.rows[i].code == 0 {
				call.rows[i].code, call.rows[i].state.committed = kerr.CoordinatorLoadInProgress.Code, false
			}
		}
		p.failRanges(call, kerr.CoordinatorLoadInProgress.Code)
		return nil
	}
	c.gw.facts.attach(p.picture, p.part.key)
	env, err := c.env(ctx, call, p)
	if err != nil {
		return err
	}
	p.env = env
	p.work(call)
	if p.plan.Opens && (env.Facts != nil || p.factsEra() >= 0) {
		if p.env.Generation, err = c.epoch(ctx, call); err != nil {
			return err
		}
		p.work(call)
	}
	if !c.admitted(call, p) {
		c.withoutFacts(call, p, kerr.CoordinatorLoadInProgress.Code) // clients try again later
	}
	return nil
}

// work makes the plan, and writes its texts into the request.
func (p *partPlan) work(call *commitCall) {
	commits := make([]progress.Commit, 0, len(p.rows))
	for _, i := range p.rows {
		r := call.rows[i].commit
		r.Uncounted = r.Uncounted || call.rows[i].code != 0 // then it is left out
		commits = append(commits, r)
	}
	p.plan = p.picture.Plan(commits, p.env)
	for n, i := range p.rows {
		*call.rows[i].metadata = p.plan.Rows[n].Metadata
	}
	p.added = p.added[:0]
	if p.plain {
		return // the client itself commits to the source: what it says holds
	}
	for _, w := range p.plan.Added {
		p.added = append(p.added, p.addition(w))
	}
	p.added = append(p.added, p.addition(p.plan.Source))
}

func (p *partPlan) addition(w progress.Write) addition {
	src := p.part.key.source
	a := addition{topic: src.Topic, id: src.TopicID, vp: src.Partition, offset: w.Offset, epoch: w.LeaderEpoch, metadata: w.Metadata}
	if w.View >= 0 {
		v := p.views[w.View]
		a.topic, a.id, a.vp = v.Name, v.BackingID, v.Partition(src.Partition, w.Slice)
	}
	return a
}

// env gathers what a plan depends on besides the rows.
func (c *conn) env(ctx context.Context, call *commitCall, p *partPlan) (progress.Env, error) {
	committed := true
	for _, i := range p.rows {
		committed = committed && c.committedOnly(call.group, call.rows[i].view.Name)
	}
	if len(p.rows) == 0 {
		committed = c.readsCommitted(call.group, p.picture, p.views)
	}
	env := progress.Env{Next: p.part.next(c.gw, p.views, committed), NowMs: time.Now().UnixMilli(), Generation: call.generation}
	env.Facts = c.factsEnv(call, p)
	src := p.part.key.source
	offset, _ := p.picture.Source()
	if offset < 0 { // once in the life of a group
		start, _, _, err := c.gw.reader.ListOffset(ctx, src, earliestTimestamp, false)
		if err == nil {
			env.LogStart = max(start, 0)
		}
	}
	if p.picture.Foreign() && !call.txn {
		rows, code, err := c.rows(ctx, askRows{group: call.group, memberEpoch: -1, stable: true}, map[string][]int32{src.Topic: {src.Partition}})
		if err != nil {
			return env, err
		}
		env.SourcePending = code == 0 && rows[tp{src.Topic, src.Partition}].code == kerr.UnstableOffsetCommit.Code
	}
	return env, nil
}

// replan plans again, from rows read afresh, for commits that go back or open an
// era.
func (c *conn) replan(ctx context.Context, call *commitCall, plans []*partPlan) error {
	var parts []*groupPart
	ectx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, p := range plans {
		parts = append(parts, p.part)
		for _, n := range p.plan.Back {
			// Afterwards the cache knows what is behind the slice's last record.
			r := &call.rows[p.rows[n]]
			committed := c.committedOnly(call.group, r.view.Name)
			_, _, _ = c.gw.cache.End(ectx, p.part.key.source, r.view.Slicing(), r.commit.Slice, committed)
		}
	}
	for again := true; again; {
		call.pictures = nil
		if err := c.read(ctx, call, plans, parts); err != nil {
			return err
		}
		again = false
		for _, p := range plans {
			known := p.factsEra()
			if err := c.plan(ctx, call, p); err != nil {
				return err
			}
			// Facts of an era that another gateway opened came to be known after the
			// rows were read: its source row is to be seen before the next is opened.
			again = again || p.picture != nil && p.plan.Opens && p.factsEra() > known
		}
	}
	return nil
}

// factsEra is the era of the latest facts that the plan knows of; -1: none.
func (p *partPlan) factsEra() int64 {
	if p.picture == nil {
		return -1
	}
	return p.picture.FactsEra()
}
