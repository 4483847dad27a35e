package commits

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Transaction names the transaction that a commit is a part of.
type Transaction struct {
	ID       string // transactional.id
	Producer int64
	Epoch    int16
}

// CommitIn commits entries as CommitUntil does, in a transaction: they count if and only if it is committed. Nothing may be under way of the transaction but what its
// producer writes.
func (c *Commits) CommitIn(ctx context.Context, txn Transaction, as Member, entries []Entry) []error {
	return c.commitUntil(ctx, caller{as, &txn}, entries)
}

// The versions of TxnOffsetCommit: the first with tagged fields, the last that wants the group to be added to the transaction before (AddOffsetsToTxn), and the last
// that names topics.
const (
	txnTagged    = 3
	txnAdds      = 4
	txnLastNamed = 5
)

// transactionVersion is the feature of clusters, whose level 2 is transactions v2 (KIP-890).
const transactionVersion = "transaction.version"

// transactionsV2 reports whether a broker takes part in a transaction that it was not added to before.
func transactionsV2(resp *kmsg.ApiVersionsResponse) bool {
	v2 := false
	for i := range resp.FinalizedFeatures {
		f := &resp.FinalizedFeatures[i]
		v2 = v2 || f.Name == transactionVersion && f.MaxVersionLevel >= 2
	}
	for _, k := range resp.ApiKeys {
		if k.ApiKey == int16(kmsg.TxnOffsetCommit) && k.MaxVersion <= txnAdds {
			return false
		}
	}
	return v2
}

// txnCommitRequest pins the versions of a TxnOffsetCommit.
type txnCommitRequest struct {
	*kmsg.TxnOffsetCommitRequest
	additions, v2 bool
}

// MaxVersion is the most that kgo may choose.
func (r *txnCommitRequest) MaxVersion() int16 {
	if r.v2 {
		return txnLastNamed
	}
	return txnAdds
}

// AppendTo commits nothing in a version in which the additions would be lost.
func (r *txnCommitRequest) AppendTo(dst []byte) []byte {
	if r.additions && r.Version < txnTagged {
		r.Topics = nil
	}
	return r.TxnOffsetCommitRequest.AppendTo(dst)
}

// tellIn sends a request in a transaction.
func (c *Commits) tellIn(ctx context.Context, at *coordinator, as caller, r *request) (codes, error) {
	if !at.v2 {
		if err := c.addGroup(ctx, as.txn); err != nil {
			return nil, err
		}
	}
	req := r.inTransaction()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = as.txn.ID, as.txn.Producer, as.txn.Epoch
	req.Group, req.Generation, req.MemberID, req.InstanceID = c.group, as.Generation, as.ID, as.InstanceID
	kresp, err := c.client.Broker(int(at.id)).Request(ctx, &txnCommitRequest{req, r.additions, at.v2})
	if err == nil && r.additions && req.Version < txnTagged {
		err = ErrUnsupported
	}
	if err != nil {
		return nil, err
	}
	all := make(codes, len(r.pieces))
	resp := kresp.(*kmsg.TxnOffsetCommitResponse)
	for i := range resp.Topics {
		for _, p := range resp.Topics[i].Partitions {
			all[place{resp.Topics[i].Topic, p.Partition}] = p.ErrorCode
		}
	}
	return all, nil
}

// addGroup adds the group's offsets to a transaction. To do so again changes nothing.
func (c *Commits) addGroup(ctx context.Context, txn *Transaction) error {
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = txn.ID, txn.Producer, txn.Epoch, c.group
	resp, err := req.RequestWith(ctx, c.client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

// inTransaction is message for a TxnOffsetCommit.
func (r *request) inTransaction() *kmsg.TxnOffsetCommitRequest {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	plain := r.message()
	for i := range plain.Topics {
		t := kmsg.NewTxnOffsetCommitRequestTopic()
		t.Topic = plain.Topics[i].Topic
		for _, p := range plain.Topics[i].Partitions {
			of := kmsg.NewTxnOffsetCommitRequestTopicPartition()
			of.Partition, of.Offset, of.LeaderEpoch, of.Metadata, of.UnknownTags = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.UnknownTags
			t.Partitions = append(t.Partitions, of)
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}
