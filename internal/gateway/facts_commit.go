package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit/ledger"
	"github.com/tandem-kafka/tandem/internal/region"
	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kerr"
)

// This file commits offset ranges and watermarks of key ranges (package
// tandemmsg). Such a row is left out of the request that goes to the cluster;
// what goes there in its place is the stable offset of the source, by which
// Kafka checks member, generation and rights. Then the facts are appended to
// the fact log, and then the client is answered.

// rangeRow is a row of a client's commit that says what is done with additions.
type rangeRow struct {
	topic, index int // where in the request
	part         *groupPart
	state        *sliceState
	facts        []region.Fact
	code         int16
}

func (call *commitCall) rangeRow(topic, index int) *rangeRow {
	for i := range call.ranges {
		if r := &call.ranges[i]; r.topic == topic && r.index == index {
			return r
		}
	}
	return nil
}

// begins reports whether this is the first commit for a slice in the generation
// of the call: then the rows are to be read afresh.
func (s *sliceState) begins(call *commitCall) bool {
	first := !s.committed || s.generation != call.generation || s.member != call.member
	s.committed, s.generation, s.member = true, call.generation, call.member
	return first
}

// addRanges takes up a row with additions. w is the view that it is for, nil for
// an ordinary topic.
func (c *conn) addRanges(ctx context.Context, call *commitCall, at tandemmsg.PartitionCommit, w *View, ref topicRef, partition int32) error {
	r := rangeRow{topic: at.Topic, index: at.Partition}
	keys := at.Keys
	if len(keys) == 0 {
		keys = keyrange.Set{keyrange.Full}
	}
	found := false
	name := ref.name
	var err error
	if w != nil {
		name = w.Name
		src, slice, ok := w.SourceOf(partition)
		if found = ok; ok {
			keys = keyrange.AppendIntersect(nil, keys, keyrange.Set{keyrange.OfSlice(slice, w.K)})
			r.part, found, err = c.partOf(ctx, call.group, src.Topic, src.Partition, w.Base)
		}
	} else {
		if name == "" {
			name, err = c.gw.facts.nameOf(ctx, ref.id)
		}
		if err == nil && name != "" {
			r.part, found, err = c.partOf(ctx, call.group, name, partition, at.Base)
		}
	}
	switch {
	case err != nil:
		c.gw.unreadable(call.group, err)
		r.code = kerr.CoordinatorLoadInProgress.Code
	case !found:
		r.code = kerr.UnknownTopicOrPartition.Code
	case w != nil && at.Base != 0 && at.Base != w.Base:
		r.code = c.refuseRanges(call.group, otherBase(w, at.Base))
	case !c.gw.cfg.IndividualCommits:
		r.code = kerr.InvalidRequest.Code
	case call.plain[tp{r.part.key.source.Topic, r.part.key.source.Partition}] || call.named[rowKey{ref.name, ref.id, partition}]:
		r.code = kerr.InvalidRequest.Code // what the client says of the source itself holds
	default:
		r.state = c.slice(sliceKey{call.group, name, partition})
	}
	for _, k := range keys {
		for _, o := range at.Offsets {
			r.facts = append(r.facts, region.Fact{Keys: k, First: o.First, Last: o.Last})
		}
		if len(at.Offsets) == 0 && at.Watermark > 0 {
			r.facts = append(r.facts, region.Fact{Keys: k, Last: at.Watermark - 1})
		}
	}
	call.ranges = append(call.ranges, r)
	return nil
}

// refuseRanges is why a request with additions is refused as a whole.
func (c *conn) refuseRanges(group string, err error) int16 {
	if c.gw.often.now("ranges "+group, time.Minute) {
		c.log.Warn("a commit with ranges was refused", "group", group, "cause", err)
	}
	return kerr.InvalidRequest.Code
}

// facts are those that a call adds to the part.
func (p *partPlan) facts(call *commitCall) (added []region.Fact) {
	for _, i := range p.ranges {
		if call.ranges[i].code == 0 {
			added = append(added, call.ranges[i].facts...)
		}
	}
	return added
}

func (p *partPlan) failRanges(call *commitCall, code int16) {
	for _, i := range p.ranges {
		r := &call.ranges[i]
		if r.code == 0 {
			r.code = code
		}
		r.state.committed = false
	}
}

// admitted reports whether a part may have the ranges of a call, or has as many
// as it may.
func (c *conn) admitted(call *commitCall, p *partPlan) bool {
	added := p.facts(call)
	if len(added) == 0 || c.gw.facts.admit(p.part.key, p.plan.Era, added, p.plan.Source.Offset) == nil {
		return true
	}
	c.gw.metrics.commits.WithLabelValues("held").Inc()
	return false
}

// storeFacts makes the facts of plans durable that the cluster has accepted.
func (c *conn) storeFacts(ctx context.Context, call *commitCall, plans []*partPlan) {
	var of []*storing
	var parts []*partPlan
	for _, p := range plans {
		switch added := p.facts(call); {
		case p.picture == nil || p.plain || call.txn:
		case p.refused != 0:
			p.failRanges(call, p.refused)
		default:
			of = append(of, &storing{key: p.part.key, era: p.plan.Era, added: added, stable: p.plan.Source.Offset})
			parts = append(parts, p)
		}
	}
	c.gw.facts.store(ctx, call.group, of)
	for i, x := range of {
		p := parts[i]
		if x.err == nil {
			c.gw.coop.committed(x.key, x.era, x.added, x.stable)
		}
		switch {
		case x.err != nil:
			// The stable offset may have counted them: they are done. Nobody knows of the others, so the client has to say it again.
			code := kerr.CoordinatorLoadInProgress.Code
			switch {
			case errors.Is(x.err, kerr.TopicAuthorizationFailed):
				code = kerr.TopicAuthorizationFailed.Code
				fallthrough
			case !errors.Is(x.err, ledger.ErrOver):
				c.gw.unreadable(call.group, x.err)
			}
			p.failRanges(call, code)
			p.failed = true
		case len(x.added) > 0:
			c.gw.groups.noteRanges(p.part.key)
		}
	}
}

// unreadable says that the fact log cannot be read or written.
func (g *Gateway) unreadable(group string, err error) {
	if g.often.now("fact log", 10*time.Second) {
		g.log.Warn("individual commits cannot be read or written", "group", group, "cause", err)
	}
}
