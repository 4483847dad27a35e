package gateway

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tandem-kafka/tandem/internal/slicecache"
	"github.com/tandem-kafka/tandem/internal/split"
	"github.com/tandem-kafka/tandem/internal/upstream"
	"github.com/tandem-kafka/tandem/internal/view"
)

// View is a view as the gateway knows it now. It never changes: a change makes
// a new one.
type View struct {
	view.Definition
	// SourcePartitions is how many partitions the source has; 0: it is gone.
	SourcePartitions int32
	// Backing is how many partitions the backing topic has; 0: it is not there.
	Backing int32
	// BackingID is the backing topic's id.
	BackingID [16]byte
}

// Slicing says how the view cuts its source.
func (v *View) Slicing() split.Slicing { return split.Slicing{Base: v.Base, K: v.K} }

// SourceOf returns the source partition that virtual partition vp shows, and
// the slice of it. ok is false where the source has no such partition.
func (v *View) SourceOf(vp int32) (src slicecache.Source, slice int32, ok bool) {
	p, s, ok := v.Locate(vp)
	if !ok || p >= v.SourcePartitions {
		return src, 0, false
	}
	return slicecache.Source{Topic: v.Source, TopicID: v.SourceID, Partition: p}, s, true
}

// views is what the gateway knows of all views of the cluster. Lookups are from
// memory; names and topic ids that were never seen cause one look at the
// definitions topic, so that no Fetch of a view slips through to its empty
// topic.
type views struct {
	gw   *Gateway
	defs *upstream.Definitions

	// working serialises what changes the cluster or reads the definitions.
	working turn
	// last is the last catchUp; working guards it.
	last struct {
		began time.Time
		err   error
	}
	// wake makes watch look at once.
	wake chan struct{}

	looked sync.Map // name -> time.Time of the last look at the view's topics

	mu         sync.RWMutex
	log        *view.Log
	byName     map[string]*View
	byID       map[[16]byte]*View
	bySource   map[string][]*View
	plain      map[string]struct{}    // names seen that are no view
	plainIDs   map[[16]byte]time.Time // ids seen that are no view's, until then; zero: for good
	lost       map[string]view.Record // what the definitions topic said before it was deleted, by key
	configured map[string]ViewConfig  // the config file's views
}

func newViews(g *Gateway) *views {
	return &views{
		gw: g, defs: g.cluster.Definitions(), log: view.NewLog(), wake: make(chan struct{}, 1),
		byName: map[string]*View{}, byID: map[[16]byte]*View{}, bySource: map[string][]*View{},
		plain: map[string]struct{}{}, plainIDs: map[[16]byte]time.Time{}, lost: map[string]view.Record{},
		working: newTurn(), configured: g.cfg.Views,
	}
}

// maxSeen bounds the memory of names and ids seen; past it they are forgotten
// and looked up again.
const maxSeen = 200_000

// Name returns a view by its name, nil where there is none.
func (v *views) Name(name string) *View {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.byName[name]
}

// ID returns a view by its backing topic's id, nil where there is none.
func (v *views) ID(id [16]byte) *View {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.byID[id]
}

// Topic returns a view by topic id where it is set, otherwise by name.
func (v *views) Topic(name string, id [16]byte) *View {
	if id != ([16]byte{}) {
		return v.ID(id)
	}
	return v.Name(name)
}

// OfSource returns the views of a source topic, by name.
func (v *views) OfSource(source string) []*View {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.bySource[source]
}

// All returns every view, by name.
func (v *views) All() []*View {
	v.mu.RLock()
	defer v.mu.RUnlock()
	out := make([]*View, 0, len(v.byName))
	for _, w := range v.byName {
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b *View) int { return compare(a.Name, b.Name) })
	return out
}

// Empty reports whether the cluster has no view.
func (v *views) Empty() bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.byName) == 0
}

// seen reports whether a topic is known, as a view or as no view.
func (v *views) seen(name string, id [16]byte) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.seenLocked(name, id)
}

func (v *views) seenLocked(name string, id [16]byte) bool {
	if id != ([16]byte{}) {
		if until, ok := v.plainIDs[id]; ok && (until.IsZero() || time.Now().Before(until)) {
			return true
		}
		_, ok := v.byID[id]
		return ok
	}
	if _, ok := v.plain[name]; ok || len(name) > maxTopicName {
		return true
	}
	_, ok := v.byName[name]
	return ok
}

// maxTopicName is the length of the longest topic name; longer ones are no
// topic's, and need no memory.
const maxTopicName = 249

// topicRef names a topic in a request: by id where that is set, otherwise by
// name. Metadata knows both.
type topicRef struct {
	name string
	id   [16]byte
}

