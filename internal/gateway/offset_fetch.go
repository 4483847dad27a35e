package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
)

// OffsetFetch, all versions, for requests that name a view or ask for
// everything; others pass as bytes.
//
// The answer for a virtual partition is where its slice starts (see package
// progress), not above the slice's own end unless the client itself committed
// there. The rows of all views of the source and the source row are read on the
// client's own connection, so with its rights. Ordinary topics of the request
// go upstream as they are. Where everything is asked for, a view of which the
// group has any row answers for all its partitions that have a start. Rows of
// a transaction that is not decided make those slices wait that depend on them,
// if the client requires stable offsets.

func init() {
	register(wire.OffsetFetch, &api{
		decode: true,
		owns:   typedOwns(offsetFetchOwns),
		handle: typed((*conn).handleOffsetFetch),
	})
}

func offsetFetchOwns(c *conn, req *kmsg.OffsetFetchRequest) (bool, error) {
	refs := make([]topicRef, 0, 8)
	all := req.Version < 8 && req.Topics == nil
	for i := range req.Topics {
		refs = append(refs, topicRef{name: req.Topics[i].Topic})
	}
	for i := range req.Groups {
		all = all || req.Groups[i].Topics == nil
		for _, t := range req.Groups[i].Topics {
			refs = append(refs, topicRef{name: t.Topic, id: t.TopicID})
		}
	}
	if err := c.gw.views.resolve(c.ctx, refs...); err != nil {
		return false, err
	}
	if c.gw.cfg.IndividualCommits && asksCommitted(req) {
		return true, nil
	}
	if c.gw.views.Empty() {
		return false, nil
	}
	return all || slices.ContainsFunc(refs, func(r topicRef) bool { return c.gw.views.Topic(r.name, r.id) != nil }), nil
}

// ownEndWait bounds the search for own ends; without one, a start is answered as
// it is.
const ownEndWait = 5 * time.Second

// fetchedGroup is one group of a request, and its answer, in the form of v8+.
type fetchedGroup struct {
	ask    kmsg.OffsetFetchRequestGroup
	answer kmsg.OffsetFetchResponseGroup
}

