package gateway

import (
	"fmt"
	"time"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Produce, all versions.
//
// The request passes as bytes, unless its first topic is a view: then it is
// decoded, the view's part is refused with POLICY_VIOLATION and a text (every
// producer fails at once and readably), and the rest goes on. A view behind
// another topic, or in a very large request, is refused by the cluster (max.message.bytes of its backing
// topic) and the answer is rewritten; what is small enough to get in is never
// shown to anyone. Response: node endpoints (v10+) become the gateway's.
// Acks 0 has no response.

const viewIsReadOnly = "this topic is a view: it shows the records of another topic; produce to that one"

func (c *conn) produce(h wire.Header, size int) error {
	if limit, _ := wire.MaxVersion(wire.Produce); h.Version > limit {
		return fmt.Errorf("gateway: Produce version %d was not offered to this client", h.Version)
	}
	buf, err := c.cr.Peek(4 + min(size, bufferSize-4))
	if err != nil {
		return err
	}
	p, ok := wire.ParseProducePrefix(buf[4+h.Body:], h.Version)
	if !ok {
		return fmt.Errorf("%w: Produce without acks", wire.ErrHeader)
	}
	if p.HasTopic {
		if err := c.gw.views.resolve(c.ctx, topicRef{name: p.Topic, id: p.TopicID}); err == nil && c.gw.views.Topic(p.Topic, p.TopicID) != nil && size <= maxDecoded {
			return c.refuseProduce(h, size, p.Acks)
		}
	}
	return c.forward(h, size, pending{rewrite: c.rewriteProduce}, p.Acks != 0)
}

// refuseProduce answers a Produce request that names a view.
func (c *conn) refuseProduce(h wire.Header, size int, acks int16) error {
	content, err := c.content(size)
	if err != nil {
		return err
	}
	kreq, err := wire.DecodeRequest(h, content[h.Body:])
	if err != nil {
		return err
	}
	req := kreq.(*kmsg.ProduceRequest)
	c.gw.metrics.viewRefused.Inc()
	var rest []kmsg.ProduceRequestTopic
	refused := kmsg.NewPtrProduceResponse()
	for _, t := range req.Topics {
		w := c.gw.views.Topic(t.Topic, t.TopicID)
		if w == nil {
			rest = append(rest, t)
			continue
		}
		c.warnWrite(w)
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition = p.Partition
			refuseWrite(&rp)
			rt.Partitions = append(rt.Partitions, rp)
		}
		refused.Topics = append(refused.Topics, rt)
	}
	if err := c.barrier(); err != nil {
		return err
	}
	req.Topics = rest
	if acks == 0 {
		if len(rest) == 0 {
			return errDone // as a broker does: the producer sees that something is wrong
		}
		return c.sendUnanswered(h, req)
	}
	if len(rest) > 0 {
		kresp, err := c.roundTrip(c.ctx, req)
		if err != nil {
			return err
		}
		resp := kresp.(*kmsg.ProduceResponse)
		c.rewriteProduce(resp)
		resp.Topics = append(resp.Topics, refused.Topics...)
		refused = resp
	}
	refused.SetVersion(h.Version)
	return c.answer(h.CorrelationID, refused)
}

// warnWrite says in the log what clients that drop the answer's text do not
// say, once a minute per client and view.
func (c *conn) warnWrite(w *View) {
	if c.gw.often.now("write "+c.peer+" "+w.Name, time.Minute) {
		c.log.Warn("a client writes to a view and is refused", "view", w.Name, "cure", "produce to "+w.Source)
	}
}

func (c *conn) sendUnanswered(h wire.Header, req kmsg.Request) error {
	if err := c.connectUpstream(); err != nil {
		return err
	}
	frame := wire.AppendRequest(nil, h.CorrelationID, h.ClientID, req)
	c.toBroker(len(frame))
	_, err := c.up.Write(frame)
	return err
}

func refuseWrite(p *kmsg.ProduceResponseTopicPartition) {
	p.ErrorCode, p.BaseOffset = kerr.PolicyViolation.Code, -1
	p.ErrorMessage = kmsg.StringPtr(viewIsReadOnly)
}

func (c *conn) rewriteProduce(resp kmsg.Response) {
	r := resp.(*kmsg.ProduceResponse)
	for i := range r.Brokers {
		b := &r.Brokers[i]
		b.Host, b.Port = c.advertised(b.NodeID, b.Host, b.Port)
	}
	for i := range r.Topics {
		t := &r.Topics[i]
		w := c.gw.views.Topic(t.Topic, t.TopicID)
		if w == nil {
			continue
		}
		c.warnWrite(w)
		for j := range t.Partitions {
			refuseWrite(&t.Partitions[j])
		}
	}
}
