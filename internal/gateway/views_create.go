package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tandem-kafka/tandem/internal/view"
	"github.com/twmb/franz-go/pkg/kerr"
)

// errNoSource says that a view's source does not exist.
var errNoSource = errors.New("the source does not exist")

// sameTopic reports whether two topic ids may be one topic's: zero stands for
// one that is not known, on a cluster without ids or in the middle of an
// upgrade to one with them.
func sameTopic(a, b [16]byte) bool {
	return a == b || a == [16]byte{} || b == [16]byte{}
}

// Create makes a view, or returns it where it is there already with the same
// source and number of partitions. Its errors are for people: they say what is
// wrong and what would do.
func (v *views) Create(ctx context.Context, name, source string, partitions int32) (*View, error) {
	if err := v.working.take(ctx); err != nil {
		return nil, err
	}
	defer v.working.give()
	for range 5 {
		w, err := v.create(ctx, name, source, partitions)
		if w != nil || err != nil {
			return w, err
		}
	}
	return nil, fmt.Errorf("view %s is made and deleted by others at the same time: try again", name)
}

// create is Create, once; nil and no error where another gateway came in
// between. v.working is held.
func (v *views) create(ctx context.Context, name, source string, partitions int32) (*View, error) {
	if err := v.catchUp(ctx); err != nil {
		return nil, err
	}
	topics, err := v.gw.cluster.Topics(ctx, name, source)
	if err != nil {
		return nil, err
	}
	src := topics[source]
	w := v.Name(name)
	if w != nil && (sameTopic(w.SourceID, src.ID) || src.Partitions == 0) {
		if w.Source != source || w.Partitions != partitions {
			return nil, fmt.Errorf("view %s exists already, with source %s and %d virtual partitions", name, w.Source, w.Partitions)
		}
		if w.Backing > 0 && topics[name].Partitions > 0 {
			return w, nil
		}
		if src.Partitions == 0 {
			return nil, fmt.Errorf("%w: topic %s", errNoSource, source)
		}
		// Its topic was deleted on the cluster.
		if err := v.back(ctx, w.Definition, src.ReplicationFactor); err != nil {
			return nil, err
		}
		return v.Name(name), nil
	}
	d, err := view.New(name, view.Source{Name: source, ID: src.ID, Partitions: src.Partitions, Internal: src.Internal, View: v.Name(source) != nil}, partitions, time.Now().UnixMilli())
	if src.Partitions == 0 {
		return nil, fmt.Errorf("%w: topic %s", errNoSource, source)
	}
	if err != nil {
		return nil, err
	}
	if t, ok := topics[name]; ok && w == nil {
		if found, err := v.awaitDefinition(ctx, name); found || err != nil {
			return nil, err // another gateway has just made it
		}
		return nil, fmt.Errorf("topic %s exists already with %d partitions and is no view: choose another name", name, t.Partitions)
	}
	if w != nil {
		err = v.renew(ctx, w, src)
	} else {
		err = v.define(ctx, d, src.ReplicationFactor)
	}
	if err != nil {
		return nil, err
	}
	w = v.Name(name)
	if w == nil {
		return nil, nil
	}
	if !w.Same(d) {
		return nil, fmt.Errorf("view %s was defined otherwise at the same time: look at it with tandem view describe", name)
	}
	v.gw.log.Info("a view was made", "view", name, "source", source, "virtual_partitions", w.Partitions, "slices_per_partition", w.K)
	return w, nil
}

// renewTime is for how long a topic without a definition, which was a view, may be
// one that another gateway renews: that deletes the definition and then writes a new one, also
// where a third one has done so and has made the topic again.
const renewTime = 5 * time.Second

// awaitDefinition looks for the definition of a view whose topic is there.
func (v *views) awaitDefinition(ctx context.Context, name string) (found bool, err error) {
	for {
		if err := v.catchUp(ctx); err != nil || v.Name(name) != nil {
			return true, err
		}
		if at, was := v.looked.Load(name); !was || time.Since(at.(time.Time)) > renewTime {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// define writes a definition, then makes the backing topic: a gateway that sees
// the topic must be able to find the definition.
func (v *views) define(ctx context.Context, d view.Definition, replication int16) error {
	key, value := d.Encode()
	if err := v.defs.Append(ctx, key, value); err != nil {
		return err
	}
	if err := v.catchUp(ctx); err != nil {
		return err
	}
	return v.back(ctx, d, replication)
}

// back makes the backing topic and waits until it can be used.
func (v *views) back(ctx context.Context, d view.Definition, replication int16) error {
	if replication <= 0 {
		replication = -1
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		w := v.Name(d.Name)
		if w == nil {
			return nil // deleted at the same time
		}
		err := v.gw.cluster.CreateBacking(ctx, d.Name, w.PartitionsFor(max(w.SourcePartitions, d.Base)), replication)
		switch {
		case err == nil:
		case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
			return fmt.Errorf("creating backing topic %s: %w: give the gateway's user CREATE on the cluster or on that topic", d.Name, err)
		default:
			return fmt.Errorf("creating backing topic %s: %w", d.Name, err)
		}
		if err := v.look(ctx, []string{d.Name}); err != nil {
			return err
		}
		topics, err := v.gw.cluster.Topics(ctx, d.Name)
		if err != nil {
			return err
		}
		if t, ok := topics[d.Name]; ok && t.Partitions > 0 && allLed(t.Leaders) {
			return v.look(ctx, []string{d.Name})
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("backing topic %s has no leaders 10 s after it was created", d.Name)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func allLed(leaders []int32) bool {
	for _, l := range leaders {
		if l < 0 {
			return false
		}
	}
	return true
}

// Delete ends a view: its definition, then its backing topic and with it the
// groups' progress on it. The source is not touched.
func (v *views) Delete(ctx context.Context, name string) error {
	if err := v.working.take(ctx); err != nil {
		return err
	}
	defer v.working.give()
	if err := v.catchUp(ctx); err != nil {
		return err
	}
	if v.Name(name) == nil {
		return fmt.Errorf("there is no view %s", name)
	}
	if err := v.gw.cluster.DeleteTopic(ctx, name); err != nil {
		return fmt.Errorf("deleting backing topic %s: %w", name, err)
	}
	return v.forget(ctx, name)
}

// forget removes the definition of a view whose backing topic is gone.
func (v *views) forget(ctx context.Context, name string) error {
	t := view.Tombstone(name)
	if err := v.defs.Append(ctx, t.Key, t.Value); err != nil {
		return err
	}
	return v.catchUp(ctx)
}

// slot returns the port slot of a broker, and claims one where its id is large.
func (v *views) slot(ctx context.Context, id int32) (int32, error) {
	find := func() (int32, bool) {
		v.mu.RLock()
		defer v.mu.RUnlock()
		return v.log.PortSlot(id)
	}
	if s, ok := find(); ok {
		return s, nil
	}
	if err := v.working.take(ctx); err != nil {
		return 0, err
	}
	defer v.working.give()
	for range 10 {
		if err := v.catchUp(ctx); err != nil {
			return 0, err
		}
		if s, ok := find(); ok {
			return s, nil
		}
		v.mu.RLock()
		claim, ok := v.log.Claim(id)
		v.mu.RUnlock()
		if !ok {
			break
		}
		if err := v.defs.Append(ctx, claim.Key, claim.Value); err != nil {
			return 0, err
		}
	}
	return 0, errors.New("no port is left for it")
}
