package client

import (
	"context"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/keyrange"
)

// Option is a setting of a Client.
type Option func(*config)

// Ranges are key ranges by topic and partition. An empty set stands for the whole partition.
type Ranges = map[string]map[int32]keyrange.Set

// Bootstrap sets one or more HOST:PORT to begin with: of Tandem gateways, or with InProcess of the cluster's brokers. Required.
func Bootstrap(addresses ...string) Option {
	return func(c *config) { c.bootstrap = addresses }
}

// Group sets the consumer group: its members share the work, and it keeps what is done. Required but for Assign, where a group
// only keeps what is done, and without one nothing is kept.
func Group(name string) Option { return func(c *config) { c.group = name } }

// Topics sets the topics that the group's member subscribes to. Names only, no patterns. One that does not exist yet is waited for, with a warning in the log. Required but for Assign.
func Topics(names ...string) Option { return func(c *config) { c.topics = names } }

// Assign gives the client these partitions, or key ranges of them, in place of a share of a group's: standalone mode. Whoever
// assigns sees to it that no two processes have a key range in common. Key positions are for the topic's partition count at the start.
func Assign(ranges Ranges) Option { return func(c *config) { c.assign = ranges } }

// ShareByKey opts in to key ranges: where a group has more members that opted in than a topic has partitions, several of them share a
// partition, each with keys of its own. Without it the member gets whole partitions. It needs a gateway that allows individual commits and key-range fetch, or InProcess; with a gateway
// that has one of them off, or for a topic that does not allow it, the group gets whole partitions, and the log says so.
func ShareByKey() Option { return func(c *config) { c.share = true } }

// ShareByRecord is for work without any order: every member of the group works on records of every partition, whichever are next. A member that leaves or dies
// loses what it has not done to the others, who get it before anything new. The order is NoOrder, and all members of a group have to say the same. It needs Run, and a gateway that allows
// individual commits and cooperative fetch, or InProcess.
func ShareByRecord() Option { return func(c *config) { c.byRecord, c.order = true, NoOrder } }

// SessionTimeout sets after how long without a sign of this process others get what ShareByRecord gave it and is not done, 1 s to 1 h. Handlers may take longer: the process, not the handler, gives the sign. Default 30 s.
// Where the group drops the member before (15 s by default, see KgoOpts), they get it then.
func SessionTimeout(d time.Duration) Option { return func(c *config) { c.session = d } }

// Cooperative lets the member go on through a rebalance with what it keeps. Without it a member finishes what it has begun
// before each rebalance, and begins again after it: that is long where a member was killed and is started again at once, see Handover.
func Cooperative() Option { return func(c *config) { c.cooperative = true } }

// Transactional is for exactly once: what handlers write with Record.Produce, dead letters too, goes to Kafka in transactions, together with the commits of the records that it is made of. The id is the
// transactional.id: each process that runs has its own, and it is best the same one each time the process starts, such as the name of a pod. Who starts with an id fences whoever has it: that one
// ends with ErrFenced at its next transaction; as long as it has nothing to write, it does not learn of it.
//
// There is a transaction for each CommitInterval (default 100 ms then), of all that is done by then; handlers do not wait for it. When one is aborted, what it had is written again by the next one, and no handler runs again. It
// begins when it has all that it is to have, so it is open for some milliseconds; brokers abort that of a process which dies in the middle after 10 s (kgo.TransactionTimeout in KgoOpts), and the records of its key ranges wait so long. Isolation is ReadCommitted.
//
// With Run it needs no individual commits: without a gateway, or where the gateway has individual.commit.enable off, members get whole partitions, and a transaction has an ordinary offset, and the outputs of the records below it;
// those of records above the first one that is not done wait for it, or are forgotten with it, so that exactly once holds as well. Transact needs them.
func Transactional(id string) Option { return func(c *config) { c.transactional = &id } }

// InProcess carries a Tandem gateway in this process, straight against any Kafka cluster: nothing has to be deployed, and Bootstrap
// names the cluster's brokers. TLS and SASL of KgoOpts are used for it, too. It needs the rights to create (once), write and read the topic
// __individual_commit_offsets. Without a gateway of its own host, each process reads whole partitions from the brokers: N processes that share a partition read it N times.
//
// Views of other gateways are empty topics to it: a group that reads views must not use it.
func InProcess(opts ...InProcessOption) Option {
	return func(c *config) {
		c.inProcess = &inProcess{}
		for _, o := range opts {
			o(c.inProcess)
		}
	}
}

// InProcessOption is a setting of the gateway in the process.
type InProcessOption func(*inProcess)

// CacheBytes bounds the memory, in bytes, that the gateway keeps read records in: max.bytes.key.range.hashing. Default 128 MiB.
func CacheBytes(n int64) InProcessOption { return func(p *inProcess) { p.cacheBytes = n } }

// Concurrency sets how many handlers run at once, >= 1. Default 16.
func Concurrency(n int) Option { return func(c *config) { c.concurrency = n } }

// Ordering says which records may not run at once and have to run in the order of their offsets.
type Ordering uint8

// The orders.
const (
	ByKey       Ordering = iota // those of one key. Records without a key have no order
	ByPartition                 // those of one partition
	NoOrder                     // none
)

// Order sets which records wait for each other. Default ByKey.
func Order(o Ordering) Option { return func(c *config) { c.order = o } }

