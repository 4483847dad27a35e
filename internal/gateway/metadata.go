package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/tandem-kafka/tandem/internal/view"
	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Metadata, all versions.
//
// Request: passes as bytes, unless it names something like orders.view16 that
// is no topic yet: then the view is made first, if the client may read the
// source. Names that look like a view but cannot be one are taken out, so that
// the cluster does not create a real topic of that name, and answered here.
// Response: brokers' addresses become the gateway's; a view whose source is
// gone is answered as a topic that does not exist. Everything else about a view
// is the backing topic's own.

func init() {
	register(wire.Metadata, &api{
		decode:  true,
		owns:    typedOwns(metadataOwns),
		handle:  typed((*conn).handleMetadata),
		rewrite: always((*conn).rewriteMetadata),
	})
	register(wire.DescribeTopicPartitions, &api{
		decode: true,
		owns: typedOwns(func(c *conn, req *kmsg.DescribeTopicPartitionsRequest) (bool, error) {
			for _, t := range req.Topics {
				if c.gw.views.wanted(t.Topic) {
					return true, nil
				}
			}
			return false, nil
		}),
		handle: typed(func(c *conn, ctx context.Context, req *kmsg.DescribeTopicPartitionsRequest) (kmsg.Response, error) {
			for _, t := range req.Topics {
				if c.gw.views.wanted(t.Topic) {
					_, _ = c.ensureView(ctx, t.Topic) // the broker's answer says that there is none
				}
			}
			return c.roundTrip(ctx, req)
		}),
	})
}

// wanted reports whether asking for a topic of this name may have to make a
// view: it looks like one, and is none that is known and backed.
func (v *views) wanted(name string) bool {
	if _, _, ok := view.ParseName(name); !ok {
		return false
	}
	w := v.Name(name)
	return w == nil || w.Backing == 0
}

func metadataOwns(c *conn, req *kmsg.MetadataRequest) (bool, error) {
	for _, t := range req.Topics {
		if t.Topic != nil && c.gw.views.wanted(*t.Topic) {
			return true, nil
		}
	}
	return false, nil
}

// ensureView makes the view that a name of the form SOURCE.viewN asks for. It
// returns nil, 0 where the name is an ordinary topic's, and a Kafka error code
// where the name cannot be a view.
func (c *conn) ensureView(ctx context.Context, name string) (*View, int16) {
	source, partitions, ok := view.ParseName(name)
	if !ok {
		return nil, 0
	}
	v := c.gw.views
	if err := v.resolve(ctx, topicRef{name: name}); err != nil {
		c.gw.log.Warn("a view could not be looked up", "view", name, "cause", err)
		return nil, kerr.LeaderNotAvailable.Code
	}
	if w := v.Name(name); w != nil && w.Backing > 0 {
		return w, 0
	}
	topics, err := c.gw.cluster.Topics(ctx, name, source)
	if err != nil {
		return nil, kerr.LeaderNotAvailable.Code
	}
	if t, ok := topics[name]; ok && t.Partitions > 0 && v.Name(name) == nil {
		return nil, 0 // a real topic that happens to have such a name
	}
	if _, ok := topics[source]; !ok {
		return nil, kerr.UnknownTopicOrPartition.Code
	}
	if v.Name(name) == nil && !c.gw.cfg.AutoCreate {
		return nil, kerr.UnknownTopicOrPartition.Code
	}
	code, err := c.mayRead(source)
	if err != nil {
		return nil, kerr.LeaderNotAvailable.Code
	}
	if code != 0 {
		return nil, code
	}
	w, err := v.Create(ctx, name, source, partitions)
	switch {
	case err == nil:
		return w, 0
	case errors.Is(err, errNoSource):
		return nil, kerr.UnknownTopicOrPartition.Code
	case isKafka(err):
		c.gw.metrics.viewErrors.Inc()
		c.gw.complainView(name, err)
		return nil, kerr.LeaderNotAvailable.Code // retriable: the cause may pass
	}
	c.gw.metrics.viewErrors.Inc()
	c.gw.complainView(name, err)
	return nil, kerr.InvalidTopicException.Code
}

