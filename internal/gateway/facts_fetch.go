package gateway

import (
	"context"
	"fmt"
	"slices"

	"github.com/tandem-kafka/tandem/internal/icommit/ledger"
	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/tandem-kafka/tandem/internal/region"
	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file answers an OffsetFetch that names key ranges: of ordinary topics
// with the stable offset, and with what is committed above it (package
// tandemmsg); of views with that beside the starts (offset_fetch.go).

// maxCommitted bounds the offset ranges in the answer for one partition: 16 MB.
// What is left out is delivered again.
const maxCommitted = 1_000_000

// asksCommitted reports whether a request names key ranges.
func asksCommitted(req *kmsg.OffsetFetchRequest) bool {
	for i := range req.Topics {
		if keys, err := tandemmsg.KeyRanges(&req.Topics[i]); err != nil || len(keys) > 0 {
			return true
		}
	}
	for i := range req.Groups {
		for j := range req.Groups[i].Topics {
			if keys, err := tandemmsg.KeyRanges(&req.Groups[i].Topics[j]); err != nil || len(keys) > 0 {
				return true
			}
		}
	}
	return false
}

// fetchCommitted adds what is committed individually to the answer of a group.
func (c *conn) fetchCommitted(ctx context.Context, req *kmsg.OffsetFetchRequest, g *fetchedGroup) error {
	if g.answer.ErrorCode != 0 || !c.gw.cfg.IndividualCommits {
		return nil
	}
	var behind error
	caught := false
	for i := range g.ask.Topics {
		t := &g.ask.Topics[i]
		keys, err := tandemmsg.KeyRanges(t)
		if err == nil && len(keys) == 0 || c.gw.views.Topic(t.Topic, t.TopicID) != nil {
			continue
		}
		var base int32
		if err == nil {
			base, err = tandemmsg.KeyAxisBase(t)
		}
		a := slices.IndexFunc(g.answer.Topics, func(a kmsg.OffsetFetchResponseGroupTopic) bool {
			return a.Topic == t.Topic && a.TopicID == t.TopicID
		})
		if a < 0 {
			continue
		}
		if !caught {
			if behind = c.gw.facts.catchUp(ctx, g.ask.Group); behind != nil {
				c.gw.unreadable(g.ask.Group, behind)
			}
			caught = true
		}
		for j := range g.answer.Topics[a].Partitions {
			p := &g.answer.Topics[a].Partitions[j]
			switch {
			case p.ErrorCode != 0 && p.ErrorCode != kerr.UnstableOffsetCommit.Code: // which may be for other key ranges
			case err != nil:
				p.ErrorCode = c.refuseRanges(g.ask.Group, err)
			case behind != nil:
				p.ErrorCode = kerr.CoordinatorLoadInProgress.Code
			default:
				if err := c.committedOf(ctx, req, g, t, keys, base, p); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// committedOf fills in one partition of an ordinary topic. What the cluster
// answered for it stands in p.
func (c *conn) committedOf(ctx context.Context, req *kmsg.OffsetFetchRequest, g *fetchedGroup, t *kmsg.OffsetFetchRequestGroupTopic, keys keyrange.Set, base int32, p *kmsg.OffsetFetchResponseGroupTopicPartition) error {
	name, err := t.Topic, error(nil)
	if name == "" {
		name, err = c.gw.facts.nameOf(ctx, t.TopicID)
	}
	var part *groupPart
	found := false
	if err == nil {
		part, found, err = c.partOf(ctx, g.ask.Group, name, p.Partition, base)
	}
	if err != nil {
		c.gw.unreadable(g.ask.Group, err)
		p.ErrorCode = kerr.CoordinatorLoadInProgress.Code
		return nil
	}
	if !found {
		return nil
	}
	picture, code, err := c.pictureFor(ctx, req, g, part)
	if err != nil {
		return err
	}
	if code != 0 {
		p.ErrorCode = code
		return nil
	}
	stable := req.Version >= 7 && req.RequireStable
	if stable && slices.ContainsFunc(keys, picture.Unstable) {
		p.Offset, p.LeaderEpoch, p.ErrorCode = -1, -1, kerr.UnstableOffsetCommit.Code
		return nil
	}
	_ = tandemmsg.SetKeyAxisBase(p, part.key.base)
	offset, ours := picture.Source()
	if !ours || offset < 0 {
		return nil // what the cluster said holds, and nothing above it
	}
	p.ErrorCode = 0
	next := part.next(c.gw, part.viewsNow(), c.readsCommitted(g.ask.Group, picture, part.viewsNow()))
	p.Offset, p.Metadata = picture.Stable(offset, next), new(string)
	_ = tandemmsg.SetCommittedRangeOffsets(p, c.gw.facts.committed(part.key, picture, keys, p.Offset))
	return nil
}

// keysOfView is what an OffsetFetch wants to know of the key ranges of a view: none, if it does not ask.
func (c *conn) keysOfView(group string, w *View, t *kmsg.OffsetFetchRequestGroupTopic) (keyrange.Set, int16) {
	if !c.gw.cfg.IndividualCommits {
		return nil, 0
	}
	keys, err := tandemmsg.KeyRanges(t)
	if err == nil && len(keys) == 0 {
		return nil, 0
	}
	var base int32
	if err == nil {
		base, err = tandemmsg.KeyAxisBase(t)
	}
	if err == nil && base != 0 && base != w.Base {
		err = otherBase(w, base)
	}
	if err != nil {
		return nil, c.refuseRanges(group, err)
	}
	return keys, 0
}

func otherBase(w *View, base int32) error {
	return fmt.Errorf("view %q: its key positions are for base %d, not %d", w.Name, w.Base, base)
}

// committedOfView adds to the answers for virtual partitions, which have their starts, what is done above those.
func (f *facts) committedOfView(group string, w *View, keys keyrange.Set, pictures map[partKey]*progress.Picture, answers []kmsg.OffsetFetchResponseGroupTopicPartition) {
	for i := range answers {
		p := &answers[i]
		src, slice, ok := w.SourceOf(p.Partition)
		if !ok || p.ErrorCode != 0 {
			continue
		}
		k := partKey{group: group, source: src, base: w.Base}
		_ = tandemmsg.SetKeyAxisBase(p, k.base)
		if offset, ours := pictures[k].Source(); ours && offset >= 0 && p.Offset >= 0 {
			of := keyrange.AppendIntersect(nil, keys, keyrange.Set{keyrange.OfSlice(slice, w.K)})
			_ = tandemmsg.SetCommittedRangeOffsets(p, f.committed(k, pictures[k], of, p.Offset))
		}
	}
}

// pictureFor reads the picture of a part afresh, with the isolation that an
// OffsetFetch asks for.
func (c *conn) pictureFor(ctx context.Context, req *kmsg.OffsetFetchRequest, g *fetchedGroup, part *groupPart) (*progress.Picture, int16, error) {
	views, apart := part.viewsNow(), c.gw.groups.apart(part.key)
	tps := make(map[string][]int32)
	addRows(tps, part.key, views)
	addRows(tps, part.key, apart)
	ask := askRows{group: g.ask.Group, member: g.ask.MemberID, memberEpoch: g.ask.MemberEpoch, stable: req.Version >= 7 && req.RequireStable}
	rows, decided, code, err := c.rowsAndDecided(ctx, ask, tps)
	if err != nil || code != 0 {
		return nil, code, err
	}
	picture, code := pictureOf(part.key, views, apart, rows, decided)
	if code == 0 {
		c.gw.facts.attach(picture, part.key)
	}
	return picture, code, nil
}

func (p *groupPart) viewsNow() []*View {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.views
}

// committed is what is done of key ranges above the stable offset: by facts, and
// by the rows of views.
func (f *facts) committed(k partKey, p *progress.Picture, keys keyrange.Set, stable int64) []tandemmsg.KeyRangeOffsets {
	var of []region.Committed
	f.look(k, func(l *ledger.Ledger) { of = l.Committed(p, k.base, keys, stable, maxCommitted) })
	out := make([]tandemmsg.KeyRangeOffsets, 0, len(of))
	for _, c := range of {
		offsets := make([]tandemmsg.OffsetRange, len(c.Offsets))
		for i, o := range c.Offsets {
			offsets[i] = tandemmsg.OffsetRange{First: o.First, Last: o.Last}
		}
		out = append(out, tandemmsg.KeyRangeOffsets{Keys: c.Keys, Offsets: offsets})
	}
	return out
}

// whole is what of that is done of all keys.
func (f *facts) whole(k partKey, p *progress.Picture, stable int64) (of []region.Fact) {
	f.look(k, func(l *ledger.Ledger) { of = l.Whole(p, k.base, stable) })
	return of
}

// look calls do with the ledger of a part, nil where there never were facts.
func (f *facts) look(k partKey, do func(*ledger.Ledger)) {
	s := f.state(k.facts())
	if s == nil {
		do(nil)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	do(s.ledger)
}