// Backoff is how long a failed record waits for its next attempt: First after the first attempt, twice as long after each further
// one, Max at most; then up to Jitter percent (0 to 100) less. Zero values: 100 ms, 30 s, none.
type Backoff struct {
	First, Max time.Duration
	Jitter     int
}

// Retry sets how long a failed record waits and after how many attempts it is given up; 0: never. While a record waits, only the records behind it of the
// same key wait with it. Default: Backoff{}, and 10 attempts if DeadLetter, StopOnFailure or Skip says what comes then, else no limit.
func Retry(b Backoff, attempts int) Option {
	return func(c *config) { c.backoff, c.attempts = b, attempts }
}

// DeadLetter writes a record that is given up to a topic, which has to exist (a warning in the log says at the start if it does not), and then it is done. The dead letter has the key, value and headers of the record, and
// headers tandem.dlq.topic, .partition, .offset, .timestamp (milliseconds since the epoch), .group, .attempts and .error, all as text. It is
// written with acks=all; while that fails it is tried again, and the record's key waits.
func DeadLetter(topic string) Option { return outcomeIs(onDeadLetter, topic) }

// StopOnFailure ends Run with a *StoppedError when a record is given up. It is what happens where nothing is said.
func StopOnFailure() Option { return outcomeIs(onStop, "") }

// Skip counts a record that is given up as done. The log names it.
func Skip() Option { return outcomeIs(onSkip, "") }

func outcomeIs(o outcome, topic string) Option {
	return func(c *config) {
		c.outcomes++
		c.outcome, c.deadLetter = o, topic
	}
}

// MaxRangesBeforeCommit sets how many offset ranges a partition's key ranges may collect before they are committed, 1 to 60,000. Default 1,000.
func MaxRangesBeforeCommit(n int) Option { return func(c *config) { c.maxRanges = n } }

// CommitInterval sets how long what is done may wait for its commit, > 0. After a crash what was done and not committed is done
// again. Default 200 ms.
func CommitInterval(d time.Duration) Option { return func(c *config) { c.commitInterval = d } }

// Lease sets how long a handler may take before it is reported, each time again. It is not stopped. 0: never. Default 1 min. See Record.ExtendLease.
func Lease(d time.Duration) Option { return func(c *config) { c.lease = d } }

// MaxBuffered bounds the records in memory by number (>= 1) and by bytes of their keys, values and headers (>= 1). What is fetched and not
// decoded yet takes up to the same bytes again. Default 16,384 records and 64 MiB.
func MaxBuffered(records int, bytes int64) Option {
	return func(c *config) { c.maxRecords, c.maxBytes = records, bytes }
}

// DrainTimeout sets how long handlers may go on when their key ranges are taken away, and on Close. Then their contexts are
// cancelled, and their records are done again by whoever gets them. Without individual commits what lies below the last record that was begun is done within this time, too. On Close,
// commits and leaving the group may take 5 s more, and what is cut off then some seconds: 10 s beyond it is what a process needs before it is killed, at most. Others wait for it, so it has to be well below the group's rebalance timeout (1 min). Default 10 s.
func DrainTimeout(d time.Duration) Option { return func(c *config) { c.drain = d } }

// OnAssigned is called with the key ranges that the client gets, when it has begun with them. It must return soon, as OnRevoked and OnLost. With ShareByRecord all three
// are called with whole partitions, of which every member has all: it is given records of them from now on, and none any more.
func OnAssigned(f func(ctx context.Context, ranges Ranges)) Option {
	return func(c *config) { c.onAssigned = f }
}

// OnRevoked is called with the key ranges that the client gives up, when their handlers have ended and what is done is committed. When it returns,
// others may begin with them.
func OnRevoked(f func(ctx context.Context, ranges Ranges)) Option {
	return func(c *config) { c.onRevoked = f }
}

// OnLost is called with the key ranges that others may have already: the client has learned that it is not in the group any more. What it has lost it may get again, with
// OnAssigned. As long as it only cannot reach the coordinator it keeps what it has, and begins nothing.
func OnLost(f func(ctx context.Context, ranges Ranges)) Option {
	return func(c *config) { c.onLost = f }
}

// IsolationLevel says what is read of transactions.
type IsolationLevel uint8

// The isolation levels.
const (
	ReadUncommitted IsolationLevel = iota
	ReadCommitted
)

// Isolation sets what is read of transactions. Default ReadUncommitted, as Kafka's.
func Isolation(level IsolationLevel) Option { return func(c *config) { c.isolation = level } }

// Reset says where to begin where the group has committed nothing, and where to go on when an offset is out of range.
type Reset uint8

// The reset policies.
const (
	Earliest Reset = iota // at the log start
	Latest                // at the end
	NoReset               // nowhere: Run and Poll return an error
)

// ResetOffset sets where to begin. Default Earliest: a consumer of work is to miss nothing. Kafka's own default is Latest.
func ResetOffset(r Reset) Option { return func(c *config) { c.reset = r } }

// Logger sets the log. Default slog.Default().
func Logger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// KgoOpts passes options on to the Kafka clients underneath: TLS (kgo.DialTLSConfig), SASL (kgo.SASL), client id, static membership (kgo.InstanceID), heartbeat interval (default 200 ms), session
// timeout (default 15 s), metadata's age (default 10 s) and rebalance timeout (kgo's default, 1 min), producer settings of dead letters. Bootstrap, group, topics, balancers, callbacks and offsets are this package's.
func KgoOpts(opts ...kgo.Opt) Option {
	return func(c *config) { c.kgo = append(c.kgo, opts...) }
}
