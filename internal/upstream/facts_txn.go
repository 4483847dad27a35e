package upstream

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"net"
	"strconv"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit"
	"github.com/tandem-kafka/tandem/internal/slicecache"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file writes to the topic of individual commits in the transactions of
// clients, on the gateway's own connections. The client itself does not know of
// it: Kafka adds the partition to the transaction, or is asked to, and ends it
// with the others.

const (
	// txnFor bounds what is tried again because the producer's last transaction is not over everywhere yet, or replicas are missing.
	txnFor     = 5 * time.Second
	txnBackoff = 20 * time.Millisecond
	// txnBatch is about how many bytes of records one batch has: brokers take a mebibyte, as a rule.
	txnBatch = 256 << 10
	// lastTry is the last of the guesses which number comes next.
	lastTry = 2
	// explicitProduce is the highest version of Produce that does not add partitions to transactions, explicitEnlist that of AddPartitionsToTxn
	// for clients.
	explicitProduce, explicitEnlist = 11, 3
)

// Enlist implements icommit.Upstream.
func (f *Facts) Enlist(ctx context.Context, _ icommit.Topic, partition int32, txn *icommit.Txn) error {
	return f.again(ctx, func() error {
		addr, err := f.coordinator(ctx, txn.ID)
		if err != nil {
			return err
		}
		_, _, err = f.reader.at(ctx, addr, func(ctx context.Context, c *Conn) error { return enlist(ctx, c, partition, txn) })
		return err
	})
}

func enlist(ctx context.Context, c *Conn, partition int32, txn *icommit.Txn) error {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = txn.ID, txn.Producer.ID, txn.Epoch
	t := kmsg.NewAddPartitionsToTxnRequestTopic()
	t.Topic, t.Partitions = icommit.TopicName, []int32{partition}
	req.Topics = append(req.Topics, t)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	resp, err := ask[*kmsg.AddPartitionsToTxnResponse](ctx, c, req, explicitEnlist)
	if err != nil {
		return err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return errThrottled
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

// coordinator is the address of a transaction's coordinator.
func (f *Facts) coordinator(ctx context.Context, transactionalID string) (string, error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = 1, transactionalID, []string{transactionalID}
	resp, err := req.RequestWith(ctx, f.c.client)
	if err != nil {
		return "", err
	}
	host, port, code := resp.Host, resp.Port, resp.ErrorCode
	if len(resp.Coordinators) == 1 {
		host, port, code = resp.Coordinators[0].Host, resp.Coordinators[0].Port, resp.Coordinators[0].ErrorCode
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port))), kerr.ErrorForCode(code)
}

// again repeats what fails for reasons that pass, for a short while.
func (f *Facts) again(ctx context.Context, do func() error) error {
	for start := time.Now(); ; {
		err := do()
		if err == nil || !txnPasses(err) || ctx.Err() != nil || time.Since(start) > txnFor {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(txnBackoff):
		}
	}
}

// txnPasses reports whether what was asked of a coordinator or leader is to be
// asked again. What was written twice has the same numbers, so that it counts once.
func txnPasses(err error) bool {
	switch {
	case !isKafkaError(err):
		return true
	case errors.Is(err, kerr.UnsupportedVersion):
		return false
	}
	return errors.Is(err, kerr.ConcurrentTransactions) || kerr.IsRetriable(err) && !errors.Is(err, kerr.UnknownTopicOrPartition)
}

// AppendIn implements icommit.Upstream.
func (f *Facts) AppendIn(ctx context.Context, t icommit.Topic, partition int32, txn *icommit.Txn, entries []icommit.Entry) (end int64, err error) {
	for len(entries) > 0 {
		records, n := encodeRecords(entries)
		if end, err = f.appendBatch(ctx, t, partition, txn, records, n); err != nil {
			return 0, err
		}
		entries = entries[n:]
	}
	return end, nil
}

// appendBatch appends n records as one batch.
func (f *Facts) appendBatch(ctx context.Context, t icommit.Topic, partition int32, txn *icommit.Txn, records []byte, n int) (end int64, err error) {
	src := factsOf(t, partition)
	for try := 0; ; try++ {
		first, known := txn.Sequence(t, partition)
		if !known && try < lastTry { // the last is 0: the embedded engine may tell a number of an epoch before
			if first, err = f.sequence(ctx, src, txn); err != nil {
				return 0, err
			}
		}
		var base int64
		err = f.again(ctx, func() error {
			base, err = f.produce(ctx, src, txn, first, records, n)
			return err
		})
		switch {
		case err == nil:
			txn.Count(t, partition, after(first, n))
			return base + int64(n), nil
		case try < lastTry && (errors.Is(err, kerr.OutOfOrderSequenceNumber) || errors.Is(err, kerr.UnknownProducerID) || errors.Is(err, kerr.DuplicateSequenceNumber)):
			txn.Forget() // another connection of the client has written
		default:
			return 0, err
		}
	}
}