// isKafka reports whether the cluster said no, or did not answer, rather than
// the name being impossible.
func isKafka(err error) bool {
	var ke *kerr.Error
	return errors.As(err, &ke) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// complainView logs the reason of a refused view, once a minute per view: some
// clients ask many times a second.
func (g *Gateway) complainView(name string, err error) {
	now := time.Now()
	if last, ok := g.unreachable.Load(name); ok && now.Sub(last.(time.Time)) < time.Minute {
		return
	}
	g.unreachable.Store(name, now)
	g.log.Warn("a client asked for a view that cannot be made", "view", name, "cause", err)
}

func (c *conn) handleMetadata(ctx context.Context, req *kmsg.MetadataRequest) (kmsg.Response, error) {
	refused := map[string]int16{}
	var made []string
	kept := req.Topics[:0:0]
	for _, t := range req.Topics {
		if t.Topic != nil && c.gw.views.wanted(*t.Topic) {
			w, code := c.ensureView(ctx, *t.Topic)
			if code != 0 {
				refused[*t.Topic] = code
				continue
			}
			if w != nil {
				made = append(made, w.Name)
			}
		}
		kept = append(kept, t)
	}
	c.holdBack(ctx, refused)
	resp, err := c.askMetadata(ctx, req, kept, made)
	if err != nil {
		return nil, err
	}
	for name, code := range refused {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.ErrorCode = kmsg.StringPtr(name), code
		resp.Topics = append(resp.Topics, t)
	}
	c.rewriteMetadata(resp)
	return resp, nil
}

// holdBack delays the answer to an impossible name: librdkafka otherwise asks a
// thousand times a second.
func (c *conn) holdBack(ctx context.Context, refused map[string]int16) {
	for _, code := range refused {
		if code == kerr.InvalidTopicException.Code {
			select {
			case <-ctx.Done():
			case <-c.gw.drainCtx.Done():
			case <-time.After(c.gw.cfg.Limits.HoldImpossible):
			}
			return
		}
	}
}

// askMetadata asks the client's broker. A view that was just made may take a
// moment to reach it: clients that look once and give up must not see that.
func (c *conn) askMetadata(ctx context.Context, req *kmsg.MetadataRequest, topics []kmsg.MetadataRequestTopic, made []string) (*kmsg.MetadataResponse, error) {
	ask := *req
	ask.Topics = topics
	if topics == nil {
		ask.Topics = []kmsg.MetadataRequestTopic{} // none, not all
		if req.Version == 0 {
			// In version 0 an empty list means all topics.
			ask.Topics = append(ask.Topics, req.Topics...)
		}
	}
	for attempt := 0; ; attempt++ {
		resp, err := c.roundTrip(ctx, &ask)
		if err != nil {
			return nil, err
		}
		r := resp.(*kmsg.MetadataResponse)
		if attempt == 50 || !missing(r, made) {
			return r, nil
		}
		select {
		case <-ctx.Done():
			return nil, errDone
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func missing(r *kmsg.MetadataResponse, names []string) bool {
	for i := range r.Topics {
		t := &r.Topics[i]
		if t.Topic == nil {
			continue
		}
		for _, n := range names {
			if n == *t.Topic && (t.ErrorCode == kerr.UnknownTopicOrPartition.Code || t.ErrorCode == kerr.LeaderNotAvailable.Code) {
				return true
			}
		}
	}
	return false
}

func (c *conn) rewriteMetadata(r *kmsg.MetadataResponse) {
	c.gw.cluster.NoteBrokers(r)
	for i := range r.Brokers {
		b := &r.Brokers[i]
		b.Host, b.Port = c.advertised(b.NodeID, b.Host, b.Port)
	}
	refs := make([]topicRef, 0, len(r.Topics))
	for i := range r.Topics {
		if t := &r.Topics[i]; t.Topic != nil && t.ErrorCode == 0 {
			refs = append(refs, topicRef{name: *t.Topic})
		}
	}
	if err := c.gw.views.resolve(c.ctx, refs...); err != nil {
		// Without knowing whether it is a view, a topic must not be shown: the
		// client would read the empty topic.
		c.gw.log.Warn("topics are held back from a client", "cause", err)
		for i := range r.Topics {
			if t := &r.Topics[i]; t.Topic != nil && !c.gw.views.seen(*t.Topic, [16]byte{}) {
				t.ErrorCode, t.Partitions = kerr.LeaderNotAvailable.Code, nil
			}
		}
	}
	var named []string
	for _, ref := range refs {
		if c.gw.views.Name(ref.name) != nil {
			named = append(named, ref.name)
		}
	}
	if err := c.gw.views.freshen(c.ctx, named); err != nil {
		c.gw.log.Warn("looking at the topics of views that a client asks about", "cause", err)
	}
	for i := range r.Topics {
		if t := &r.Topics[i]; t.Topic != nil && t.ErrorCode == 0 {
			c.viewMetadata(t)
		}
	}
}

// viewMetadata adjusts and learns from the metadata of one topic.
func (c *conn) viewMetadata(t *kmsg.MetadataResponseTopic) {
	v := c.gw.views
	none := [16]byte{}
	if w := v.Name(*t.Topic); w != nil && w.BackingID != none && t.TopicID != none && t.TopicID != w.BackingID {
		// One of the two has just been made anew, and a client must not get the
		// old one's id: it asks again, after a new look.
		v.looked.Delete(*t.Topic)
		t.ErrorCode, t.Partitions = kerr.LeaderNotAvailable.Code, nil
		return
	}
	v.learn(*t.Topic, t.TopicID, int32(len(t.Partitions)))
	if w := v.Name(*t.Topic); w != nil && w.SourcePartitions == 0 {
		t.ErrorCode, t.Partitions = kerr.UnknownTopicOrPartition.Code, nil
		return
	}
	if v.sourceGrew(*t.Topic, int32(len(t.Partitions))) {
		select {
		case v.wake <- struct{}{}:
		default:
		}
	}
}
