package gateway

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/tandem-kafka/tandem/internal/split"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// tp names a topic partition.
type tp struct {
	topic     string
	partition int32
}

// stored is what Kafka answers for one row.
type stored struct {
	progress.Row
	code int16
}

// askRows says whose rows are asked for and how.
type askRows struct {
	group       string
	member      *string // KIP-848, from v9 on; nil: not checked
	memberEpoch int32
	stable      bool
}

// viewsLike returns the views that share a picture with w, by name.
func (g *groups) viewsLike(w *View) []*View {
	var like []*View
	for _, o := range g.gw.views.OfSource(w.Source) {
		if o.Base == w.Base && o.SourceID == w.SourceID {
			like = append(like, o)
		}
	}
	return like
}

// viewsOf returns the views whose rows a picture is made of.
func (g *groups) viewsOf(k partKey) []*View {
	var of []*View
	for _, o := range g.gw.views.OfSource(k.source.Topic) {
		if o.Base == k.base && o.SourceID == k.source.TopicID {
			of = append(of, o)
		}
	}
	return of
}

// apart returns the views of the same source that cut its key axis differently: with other bases.
func (g *groups) apart(k partKey) []*View {
	var apart []*View
	for _, o := range g.gw.views.OfSource(k.source.Topic) {
		if o.Base != k.base && o.SourceID == k.source.TopicID {
			apart = append(apart, o)
		}
	}
	return apart
}

// indexOf finds a view by its name: what else is known of it may just have changed. -1: not there.
func indexOf(views []*View, w *View) int {
	return slices.IndexFunc(views, func(o *View) bool { return o.Name == w.Name })
}

// rows reads rows on the client's own connection, with its rights. code is the
// error of the group as a whole.
func (c *conn) rows(ctx context.Context, a askRows, tps map[string][]int32) (rows map[tp]stored, code int16, err error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	if err := c.setVersion(ctx, req, 9); err != nil { // v10 has topic ids
		return nil, 0, err
	}
	req.RequireStable = a.stable
	names := slices.Sorted(maps.Keys(tps))
	if req.Version < 8 {
		req.Group = a.group
		req.Topics = make([]kmsg.OffsetFetchRequestTopic, 0, len(names))
		for _, name := range names {
			t := kmsg.NewOffsetFetchRequestTopic()
			t.Topic, t.Partitions = name, tps[name]
			req.Topics = append(req.Topics, t)
		}
	} else {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group, g.MemberID, g.MemberEpoch = a.group, a.member, a.memberEpoch
		g.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(names))
		for _, name := range names {
			t := kmsg.NewOffsetFetchRequestGroupTopic()
			t.Topic, t.Partitions = name, tps[name]
			g.Topics = append(g.Topics, t)
		}
		req.Groups = append(req.Groups, g)
	}
	kresp, err := c.roundTrip(ctx, req)
	if err != nil {
		return nil, 0, err
	}
	resp := kresp.(*kmsg.OffsetFetchResponse)
	rows = make(map[tp]stored)
	code = resp.ErrorCode
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for _, p := range t.Partitions {
			rows[tp{t.Topic, p.Partition}] = stored{progress.Row{Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata}, p.ErrorCode}
		}
	}
	for i := range resp.Groups {
		code = resp.Groups[i].ErrorCode
		for j := range resp.Groups[i].Topics {
			t := &resp.Groups[i].Topics[j]
			for _, p := range t.Partitions {
				rows[tp{t.Topic, p.Partition}] = stored{progress.Row{Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata}, p.ErrorCode}
			}
		}
	}
	return rows, code, nil
}

// rowsAndDecided is rows; where some wait for a transaction, decided has all of
// them as they were last decided.
func (c *conn) rowsAndDecided(ctx context.Context, a askRows, tps map[string][]int32) (rows, decided map[tp]stored, code int16, err error) {
	if rows, code, err = c.rows(ctx, a, tps); err == nil && code == 0 && unstable(rows) {
		a.stable = false
		decided, code, err = c.rows(ctx, a, tps)
	}
	return rows, decided, code, err
}

// addRows adds the rows that a picture is made of.
func addRows(tps map[string][]int32, k partKey, views []*View) {
	add := func(topic string, partition int32) {
		if !slices.Contains(tps[topic], partition) {
			tps[topic] = append(tps[topic], partition)
		}
	}
	add(k.source.Topic, k.source.Partition)
	for _, w := range views {
		first := w.Partition(k.source.Partition, 0)
		if slices.Contains(tps[w.Name], first) {
			continue // with all the others
		}
		for s := range w.K {
			tps[w.Name] = append(tps[w.Name], w.Partition(k.source.Partition, s))
		}
	}
}

