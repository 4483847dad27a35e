package gateway

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/tandem-kafka/tandem/internal/slicecache"
)

// groups is what the gateway knows of groups' progress on views: a picture of
// the rows per group and source partition, shared by all connections. All of it
// can be read again from the cluster at any time.
type groups struct {
	gw *Gateway

	mu    sync.Mutex
	parts map[partKey]*groupPart
	// last commit of a group to a view of a source, and its last renewal
	seen map[groupSource]*groupSeen
	// groups that commit individually
	ranged map[groupSource]bool
	// the parts of groups whose source rows may not say all that is done; see
	// heartbeat.go
	unsettled map[string]map[*groupPart]rest
	// those of groups whose members asked here where to begin
	begun map[string]map[*groupPart]rest
}

// partKey names a picture. Views of one source that were made for different
// partition counts cut the key axis differently: their rows cannot be compared,
// and they share the stable offset only.
type partKey struct {
	group  string
	source slicecache.Source
	base   int32
}

func (k partKey) compare(o partKey) int {
	return cmp.Or(strings.Compare(k.source.Topic, o.source.Topic), slices.Compare(k.source.TopicID[:], o.source.TopicID[:]),
		cmp.Compare(k.source.Partition, o.source.Partition), cmp.Compare(k.base, o.base))
}

type groupSource struct{ group, source string }

type groupSeen struct {
	view      string
	committed time.Time
	renewed   time.Time
}

// groupPart is one picture.
type groupPart struct {
	key  partKey
	gate gate

	mu      sync.Mutex
	views   []*View // as the picture numbers them
	picture *progress.Picture
	readAt  time.Time // of the picture
	reads   int       // how many pictures were read
	used    time.Time
	// others is when a reading last showed rows that this gateway did not write.
	others time.Time
}

const (
	maxParts  = 100_000
	idleParts = 10 * time.Minute
)

func newGroups(g *Gateway) *groups {
	return &groups{gw: g, parts: make(map[partKey]*groupPart), seen: make(map[groupSource]*groupSeen), ranged: make(map[groupSource]bool), unsettled: make(map[string]map[*groupPart]rest), begun: make(map[string]map[*groupPart]rest)}
}

// part returns the picture of a group for a source partition.
func (g *groups) part(k partKey) *groupPart {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.parts[k]
	if p == nil {
		if len(g.parts) >= maxParts || len(g.parts) > 64 && len(g.parts)&(len(g.parts)-1) == 0 {
			g.forget(now)
		}
		p = &groupPart{key: k}
		g.parts[k] = p
	}
	p.used = now
	return p
}

// forget drops what was not used for a while, and all of it where that does not
// help. Connections that still hold a picture go on with it.
func (g *groups) forget(now time.Time) {
	for k, p := range g.parts {
		if now.Sub(p.used) > idleParts {
			delete(g.parts, k)
		}
	}
	for group, of := range g.begun {
		for p, e := range of {
			if now.Sub(e.since) > idleParts {
				delete(of, p)
			}
		}
		if len(of) == 0 {
			delete(g.begun, group)
		}
	}
	for k, s := range g.seen {
		if now.Sub(s.committed) > g.gw.cfg.Limits.RenewRows+idleParts {
			delete(g.seen, k)
		}
	}
	if len(g.parts) >= maxParts {
		clear(g.parts)
	}
}

// noteView takes note of a commit to a view and reports whether the group's
// source rows are due for renewal.
func (g *groups) noteView(group string, w *View) (renew, first bool) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	k := groupSource{group, w.Source}
	s := g.seen[k]
	if s == nil {
		s = &groupSeen{}
		g.seen[k] = s
	}
	s.view, s.committed = w.Name, now
	if progress.RenewalDue(s.renewed.UnixMilli(), now.UnixMilli(), g.gw.cfg.Limits.RenewRows.Milliseconds()) {
		first, s.renewed = s.renewed.IsZero(), now
		return true, first
	}
	return false, false
}

// sourceName is the name of a topic that is the source of views, "" for others.
func (v *views) sourceName(r topicRef) string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if r.id == ([16]byte{}) {
		if len(v.bySource[r.name]) > 0 {
			return r.name
		}
		return ""
	}
	for name, of := range v.bySource {
		for _, w := range of {
			if w.SourceID == r.id {
				return name
			}
		}
	}
	return ""
}

// notePlain takes note of a group's commit to a topic that is the source of
// views: pictures of it are out of date, and if the group commits to a view as
// well, it reads one input twice.
func (g *groups) notePlain(group, source string) {
	g.mu.Lock()
	s := g.seen[groupSource{group, source}]
	var old []*groupPart
	if s != nil || g.ranged[groupSource{group, source}] {
		for k, p := range g.parts {
			if k.group == group && k.source.Topic == source {
				old = append(old, p)
			}
		}
	}
	g.mu.Unlock()
	for _, p := range old {
		p.drop()
	}
	if s != nil && time.Since(s.committed) < time.Minute {
		g.gw.warnDouble(group, source, s.view)
	}
}

// noteRanges takes note of a group that commits individually.
func (g *groups) noteRanges(k partKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.ranged) >= maxParts {
		clear(g.ranged)
	}
	g.ranged[groupSource{k.group, k.source.Topic}] = true
}

func (g *groups) anyRanges() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.ranged) > 0
}

// of says which views the picture is of.
func (p *groupPart) of(views []*View) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.views, views) {
		p.views, p.picture = views, nil
	}
}

// drop has the rows read before the next commit.
func (p *groupPart) drop() {
	p.mu.Lock()
	p.picture = nil
	p.mu.Unlock()
}

// sliceKey names a slice that a connection commits.
type sliceKey struct {
	group, view string
	partition   int32
}

// sliceState is what a connection knows of it.
type sliceState struct {
	generation int32  // of the last commit
	member     string // of the last commit
	committed  bool   // there was one
	began      int64  // where the client was told to start, or its last commit; -1: it never did either here
	refused    bool   // the cluster refused the last commit
}

// maxSlices bounds what one connection remembers.
const maxSlices = 100_000

func (c *conn) slice(k sliceKey) *sliceState {
	s := c.slices[k]
	if s == nil {
		if c.slices == nil || len(c.slices) >= maxSlices {
			c.slices = make(map[sliceKey]*sliceState)
		}
		s = &sliceState{began: -1}
		c.slices[k] = s
	}
	return s
}

// gate lets the commits of a group for a source partition through side by side,
// but one that goes back alone: the others would write a source row that
// counts what it takes back. Nobody waits for a connection that hangs for
// longer than gateWait.
type gate struct {
	mu     sync.Mutex
	under  int
	alone  bool
	change chan struct{} // closed when under or alone changes
}

const gateWait = 2 * time.Second

func (g *gate) enter(ctx context.Context, alone bool) {
	timeout := time.NewTimer(gateWait)
	defer timeout.Stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	for late := false; !late && (g.alone || alone && g.under > 0); {
		if g.change == nil {
			g.change = make(chan struct{})
		}
		change := g.change
		g.mu.Unlock()
		select {
		case <-change:
		case <-timeout.C:
			late = true
		case <-ctx.Done():
			late = true
		}
		g.mu.Lock()
	}
	g.under++
	g.alone = g.alone || alone
}

func (g *gate) leave(alone bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.under--
	if alone {
		g.alone = false
	}
	if g.change != nil {
		close(g.change)
		g.change = nil
	}
}
