package gateway

import (
	"context"
	"testing"

	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// transaction is one after the other of a producer, with nothing but offsets, made of single requests.
type transaction struct {
	w          *world
	c          *kgo.Client
	id         string
	old        bool // transactions v1: the same epoch in each, and everything is added to it explicitly
	member     string
	generation int32
	producer   int64
	epoch      int16
}

func (w *world) transaction(id string) *transaction { return w.transactionOf(id, false) }

func (w *world) transactionOf(id string, old bool) *transaction {
	w.t.Helper()
	v := kversion.Stable()
	if old {
		v.SetMaxKeyVersion(int16(kmsg.TxnOffsetCommit), 4)
		v.SetMaxKeyVersion(int16(kmsg.EndTxn), 4)
	}
	x := &transaction{w: w, c: w.client(kgo.MaxVersions(v)), id: id, old: old, generation: -1}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &id, 30_000
	resp := ask(x, req.RequestWith)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		w.t.Fatal(err)
	}
	x.producer, x.epoch = resp.ProducerID, resp.ProducerEpoch
	return x
}

// eachKind runs a test with transactions of both kinds, of a group and a topic with one partition.
func eachKind(t *testing.T, run func(t *testing.T, w *world, topic, group string, x *transaction)) {
	for name, old := range map[string]bool{"v1": true, "v2": false} {
		t.Run(name, func(t *testing.T) {
			w := ranged(t, nil)
			topic, group := w.source(1)
			run(t, w, topic, group, w.transactionOf(group, old))
		})
	}
}

func ask[R any](x *transaction, request func(context.Context, kmsg.Requestor) (R, error)) R {
	x.w.t.Helper()
	resp, err := request(x.w.t.Context(), x.c)
	if err != nil {
		x.w.t.Fatal(err)
	}
	return resp
}

// add makes a group part of the transaction, which begins with it.
func (x *transaction) add(group string) {
	x.w.t.Helper()
	if !x.old {
		return // Kafka does that by itself
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = x.id, x.producer, x.epoch, group
	if err := kerr.ErrorForCode(ask(x, add.RequestWith).ErrorCode); err != nil {
		x.w.t.Fatal(err)
	}
}

func (x *transaction) request(group, topic string, p kmsg.TxnOffsetCommitRequestTopicPartition) *kmsg.TxnOffsetCommitRequest {
	x.w.t.Helper()
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	if req.Version = 5; x.old {
		req.Version = 4
	}
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = x.id, x.producer, x.epoch
	req.Group, req.MemberID, req.Generation = group, x.member, x.generation
	t := kmsg.NewTxnOffsetCommitRequestTopic()
	t.Topic, t.TopicID, t.Partitions = topic, x.w.topicID(topic), append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func plainRow(partition int32, at int64) kmsg.TxnOffsetCommitRequestTopicPartition {
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch = partition, at, -1
	return p
}

// try commits a row in the transaction and returns the code.
func (x *transaction) try(group, topic string, p kmsg.TxnOffsetCommitRequestTopicPartition) int16 {
	x.w.t.Helper()
	x.add(group)
	return ask(x, x.request(group, topic, p).RequestWith).Topics[0].Partitions[0].ErrorCode
}

func (x *transaction) commit(group, topic string, partition int32, offset int64) {
	x.w.t.Helper()
	if err := kerr.ErrorForCode(x.try(group, topic, plainRow(partition, offset))); err != nil {
		x.w.t.Fatal(err)
	}
}

func (x *transaction) rangesRow(c tandemmsg.Commit) kmsg.TxnOffsetCommitRequestTopicPartition {
	x.w.t.Helper()
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	if err := tandemmsg.WriteCommit(&p, c); err != nil {
		x.w.t.Fatal(err)
	}
	return p
}

// tryRanges commits ranges of partition 0 in the transaction and returns the code.
func (x *transaction) tryRanges(group, topic string, c tandemmsg.Commit) int16 {
	x.w.t.Helper()
	return x.try(group, topic, x.rangesRow(c))
}

func (x *transaction) ranges(group, topic string, c tandemmsg.Commit) {
	x.w.t.Helper()
	if err := kerr.ErrorForCode(x.tryRanges(group, topic, c)); err != nil {
		x.w.t.Fatalf("committing %+v: %v", c, err)
	}
}

func (x *transaction) end(commit bool) {
	x.w.t.Helper()
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = x.id, x.producer, x.epoch, commit
	resp := ask(x, req.RequestWith)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		x.w.t.Fatal(err)
	}
	if !x.old {
		x.producer, x.epoch = resp.ProducerID, resp.ProducerEpoch
	}
}

func (w *world) topicID(name string) [16]byte {
	w.t.Helper()
	topics, err := w.admin.ListTopics(w.t.Context(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	return topics[name].ID
}
