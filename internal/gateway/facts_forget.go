package gateway

import (
	"context"
	"maps"
	"time"

	"github.com/tandem-kafka/tandem/internal/acquire"
	"github.com/tandem-kafka/tandem/internal/icommit/ledger"
	factrecord "github.com/tandem-kafka/tandem/internal/icommit/record"
)

// forgetting is what is to be deleted of the facts of a group: those up to the
// era that each ledger was in when the group was there still. Who makes the group
// anew opens later eras. Of what cooperative fetches handed out it is what was in
// the log then.
type forgetting struct {
	f        *facts
	group    string
	eras     map[factKey]int64
	open     map[factKey][]factrecord.Record // deletions of what transactions have written that are not decided
	handouts map[factKey][]acquire.Entry     // the deletions
}

// spare leaves out what is to stay.
func (g *forgetting) spare(stays func(factKey) bool) {
	maps.DeleteFunc(g.eras, func(k factKey, _ int64) bool { return stays(k) })
	maps.DeleteFunc(g.open, func(k factKey, _ []factrecord.Record) bool { return stays(k) })
	maps.DeleteFunc(g.handouts, func(k factKey, _ []acquire.Entry) bool { return stays(k) })
}

// forgetTimeout bounds what is done about the facts of a group that was deleted.
// The answer to who deleted it waits for that.
const forgetTimeout = 15 * time.Second

// forgetting takes note of a group's facts before the cluster is asked to delete
// it, or its offsets of the partitions that are wanted.
func (f *facts) forgetting(ctx context.Context, group string, wanted func(factKey) bool) *forgetting {
	g := &forgetting{f: f, group: group, eras: make(map[factKey]int64), open: make(map[factKey][]factrecord.Record), handouts: make(map[factKey][]acquire.Entry)}
	if !f.gw.cfg.IndividualCommits {
		return g
	}
	ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
	defer cancel()
	if err := f.catchUp(ctx, group); err != nil {
		f.gw.log.Warn("the individual commits of a group that is to be deleted cannot be read: they stay in their topic for a while, and count no more", "group", group, "cause", err)
		return g
	}
	for k, s := range f.of(group) {
		if !wanted(k) {
			continue
		}
		s.mu.Lock()
		g.eras[k] = s.ledger.Era()
		if gone := s.open.Deletions(); len(gone) > 0 {
			g.open[k] = gone
		}
		s.mu.Unlock()
	}
	for _, p := range f.gw.coop.of(group) {
		if !wanted(p.key) {
			continue
		}
		if gone := p.remains(); len(gone) > 0 {
			g.handouts[p.key] = gone
		}
	}
	return g
}

// of are the states of a group.
func (f *facts) of(group string) map[factKey]*factState {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := make(map[factKey]*factState)
	for k, s := range f.states {
		if k.group == group {
			of[k] = s
		}
	}
	return of
}

// forget deletes what was noted, now that the cluster knows of no committed
// offset any more; last: with the record that keeps the era. What fails is done by
// a later sweep.
func (g *forgetting) forget(ctx context.Context, last bool) {
	ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
	defer cancel()
	n := 0
	for _, gone := range g.open {
		if err := g.f.log.Append(ctx, g.group, gone); err != nil {
			g.kept(err)
			return
		}
		n += len(gone)
	}
	for k, gone := range g.handouts {
		if err := g.f.log.AppendHandouts(ctx, g.group, handouts(k, gone, [16]byte{})); err != nil {
			g.kept(err)
			return
		}
		n += len(gone)
	}
	for k, era := range g.eras {
		s := g.f.state(k)
		for s != nil {
			s.mu.Lock()
			gone := s.ledger.Remains(era, ledger.MaxDeletes, last)
			s.mu.Unlock()
			if len(gone) == 0 {
				break
			}
			if err := g.f.log.Append(ctx, g.group, gone); err != nil {
				g.kept(err)
				return
			}
			s.mu.Lock()
			s.ledger.Left(era, gone)
			s.mu.Unlock()
			n += len(gone)
		}
	}
	if n > 0 {
		g.f.gw.log.Info("deleted the individual commits of a group that is gone", "group", g.group, "records", n)
	}
}

func (g *forgetting) kept(cause error) {
	g.f.gw.log.Warn("individual commits of a group that is gone stay in their topic for a while; they count no more", "group", g.group, "cause", cause)
}
