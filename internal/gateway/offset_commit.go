package gateway

import (
	"context"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetCommit, all versions, for requests that name a view; others pass as
// bytes.
//
// The rows of views get a suffix in their metadata, and the request one more
// row for each source partition that they touch: the stable offset (see package
// progress). Everything goes upstream in one request on the client's own
// connection, so that Kafka checks member, generation and rights, and writes all
// or nothing of what it accepts. The answer leaves the additions out; where one
// was refused, the rows of views of that partition get its error.

func init() {
	register(wire.OffsetCommit, &api{
		decode: true,
		owns:   typedOwns(offsetCommitOwns),
		handle: typed((*conn).handleOffsetCommit),
	})
}

func offsetCommitOwns(c *conn, req *kmsg.OffsetCommitRequest) (bool, error) {
	refs := make([]topicRef, 0, 8)
	for i := range req.Topics {
		refs = append(refs, topicRef{name: req.Topics[i].Topic, id: req.Topics[i].TopicID})
	}
	ranges, bad := tandemmsg.ReadCommits(req)
	return c.commitOwns(req.Group, refs, func(topic int) int { return len(req.Topics[topic].Partitions) }, ranges, bad)
}

// commitOwns is whether a commit names a view, or says anything with additions, or
// tries to. rows is how many rows it has of a topic, by its index in refs.
func (c *conn) commitOwns(group string, refs []topicRef, rows func(topic int) int, ranges []tandemmsg.PartitionCommit, bad error) (owned bool, err error) {
	inRanges := rangeIndex(ranges)
	plain := func(topic int) bool {
		for i := range rows(topic) {
			if !inRanges[[2]int{topic, i}] {
				return true
			}
		}
		return false
	}
	owned, err = c.commitNames(group, refs, plain)
	return owned || err == nil && (bad != nil || len(ranges) > 0), err
}

// commitNames is whether a commit names a view. plain is whether it has a row of a
// topic, by its index in refs, that is no individual commit.
func (c *conn) commitNames(group string, refs []topicRef, plain func(int) bool) (owned bool, err error) {
	if err := c.gw.views.resolve(c.ctx, refs...); err != nil {
		return false, err
	}
	ranged := c.gw.groups.anyRanges()
	if c.gw.views.Empty() && !ranged {
		return false, nil
	}
	for i, r := range refs {
		if c.gw.views.Topic(r.name, r.id) != nil {
			owned = true
		} else if !plain(i) {
			continue
		} else if name := c.gw.views.sourceName(r); name != "" {
			c.gw.groups.notePlain(group, name)
		} else if ranged {
			c.gw.groups.notePlain(group, c.gw.facts.seenName(r))
		}
	}
	return owned, nil
}

func (c *conn) handleOffsetCommit(ctx context.Context, req *kmsg.OffsetCommitRequest) (kmsg.Response, error) {
	call := &commitCall{group: req.Group, generation: req.Generation, member: req.MemberID, instance: req.InstanceID, plain: make(map[tp]bool), named: make(map[rowKey]bool)}
	if req.Version == 0 {
		call.generation = -1
	}
	ranges, err := tandemmsg.ReadCommits(req)
	if err != nil {
		code := c.refuseRanges(req.Group, err)
		return offsetCommitAnswer(req, func(int, int) int16 { return code }), nil
	}
	inRanges := rangeIndex(ranges)
	for ti := range req.Topics {
		t := &req.Topics[ti]
		w := c.gw.views.Topic(t.Topic, t.TopicID)
		for pi := range t.Partitions {
			p := &t.Partitions[pi]
			if inRanges[[2]int{ti, pi}] {
				continue
			}
			if w == nil {
				call.ordinary(c, topicRef{t.Topic, t.TopicID}, p.Partition)
				continue
			}
			epoch := p.LeaderEpoch
			if req.Version < 6 {
				epoch = -1
			}
			call.add(c, commitRow{topic: ti, index: pi, view: w, vp: p.Partition, metadata: &p.Metadata}, p.Offset, epoch)
		}
	}
	for _, r := range ranges {
		t := &req.Topics[r.Topic]
		if err := c.addRanges(ctx, call, r, c.gw.views.Topic(t.Topic, t.TopicID), topicRef{t.Topic, t.TopicID}, t.Partitions[r.Partition].Partition); err != nil {
			return nil, err
		}
	}
	call.send = func(ctx context.Context, added []addition) (func(int, int) int16, []int16, error) {
		return c.sendOffsetCommit(ctx, call, req, call.left(), added)
	}
	if err := c.commitViews(ctx, call); err != nil {
		return nil, err
	}
	resp := offsetCommitAnswer(req, call.result)
	resp.ThrottleMillis = call.throttle
	c.gw.generations.accepted(req, resp)
	c.afterCommit(ctx, call)
	return resp, nil
}

// ordinary takes up a row of an ordinary topic.
func (call *commitCall) ordinary(c *conn, ref topicRef, partition int32) {
	if name := c.gw.views.sourceName(ref); name != "" {
		call.plain[tp{name, partition}] = true
	}
	call.named[rowKey{ref.name, ref.id, partition}] = true
}

func offsetCommitAnswer(req *kmsg.OffsetCommitRequest, code func(topic, index int) int16) *kmsg.OffsetCommitResponse {
	resp := kmsg.NewPtrOffsetCommitResponse()
	for ti := range req.Topics {
		t := &req.Topics[ti]
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for pi := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = t.Partitions[pi].Partition, code(ti, pi)
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func rangeIndex(ranges []tandemmsg.PartitionCommit) map[[2]int]bool {
	index := make(map[[2]int]bool, len(ranges))
	for _, r := range ranges {
		index[[2]int{r.Topic, r.Partition}] = true
	}
	return index
}

// rowKey names a row in an answer, by topic id where that is set.
type rowKey struct {
	name      string
	id        [16]byte
	partition int32
}

func keyOf(name string, id [16]byte, partition int32, byID bool) rowKey {
	if byID {
		return rowKey{id: id, partition: partition}
	}
	return rowKey{name: name, partition: partition}
}

// sendOffsetCommit sends a copy of the client's request without the rows left
// out, and with additions.
func (c *conn) sendOffsetCommit(ctx context.Context, call *commitCall, req *kmsg.OffsetCommitRequest, left leftOut, added []addition) (func(int, int) int16, []int16, error) {
	ask, byID := *req, req.Version >= 10
	ask.Topics = make([]kmsg.OffsetCommitRequestTopic, 0, len(req.Topics)+len(added))
	at := make(map[rowKey]int, len(req.Topics)+len(added)) // topics by name or id
	for ti, t := range req.Topics {
		n := t
		n.Partitions = nil
		for pi, p := range t.Partitions {
			if !left.has(ti, pi) {
				n.Partitions = append(n.Partitions, p)
			}
		}
		if len(n.Partitions) > 0 {
			at[keyOf(t.Topic, t.TopicID, 0, byID)] = len(ask.Topics)
			ask.Topics = append(ask.Topics, n)
		}
	}
	for _, a := range added {
		k := keyOf(a.topic, a.id, 0, byID)
		i, ok := at[k]
		if !ok {
			i = len(ask.Topics)
			at[k] = i
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic, t.TopicID = a.topic, a.id
			ask.Topics = append(ask.Topics, t)
		}
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.Timestamp = a.vp, a.offset, a.epoch, a.metadata, -1
		ask.Topics[i].Partitions = append(ask.Topics[i].Partitions, p)
	}
	if len(ask.Topics) == 0 {
		return func(int, int) int16 { return 0 }, nil, nil
	}
	kresp, err := c.roundTrip(ctx, &ask)
	if err != nil {
		return nil, nil, err
	}
	resp := kresp.(*kmsg.OffsetCommitResponse)
	call.throttle = max(call.throttle, resp.ThrottleMillis)
	codes := make(map[rowKey]int16)
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for _, p := range t.Partitions {
			codes[keyOf(t.Topic, t.TopicID, p.Partition, byID)] = p.ErrorCode
		}
	}
	return answers(codes, added, byID, func(ti, pi int) rowKey {
		t := &req.Topics[ti]
		return keyOf(t.Topic, t.TopicID, t.Partitions[pi].Partition, byID)
	})
}
