package gateway

import (
	"context"
	"regexp"
	"time"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// JoinGroup, ConsumerGroupHeartbeat and ShareGroupHeartbeat, all versions, for
// what a member subscribes to. Nothing in them changes, but:
//
//   - a member that reads a source and its view, or two views of a source, reads
//     one input twice: that is logged, once in a while per group;
//   - a KIP-848 member names its topics here first: its views are made;
//   - a share group cannot read a view (the cluster would serve the empty
//     topic): its heartbeat is refused with the reason. Share groups need no view.

func init() {
	register(wire.JoinGroup, &api{
		decode: true,
		owns: typedOwns(func(c *conn, req *kmsg.JoinGroupRequest) (bool, error) {
			if req.ProtocolType != "consumer" || len(req.Protocols) == 0 || c.gw.views.Empty() {
				return false, nil
			}
			var m kmsg.ConsumerMemberMetadata
			if m.ReadFrom(req.Protocols[0].Metadata) == nil {
				c.gw.checkSubscription(req.Group, m.Topics)
			}
			return false, nil
		}),
	})
	register(wire.ConsumerGroupHeartbeat, &api{
		decode: true,
		owns: typedOwns(func(c *conn, req *kmsg.ConsumerGroupHeartbeatRequest) (bool, error) {
			for _, name := range req.SubscribedTopicNames {
				if c.gw.views.wanted(name) {
					return true, nil
				}
			}
			c.gw.checkSubscription(req.Group, req.SubscribedTopicNames)
			if req.SubscribedTopicRegex != nil {
				c.gw.checkRegex(req.Group, *req.SubscribedTopicRegex)
			}
			return c.gw.groups.atRest(req.Group) || req.MemberEpoch < 0 && c.gw.groups.low(req.Group), nil
		}),
		handle: typed(func(c *conn, ctx context.Context, req *kmsg.ConsumerGroupHeartbeatRequest) (kmsg.Response, error) {
			_, _ = c.ensureViews(ctx, req.SubscribedTopicNames, false) // Metadata tells the client of a failure
			c.gw.checkSubscription(req.Group, req.SubscribedTopicNames)
			if req.MemberEpoch > 0 {
				c.settleSources(ctx, &commitCall{group: req.Group, generation: req.MemberEpoch, member: req.MemberID, instance: req.InstanceID})
			}
			resp, err := c.roundTrip(ctx, req)
			if err == nil && req.MemberEpoch < 0 { // it leaves
				c.settleEmpty(ctx, req.Group)
			}
			return resp, err
		}),
	})
	register(wire.ShareGroupHeartbeat, &api{
		decode: true,
		owns: typedOwns(func(c *conn, req *kmsg.ShareGroupHeartbeatRequest) (bool, error) {
			for _, name := range req.SubscribedTopicNames {
				if c.gw.views.Name(name) != nil || c.gw.views.wanted(name) {
					return true, nil
				}
			}
			return false, nil
		}),
		handle: typed(func(c *conn, ctx context.Context, req *kmsg.ShareGroupHeartbeatRequest) (kmsg.Response, error) {
			name, err := c.sharedView(ctx, req.SubscribedTopicNames)
			resp := kmsg.NewPtrShareGroupHeartbeatResponse()
			switch {
			case err != nil:
				resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code // the client asks again
			case name == "":
				return c.roundTrip(ctx, req)
			default:
				resp.ErrorCode = kerr.InvalidRequest.Code
				resp.ErrorMessage = kmsg.StringPtr("topic " + name + " is a view; a share group reads the source topic directly")
			}
			return resp, nil
		}),
	})
}

// sharedView returns the first of the names that is a view, or would become one
// by asking for it: a member names its topics once only, and may do so before
// it asks for them.
func (c *conn) sharedView(ctx context.Context, names []string) (string, error) {
	v := c.gw.views
	refs := make([]topicRef, 0, len(names))
	for _, n := range names {
		refs = append(refs, topicRef{name: n})
	}
	if err := v.resolve(ctx, refs...); err != nil {
		return "", err
	}
	for _, n := range names {
		if v.Name(n) != nil {
			return n, nil
		}
		source, _, may := v.plan(n, c.gw.cfg.AutoCreate)
		if source == "" || !may {
			continue
		}
		topics, err := c.gw.cluster.Topics(ctx, n, source)
		if err != nil {
			return "", err
		}
		if topics[n].Partitions == 0 && topics[source].Partitions > 0 {
			return n, nil
		}
	}
	return "", nil
}

// checkSubscription warns of a subscription that reads one input twice.
func (g *Gateway) checkSubscription(group string, topics []string) {
	if len(topics) < 2 {
		return
	}
	first := make(map[string]string, len(topics))
	for _, t := range topics {
		source := t
		if w := g.views.Name(t); w != nil {
			source = w.Source
		}
		if other, ok := first[source]; ok {
			g.warnDouble(group, other, t)
			continue
		}
		first[source] = t
	}
}

// checkRegex warns of a regular expression, evaluated by the cluster, that
// matches a view and its source, or two views of one source.
func (g *Gateway) checkRegex(group, expr string) {
	if expr == "" {
		return
	}
	re, err := regexp.Compile("^(?:" + expr + ")$") // the cluster's are RE2 too, and match whole names
	if err != nil {
		return
	}
	first := map[string]string{}
	for _, w := range g.views.All() {
		if !re.MatchString(w.Name) {
			continue
		}
		other, ok := first[w.Source]
		if !ok && re.MatchString(w.Source) {
			other, ok = w.Source, true
		}
		if ok {
			g.warnDouble(group, other, w.Name)
			return
		}
		first[w.Source] = w.Name
	}
}

// warnDouble says that a group reads one input twice, once a minute.
func (g *Gateway) warnDouble(group, one, other string) {
	if !g.often.now("double "+group, time.Minute) {
		return
	}
	g.log.Warn("a group reads one input twice: a source and its view, or two views of one source, share one progress", "group", group, "topic", one, "other", other,
		"cure", "subscribe to one of them; during a move from one to the other this is harmless")
}
