package gateway

import (
	"context"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteGroups and OffsetDelete, all versions.
//
// Pass on; what the groups have committed individually goes with their offsets,
// once the cluster has deleted those with the client's own rights. Groups and
// partitions that it refuses keep everything.

func init() {
	owns := func(c *conn, _ kmsg.Request) (bool, error) { return c.gw.cfg.IndividualCommits, nil }
	register(wire.DeleteGroups, &api{decode: true, owns: owns, handle: typed((*conn).handleDeleteGroups)})
	register(wire.OffsetDelete, &api{decode: true, owns: owns, handle: typed((*conn).handleOffsetDelete)})
}

func (c *conn) handleDeleteGroups(ctx context.Context, req *kmsg.DeleteGroupsRequest) (kmsg.Response, error) {
	noted := make(map[string]*forgetting)
	for _, group := range req.Groups {
		noted[group] = c.gw.facts.forgetting(ctx, group, func(factKey) bool { return true })
	}
	kresp, err := c.roundTrip(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := kresp.(*kmsg.DeleteGroupsResponse)
	for _, g := range resp.Groups {
		if n := noted[g.Group]; n != nil && g.ErrorCode == 0 {
			c.gw.generations.forget(g.Group)
			n.forget(ctx, false)
		}
	}
	return resp, nil
}

func (c *conn) handleOffsetDelete(ctx context.Context, req *kmsg.OffsetDeleteRequest) (kmsg.Response, error) {
	named := make(map[tp]bool)
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			named[tp{t.Topic, p.Partition}] = true
		}
	}
	noted := c.gw.facts.forgetting(ctx, req.Group, func(k factKey) bool { return named[tp{k.topic, k.partition}] })
	kresp, err := c.roundTrip(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := kresp.(*kmsg.OffsetDeleteResponse)
	deleted := make(map[tp]bool)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			deleted[tp{t.Topic, p.Partition}] = resp.ErrorCode == 0 && p.ErrorCode == 0
		}
	}
	noted.spare(func(k factKey) bool { return !deleted[tp{k.topic, k.partition}] })
	noted.forget(ctx, false)
	return resp, nil
}
