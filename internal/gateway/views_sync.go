package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tandem-kafka/tandem/internal/upstream"
	"github.com/tandem-kafka/tandem/internal/view"
)

// load reads all definitions, before the gateway listens.
func (v *views) load(ctx context.Context) error {
	if err := v.working.take(ctx); err != nil {
		return err
	}
	defer v.working.give()
	return v.catchUp(ctx)
}

// catchUp reads the definitions up to the topic's end of this moment, looks up
// the topics of views that are new, and repairs what compaction or a deletion
// of the topic could get wrong. v.working is held.
func (v *views) catchUp(ctx context.Context) error {
	began := time.Now()
	err := v.catchUpNow(ctx)
	if ctx.Err() != context.Canceled { // whoever waits behind a caller that has left tries for itself
		v.last.began, v.last.err = began, err
	}
	return err
}

func (v *views) catchUpNow(ctx context.Context) error {
	if err := v.replay(ctx); err != nil {
		return err
	}
	if err := v.restore(ctx); err != nil {
		return err
	}
	v.mu.RLock()
	repairs := v.log.Pending()
	v.mu.RUnlock()
	for _, r := range repairs { // repetitions by several gateways change nothing
		if err := v.defs.Append(ctx, r.Key, r.Value); err != nil {
			v.gw.log.Warn("the definitions topic could not be repaired", "cause", err)
			break
		}
	}
	return nil
}

func (v *views) replay(ctx context.Context) error {
	var added []string
	err := v.defs.CatchUp(ctx, v.reset, func(r upstream.Record) {
		v.mu.Lock()
		defer v.mu.Unlock()
		if was, ok := v.lost[string(r.Key)]; ok && r.Value == nil {
			if d, err := view.Decode(was.Key, was.Value); err == nil {
				v.dropLocked(d.Name)
			}
			delete(v.lost, string(r.Key))
		}
		ch := v.log.Apply(r.Key, r.Value, r.Offset)
		switch ch.Kind {
		case view.Added:
			d := ch.Definition
			if w := v.byName[d.Name]; w == nil || !w.Same(d) {
				v.putLocked(&View{Definition: d, BackingID: d.TopicID})
			}
			added = append(added, d.Name)
		case view.Removed:
			v.dropLocked(ch.Definition.Name)
		case view.Refused, view.Unknown:
			v.gw.log.Warn("a record of the definitions topic does not count", "offset", r.Offset, "cause", ch.Reason)
		}
	})
	if err != nil {
		return err
	}
	if len(added) > 0 {
		return v.look(ctx, added)
	}
	return nil
}

// reset notes that the definitions topic is to be read from its start: it was
// deleted, made anew or cut short. The views stay: without them, their clients
// would read empty topics, and reset their positions.
func (v *views) reset() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range v.log.Records() {
		v.lost[string(r.Key)] = r
	}
	v.log = view.NewLog()
	v.gw.log.Error("the definitions topic was deleted or has lost records: what this gateway knows is written to it again", "topic", upstream.DefinitionsTopic,
		"cure", "none needed; views are deleted with tandem view delete")
}

// restore writes what the definitions topic has lost. Several gateways may do
// it: the definitions are the same.
func (v *views) restore(ctx context.Context) error {
	v.mu.Lock()
	for _, r := range v.log.Records() {
		delete(v.lost, string(r.Key))
	}
	lost := make([]view.Record, 0, len(v.lost))
	for _, key := range slices.Sorted(maps.Keys(v.lost)) {
		lost = append(lost, v.lost[key])
	}
	v.mu.Unlock()
	if len(lost) == 0 {
		return nil
	}
	for _, r := range lost {
		if err := v.defs.Append(ctx, r.Key, r.Value); err != nil {
			return err
		}
	}
	return v.replay(ctx)
}

