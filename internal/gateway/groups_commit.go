package gateway

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit"
	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/twmb/franz-go/pkg/kerr"
)

// commitRow is a row of a client's commit that belongs to a view.
type commitRow struct {
	topic, index int // where in the request
	view         *View
	part         *groupPart
	state        *sliceState
	commit       progress.Commit // its View is an index in part.views
	vp           int32
	metadata     **string // in the request
	code         int16
}

// commitCall is an OffsetCommit or TxnOffsetCommit that names views.
type commitCall struct {
	group      string
	generation int32
	member     string
	instance   *string
	txn        bool
	plain      map[tp]bool     // rows of ordinary topics that are sources of views
	named      map[rowKey]bool // rows of any ordinary topics, beside ranges
	rows       []commitRow
	ranges     []rangeRow
	in         *icommit.Txn               // where txn
	abort      int16                      // what says that the transaction is to be aborted
	impatient  bool                       // it has waited long enough for other transactions
	pictures   map[*groupPart]readPicture // as they were when it began to plan, or were read since
	// send sends the request with additions and returns the error codes of the
	// rows named and of the additions, in order. Its request holds the client's
	// rows of views but for those left out (code != 0).
	send     func(ctx context.Context, added []addition) (codes func(topic, index int) int16, addedCodes []int16, err error)
	epoch    int32 // see conn.epoch; 0: not asked yet
	throttle int32
	codeOf   func(topic, index int) int16 // what the cluster answered
}

// result is the error code to answer for a row of the request.
func (call *commitCall) result(topic, index int) int16 {
	i, ok := slices.BinarySearchFunc(call.rows, [2]int{topic, index}, func(r commitRow, at [2]int) int {
		return cmp.Or(cmp.Compare(r.topic, at[0]), cmp.Compare(r.index, at[1]))
	})
	if ok {
		return call.rows[i].code
	}
	if r := call.rangeRow(topic, index); r != nil {
		return r.code
	}
	if call.codeOf == nil {
		return 0
	}
	return call.codeOf(topic, index)
}

// add takes up a row of a view.
func (call *commitCall) add(c *conn, r commitRow, offset int64, epoch int32) {
	r.commit.Offset, r.commit.LeaderEpoch, r.commit.Metadata = offset, epoch, *r.metadata
	if !c.resolveRow(call, &r) {
		r.part = nil
	}
	call.rows = append(call.rows, r)
}

// leftOut are rows that must not be sent: what they depend on cannot be read.
type leftOut map[[2]int]int16

func (l leftOut) has(topic, index int) bool { _, ok := l[[2]int{topic, index}]; return ok }

func (call *commitCall) left() leftOut {
	var l leftOut
	for i := range call.ranges {
		if l == nil {
			l = make(leftOut)
		}
		l[[2]int{call.ranges[i].topic, call.ranges[i].index}] = call.ranges[i].code
	}
	for i := range call.rows {
		if r := &call.rows[i]; r.code != 0 {
			if l == nil {
				l = make(leftOut)
			}
			l[[2]int{r.topic, r.index}] = r.code
		}
	}
	return l
}

// addition is a row that the gateway adds to a client's commit.
type addition struct {
	topic    string
	id       [16]byte
	vp       int32
	offset   int64
	epoch    int32
	metadata *string
}

// metadataBytes is Kafka's default for offset.metadata.max.bytes: rows with a
// longer text are likely to be refused, and must not move the stable offset.
const metadataBytes = 4096

// resolveRow fills in the part and slice of a row. It is false where the source
// has no such partition: then the cluster's answer is the client's.
func (c *conn) resolveRow(call *commitCall, r *commitRow) bool {
	src, slice, ok := r.view.SourceOf(r.vp)
	if !ok {
		return false
	}
	g := c.gw.groups
	r.part = g.part(partKey{group: call.group, source: src, base: r.view.Base})
	views := g.viewsLike(r.view)
	r.part.of(views)
	r.state = c.slice(sliceKey{call.group, r.view.Name, r.vp})
	r.commit.View = indexOf(views, r.view)
	r.commit.Slice, r.commit.Began = slice, r.state.began
	r.commit.Uncounted = r.state.refused || r.commit.Metadata != nil && len(*r.commit.Metadata) > metadataBytes-64
	return r.commit.View >= 0 // else the view went just now
}

// commitViews sends a commit that names views, with what belongs to it, and
// leaves each row's result in its code.
func (c *conn) commitViews(ctx context.Context, call *commitCall) error {
	plans := call.byPart()
	again, err := c.commitPlans(ctx, call, plans, false)
	for try := 0; errors.Is(err, errUnsettled) && try < unsettledTries; try++ {
		select {
		case <-time.After(unsettledPause):
		case <-ctx.Done():
			return errDone
		}
		call.impatient = try == unsettledTries-1
		again, err = c.commitPlans(ctx, call, plans, false)
	}
	if err != nil {
		unknown(plans)
		return err
	}
	if again {
		if err := c.commitAlone(ctx, call, plans); err != nil {
			return err
		}
		if err := c.settle(ctx, call, plans); err != nil {
			return err
		}
	}
	call.took()
	return nil
}

// took takes note of where the clients of the slices are now. What was refused after all
// is not among it: should it have gone back, it is to go back when it comes again.
func (call *commitCall) took() {
	for i := range call.rows {
		if r := &call.rows[i]; r.part != nil && r.code == 0 && !call.txn && r.commit.Offset >= 0 {
			r.state.began = r.commit.Offset
		}
	}
}

