package gateway

import (
	"context"
	"time"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteTopics, all versions.
//
// Passes on; when a view's backing topic was deleted, with the client's own
// rights, the view's definition goes too.

func init() {
	register(wire.DeleteTopics, &api{
		decode: true,
		owns: typedOwns(func(c *conn, req *kmsg.DeleteTopicsRequest) (bool, error) {
			var refs []topicRef
			for _, name := range req.TopicNames {
				refs = append(refs, topicRef{name: name})
			}
			for _, t := range req.Topics {
				if t.Topic != nil {
					refs = append(refs, topicRef{name: *t.Topic})
				} else {
					refs = append(refs, topicRef{id: t.TopicID})
				}
			}
			_ = c.gw.views.resolve(c.ctx, refs...) // a view that slips through keeps its definition
			return len(deletedViews(c, req)) > 0, nil
		}),
		handle: typed(func(c *conn, ctx context.Context, req *kmsg.DeleteTopicsRequest) (kmsg.Response, error) {
			named := deletedViews(c, req)
			kresp, err := c.roundTrip(ctx, req)
			if err != nil {
				return nil, err
			}
			resp := kresp.(*kmsg.DeleteTopicsResponse)
			for _, t := range resp.Topics {
				for _, w := range named {
					if t.ErrorCode == 0 && (t.Topic != nil && *t.Topic == w.Name || t.TopicID != ([16]byte{}) && t.TopicID == w.BackingID) {
						c.gw.forgetView(w.Name)
					}
				}
			}
			return resp, nil
		}),
	})
}

func deletedViews(c *conn, req *kmsg.DeleteTopicsRequest) []*View {
	var named []*View
	add := func(w *View) {
		if w != nil {
			named = append(named, w)
		}
	}
	for _, name := range req.TopicNames {
		add(c.gw.views.Name(name))
	}
	for _, t := range req.Topics {
		if t.Topic != nil {
			add(c.gw.views.Name(*t.Topic))
		} else {
			add(c.gw.views.ID(t.TopicID))
		}
	}
	return named
}

// forgetView removes a view's definition, whatever becomes of the client.
func (g *Gateway) forgetView(name string) {
	ctx, cancel := context.WithTimeout(g.ctx, 15*time.Second)
	defer cancel()
	err := g.views.working.take(ctx)
	if err == nil {
		err = g.views.forget(ctx, name)
		g.views.working.give()
	}
	if err != nil {
		g.log.Warn("the backing topic of a view was deleted, but its definition could not be", "view", name, "cause", err, "cure", "tandem view delete "+name)
	}
}
