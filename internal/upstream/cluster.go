package upstream

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Broker is a member of the cluster.
type Broker struct {
	ID   int32
	Addr string // HOST:PORT
}

// Topic is what the cluster's metadata says of a topic.
type Topic struct {
	Name              string
	ID                [16]byte
	Partitions        int32
	ReplicationFactor int16
	Internal          bool
	Leaders           []int32 // by partition, -1 where there is none
}

// Cluster is the cluster behind the gateway, seen with the gateway's own
// credentials. Its methods may be called from any goroutine.
type Cluster struct {
	cfg    Config
	log    *slog.Logger
	client *kgo.Client
	admin  *kadm.Client

	mu         sync.RWMutex
	brokers    map[int32]Broker // every broker ever seen: one that is down may come back
	live       int              // brokers in the last metadata answer
	controller int32
	clusterID  string

	bootstrap atomic.Int64 // index of the configured address that answered last
}

// options are what all clients of the gateway's own have in common.
func (c *Config) options() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Bootstrap...),
		kgo.ClientID("tandem"),
		kgo.Dialer(func(ctx context.Context, _, addr string) (net.Conn, error) { return c.Dial(ctx, addr) }),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
		kgo.RetryTimeout(15 * time.Second),
		kgo.RecordDeliveryTimeout(20 * time.Second),
		// A topic that was just made may be unknown to a broker for a while: the
		// delivery timeout is the bound.
		kgo.UnknownTopicRetries(-1),
	}
	if c.SASL != nil {
		opts = append(opts, kgo.SASL(c.SASL))
	}
	return opts
}

// Open connects to the cluster and learns its brokers. The error of a cluster
// that does not answer within ctx names the addresses tried.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (*Cluster, error) {
	client, err := kgo.NewClient(cfg.options()...)
	if err != nil {
		return nil, err
	}
	c := &Cluster{cfg: cfg, log: log, client: client, admin: kadm.NewClient(client), brokers: make(map[int32]Broker)}
	err = cfg.await(ctx, func() error {
		_, err := c.Topics(ctx)
		return err
	})
	if err != nil {
		client.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the cluster's own connections.
func (c *Cluster) Close() { c.client.Close() }

// Topics asks the cluster for the named topics (none: only for its brokers) and
// takes note of the brokers in the answer. Topics that do not exist, or that
// the gateway may not describe, are absent from the result.
func (c *Cluster) Topics(ctx context.Context, names ...string) (map[string]Topic, error) {
	topics, _, err := c.topics(ctx, names)
	return topics, err
}

// topics is Topics, and says which topics the gateway may not describe: about
// those nothing is known.
func (c *Cluster) topics(ctx context.Context, names []string) (out map[string]Topic, denied []string, err error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, n := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(n)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, c.client)
	if err != nil {
		return nil, nil, err
	}
	c.NoteBrokers(resp)
	out = make(map[string]Topic, len(resp.Topics))
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if t.Topic == nil {
			continue
		}
		switch err := kerr.ErrorForCode(t.ErrorCode); err {
		case nil, kerr.LeaderNotAvailable:
			out[*t.Topic] = topicOf(t)
		case kerr.TopicAuthorizationFailed:
			denied = append(denied, *t.Topic)
		case kerr.UnknownTopicOrPartition, kerr.InvalidTopicException:
		default:
			return nil, nil, fmt.Errorf("metadata of topic %s: %w", *t.Topic, err)
		}
	}
	return out, denied, nil
}

// TopicsByID asks the cluster for topics by id. Ids that it does not know are
// absent from the result, as are all where it is too old to know ids.
func (c *Cluster) TopicsByID(ctx context.Context, ids ...[16]byte) (map[[16]byte]Topic, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	for _, id := range ids {
		t := kmsg.NewMetadataRequestTopic()
		t.TopicID = id
		req.Topics = append(req.Topics, t)
	}
	out := make(map[[16]byte]Topic, len(ids))
	if len(ids) == 0 {
		return out, nil
	}
	resp, err := req.RequestWith(ctx, c.client)
	if err != nil {
		return nil, err
	}
	for i := range resp.Topics {
		if t := &resp.Topics[i]; t.Topic != nil && *t.Topic != "" && t.TopicID != ([16]byte{}) {
			out[t.TopicID] = topicOf(t)
		}
	}
	return out, nil
}

// KnownAnywhere reports whether any broker that answers still knows a topic id.
// Brokers learn of deletions one after the other, and one that is behind must
// not make a topic look deleted. An error means that none answered.
func (c *Cluster) KnownAnywhere(ctx context.Context, id [16]byte) (bool, error) {
	t := kmsg.NewMetadataRequestTopic()
	t.TopicID = id
	found, err := c.anywhere(ctx, t, func(t *kmsg.MetadataResponseTopic) bool {
		return t.TopicID == id && t.Topic != nil && *t.Topic != ""
	})
	return found != nil, err
}