// pictureOf makes a picture of rows: of those of views, and what those of views
// that are apart tell of eras. code is the error of the source row. Rows
// of a view that the client may not see count as missing, which only has its
// slices begin lower.
func pictureOf(k partKey, views, apart []*View, rows, decided map[tp]stored) (p *progress.Picture, code int16) {
	named := make([]progress.View, len(views))
	for i, w := range views {
		named[i] = progress.View{Name: w.Name, K: w.K}
	}
	p = progress.NewPicture(named)
	get := func(at tp) (progress.Row, int16) {
		r, ok := rows[at]
		if !ok {
			return progress.NoRow, 0
		}
		if r.code == kerr.UnstableOffsetCommit.Code {
			row := progress.NoRow
			if d, ok := decided[at]; ok && d.code == 0 {
				row = d.Row
			}
			row.Pending = true
			return row, 0
		}
		if r.code != 0 {
			return progress.NoRow, r.code
		}
		return r.Row, 0
	}
	source, code := get(tp{k.source.Topic, k.source.Partition})
	p.SetSource(source)
	for i, w := range views {
		for s := range w.K {
			row, _ := get(tp{w.Name, w.Partition(k.source.Partition, s)})
			p.SetView(i, s, row)
		}
	}
	for _, w := range apart {
		for s := range w.K {
			row, _ := get(tp{w.Name, w.Partition(k.source.Partition, s)})
			p.SetApart(row)
		}
	}
	return p, code
}

// unstable reports whether any of the rows waits for a transaction.
func unstable(rows map[tp]stored) bool {
	for _, r := range rows {
		if r.code == kerr.UnstableOffsetCommit.Code {
			return true
		}
	}
	return false
}

// refresh reads the rows of parts afresh, in one request. codes has the error of
// a part where its rows cannot be had. call is the commit that this is for, nil:
// for none. One in a transaction wants to know which rows wait for others, where there are facts.
func (c *conn) refresh(ctx context.Context, group string, parts []*groupPart, call *commitCall) (codes map[*groupPart]int16, err error) {
	if len(parts) == 0 {
		return nil, nil
	}
	tps := make(map[string][]int32)
	views, apart := make([][]*View, len(parts)), make([][]*View, len(parts))
	for i, p := range parts {
		p.mu.Lock()
		views[i] = p.views
		p.mu.Unlock()
		apart[i] = c.gw.groups.apart(p.key)
		addRows(tps, p.key, views[i])
		addRows(tps, p.key, apart[i])
	}
	at := time.Now()
	codes = make(map[*groupPart]int16)
	if err := c.gw.facts.catchUp(ctx, group); err != nil {
		c.gw.unreadable(group, err)
		for _, p := range parts {
			codes[p] = kerr.CoordinatorLoadInProgress.Code
			p.drop()
		}
		return codes, nil
	}
	stable := call != nil && call.in != nil && (len(call.ranges) > 0 || slices.ContainsFunc(parts, func(p *groupPart) bool { return c.gw.facts.state(p.key.facts()) != nil }))
	rows, decided, code, err := c.rowsAndDecided(ctx, askRows{group: group, memberEpoch: -1, stable: stable}, tps)
	if err != nil {
		return nil, err
	}
	for i, p := range parts {
		picture, failed := pictureOf(p.key, views[i], apart[i], rows, decided)
		if code != 0 && code != kerr.GroupIDNotFound.Code { // a group that is not there has no rows
			failed = code
		}
		if failed != 0 {
			codes[p] = failed
			p.drop()
			continue
		}
		p.mu.Lock()
		if p.picture != nil && !p.picture.Equal(picture) {
			p.others = at
		}
		p.picture, p.readAt = picture, at
		p.reads++
		p.mu.Unlock()
		if call != nil {
			call.pictures[p] = readPicture{picture, views[i]}
		}
	}
	return codes, nil
}

// next is what is known to be empty, for a reader of an isolation level.
func (p *groupPart) next(g *Gateway, views []*View, readCommitted bool) progress.NextRecord {
	slicings := make([]split.Slicing, len(views))
	for i, w := range views {
		slicings[i] = w.Slicing()
	}
	return func(view int, slice int32, from int64) int64 {
		return g.cache.NextRecord(p.key.source, slicings[view], slice, readCommitted, from)
	}
}