func (c *conn) handleOffsetFetch(ctx context.Context, req *kmsg.OffsetFetchRequest) (kmsg.Response, error) {
	groups := groupsOf(req)
	resp := kmsg.NewPtrOffsetFetchResponse()
	if err := c.fetchPlain(ctx, req, groups, resp); err != nil {
		return nil, err
	}
	for i := range groups {
		if err := c.fetchViews(ctx, req, &groups[i]); err != nil {
			return nil, err
		}
		if err := c.fetchCommitted(ctx, req, &groups[i]); err != nil {
			return nil, err
		}
	}
	if req.Version >= 8 {
		for _, g := range groups {
			resp.Groups = append(resp.Groups, g.answer)
		}
		return resp, nil
	}
	g := groups[0].answer
	resp.ErrorCode = g.ErrorCode
	for _, t := range g.Topics {
		rt := kmsg.NewOffsetFetchResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetFetchResponseTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata, rp.ErrorCode, rp.UnknownTags = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode, p.UnknownTags
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp, nil
}

func groupsOf(req *kmsg.OffsetFetchRequest) []fetchedGroup {
	if req.Version >= 8 {
		gs := make([]fetchedGroup, len(req.Groups))
		for i, g := range req.Groups {
			gs[i].ask = g
		}
		return gs
	}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberEpoch = req.Group, -1
	for _, t := range req.Topics {
		gt := kmsg.NewOffsetFetchRequestGroupTopic()
		gt.Topic, gt.Partitions, gt.UnknownTags = t.Topic, t.Partitions, t.UnknownTags
		g.Topics = append(g.Topics, gt)
	}
	if req.Topics != nil && g.Topics == nil {
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	return []fetchedGroup{{ask: g}}
}

// fetchPlain has the cluster answer for ordinary topics, in the client's own
// version. Where everything is asked for, its answer has the views' rows, too.
func (c *conn) fetchPlain(ctx context.Context, req *kmsg.OffsetFetchRequest, groups []fetchedGroup, resp *kmsg.OffsetFetchResponse) error {
	ask := *req
	ask.Topics, ask.Groups = nil, nil
	for _, g := range groups {
		pg := g.ask
		if g.ask.Topics != nil {
			pg.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
			for _, t := range g.ask.Topics {
				if c.gw.views.Topic(t.Topic, t.TopicID) == nil {
					pg.Topics = append(pg.Topics, t)
				}
			}
		}
		ask.Groups = append(ask.Groups, pg)
	}
	if req.Version < 8 {
		if groups[0].ask.Topics != nil {
			ask.Topics = []kmsg.OffsetFetchRequestTopic{}
		}
		for _, t := range ask.Groups[0].Topics {
			rt := kmsg.NewOffsetFetchRequestTopic()
			rt.Topic, rt.Partitions = t.Topic, t.Partitions
			ask.Topics = append(ask.Topics, rt)
		}
	}
	kresp, err := c.roundTrip(ctx, &ask)
	if err != nil {
		return err
	}
	r := kresp.(*kmsg.OffsetFetchResponse)
	resp.ThrottleMillis = r.ThrottleMillis
	if req.Version < 8 {
		a := &groups[0].answer
		a.Default()
		a.Group, a.ErrorCode = req.Group, r.ErrorCode
		for _, t := range r.Topics {
			rt := kmsg.NewOffsetFetchResponseGroupTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
				rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata, rp.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
				rt.Partitions = append(rt.Partitions, rp)
			}
			a.Topics = append(a.Topics, rt)
		}
		return nil
	}
	for i := range groups {
		a := &groups[i].answer
		a.Default()
		a.Group = groups[i].ask.Group
		for _, g := range r.Groups {
			if g.Group == a.Group {
				*a = g
			}
		}
	}
	return nil
}

// wantedView is a view in an answer.
type wantedView struct {
	view       *View
	topic      kmsg.OffsetFetchRequestGroupTopic
	all        bool // the client did not name it: partitions without a start are left out
	partitions []int32
}

// fetchViews adds the views to a group's answer.
func (c *conn) fetchViews(ctx context.Context, req *kmsg.OffsetFetchRequest, g *fetchedGroup) error {
	var wanted []wantedView
	if g.ask.Topics == nil {
		g.answer.Topics = slices.DeleteFunc(g.answer.Topics, func(t kmsg.OffsetFetchResponseGroupTopic) bool {
			w := c.gw.views.Topic(t.Topic, t.TopicID)
			if w == nil {
				return false
			}
			ask := kmsg.NewOffsetFetchRequestGroupTopic()
			ask.Topic, ask.TopicID = t.Topic, t.TopicID
			v := wantedView{view: w, topic: ask, all: true}
			for p := range w.PartitionsFor(w.SourcePartitions) {
				v.partitions = append(v.partitions, p)
			}
			wanted = append(wanted, v)
			return true
		})
	}
	for _, t := range g.ask.Topics {
		if w := c.gw.views.Topic(t.Topic, t.TopicID); w != nil {
			wanted = append(wanted, wantedView{view: w, topic: t, partitions: t.Partitions})
		}
	}
	if len(wanted) == 0 || g.answer.ErrorCode != 0 {
		return nil
	}
	return c.startsOf(ctx, req, g, wanted)
}

// startsOf reads the rows and works out the starts.
func (c *conn) startsOf(ctx context.Context, req *kmsg.OffsetFetchRequest, g *fetchedGroup, wanted []wantedView) error {
	tps := make(map[string][]int32)
	parts, apart := make(map[partKey][]*View), make(map[partKey][]*View)
	for _, v := range wanted {
		like := c.gw.groups.viewsLike(v.view)
		for _, vp := range v.partitions {
			if src, _, ok := v.view.SourceOf(vp); ok {
				k := partKey{group: g.ask.Group, source: src, base: v.view.Base}
				if _, ok := parts[k]; !ok {
					parts[k], apart[k] = like, c.gw.groups.apart(k)
					addRows(tps, k, like)
					addRows(tps, k, apart[k])
				}
			}
		}
	}
	stable := req.Version >= 7 && req.RequireStable
	ask := askRows{group: g.ask.Group, member: g.ask.MemberID, memberEpoch: g.ask.MemberEpoch, stable: stable}
	var rows, decided map[tp]stored
	behind := c.gw.facts.catchUp(ctx, g.ask.Group)
	if behind != nil {
		c.gw.unreadable(g.ask.Group, behind)
	}
	if len(tps) > 0 {
		var code int16
		var err error
		if rows, decided, code, err = c.rowsAndDecided(ctx, ask, tps); err != nil {
			return err
		}
		if code != 0 {
			g.answer.ErrorCode, g.answer.Topics = code, nil
			return nil
		}
	}
	pictures := make(map[partKey]*progress.Picture, len(parts))
	failed := make(map[partKey]int16)
	for k, views := range parts {
		if pictures[k], failed[k] = pictureOf(k, views, apart[k], rows, decided); behind != nil && failed[k] == 0 {
			failed[k] = kerr.CoordinatorLoadInProgress.Code
		}
		c.gw.facts.attach(pictures[k], k)
	}
	if stable { // a consumer that begins, and no tool that looks
		for k, views := range parts {
			c.gw.groups.began(k, views)
		}
	}
	wctx, cancel := context.WithTimeout(ctx, ownEndWait)
	defer cancel()
	var work errgroup.Group
	work.SetLimit(listOffsetsConcurrent)
	topics, keys := make([]kmsg.OffsetFetchResponseGroupTopic, len(wanted)), make([]keyrange.Set, len(wanted))
	for i, v := range wanted {
		reader := c.isolationKey(v.view.Name)
		c.gw.isolations.noteReader(g.ask.Group, reader)
		committed := c.gw.isolations.readCommitted(reader)
		t := &topics[i]
		t.Default()
		t.Topic, t.TopicID = v.topic.Topic, v.topic.TopicID
		t.Partitions = make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(v.partitions))
		var invalid int16
		keys[i], invalid = c.keysOfView(g.ask.Group, v.view, &v.topic)
		for j, vp := range v.partitions {
			p := &t.Partitions[j]
			p.Default()
			p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = vp, -1, -1, new(string)
			src, slice, ok := v.view.SourceOf(vp)
			if !ok {
				continue // as Kafka answers where nothing is committed
			}
			k := partKey{group: g.ask.Group, source: src, base: v.view.Base}
			if p.ErrorCode = max(failed[k], invalid); p.ErrorCode == 0 {
				if own := rows[tp{v.view.Name, vp}].code; own != kerr.UnstableOffsetCommit.Code {
					p.ErrorCode = own
				}
			}
			if p.ErrorCode != 0 {
				continue
			}
			i := indexOf(parts[k], v.view)
			if i < 0 {
				p.ErrorCode = kerr.UnknownTopicOrPartition.Code // the view went just now
				continue
			}
			start := pictures[k].Start(i, slice, stable)
			work.Go(func() error {
				c.startOf(wctx, v.view, vp, committed, start, p)
				return nil
			})
		}
	}
	_ = work.Wait()
	for i, t := range topics {
		if wanted[i].all {
			t.Partitions = slices.DeleteFunc(t.Partitions, func(p kmsg.OffsetFetchResponseGroupTopicPartition) bool {
				return p.Offset < 0 && p.ErrorCode == 0
			})
		}
		if len(keys[i]) > 0 {
			c.gw.facts.committedOfView(g.ask.Group, wanted[i].view, keys[i], pictures, t.Partitions)
		}
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 {
				c.slice(sliceKey{g.ask.Group, wanted[i].view.Name, p.Partition}).began = p.Offset
			}
		}
		g.answer.Topics = append(g.answer.Topics, t)
	}
	return nil
}

// startOf turns a start into the answer for a virtual partition.
func (c *conn) startOf(ctx context.Context, w *View, vp int32, committed bool, s progress.Start, p *kmsg.OffsetFetchResponseGroupTopicPartition) {
	src, slice, _ := w.SourceOf(vp)
	if s.Unstable {
		p.ErrorCode = kerr.UnstableOffsetCommit.Code
		return
	}
	p.Offset, p.LeaderEpoch, p.Metadata = s.Offset, s.LeaderEpoch, s.Metadata
	switch {
	case s.FromLogStart:
		first, _, _, err := c.gw.reader.ListOffset(ctx, src, earliestTimestamp, false)
		if err != nil {
			p.ErrorCode = kerr.CoordinatorLoadInProgress.Code // the client asks again
			return
		}
		p.Offset = first
	case s.Offset < 0 || s.Own:
	default:
		end, known, err := c.gw.cache.End(ctx, src, w.Slicing(), slice, committed)
		switch {
		case err == nil && known && end <= p.Offset:
			p.Offset = end
		case s.Uncommitted:
			p.Offset = -1
		}
	}
}