// anywhere asks every broker for a topic and returns an answer for which is
// holds, nil if there is none. An error means that no broker answered.
func (c *Cluster) anywhere(ctx context.Context, topic kmsg.MetadataRequestTopic, is func(*kmsg.MetadataResponseTopic) bool) (*kmsg.MetadataResponseTopic, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	brokers := c.Brokers()
	type answer struct {
		topic *kmsg.MetadataResponseTopic
		err   error
	}
	answers := make(chan answer, len(brokers))
	for b := range brokers {
		go func() {
			req := kmsg.NewPtrMetadataRequest()
			req.AllowAutoTopicCreation = false
			req.Topics = append(req.Topics, topic)
			kresp, err := c.client.Broker(int(b)).Request(ctx, req)
			if err != nil {
				answers <- answer{err: err}
				return
			}
			var found *kmsg.MetadataResponseTopic
			for i, t := range kresp.(*kmsg.MetadataResponse).Topics {
				if is(&t) {
					found = &kresp.(*kmsg.MetadataResponse).Topics[i]
				}
			}
			answers <- answer{topic: found}
		}()
	}
	err, answered := error(kerr.BrokerNotAvailable), false
	for range brokers {
		switch a := <-answers; {
		case a.topic != nil:
			return a.topic, nil
		case a.err == nil:
			answered = true
		default:
			err = a.err
		}
	}
	if answered {
		return nil, nil
	}
	return nil, err
}

func topicOf(t *kmsg.MetadataResponseTopic) Topic {
	out := Topic{Name: *t.Topic, ID: t.TopicID, Partitions: int32(len(t.Partitions)), Internal: t.IsInternal, Leaders: make([]int32, len(t.Partitions))}
	for i := range out.Leaders {
		out.Leaders[i] = -1
	}
	for i := range t.Partitions {
		p := &t.Partitions[i]
		if p.Partition >= 0 && int(p.Partition) < len(out.Leaders) {
			out.Leaders[p.Partition] = p.Leader
		}
		out.ReplicationFactor = max(out.ReplicationFactor, int16(len(p.Replicas)))
	}
	return out
}

// NoteBrokers takes note of the brokers that a metadata answer names.
func (c *Cluster) NoteBrokers(resp *kmsg.MetadataResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range resp.Brokers {
		b := &resp.Brokers[i]
		c.brokers[b.NodeID] = Broker{ID: b.NodeID, Addr: net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))}
	}
	c.live, c.controller = len(resp.Brokers), resp.ControllerID
	if resp.ClusterID != nil {
		c.clusterID = *resp.ClusterID
	}
}

// NoteBroker takes note of one broker's address.
func (c *Cluster) NoteBroker(id int32, host string, port int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.brokers[id] = Broker{ID: id, Addr: net.JoinHostPort(host, strconv.Itoa(int(port)))}
}

// Brokers returns every broker seen so far.
func (c *Cluster) Brokers() map[int32]Broker {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return maps.Clone(c.brokers)
}

// BrokerAddr returns where a broker was last seen.
func (c *Cluster) BrokerAddr(id int32) (string, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	b, ok := c.brokers[id]
	return b.Addr, ok
}

// ID returns the cluster's id.
func (c *Cluster) ID() string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.clusterID
}

// DialAny opens a raw connection for a client's bootstrap connection: to a
// configured address, beginning with the one that answered last, or, if none
// answers, to any broker known.
func (c *Cluster) DialAny(ctx context.Context) (net.Conn, error) {
	var last error
	start := int(c.bootstrap.Load())
	for i := range c.cfg.Bootstrap {
		k := (start + i) % len(c.cfg.Bootstrap)
		conn, err := c.cfg.Dial(ctx, c.cfg.Bootstrap[k])
		if err == nil {
			c.bootstrap.Store(int64(k))
			return conn, nil
		}
		last = err
	}
	for _, b := range c.Brokers() {
		if conn, err := c.cfg.Dial(ctx, b.Addr); err == nil {
			return conn, nil
		}
	}
	return nil, last
}

// DialBroker opens a raw connection to one broker.
func (c *Cluster) DialBroker(ctx context.Context, id int32) (net.Conn, error) {
	addr, ok := c.BrokerAddr(id)
	if !ok {
		return nil, fmt.Errorf("broker %d has not been seen", id)
	}
	return c.cfg.Dial(ctx, addr)
}