const (
	// resolveWait bounds how long a request waits to know whether its topics are
	// views.
	resolveWait = 5 * time.Second
	// unknownIDFor is how long an id that the cluster does not know (or not to
	// the gateway's user) passes without another look.
	unknownIDFor = 5 * time.Second
)

// resolve makes sure that it is known for each topic whether it is a view. An
// error means that it is not: the caller must not pass the request on.
func (v *views) resolve(ctx context.Context, refs ...topicRef) error {
	if v.gw.cfg.NoViews {
		return nil
	}
	unseen := func(refs []topicRef) (fresh []topicRef) {
		v.mu.RLock()
		defer v.mu.RUnlock()
		for _, r := range refs {
			if !v.seenLocked(r.name, r.id) {
				fresh = append(fresh, r)
			}
		}
		return fresh
	}
	fresh := unseen(refs)
	if len(fresh) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveWait)
	defer cancel()
	if err := v.catchUpSince(ctx, time.Now()); err != nil {
		return fmt.Errorf("looking up the definitions of views: %w", err)
	}
	if fresh = unseen(fresh); len(fresh) == 0 {
		return nil
	}
	return v.remember(ctx, fresh)
}

// catchUpSince catches up, unless somebody else has begun to after that time.
func (v *views) catchUpSince(ctx context.Context, since time.Time) error {
	if err := v.working.take(ctx); err != nil {
		return err
	}
	defer v.working.give()
	if v.last.began.After(since) {
		return v.last.err
	}
	return v.catchUp(ctx)
}

// remember takes note of topics that are no views. A topic of which only the
// id is known is looked up: a view's backing topic may have been made anew by
// another gateway.
func (v *views) remember(ctx context.Context, fresh []topicRef) error {
	var ids [][16]byte
	for _, r := range fresh {
		if r.name == "" && r.id != ([16]byte{}) {
			ids = append(ids, r.id)
		}
	}
	known, err := v.gw.cluster.TopicsByID(ctx, ids...)
	if err != nil {
		return fmt.Errorf("looking up topic ids: %w", err)
	}
	for id, t := range known {
		v.learn(t.Name, id, t.Partitions)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.plain)+len(v.plainIDs)+len(fresh) > maxSeen {
		clear(v.plain)
		clear(v.plainIDs)
	}
	for _, r := range fresh {
		if _, ok := v.byName[r.name]; ok || v.seenLocked(r.name, r.id) {
			continue
		}
		if r.id != ([16]byte{}) {
			until := time.Time{}
			if _, ok := known[r.id]; !ok && r.name == "" {
				until = time.Now().Add(unknownIDFor)
			}
			v.plainIDs[r.id] = until
		}
		if r.name != "" {
			v.plain[r.name] = struct{}{}
		}
	}
	return nil
}

// learn takes note of a topic's id and partitions from a metadata answer that
// passed by. The id is zero in versions before 10: then the known one stays, or
// Fetches by id would slip through to the empty topic.
func (v *views) learn(name string, id [16]byte, partitions int32) {
	known := func(w *View) bool {
		return (id == [16]byte{} || w.BackingID == id) && w.Backing >= partitions
	}
	if w := v.Name(name); w == nil || partitions == 0 || known(w) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if w := v.byName[name]; w != nil && !known(w) {
		next := *w
		next.Backing = partitions
		if id != ([16]byte{}) {
			next.BackingID = id
		}
		v.putLocked(&next)
	}
}

// sourceGrew reports whether a topic is the source of a view that was made for
// fewer partitions than it has now.
func (v *views) sourceGrew(name string, partitions int32) bool {
	for _, w := range v.OfSource(name) {
		if w.SourcePartitions < partitions {
			return true
		}
	}
	return false
}

// putLocked replaces a view. v.mu is held for writing.
func (v *views) putLocked(w *View) {
	v.dropLocked(w.Name)
	v.byName[w.Name] = w
	if w.BackingID != ([16]byte{}) {
		v.byID[w.BackingID] = w
		delete(v.plainIDs, w.BackingID)
	}
	delete(v.plain, w.Name)
	of := append(slices.Clone(v.bySource[w.Source]), w)
	slices.SortFunc(of, func(a, b *View) int { return compare(a.Name, b.Name) })
	v.bySource[w.Source] = of
}

func (v *views) dropLocked(name string) {
	old := v.byName[name]
	if old == nil {
		return
	}
	delete(v.byName, name)
	delete(v.byID, old.BackingID)
	of := slices.DeleteFunc(slices.Clone(v.bySource[old.Source]), func(w *View) bool { return w.Name == name })
	if len(of) == 0 {
		delete(v.bySource, old.Source)
	} else {
		v.bySource[old.Source] = of
	}
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
