package gateway

import (
	"context"
	"fmt"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// api says what the gateway does with the requests of one API key.
type api struct {
	// decode: the request is read whole and decoded before anything else.
	// Without it, the request passes as bytes and only rewrite applies.
	decode bool
	// owns reports whether the gateway has to answer this request itself. An
	// error ends the connection.
	owns func(c *conn, req kmsg.Request) (bool, error)
	// handle answers an owned request. An error ends the connection; what a
	// client is to see must be in the response. With a nil response the handler
	// has written the answer itself (to conn.answering), or none is due.
	handle func(c *conn, ctx context.Context, req kmsg.Request) (kmsg.Response, error)
	// rewrite changes the response to a request that was passed on.
	rewrite func(c *conn, version int16) func(kmsg.Response)
}

// apis is everything that does not pass as bytes both ways.
var apis = map[int16]*api{}

// register is called by the init function of each API's file.
func register(key int16, a *api) { apis[key] = a }

// route deals with the request whose header was peeked.
func (c *conn) route(h wire.Header, size int) error {
	if c.clientID == nil && h.ClientID != nil {
		c.clientID = h.ClientID
	}
	switch h.Key {
	case wire.APIVersions:
		return c.apiVersions(h, size)
	case wire.Produce:
		return c.produce(h, size)
	}
	a := apis[h.Key]
	if limit, ok := wire.MaxVersion(h.Key); !ok || h.Version > limit || h.Version < wire.MinVersion(h.Key) {
		return fmt.Errorf("gateway: %s (key %d) version %d was not offered to this client", kmsg.NameForKey(h.Key), h.Key, h.Version)
	}
	if a == nil {
		return c.forward(h, size, pending{}, true)
	}
	var p pending
	if a.rewrite != nil {
		p.rewrite = a.rewrite(c, h.Version)
	}
	if !a.decode {
		return c.forward(h, size, p, true)
	}
	content, err := c.content(size)
	if err != nil {
		return err
	}
	req, err := wire.DecodeRequest(h, content[h.Body:])
	if err != nil {
		return err
	}
	c.decoded(size)
	owned, err := a.owns(c, req)
	if err != nil {
		return err
	}
	if owned {
		return c.own(a, h, req)
	}
	if h.Key == wire.Fetch && h.Version >= 16 {
		p.walk = true
	}
	return c.request(h, frameOf(content), p)
}

// own answers a request in the gateway, after all responses before it.
func (c *conn) own(a *api, h wire.Header, req kmsg.Request) error {
	return c.within(c.ctx, func(ctx context.Context) error {
		if err := c.barrier(); err != nil {
			return err
		}
		c.answering = h.CorrelationID
		resp, err := a.handle(c, ctx, req)
		if err != nil || resp == nil {
			return err
		}
		resp.SetVersion(h.Version)
		return c.answer(h.CorrelationID, resp)
	})
}

// typed adapts a handler of one request type to api.handle.
func typed[Req kmsg.Request](f func(*conn, context.Context, Req) (kmsg.Response, error)) func(*conn, context.Context, kmsg.Request) (kmsg.Response, error) {
	return func(c *conn, ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
		return f(c, ctx, req.(Req))
	}
}

// typedOwns adapts an owns function of one request type.
func typedOwns[Req kmsg.Request](f func(*conn, Req) (bool, error)) func(*conn, kmsg.Request) (bool, error) {
	return func(c *conn, req kmsg.Request) (bool, error) { return f(c, req.(Req)) }
}

// namesView reports whether any of the topics of a request is a view. A view
// that is not known as one would be read as an empty topic, and its clients
// would reset their positions: an error ends the connection.
func (c *conn) namesView(refs []topicRef) (bool, error) {
	if err := c.gw.views.resolve(c.ctx, refs...); err != nil {
		return false, err
	}
	for _, r := range refs {
		if c.gw.views.Topic(r.name, r.id) != nil {
			return true, nil
		}
	}
	return false, nil
}
