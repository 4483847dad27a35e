package icommit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/tandem-kafka/tandem/internal/icommit/record"
)

// This file writes facts in clients' transactions, and tells what was written so.

// Txn is a client's transaction, as far as facts are written in it. It belongs to a connection of the client, which counts what it writes. It is for one
// goroutine.
type Txn struct {
	ID string // transactional.id
	Producer
	// Implicit: Kafka adds partitions to the transaction by itself when they are written to, and each transaction has an epoch of its own
	// (transactions v2).
	Implicit bool

	next map[place]int32
	lost bool
}

// place is a partition of the topic.
type place struct {
	topic     [16]byte
	partition int32
}

// Sequence is the number of the producer's next record in a partition; false: the partition's leader is to be asked. In transactions v2 each
// begins with 0. Before, it goes on from one transaction to the next, and no guess is allowed: where it is too low for the first batch that a
// transaction writes in a partition, Kafka refuses all higher ones from then on.
func (x *Txn) Sequence(t Topic, partition int32) (int32, bool) {
	n, ok := x.next[place{t.ID, partition}]
	return n, ok || x.Implicit && !x.lost
}

// Count takes in what the number of the next record is.
func (x *Txn) Count(t Topic, partition, next int32) {
	if !x.Implicit {
		return // other connections may write in between
	}
	if x.next == nil {
		x.next = map[place]int32{}
	}
	x.next[place{t.ID, partition}] = next
}

// Forget says that somebody else has written for the producer.
func (x *Txn) Forget() { clear(x.next); x.lost = true }

// Enlist makes the group's partition of the log one of those that a transaction writes to, so that what the producer has written there before is
// decided from then on, or is of this transaction. The topic is made when it is missing.
func (l *Log) Enlist(ctx context.Context, group string, txn *Txn) error {
	return l.inTopic(ctx, func(t Topic) error { return l.up.Enlist(ctx, t, record.PartitionOf(group, t.Partitions), txn) })
}

// AppendIn writes records of one group in a client's transaction, and returns when the handler has what is in their place in the log. The caller looks
// whether it is them: Kafka may have taken them for what another gateway has written. The topic is made when it is missing.
func (l *Log) AppendIn(ctx context.Context, group string, txn *Txn, records []record.Record) error {
	puts, deletions, err := encode(group, records)
	if err != nil {
		return err
	}
	return l.inTopic(ctx, func(t Topic) error {
		partition := record.PartitionOf(group, t.Partitions)
		end, err := l.up.AppendIn(ctx, t, partition, txn, append(puts, deletions...))
		if err != nil {
			return err
		}
		l.metrics.Appended.Add(int64(len(puts)))
		l.metrics.Deleted.Add(int64(len(deletions)))
		f, err := l.follow(t, partition)
		if err != nil {
			return err
		}
		defer f.release()
		resets, _ := f.state()
		again, err := f.wait(ctx, end, resets)
		if err == nil && again {
			err = errAnew
		}
		return err
	})
}

var errAnew = errors.New("icommit: the log is read from its start again")

// inTopic does something with the topic, which is made where it is not known to be there.
func (l *Log) inTopic(ctx context.Context, do func(Topic) error) error {
	t, err := l.ensure(ctx)
	if err == nil {
		err = do(t)
	}
	if err != nil {
		l.mu.Lock()
		l.topic = Topic{} // the next one looks first
		l.mu.Unlock()
		return failed("writing to", err, nil)
	}
	return nil
}

// origin is where the records of a batch come from.
type origin struct {
	open, control bool // in a transaction; a marker that ends one
	producer      Producer
}

const (
	transactional = 0x10
	control       = 0x20
)

// stretch is how many bytes at the front of raw are batches of one origin, or one marker. The rest of raw is among them where it is not a whole
// batch of magic 2.
func stretch(raw []byte) (n int, of origin) {
	n, of = batchOrigin(raw)
	for n < len(raw) && !of.control {
		size, next := batchOrigin(raw[n:])
		if next != of {
			break
		}
		n += size
	}
	return n, of
}

// batchOrigin is the size of the batch at the front of raw, and its origin.
func batchOrigin(raw []byte) (size int, of origin) {
	be := binary.BigEndian
	if len(raw) < batchHead || raw[16] != 2 {
		return len(raw), origin{}
	}
	size = int(int32(be.Uint32(raw[8:]))) + 12
	if size < batchHead || size > len(raw) {
		return len(raw), origin{}
	}
	if attributes := be.Uint16(raw[21:]); attributes&transactional != 0 {
		of = origin{open: true, control: attributes&control != 0, producer: Producer{int64(be.Uint64(raw[43:])), int16(be.Uint16(raw[51:]))}}
	} else {
		of.control = attributes&control != 0
	}
	return size, of
}

// marker reads a control batch. decides is false where it ends no transaction.
func marker(raw []byte) (commit, decides bool, next int64, err error) {
	be := binary.BigEndian
	if want, got := be.Uint32(raw[17:]), crc32.Checksum(raw[21:], castagnoli); want != got {
		return false, false, 0, fmt.Errorf("a marker with the CRC %08x, computed %08x", want, got)
	}
	next = int64(be.Uint64(raw)) + int64(be.Uint32(raw[23:])) + 1
	body := raw[batchHead:]
	length, n := binary.Varint(body)
	if n <= 0 || length < 1 || length > int64(len(body)-n) {
		return false, false, next, nil
	}
	_, key, _, ok := parse(body[n : n+int(length)])
	if !ok || len(key) < 4 || be.Uint16(raw[21:])&transactional == 0 {
		return false, false, next, nil
	}
	kind := be.Uint16(key[2:]) // behind a version
	return kind == 1, kind <= 1, next, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
