package icommit

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit/record"
)

// TopicName is the topic of the log.
const TopicName = "__individual_commit_offsets"

// ErrClosed says that the log was closed.
var ErrClosed = errors.New("icommit: closed")

// Topic is the log's topic as it was seen. One that was deleted and made anew has another ID (zero where the cluster has none).
type Topic struct {
	ID         [16]byte
	Partitions int32
}

// Upstream is the cluster that holds the topic. What Kafka answered comes as a *kerr.Error, wrapped or not; other errors mean that it could not be
// reached. An Upstream retries changes of leaders itself for a short while only. A topic that is no longer the one asked for gives
// UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID.
type Upstream interface {
	// Topic looks the topic up. It is false only when no broker knows the topic.
	Topic(ctx context.Context) (Topic, bool, error)
	// Create makes the topic unless it is there, and returns it.
	Create(ctx context.Context) (Topic, error)
	// Append writes entries in their order and returns when all in-sync replicas have all of them. After an error some may be written.
	Append(ctx context.Context, t Topic, partition int32, entries []Entry) error
	// Enlist makes a partition one of those that a transaction writes to; it returns when the producer's transaction before is decided in all its
	// partitions. Where Kafka does that by itself (Txn.Implicit) it is not called.
	Enlist(ctx context.Context, t Topic, partition int32, txn *Txn) error
	// AppendIn is Append within a client's transaction, and returns the offset behind what it wrote. Kafka may have taken it for what
	// another gateway wrote for the same producer: who calls it looks at what is in the log.
	AppendIn(ctx context.Context, t Topic, partition int32, txn *Txn, entries []Entry) (end int64, err error)
	// Fetch reads from offset on up to the high watermark, about a mebibyte; at the end it waits for more, up to maxWait.
	Fetch(ctx context.Context, t Topic, partition int32, offset int64, maxWait time.Duration) (Fetched, error)
	// Start is the partition's first offset.
	Start(ctx context.Context, t Topic, partition int32) (int64, error)
	// End is the partition's high watermark, of its leader and of this moment.
	End(ctx context.Context, t Topic, partition int32) (int64, error)
	// EpochEnd is the offset at which the leader epoch ends, and the epoch that the leader knows it by, as OffsetForLeaderEpoch
	// answers; -1 when it does not know.
	EpochEnd(ctx context.Context, t Topic, partition, epoch int32) (endEpoch int32, end int64, err error)
}

// Entry is a record to write; a nil Value deletes.
type Entry struct{ Key, Value []byte }

// Fetched is a partition's part of a Fetch answer.
type Fetched struct {
	Raw  []byte // record batches; the last may be cut off
	End  int64  // the high watermark
	Free func() // where it is not nil, takes Raw back when nothing refers to it any more
}

// Handler holds the facts. For one partition its methods are called one at a time, for several at once. They must not call the Log.
type Handler interface {
	// Apply gets records of one partition of the topic in the order of the log, never none. The slice is used again after it returns.
	Apply(partition int32, records []record.Record)
	// Reset says that what Apply got of this partition no longer counts: the next Apply, if any, begins at the start of the log.
	Reset(partition int32)
}

// HandoutHandler is a Handler that also holds what cooperative fetches hand out. What Reset says holds for this, too.
type HandoutHandler interface {
	Handler
	// ApplyHandouts gets records of one partition of the topic in the order of the log, never none, each with its Position. The slice is used again after it returns.
	ApplyHandouts(partition int32, records []record.Handout)
}

// TransactionHandler is a Handler that also holds facts of transactions that are not decided; without it they are passed over. What Reset says
// holds for this, too. All are called in the order of the log, those of Handler included.
type TransactionHandler interface {
	Handler
	// ApplyOpen gets records that a transaction of the producer has written; they count when Decide says so. The slice is used again after it returns.
	ApplyOpen(partition int32, producer Producer, records []record.Record)
	// Decide says that the transaction of a producer has ended, which may have written nothing here.
	Decide(partition int32, id int64, commit bool)
}

// Producer is who writes in transactions. Kafka has one open transaction for each id.
type Producer struct {
	ID    int64
	Epoch int16
}

// Config adjusts a Log. Zero fields get their defaults.
type Config struct {
	Idle   time.Duration // a partition that nobody used for it is not followed any longer; default 10 min
	Wait   time.Duration // length of one long poll at the end of a partition; default 2 s
	Logger *slog.Logger  // default slog.Default()

	gap     time.Duration // how long a stretch must stay empty to count as compacted away, default 1 s
	backoff time.Duration // first pause after a failure, default 50 ms
}

func (c Config) withDefaults() Config {
	def := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&c.Idle, 10*time.Minute)
	def(&c.Wait, 2*time.Second)
	def(&c.gap, time.Second)
	def(&c.backoff, 50*time.Millisecond)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Metrics counts what a Log did since it was made. All fields only grow.
type Metrics struct {
	Appended  atomic.Int64 // facts written
	Deleted   atomic.Int64 // deletions written
	Bytes     atomic.Int64 // read from the topic, as the broker sent them
	Applied   atomic.Int64 // records handed over, deletions included
	Resets    atomic.Int64 // partitions that were begun again, or left
	Failures  atomic.Int64 // reads of the topic that failed
	Damaged   atomic.Int64 // records skipped: they do not parse
	Foreign   atomic.Int64 // records skipped: none of Tandem's
	Newer     atomic.Int64 // records skipped: of a later release
	Misplaced atomic.Int64 // records skipped: in a partition that is not their group's
	Batches   atomic.Int64 // whole batches skipped: damaged, or of a kind this release cannot read
}