// after is the number of the record that comes n behind another.
func after(first int32, n int) int32 {
	return int32((int64(first) + int64(n)) & math.MaxInt32)
}

// sequence asks the partition's leader for the number of a producer's next
// record.
func (f *Facts) sequence(ctx context.Context, src slicecache.Source, txn *icommit.Txn) (next int32, err error) {
	err = f.reader.retry(ctx, src, 0, func(ctx context.Context, c *Conn) error {
		req := kmsg.NewPtrDescribeProducersRequest()
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic, t.Partitions = src.Topic, []int32{src.Partition}
		req.Topics = append(req.Topics, t)
		resp, err := ask[*kmsg.DescribeProducersResponse](ctx, c, req, newest)
		if err != nil {
			return err
		}
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			return errThrottled
		}
		p := &resp.Topics[0].Partitions[0]
		next = 0
		for _, a := range p.ActiveProducers {
			if a.ProducerID == txn.Producer.ID && a.ProducerEpoch == int32(txn.Epoch) && a.LastSequence >= 0 {
				next = after(a.LastSequence, 1)
			}
		}
		return kerr.ErrorForCode(p.ErrorCode)
	})
	return next, err
}

// produce sends a batch to the partition's leader and returns its first offset.
func (f *Facts) produce(ctx context.Context, src slicecache.Source, txn *icommit.Txn, first int32, records []byte, n int) (base int64, err error) {
	batch := f.txnBatchOf(txn, first, records, n)
	err = f.reader.retry(ctx, src, patience, func(ctx context.Context, c *Conn) error {
		req := kmsg.NewPtrProduceRequest()
		limit := byName(src)
		switch {
		case !txn.Implicit:
			limit = explicitProduce
		case c.versions[req.Key()][1] <= explicitProduce: // a broker that is not upgraded yet
			return fmt.Errorf("the leader of %s does not know transactions v2: %w", src.Topic, kerr.NotEnoughReplicas)
		}
		req.TransactionID, req.Acks, req.TimeoutMillis = &txn.ID, -1, int32(patience.Milliseconds())
		t := kmsg.NewProduceRequestTopic()
		t.Topic, t.TopicID = src.Topic, src.TopicID
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = src.Partition, batch
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		resp, err := ask[*kmsg.ProduceResponse](ctx, c, req, limit)
		if err != nil {
			return err
		}
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			return errThrottled
		}
		base = resp.Topics[0].Partitions[0].BaseOffset
		return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	})
	return base, err
}

// encodeRecords encodes as many entries as one batch may have.
func encodeRecords(entries []icommit.Entry) (records []byte, n int) {
	var body []byte
	for n < len(entries) && (n == 0 || len(records) < txnBatch) {
		e := &entries[n]
		body = append(body[:0], 0)
		body = kbin.AppendVarlong(body, 0)
		body = kbin.AppendVarint(body, int32(n))
		body = kbin.AppendVarintBytes(body, e.Key)
		body = kbin.AppendVarintBytes(body, e.Value)
		body = kbin.AppendVarint(body, 0)
		records = append(kbin.AppendVarint(records, int32(len(body))), body...)
		n++
	}
	return records, n
}

// txnBatchOf is a record batch of magic 2 of a transaction.
func (f *Facts) txnBatchOf(txn *icommit.Txn, first int32, records []byte, n int) []byte {
	const transactional = 0x10
	now := time.Now().UnixMilli()
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: transactional, LastOffsetDelta: int32(n - 1), FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: txn.Producer.ID, ProducerEpoch: txn.Epoch, FirstSequence: first, NumRecords: int32(n), Records: records,
	}
	if packed, codec := f.compressor.Compress(new(bytes.Buffer), records); packed != nil && len(packed) < len(records) {
		b.Records, b.Attributes = packed, b.Attributes|int16(codec)
	}
	out := b.AppendTo(nil)
	binary.BigEndian.PutUint32(out[8:], uint32(len(out)-12))
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[21:], crc32.MakeTable(crc32.Castagnoli)))
	return out
}
