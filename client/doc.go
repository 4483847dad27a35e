// Package client is Tandem's consumer for Go. The members of a group share partitions by key, each handles many records at once with order per
// key, and each record is committed on its own: a slow or failing key holds up nothing but itself, and a crash redelivers only what was unfinished.
//
//	c, err := client.New(
//		client.Bootstrap("localhost:9192"), // a Tandem gateway
//		client.Group("payments"),
//		client.Topics("orders"),
//		client.ShareByKey(),
//		client.Concurrency(100),
//		client.Retry(client.Backoff{First: time.Second, Max: time.Minute, Jitter: 20}, 8),
//		client.DeadLetter("orders.dlq"),
//	)
//	if err != nil {
//		return err
//	}
//	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
//	defer stop()
//	return c.Run(ctx, func(ctx context.Context, r *client.Record) error {
//		return pay(ctx, r.Key, r.Value)
//	})
//
// Start as many such processes as you like.
//
// # With and without a gateway
//
// The same program works in three ways:
//
//   - Bootstrap names a Tandem gateway. It reads each partition once, and gives each member the records of its keys.
//   - InProcess, and Bootstrap names the cluster's brokers: the program carries the gateway itself, nothing is deployed. Each process then reads
//     all of each partition that it has a part of, and throws away what others handle: N processes that share a partition cost N times its bytes
//     on the network and N times the decoding. Members of one group may mix both ways.
//   - Bootstrap names brokers, without ShareByKey: whole partitions, ordinary commits. Handlers still run at once with order per key. Everything above the first record that is not done is done again
//     after a crash. So before a partition is given up, what lies below the last record that was begun is done first, within the DrainTimeout; where a record there waits for its next attempt, what is done above it comes again.
//
// # Work without order
//
// With ShareByRecord in place of ShareByKey nobody has keys or partitions: every member asks for as many records as it has free handlers, and a little ahead, of any partition, and is given the next ones. It
// suits work on single records (filter, map, send). What a member does not finish, because it leaves or is not heard of for its SessionTimeout, others get before anything new, and
// Record.Attempt counts on. Such members and others cannot be in one group: the group refuses who comes second (INCONSISTENT_GROUP_PROTOCOL).
//
// # Exactly once
//
// With Transactional what handlers write to other topics (Record.Produce) and the commits of their records go into one transaction, so that who reads the output with read_committed sees each record's part of it once, in the order
// of its key, whatever is killed. The handler itself may run again after a crash: what it does elsewhere is at-least-once.
//
//	client.New(client.Bootstrap("localhost:9192"), client.Group("enrichment"), client.Topics("orders"), client.ShareByKey(), client.Transactional(podName))
//	...
//	c.Run(ctx, func(ctx context.Context, r *client.Record) error {
//		return r.Produce(&kgo.Record{Topic: "orders.priced", Key: r.Key, Value: price(r.Value)})
//	})
//
// Each running process needs an id of its own. One that another process takes over ends with ErrFenced, at its next transaction.
//
// # What is guaranteed
//
// At-least-once: a record is committed after its handler returned nil, its dead letter was acknowledged by all in-sync replicas, or it was skipped. Records of one key run one after the other in the order of their
// offsets (Order), while a key range stays with a member, and from one member to the next when it is handed over: a member that gives up key ranges ends what it has begun, commits, and only then
// does another begin. So a rebalance or a restart with Close redelivers nothing, unless that takes longer than DrainTimeout. After a crash, what was running and what was done within the last CommitInterval is
// done again. A member that others took for dead (it was frozen for longer than the session timeout) may work on a record at the same time as its successor; its commits are refused.
// A member that cannot reach the coordinator begins nothing, ends what runs, and keeps what is done until it is in the group again, as who it was, or learns that it is out.
//
// # Handover
//
// A member notices within 200 ms (its heartbeat interval) that the group changes, so keys change hands in a fraction of a second when a member joins or leaves with Close; what counts beside it is how
// long the handlers that have begun still take. The keys of a process that was killed or is frozen wait for the session timeout, 15 s. KgoOpts changes
// both: kgo.HeartbeatInterval, where a coordinator has to bear thousands of members, and kgo.SessionTimeout, not below the brokers' group.min.session.timeout.ms (6 s).
//
// Who joins within the session timeout of a member that was killed, such as the same process started again by its supervisor, begins a rebalance that Kafka completes only when the dead member's session ends. Without
// Cooperative all members have given up their keys by then, so that all keys wait, for up to the session timeout; with it the others go on with what they have meanwhile, and only the dead one's keys wait.
//
// Partitions that a topic gets are seen within 10 s (kgo.MetadataMaxAge). Keys are then shared anew, by the new number of partitions: nothing is lost, and each key's records of a partition stay in order, but
// records above the first that is not done, some of what is in memory, are done again.
//
// # Failures
//
// A record whose handler returns an error waits for its next attempt (Retry, RetryAfter, Permanent), and the later records of its key wait with it; all others go on. After the
// last attempt it goes to a dead-letter topic, stops the client, or is skipped. Attempts, their last error and the time of the next one are kept in the compacted topic
// __tandem_retries, written when a commit is: after a restart, or on another member, they go on from there. A crash forgets what the last CommitInterval had of them. The topic is made by the first
// process that needs it; without the rights to it attempts count from 1 again after a restart, and a warning says so.
//
// # Memory
//
// MaxBuffered bounds what is in memory, and the fetch waits at that bound. What handlers have written and is not committed counts, too. Records that wait behind blocked keys do not use it up: beyond a share of
// it only their offsets are kept, up to a million, and they are read again when their key goes on.
//
// # Seeing what happens
//
// Slow names the records that run or wait longest, with key and attempts; Stats says what is in memory; Metrics takes functions for counters and
// histograms; Logger the log. Failed attempts are logged at Info, what is given up at Warn.
package client
