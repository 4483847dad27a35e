package cases

import (
	"errors"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// producer is a transactional producer on the wire.
type producer struct {
	t     testing.TB
	id    string
	old   bool // transactions v1: no epoch of its own for each transaction, and everything is added to it explicitly
	pid   int64
	epoch int16
}

// oldTransactions are the versions of a client that knows transactions v1 only.
func oldTransactions() kgo.Opt {
	v := wireVersions()
	v.SetMaxKeyVersion(int16(kmsg.TxnOffsetCommit), 4)
	v.SetMaxKeyVersion(int16(kmsg.EndTxn), 4)
	return kgo.MaxVersions(v)
}

// initProducer begins with a transactional id, and fences who had it before. The wire is to have oldTransactions with old.
func initProducer(w *wire, id string, old bool, timeout time.Duration) *producer {
	w.t.Helper()
	p := &producer{t: w.t, id: id, old: old}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &id, int32(timeout.Milliseconds())
	harness.Eventually(w.t, 20*time.Second, func() error {
		resp, err := req.RequestWith(harness.Context(w.t, 20*time.Second), w.c)
		if err == nil {
			p.pid, p.epoch = resp.ProducerID, resp.ProducerEpoch
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		return err
	})
	return p
}

// tryCommit commits ranges of a partition in the transaction, in the name of w's member.
func (p *producer) tryCommit(w *wire, topic string, partition int32, c tandemmsg.Commit) error {
	p.t.Helper()
	if p.old {
		if err := p.addGroup(w); err != nil {
			return err
		}
	}
	resp, err := p.commitRequest(w, topic, partition, c).RequestWith(harness.Context(p.t, 30*time.Second), w.c)
	if err != nil {
		p.t.Fatal(err)
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

func (p *producer) addGroup(w *wire) error {
	p.t.Helper()
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = p.id, p.pid, p.epoch, w.group
	for within := harness.Until(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		added, err := add.RequestWith(harness.Context(p.t, 20*time.Second), w.c)
		if err == nil {
			err = kerr.ErrorForCode(added.ErrorCode)
		}
		if !errors.Is(err, kerr.ConcurrentTransactions) || !within() {
			return err
		}
	}
}

func (p *producer) commitRequest(w *wire, topic string, partition int32, c tandemmsg.Commit) *kmsg.TxnOffsetCommitRequest {
	p.t.Helper()
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = p.id, w.group, p.pid, p.epoch
	req.Generation, req.MemberID = w.generation, w.member
	rt := kmsg.NewTxnOffsetCommitRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rp.Partition = partition
	if err := tandemmsg.WriteCommit(&rp, c); err != nil {
		p.t.Fatal(err)
	}
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// commit is tryCommit as the producer's client does it: it tries again what passes.
func (p *producer) commit(w *wire, topic string, partition int32, c tandemmsg.Commit) {
	p.t.Helper()
	harness.Eventually(p.t, 20*time.Second, func() error { return p.tryCommit(w, topic, partition, c) })
}

// refused wants a commit to be answered with an error; what passes is tried again.
func (p *producer) refused(w *wire, topic string, partition int32, c tandemmsg.Commit, want error) {
	p.t.Helper()
	harness.Eventually(p.t, 20*time.Second, func() error {
		switch err := p.tryCommit(w, topic, partition, c); {
		case errors.Is(err, want):
			return nil
		case !kerr.IsRetriable(err): // or it was accepted
			p.t.Fatalf("a commit is answered %v, not %v", err, want)
			return nil
		default:
			return err
		}
	})
}

// end commits the transaction, or aborts it.
func (p *producer) end(w *wire, commit bool) {
	p.t.Helper()
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = p.id, p.pid, p.epoch, commit
	harness.Eventually(p.t, 20*time.Second, func() error {
		resp, err := req.RequestWith(harness.Context(p.t, 20*time.Second), w.c)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err == nil && !p.old {
			p.pid, p.epoch = resp.ProducerID, resp.ProducerEpoch
		}
		return err
	})
}
