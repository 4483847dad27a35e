package client

import (
	"context"

	"github.com/tandem-kafka/tandem/keyrange"
)

// Callbacks and Assigned tell of whole partitions: any record of them may be given to this member, and to any other one. What it was given at the moment is for Stats
// and Slow to say.

// tell tells OnAssigned of the partitions that it was not told of. The gateway has taken this member for one of the group.
func (c *coop) tell(ctx context.Context) {
	fresh := Ranges{}
	c.mu.Lock()
	for _, t := range c.topics {
		for p := c.told[t.name]; p < int32(len(t.starts)); p++ {
			addWhole(fresh, t.name, p)
		}
		c.told[t.name] = max(c.told[t.name], int32(len(t.starts)))
	}
	c.mu.Unlock()
	if f := c.s.cfg.onAssigned; f != nil && len(fresh) > 0 {
		f(ctx, fresh)
	}
}

// untell tells a callback of all partitions that OnAssigned was told of: they are this member's no more, or not before it is told anew.
func (c *coop) untell(ctx context.Context, callback func(context.Context, Ranges)) {
	all := c.assigned()
	c.mu.Lock()
	clear(c.told)
	c.mu.Unlock()
	if callback != nil && len(all) > 0 {
		callback(ctx, all)
	}
}

// assigned are the partitions that OnAssigned was told of.
func (c *coop) assigned() Ranges {
	all := Ranges{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for topic, n := range c.told {
		for p := range n {
			addWhole(all, topic, p)
		}
	}
	return all
}

func addWhole(r Ranges, topic string, partition int32) {
	if r[topic] == nil {
		r[topic] = map[int32]keyrange.Set{}
	}
	r[topic][partition] = keyrange.Set{keyrange.Full}
}
