package upstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tandem-kafka/tandem/internal/slicecache"
	"github.com/tandem-kafka/tandem/internal/split"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Reader reads source partitions with the gateway's own credentials. Every read
// under way has a connection to itself, so that the long poll of one partition
// never holds up another; connections are pooled by broker.
type Reader struct {
	c *Cluster

	mu      sync.Mutex
	closed  bool
	idle    map[string][]*Conn // by address, the most lately used last
	leaders map[string]leaders // by topic
	busy    map[*Conn]struct{}
	pruned  time.Time
}

type leaders struct {
	id [16]byte
	by []int32
}

// Limits of a read's own retries and of the pool.
const (
	retryFor     = 1500 * time.Millisecond // then the waiting clients get the error, and ask again themselves
	retryBackoff = 50 * time.Millisecond
	maxIdle      = 64               // connections kept per broker
	idleFor      = 4 * time.Minute  // an idle connection is kept; brokers close theirs after 10 min
	patience     = 10 * time.Second // with a broker that does not answer, beyond the wait asked for
)

// Reader returns a reader of source partitions; Close ends its connections.
func (c *Cluster) Reader() *Reader {
	return &Reader{c: c, idle: make(map[string][]*Conn), leaders: make(map[string]leaders), busy: make(map[*Conn]struct{})}
}

// Close cuts every connection, those of reads under way included.
func (r *Reader) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, conns := range r.idle {
		for _, c := range conns {
			c.Close()
		}
	}
	clear(r.idle)
	for c := range r.busy {
		c.Close()
	}
}

// Fetch reads one partition from offset on; see slicecache.Upstream.
func (r *Reader) Fetch(ctx context.Context, src slicecache.Source, offset int64, readCommitted bool, maxWait time.Duration, minBytes, maxBytes int32) (slicecache.Fetched, error) {
	var out slicecache.Fetched
	err := r.retry(ctx, src, maxWait, func(ctx context.Context, c *Conn) error {
		req := fetchRequest(src, offset, readCommitted, maxWait, minBytes, maxBytes)
		resp, err := ask[*kmsg.FetchResponse](ctx, c, req, byName(src))
		if err != nil {
			return err
		}
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			return err
		}
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			return errThrottled
		}
		p := &resp.Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			return err
		}
		out = slicecache.Fetched{Raw: p.RecordBatches, HighWatermark: p.HighWatermark, LastStableOffset: p.LastStableOffset, LogStart: p.LogStartOffset, Free: c.takeBody()}
		for _, a := range p.AbortedTransactions {
			out.Aborted = append(out.Aborted, split.Aborted{ProducerID: a.ProducerID, FirstOffset: a.FirstOffset})
		}
		return nil
	})
	return out, err
}

// errThrottled says that the broker answered without the partition asked for.
var errThrottled = errors.New("upstream: the broker's answer leaves the partition out")

// newest limits no request's version, lastByName those that name topics by their names.
const (
	newest     = math.MaxInt16
	lastByName = 12 // of Fetch and of Produce
)

// byName is the highest version of a Fetch or Produce of a partition.
func byName(src slicecache.Source) int16 {
	if src.TopicID == ([16]byte{}) {
		return lastByName
	}
	return newest
}

func fetchRequest(src slicecache.Source, offset int64, readCommitted bool, maxWait time.Duration, minBytes, maxBytes int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(maxWait.Milliseconds()), minBytes, maxBytes
	req.SessionEpoch = -1
	if readCommitted {
		req.IsolationLevel = 1
	}
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = src.Topic, src.TopicID
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = src.Partition, offset, maxBytes, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// ListOffset answers as Kafka's ListOffsets does; see slicecache.Upstream.
func (r *Reader) ListOffset(ctx context.Context, src slicecache.Source, timestamp int64, readCommitted bool) (offset, ts int64, leaderEpoch int32, err error) {
	err = r.retry(ctx, src, 0, func(ctx context.Context, c *Conn) error {
		req := kmsg.NewPtrListOffsetsRequest()
		if readCommitted {
			req.IsolationLevel = 1
		}
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = src.Topic
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = src.Partition, timestamp, -1
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		resp, err := ask[*kmsg.ListOffsetsResponse](ctx, c, req, newest)
		if err != nil {
			return err
		}
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			return errThrottled
		}
		rp := &resp.Topics[0].Partitions[0]
		offset, ts, leaderEpoch = rp.Offset, rp.Timestamp, rp.LeaderEpoch
		return kerr.ErrorForCode(rp.ErrorCode)
	})
	return offset, ts, leaderEpoch, err
}

// EpochEnd asks the leader for the end of a leader epoch, as
// OffsetForLeaderEpoch does.
func (r *Reader) EpochEnd(ctx context.Context, src slicecache.Source, epoch int32) (endEpoch int32, end int64, err error) {
	err = r.retry(ctx, src, 0, func(ctx context.Context, c *Conn) error {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.ReplicaID = -1
		t := kmsg.NewOffsetForLeaderEpochRequestTopic()
		t.Topic = src.Topic
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.Partition, p.LeaderEpoch, p.CurrentLeaderEpoch = src.Partition, epoch, -1
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		resp, err := ask[*kmsg.OffsetForLeaderEpochResponse](ctx, c, req, newest)
		if err != nil {
			return err
		}
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			return errThrottled
		}
		rp := &resp.Topics[0].Partitions[0]
		endEpoch, end = rp.LeaderEpoch, rp.EndOffset
		return kerr.ErrorForCode(rp.ErrorCode)
	})
	return endEpoch, end, err
}