// commitAlone plans and sends a commit that goes back or opens an era: alone, so
// that no other commit of this gateway writes a source row that counts what this one
// takes back, or opens an era beside this one.
func (c *conn) commitAlone(ctx context.Context, call *commitCall, plans []*partPlan) error {
	_, err := c.commitPlans(ctx, call, plans, true)
	if err != nil {
		unknown(plans)
	}
	return err
}

// unknown drops the pictures of plans of which it is not known whether they were
// written.
func unknown(plans []*partPlan) {
	for _, p := range plans {
		p.part.drop()
	}
}

// commitPlans plans and sends. If the commit goes back or opens an era and is not
// in a transaction, it does so only with alone, and otherwise asks for that by
// again.
func (c *conn) commitPlans(ctx context.Context, call *commitCall, plans []*partPlan, alone bool) (again bool, err error) {
	for _, p := range plans {
		p.part.gate.enter(ctx, alone)
		defer p.part.gate.leave(alone)
	}
	if !alone {
		if err := c.planCommit(ctx, call, plans); err != nil {
			return false, err
		}
		if (goesBack(plans) || opens(plans)) && !call.txn {
			return true, nil
		}
		if err := c.settled(call, plans); err != nil {
			return false, err
		}
	}
	if alone || goesBack(plans) {
		if err := c.replan(ctx, call, plans); err != nil {
			return false, err
		}
	}
	return false, c.sendCommit(ctx, call, plans)
}

// sendCommit sends the request, and finds out what it did.
func (c *conn) sendCommit(ctx context.Context, call *commitCall, plans []*partPlan) error {
	if call.in != nil {
		if err := c.appendFacts(ctx, call, plans); err != nil {
			return err
		}
	}
	var added []addition
	for _, p := range plans {
		if p.picture == nil {
			continue
		}
		p.first = len(added)
		added = append(added, p.added...)
	}
	codeOf, addedCodes, err := call.send(ctx, added)
	if err != nil {
		return err
	}
	call.codeOf = codeOf
	for _, p := range plans {
		if p.refused, p.failed = 0, false; p.picture == nil {
			continue
		}
		for _, code := range addedCodes[p.first : p.first+len(p.added)] {
			p.refused = cmp.Or(p.refused, code)
		}
	}
	if call.in != nil {
		if err := c.settleFacts(ctx, call, plans); err != nil {
			return err
		}
	} else {
		c.storeFacts(ctx, call, plans)
	}
	planned := make(map[int]bool, len(call.rows))
	for _, p := range plans {
		if p.picture == nil {
			continue
		}
		codes := make([]int16, len(p.rows))
		for n, i := range p.rows {
			r := &call.rows[i]
			planned[i] = true
			if codes[n] = r.code; codes[n] == 0 {
				codes[n] = codeOf(r.topic, r.index)
			}
			r.state.refused = refused(codes[n])
		}
		var source int16
		mine := addedCodes[p.first : p.first+len(p.added)]
		if len(mine) > 0 {
			source, mine = mine[len(mine)-1], mine[:len(mine)-1]
		}
		verdict, repair := p.plan.Verdict(codes, mine, source)
		failed := p.failed || p.refused != 0
		for n, i := range p.rows {
			r := &call.rows[i]
			r.code = verdict[n]
			failed = failed || verdict[n] != 0
		}
		switch {
		case repair && !p.plain:
			if err := c.repair(ctx, call, p, codes); err != nil {
				return err
			}
			p.part.drop()
		case failed || p.plain:
			p.part.drop()
		default:
			if !call.txn { // in a transaction it counts when that is decided
				p.applied()
			}
			c.gw.groups.committed(p.part)
		}
	}
	for i := range call.rows {
		if r := &call.rows[i]; !planned[i] && r.code == 0 {
			r.code = codeOf(r.topic, r.index)
		}
	}
	return nil
}

// refused reports whether an error is one that the same commit would get again.
func refused(code int16) bool {
	return code == kerr.TopicAuthorizationFailed.Code || code == kerr.OffsetMetadataTooLarge.Code || code == kerr.UnknownTopicOrPartition.Code
}

// applied takes an accepted plan into the picture. One that was read since, and
// is of another era, may know of somebody who wrote later, while the facts of this plan
// were on their way, or not know of this plan yet: it is read again.
func (p *partPlan) applied() {
	p.part.mu.Lock()
	defer p.part.mu.Unlock()
	switch picture := p.part.picture; {
	case picture == nil || !slices.Equal(p.part.views, p.views):
	case p.part.reads == p.reads || picture.Is(p.plan.Era):
		picture.Apply(p.plan)
	default:
		p.part.picture = nil
	}
}

// repair writes the source row anew, in the same era, without the rows that were
// refused: it counted them.
func (c *conn) repair(ctx context.Context, call *commitCall, p *partPlan, codes []int16) error {
	var accepted []progress.Commit
	for n, i := range p.rows {
		if codes[n] == 0 {
			accepted = append(accepted, call.rows[i].commit)
		}
	}
	plan := p.picture.Plan(accepted, p.env)
	_, again, err := call.send(ctx, []addition{p.addition(plan.Source)})
	if err == nil && (len(again) == 0 || again[0] != 0) {
		c.log.Warn("the cluster refused part of a commit, and then its correction: the stable offset may be too high until the next commit", "group", call.group, "topic", p.part.key.source.Topic, "partition", p.part.key.source.Partition)
	}
	return err
}
