package gateway

import (
	"context"
	"slices"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TxnOffsetCommit, all versions, for requests that name a view; others pass as
// bytes. As OffsetCommit; the additions are of the same transaction, and so are
// the facts of ranges (txn_facts.go). The rows are read before every one: nobody
// tells the gateway when a transaction is decided.

func init() {
	register(wire.TxnOffsetCommit, &api{
		decode: true,
		owns: typedOwns(func(c *conn, req *kmsg.TxnOffsetCommitRequest) (bool, error) {
			refs := make([]topicRef, 0, 8)
			for i := range req.Topics {
				refs = append(refs, topicRef{name: req.Topics[i].Topic, id: req.Topics[i].TopicID})
			}
			ranges, bad := tandemmsg.ReadCommits(req)
			return c.commitOwns(req.Group, refs, func(topic int) int { return len(req.Topics[topic].Partitions) }, ranges, bad)
		}),
		handle: typed((*conn).handleTxnOffsetCommit),
	})
}

func (c *conn) handleTxnOffsetCommit(ctx context.Context, req *kmsg.TxnOffsetCommitRequest) (kmsg.Response, error) {
	call := &commitCall{group: req.Group, generation: req.Generation, member: req.MemberID, instance: req.InstanceID, txn: true, plain: make(map[tp]bool), named: make(map[rowKey]bool)}
	if req.Version < 3 {
		call.generation = -1
	}
	if call.abort = kerr.TransactionAbortable.Code; req.Version < 4 {
		call.abort = kerr.IllegalGeneration.Code
	}
	ranges, err := tandemmsg.ReadCommits(req)
	if err != nil {
		code := c.refuseRanges(req.Group, err)
		return txnOffsetCommitAnswer(req, func(int, int) int16 { return code }), nil
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
			if req.Version < 2 {
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
	call.in = c.txnOf(req)
	if len(call.ranges) > 0 {
		if err := c.mayCommit(ctx, call); err != nil {
			return nil, err
		}
	}
	if slices.ContainsFunc(call.ranges, func(r rangeRow) bool { return r.code == 0 }) {
		c.enlist(ctx, call)
	}
	call.send = func(ctx context.Context, added []addition) (func(int, int) int16, []int16, error) {
		return c.sendTxnOffsetCommit(ctx, call, req, call.left(), added)
	}
	if err := c.commitViews(ctx, call); err != nil {
		return nil, err
	}
	resp := txnOffsetCommitAnswer(req, call.result)
	resp.ThrottleMillis = call.throttle
	if req.Version >= 3 {
		c.afterCommit(ctx, call)
	}
	return resp, nil
}

func txnOffsetCommitAnswer(req *kmsg.TxnOffsetCommitRequest, code func(topic, index int) int16) *kmsg.TxnOffsetCommitResponse {
	resp := kmsg.NewPtrTxnOffsetCommitResponse()
	for ti := range req.Topics {
		t := &req.Topics[ti]
		rt := kmsg.NewTxnOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for pi := range t.Partitions {
			rp := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = t.Partitions[pi].Partition, code(ti, pi)
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (c *conn) sendTxnOffsetCommit(ctx context.Context, call *commitCall, req *kmsg.TxnOffsetCommitRequest, left leftOut, added []addition) (func(int, int) int16, []int16, error) {
	ask, byID := *req, req.Version >= 6
	ask.Topics = make([]kmsg.TxnOffsetCommitRequestTopic, 0, len(req.Topics)+len(added))
	at := make(map[rowKey]int, len(req.Topics)+len(added))
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
			t := kmsg.NewTxnOffsetCommitRequestTopic()
			t.Topic, t.TopicID = a.topic, a.id
			ask.Topics = append(ask.Topics, t)
		}
		p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = a.vp, a.offset, a.epoch, a.metadata
		ask.Topics[i].Partitions = append(ask.Topics[i].Partitions, p)
	}
	if len(ask.Topics) == 0 {
		return func(int, int) int16 { return 0 }, nil, nil
	}
	kresp, err := c.roundTrip(ctx, &ask)
	if err != nil {
		return nil, nil, err
	}
	resp := kresp.(*kmsg.TxnOffsetCommitResponse)
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