// look asks the cluster about views' backing topics and sources.
func (v *views) look(ctx context.Context, names []string) error {
	var ask []string
	for _, n := range names {
		if w := v.Name(n); w != nil {
			ask = append(ask, n, w.Source)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	slices.Sort(ask)
	topics, err := v.gw.cluster.Topics(ctx, slices.Compact(ask)...)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	for _, n := range names {
		w := v.byName[n]
		if w == nil {
			continue
		}
		v.looked.Store(n, now)
		next := *w
		backing, source := topics[n], topics[w.Source]
		next.Backing, next.SourcePartitions = backing.Partitions, source.Partitions
		if backing.Partitions > 0 {
			next.BackingID = backing.ID
		}
		if source.Partitions > 0 && !sameTopic(source.ID, w.SourceID) {
			next.SourcePartitions = 0 // deleted and made anew: not this view's source
		}
		if next != *w {
			v.putLocked(&next)
		}
	}
	return nil
}

// watch follows the sources: growth, deletion, deletion and recreation. And the
// brokers, whose ports must be open before a client asks for them.
func (g *Gateway) watch() {
	tick := time.NewTicker(g.cfg.Limits.RefreshTopics)
	defer tick.Stop()
	var last string
	for {
		select {
		case <-g.drainCtx.Done():
			return
		case <-tick.C:
		case <-g.views.wake:
		}
		ctx, cancel := context.WithTimeout(g.drainCtx, 20*time.Second)
		err := g.views.refresh(ctx)
		cancel()
		if err != nil && g.drainCtx.Err() == nil {
			g.metrics.viewErrors.Inc()
			if s := err.Error(); s != last {
				last = s
				g.log.Warn("following the cluster's topics", "cause", err)
			}
		} else {
			last = ""
		}
		g.makePending(g.drainCtx)
		for id := range g.cluster.Brokers() {
			if _, err := g.ports.ensure(g.drainCtx, id); err != nil && g.drainCtx.Err() == nil {
				g.ports.complain(id, err)
			}
		}
	}
}

// refresh looks at all views and their sources once.
func (v *views) refresh(ctx context.Context) error {
	if err := v.working.take(ctx); err != nil {
		return err
	}
	defer v.working.give()
	if err := v.catchUp(ctx); err != nil {
		return err
	}
	if err := v.lookAtAll(ctx); err != nil {
		return err
	}
	var errs []error
	for _, w := range v.All() {
		if err := v.follow(ctx, w); err != nil {
			errs = append(errs, fmt.Errorf("view %s: %w", w.Name, err))
		}
	}
	return errors.Join(errs...)
}

// freshFor is how old a look at a view's topics may be when a client is told
// about the view.
const freshFor = 100 * time.Millisecond

// freshenWait bounds how long a client waits for that look; after it, the
// client is told what is known.
const freshenWait = 2 * time.Second

// freshen looks at views that a client asks about, where that was not done just
// now. Without it, a client that comes soon after the source was deleted and
// made anew would get the id of a backing topic that is about to go, and some
// never take another one.
func (v *views) freshen(ctx context.Context, names []string) error {
	old := func() (out []string) {
		for _, n := range names {
			if at, ok := v.looked.Load(n); v.Name(n) != nil && (!ok || time.Since(at.(time.Time)) > freshFor) {
				out = append(out, n)
			}
		}
		return out
	}
	if len(old()) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, freshenWait)
	defer cancel()
	if err := v.working.take(ctx); err != nil {
		return err
	}
	defer v.working.give()
	stale := old()
	if err := v.look(ctx, stale); err != nil {
		return err
	}
	var errs []error
	for _, n := range stale {
		if w := v.Name(n); w != nil {
			errs = append(errs, v.follow(ctx, w))
		}
	}
	return errors.Join(errs...)
}

// follow brings one view's backing topic in line with its source.
func (v *views) follow(ctx context.Context, w *View) error {
	if w.SourcePartitions > 0 {
		if want := w.PartitionsFor(w.SourcePartitions); w.Backing > 0 && w.Backing < want {
			if want > view.MaxPartitions {
				return fmt.Errorf("its source has grown to %d partitions; %d virtual partitions are more than %d: make a new view", w.SourcePartitions, want, view.MaxPartitions)
			}
			v.gw.log.Info("the source of a view has grown", "view", w.Name, "source", w.Source, "source_partitions", w.SourcePartitions, "virtual_partitions", want)
			if err := v.gw.cluster.GrowBacking(ctx, w.Name, want); err != nil {
				return err
			}
			return v.look(ctx, []string{w.Name})
		}
		return nil
	}
	topics, err := v.gw.cluster.Topics(ctx, w.Source)
	if err != nil {
		return err
	}
	source, ok := topics[w.Source]
	if !ok || source.Partitions == 0 || sameTopic(source.ID, w.SourceID) {
		return nil
	}
	// A broker that is behind may still name the topic before the last one.
	if known, err := v.gw.cluster.KnownAnywhere(ctx, w.SourceID); err != nil || known {
		return err
	}
	return v.renew(ctx, w, source)
}

// renew gives a view whose source was deleted and made anew a new backing
// topic: the offsets of the old one, and the groups' progress on it, mean
// nothing any more. Other gateways may do the same at the same time: the old
// topic is deleted by its id, and equal definitions do not hurt.
func (v *views) renew(ctx context.Context, w *View, source upstream.Topic) error {
	v.gw.log.Warn("the source of a view was deleted and made anew: the view starts afresh", "view", w.Name, "source", w.Source)
	d, err := view.New(w.Name, view.Source{Name: source.Name, ID: source.ID, Partitions: source.Partitions, Internal: source.Internal}, w.Partitions, time.Now().UnixMilli())
	if w.Backing > 0 {
		if err := v.gw.cluster.DeleteTopicID(ctx, w.Name, w.BackingID); err != nil {
			return fmt.Errorf("deleting the old backing topic: %w", err)
		}
	}
	if err := v.catchUp(ctx); err != nil {
		return err
	}
	if now := v.Name(w.Name); now == nil || !sameTopic(now.SourceID, w.SourceID) {
		return nil // another gateway was faster
	}
	t := view.Tombstone(w.Name)
	if err := v.defs.Append(ctx, t.Key, t.Value); err != nil {
		return err
	}
	if err != nil {
		v.gw.log.Warn("the view is gone: its new source does not fit it", "view", w.Name, "cause", err)
		return v.catchUp(ctx)
	}
	return v.define(ctx, d, source.ReplicationFactor)
}

// lookAll reads the definitions and looks at every view's topics.
func (v *views) lookAll(ctx context.Context) error {
	if err := v.working.take(ctx); err != nil {
		return err
	}
	defer v.working.give()
	if err := v.catchUp(ctx); err != nil {
		return err
	}
	return v.lookAtAll(ctx)
}

func (v *views) lookAtAll(ctx context.Context) error {
	var names []string
	for _, w := range v.All() {
		names = append(names, w.Name)
	}
	return v.look(ctx, names)
}
