package balancer

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/client/internal/assignor"
	"github.com/tandem-kafka/tandem/keyrange"
)

// readAssignment reads a member's assignment. Partitions that its user data does not name are whole. User data that cannot be read
// is an error: taking the partitions for whole would give them two owners.
func readAssignment(b []byte) (map[string][]int32, state, error) {
	partitions := map[string][]int32{}
	if len(b) == 0 {
		return partitions, state{ranges: assignor.Ranges{}, generation: -1}, nil // the leader did not know of this member
	}
	var a kmsg.ConsumerMemberAssignment
	if err := a.ReadFrom(b); err != nil {
		return nil, state{}, fmt.Errorf("the assignment cannot be read: %v", err)
	}
	data, err := assignor.DecodeAssignment(a.UserData)
	if err != nil {
		return nil, state{}, fmt.Errorf("the assignment cannot be read: %v", err)
	}
	next := state{ranges: assignor.Ranges{}, generation: data.Generation, notes: data.Notes}
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			if _, twice := next.ranges[t.Topic][p]; twice {
				continue
			}
			partitions[t.Topic] = append(partitions[t.Topic], p)
			part := data.Shared[t.Topic][p]
			next.ranges.Put(t.Topic, p, part.Set(), part.Base)
		}
	}
	return partitions, next, nil
}

// ReadAssignment reads what a member was given from its assignment, as DescribeGroups answers it.
func ReadAssignment(b []byte) (assignor.Ranges, error) {
	_, s, err := readAssignment(b)
	return s.ranges, err
}

func wholes(partitions map[string][]int32) assignor.Ranges {
	ranges := assignor.Ranges{}
	for topic, list := range partitions {
		for _, p := range list {
			ranges.Put(topic, p, keyrange.Set{keyrange.Full}, 0)
		}
	}
	return ranges
}

// onRevoked is called after a sync that takes whole partitions from a cooperative member, at the end of each session, and when
// the client leaves the group.
func (b *Balancer) onRevoked(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
	b.mu.Lock()
	before := b.now
	keep := before.ranges.Minus(wholes(partitions))
	synced := b.next != nil
	if synced {
		keep = keep.Minus(keep.Minus(b.next.ranges))
	}
	if b.doubt != nil { // kgo has forgotten what the member has, and only calls when it leaves
		keep, b.doubt = assignor.Ranges{}, nil
	}
	b.mu.Unlock()
	b.giveUp(ctx, client, before.ranges.Minus(keep))
	if !synced && len(keep) == 0 { // an eager member, before the next generation
		b.mu.Lock()
		b.had = before
		b.mu.Unlock()
	}
}

// giveUp has the work on ranges ended, and then has them no more.
func (b *Balancer) giveUp(ctx context.Context, client *kgo.Client, lost assignor.Ranges) {
	if len(lost) == 0 {
		return
	}
	b.cfg.Revoked(ctx, client, lost)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now.ranges = b.now.ranges.Minus(lost)
}

// onAssigned is called in each generation once its assignment is known, also when it brings nothing new.
func (b *Balancer) onAssigned(ctx context.Context, client *kgo.Client, _ map[string][]int32) {
	b.mu.Lock()
	next, held, told, doubt := b.next, b.held, b.now.notes, b.doubt
	if next == nil { // kgo does not do that
		b.mu.Unlock()
		return
	}
	b.doubt = nil
	if next.generation < 0 {
		_, next.generation = client.GroupMetadata()
	}
	lost := b.now.ranges.Minus(next.ranges)
	b.mu.Unlock()

	b.giveUp(ctx, client, lost)

	b.mu.Lock()
	kept, gained := b.now.ranges, next.ranges.Minus(b.now.ranges)
	b.now, b.had, b.next = *next, none(), nil
	b.mu.Unlock()
	b.log(next, told)
	if doubt != nil {
		b.cfg.Kept(ctx, client, kept)
	}
	if len(gained) > 0 {
		b.cfg.Assigned(ctx, client, gained)
	}
	if len(held.Minus(next.ranges)) > 0 {
		client.ForceRebalance() // the leader waits with what the member held until it joins again without it
	}
}

// log tells the user what the leader says that it did not say before.
func (b *Balancer) log(s *state, told []assignor.Note) {
	for _, n := range s.notes {
		if slices.ContainsFunc(told, func(t assignor.Note) bool { return reflect.DeepEqual(t, n) }) {
			continue
		}
		level := slog.LevelWarn
		if n.Code == assignor.NoteWaiting {
			level = slog.LevelDebug
		}
		b.cfg.Log.Log(context.Background(), level, "the group gave this member less than it may expect", "generation", s.generation, "why", n.String())
	}
}
