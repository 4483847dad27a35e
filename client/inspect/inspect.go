package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tandem-kafka/tandem/client/internal/attempts"
	"github.com/tandem-kafka/tandem/client/internal/commits"
	"github.com/tandem-kafka/tandem/client/internal/done"
	"github.com/tandem-kafka/tandem/client/internal/fetcher"
	"github.com/tandem-kafka/tandem/internal/gateway"
	"github.com/tandem-kafka/tandem/internal/upstream"
)

// Config says what to look at.
type Config struct {
	Upstream upstream.Config // of a gateway, or of a cluster
	Group    string
	Topic    string // only this one, or the source of this view; empty: all of the group
	Records  int    // how many open records of a partition, and open offset ranges, to show at most
	Log      *slog.Logger
}

// inspection is a Describe under way.
type inspection struct {
	Config
	*reach
	admin    *kadm.Client
	fetcher  *fetcher.Fetcher
	attempts *attempts.Store
	out      *Group
	views    map[string]*gateway.View // by name
	topics   kadm.TopicDetails
}

// Describe tells how a group stands.
func Describe(ctx context.Context, c Config) (*Group, error) {
	r, err := newReach(ctx, &c)
	if err != nil {
		return nil, err
	}
	defer r.close()
	in := &inspection{Config: c, reach: r, admin: kadm.NewClient(r.client), out: &Group{Name: c.Group, Notes: r.notes}, views: map[string]*gateway.View{}}
	for _, v := range r.views {
		in.views[v.Name] = v
	}
	if in.fetcher, err = fetcher.New(fetcher.Config{Client: r.client, Reset: fetcher.ResetEarliest, Log: c.Log}); err != nil {
		return nil, err
	}
	defer in.fetcher.Close()
	in.attempts = attempts.New(r.client, in.fetcher, c.Group, c.Log)
	if err := in.attempts.CatchUp(ctx); err != nil {
		in.note("attempts are not known: %v", err)
	}
	if err := in.members(ctx); err != nil {
		return nil, err
	}
	if err := in.partitions(ctx); err != nil {
		return nil, err
	}
	return in.out, nil
}

func (in *inspection) note(format string, args ...any) {
	in.out.Notes = append(in.out.Notes, fmt.Sprintf(format, args...))
}

// partitions looks at all partitions that the group has to do with.
func (in *inspection) partitions(ctx context.Context) error {
	offsets, err := in.admin.FetchOffsets(ctx, in.Group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return fmt.Errorf("the offsets of group %s: %w", in.Group, err)
	}
	sources := in.sources(offsets)
	if len(sources) == 0 {
		if in.out.State == dead {
			return fmt.Errorf("there is no group %s, and no offset of it", in.Group)
		}
		return nil
	}
	if in.topics, err = in.admin.ListTopics(ctx, sources...); err != nil {
		return err
	}
	starts, err := in.admin.ListStartOffsets(ctx, sources...)
	if err != nil {
		return err
	}
	ends, err := in.admin.ListEndOffsets(ctx, sources...)
	if err != nil {
		return err
	}
	var ask []commits.Partition
	for _, topic := range sources {
		d := in.topics[topic]
		if d.Err != nil {
			in.note("topic %s: %v", topic, d.Err)
			continue
		}
		for _, p := range slices.Sorted(maps.Keys(d.Partitions)) {
			ask = append(ask, commits.Partition{Topic: topic, Partition: p, Base: in.baseOf(topic), Plain: !in.features.IndividualCommit})
		}
	}
	list, err := in.commits.Fetch(ctx, ask)
	if err != nil {
		return fmt.Errorf("what group %s has done: %w", in.Group, err)
	}
	for i := range list {
		c := &list[i]
		tp := c.Partition
		start, _ := starts.Lookup(tp.Topic, tp.Partition)
		end, _ := ends.Lookup(tp.Topic, tp.Partition)
		if err := cmp.Or(c.Err, start.Err, end.Err); err != nil {
			in.note("topic %s, partition %d: %v", tp.Topic, tp.Partition, err)
			continue
		}
		p := Partition{Topic: tp.Topic, Partition: tp.Partition, Stable: c.Offset, Start: start.Offset, End: end.Offset}
		if err := in.viewsOf(ctx, &p, c, offsets); err != nil {
			return err
		}
		if err := in.open(ctx, &p, c); err != nil {
			in.note("topic %s, partition %d: its records cannot be read: %v", tp.Topic, tp.Partition, err)
		}
		in.out.Partitions = append(in.out.Partitions, p)
	}
	return nil
}

// sources are the topics with records that the group has offsets of, or that its members own something of, sorted.
func (in *inspection) sources(offsets kadm.OffsetResponses) []string {
	topics := map[string]bool{}
	for topic := range offsets {
		topics[topic] = true
	}
	for i := range in.out.Members {
		for _, p := range in.out.Members[i].Parts {
			topics[p.Topic] = true
		}
	}
	found := map[string]bool{}
	for topic := range topics {
		source := in.sourceOf(topic)
		if in.Topic == "" || source == in.sourceOf(in.Topic) {
			found[source] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func (in *inspection) sourceOf(topic string) string {
	if v := in.views[topic]; v != nil {
		return v.Source
	}
	return topic
}

// viewsOf fills in how the group stands in the views of a partition that it uses. Where the gateway does not say what is done above the stable offset,
// their offsets do.
func (in *inspection) viewsOf(ctx context.Context, p *Partition, c *commits.Committed, offsets kadm.OffsetResponses) error {
	for _, name := range slices.Sorted(maps.Keys(in.views)) {
		v := in.views[name]
		if v.Source != p.Topic || offsets[name] == nil && !in.owned(name) {
			continue
		}
		ends, err := in.admin.ListEndOffsets(ctx, name)
		if err != nil {
			return err
		}
		w := View{Name: name}
		for vp := range v.Backing {
			src, slice, ok := v.SourceOf(vp)
			if !ok || src.Partition != p.Partition {
				continue
			}
			at := Virtual{Partition: vp, Committed: -1, End: -1, Owner: in.ownerOf(name, vp, nil)}
			if o, ok := offsets.Lookup(name, vp); ok && o.Err == nil {
				at.Committed = o.At
				if c.Plain && v.Base == c.Base && o.At > c.Offset {
					part := done.Committed{Keys: v.KeyRange(slice), Ranges: []OffsetRange{{First: max(c.Offset, 0), Last: o.At - 1}}}
					c.Above = append(c.Above, part)
				}
			}
			if e, ok := ends.Lookup(name, vp); ok && e.Err == nil {
				at.End = e.Offset
			}
			w.Partitions = append(w.Partitions, at)
		}
		p.Views = append(p.Views, w)
	}
	return nil
}
