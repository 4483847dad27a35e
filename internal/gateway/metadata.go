package gateway

import (
	"context"
	"time"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Metadata, all versions.
//
// Request: passes as bytes, unless it names something like orders.view16 that
// is no topic yet: then the view is made first, if the client may read the
// source, and before it the source, where the cluster makes topics that this
// client asks for. Names that look like a view but cannot be one are taken out, so that
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
			names := make([]string, len(req.Topics))
			for i := range req.Topics {
				names[i] = req.Topics[i].Topic
			}
			_, _ = c.ensureViews(ctx, names, false) // the broker's answer says where there is none
			resp, err := c.roundTrip(ctx, req)
			if err == nil {
				c.rewriteReplicas(resp.(*kmsg.DescribeTopicPartitionsResponse))
			}
			return resp, err
		}),
		rewrite: always((*conn).rewriteReplicas),
	})
}

// rewriteReplicas puts empty lists where the embedded engine has null, which
// the protocol allows, no broker sends, and the Java admin client dies of.
func (c *conn) rewriteReplicas(r *kmsg.DescribeTopicPartitionsResponse) {
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			p := &r.Topics[i].Partitions[j]
			if p.EligibleLeaderReplicas == nil {
				p.EligibleLeaderReplicas = []int32{}
			}
			if p.LastKnownELR == nil {
				p.LastKnownELR = []int32{}
			}
		}
	}
}

func metadataOwns(c *conn, req *kmsg.MetadataRequest) (bool, error) {
	for _, t := range req.Topics {
		if t.Topic != nil && c.gw.views.wanted(*t.Topic) {
			return true, nil
		}
	}
	return false, nil
}

func (c *conn) handleMetadata(ctx context.Context, req *kmsg.MetadataRequest) (kmsg.Response, error) {
	var names []string
	for _, t := range req.Topics {
		if t.Topic != nil {
			names = append(names, *t.Topic)
		}
	}
	made, refused := c.ensureViews(ctx, names, req.AllowAutoTopicCreation || req.Version < 4) // before 4 it always is
	kept := req.Topics[:0:0]
	for _, t := range req.Topics {
		if t.Topic != nil {
			if _, ok := refused[*t.Topic]; ok {
				continue
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
	if len(topics) == 0 {
		ask.Topics = []kmsg.MetadataRequestTopic{} // none, not all
		ask.Version = max(ask.Version, 1)          // in version 0 an empty list means all
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
			refs = append(refs, topicRef{name: *t.Topic, id: t.TopicID})
		}
	}
	if err := c.gw.views.resolve(c.ctx, refs...); err != nil {
		// Without knowing whether it is a view, a topic must not be shown: the
		// client would read the empty topic.
		if c.gw.often.now("topics held back", 10*time.Second) {
			c.gw.log.Warn("topics are held back from clients", "cause", err, "cure", "see whether the cluster answers")
		}
		for i := range r.Topics {
			if t := &r.Topics[i]; t.Topic != nil && !c.gw.views.seen(*t.Topic, t.TopicID) {
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
	if err := c.gw.views.freshen(c.ctx, named); err != nil && c.gw.often.now("freshen", 10*time.Second) {
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