// retry runs do on a connection to the partition's leader, and follows the
// leader when it has moved. A broker that is silent for longer than wait and
// some patience counts as gone.
func (r *Reader) retry(ctx context.Context, src slicecache.Source, wait time.Duration, do func(context.Context, *Conn) error) error {
	start := time.Now()
	for {
		tctx, cancel := context.WithTimeout(ctx, wait+patience)
		again, err := r.try(tctx, src, do)
		cancel()
		if err == nil || !again || ctx.Err() != nil {
			return err
		}
		if time.Since(start) > retryFor && !errors.Is(err, errThrottled) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryBackoff):
		}
	}
}

func (r *Reader) try(ctx context.Context, src slicecache.Source, do func(context.Context, *Conn) error) (again bool, err error) {
	addr, err := r.leader(ctx, src)
	if err != nil {
		return kerr.IsRetriable(err) || !isKafkaError(err), err
	}
	answered, pooled, err := r.at(ctx, addr, do)
	switch {
	case err == nil:
		return false, nil
	case !answered:
		if !pooled {
			r.forget(src.Topic)
		}
		return true, err
	case errors.Is(err, errThrottled):
		return true, err
	case errors.Is(err, kerr.NotLeaderForPartition), errors.Is(err, kerr.LeaderNotAvailable), errors.Is(err, kerr.FencedLeaderEpoch),
		errors.Is(err, kerr.UnknownLeaderEpoch), errors.Is(err, kerr.ReplicaNotAvailable), errors.Is(err, kerr.KafkaStorageError),
		errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.OffsetNotAvailable):
		r.forget(src.Topic)
		return true, err
	}
	return false, err
}

// at runs do on a connection to a broker. answered is whether the broker did, pooled whether the connection was there before.
func (r *Reader) at(ctx context.Context, addr string, do func(context.Context, *Conn) error) (answered, pooled bool, err error) {
	c, pooled, err := r.acquire(ctx, addr)
	if err != nil {
		return false, false, err
	}
	if err = do(ctx, c); err == nil || isKafkaError(err) || errors.Is(err, errThrottled) {
		r.release(addr, c)
		return true, pooled, err
	}
	r.drop(c)
	if pooled {
		r.dropIdle(addr) // the others are likely as stale
	}
	return false, pooled, err
}

func isKafkaError(err error) bool {
	var ke *kerr.Error
	return errors.As(err, &ke)
}

// leader returns the address of the partition's leader.
func (r *Reader) leader(ctx context.Context, src slicecache.Source) (string, error) {
	r.mu.Lock()
	l, ok := r.leaders[src.Topic]
	r.mu.Unlock()
	if !ok || !sameID(l.id, src.TopicID) {
		topics, err := r.c.Topics(ctx, src.Topic)
		if err != nil {
			return "", err
		}
		t, found := topics[src.Topic]
		if !found || !sameID(t.ID, src.TopicID) {
			return "", fmt.Errorf("source %s: %w", src.Topic, kerr.UnknownTopicOrPartition)
		}
		l = leaders{id: t.ID, by: t.Leaders}
		r.mu.Lock()
		r.leaders[src.Topic] = l
		r.mu.Unlock()
	}
	if int(src.Partition) >= len(l.by) || src.Partition < 0 {
		r.forget(src.Topic)
		return "", fmt.Errorf("source %s has no partition %d: %w", src.Topic, src.Partition, kerr.UnknownTopicOrPartition)
	}
	addr, ok := r.c.BrokerAddr(l.by[src.Partition])
	if !ok {
		r.forget(src.Topic)
		return "", fmt.Errorf("source %s partition %d: %w", src.Topic, src.Partition, kerr.LeaderNotAvailable)
	}
	return addr, nil
}

// sameID reports whether two topic ids may be the same topic's: zero stands for
// one that is not known (a cluster before Kafka 2.8, or in the middle of an
// upgrade from it).
func sameID(a, b [16]byte) bool {
	return a == b || a == [16]byte{} || b == [16]byte{}
}

func (r *Reader) forget(topic string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.leaders, topic)
}

func (r *Reader) acquire(ctx context.Context, addr string) (c *Conn, pooled bool, err error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, false, context.Canceled
	}
	if idle := r.idle[addr]; len(idle) > 0 {
		c := idle[len(idle)-1]
		r.idle[addr] = idle[:len(idle)-1]
		r.busy[c] = struct{}{}
		r.mu.Unlock()
		return c, true, nil
	}
	r.mu.Unlock()
	c, err = r.c.cfg.Connect(ctx, addr, "tandem-reader")
	if err != nil {
		return nil, false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		c.Close()
		return nil, false, context.Canceled
	}
	r.busy[c] = struct{}{}
	return c, false, nil
}

func (r *Reader) release(addr string, c *Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, c)
	now := time.Now()
	r.prune(now)
	if r.closed || len(r.idle[addr]) >= maxIdle {
		c.Close()
		return
	}
	c.used = now
	r.idle[addr] = append(r.idle[addr], c)
}

// prune closes connections that were idle for long, those to brokers that have
// left included. r.mu is held.
func (r *Reader) prune(now time.Time) {
	if now.Sub(r.pruned) < idleFor/4 {
		return
	}
	r.pruned = now
	for addr, idle := range r.idle {
		n := 0
		for n < len(idle) && now.Sub(idle[n].used) > idleFor { // the oldest come first
			idle[n].Close()
			n++
		}
		if idle = slices.Delete(idle, 0, n); len(idle) == 0 {
			delete(r.idle, addr)
		} else {
			r.idle[addr] = idle
		}
	}
}

func (r *Reader) drop(c *Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, c)
	c.Close()
}

func (r *Reader) dropIdle(addr string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.idle[addr] {
		c.Close()
	}
	delete(r.idle, addr)
}
