package harness

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ConsumerConfig says how a consumer in this process works: an unmodified franz-go group member that handles one record after the other
// and commits after each poll.
type ConsumerConfig struct {
	Bootstrap string
	Topics    []string
	Group     string
	Member    string                 // its name in the ledger
	Work      time.Duration          // of each record
	Handle    func(*kgo.Record)      // called within the work, may be nil
	Session   time.Duration          // default 6 s
	KIP848    bool                   // the consumer group protocol in place of the classic one
	Committed bool                   // read_committed
	Latest    bool                   // begin at the end where nothing is committed
	Fails     func(*kgo.Record) bool // whether a record fails; of Share only
	ByRecord  bool                   // share partitions by record, without order; of Share only
	Polls     bool                   // with Poll and Commit in place of a handler; of Share only
	OnFetch   func(*kgo.Fetches)     // called with each poll's result, may be nil
	Opts      []kgo.Opt              // more options; they win
}

// Consumer is a running member.
type Consumer struct {
	client *kgo.Client
	line
	stop  context.CancelFunc
	ended chan struct{}
	mu    sync.Mutex
	errs  []error
}

// Consume starts a consumer whose deliveries go into the ledger. It is stopped at the end of the test.
func Consume(t testing.TB, l *Ledger, c ConsumerConfig) *Consumer {
	t.Helper()
	if c.Session == 0 {
		c.Session = 6 * time.Second
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &Consumer{stop: cancel, ended: make(chan struct{}), line: newLine()}
	base := context.Background()
	if c.KIP848 {
		// Until it is the default, franz-go uses the new protocol only when asked by this context value.
		base = context.WithValue(base, "opt_in_kafka_next_gen_balancer_beta", true) //nolint:staticcheck // the key's type is franz-go's choice
	}
	opts := []kgo.Opt{
		kgo.WithContext(base), kgo.SeedBrokers(strings.Split(c.Bootstrap, ",")...), kgo.ConsumerGroup(c.Group), kgo.ConsumeTopics(c.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.Dialer(m.dial),
		kgo.SessionTimeout(c.Session), kgo.HeartbeatInterval(c.Session / 6), kgo.MetadataMinAge(200 * time.Millisecond),
	}
	if c.Committed {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if c.Latest {
		opts = append(opts, kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	}
	client, err := kgo.NewClient(append(opts, c.Opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	m.client = client
	go m.run(ctx, l, c)
	t.Cleanup(func() { m.Crash() })
	return m
}

func (m *Consumer) run(ctx context.Context, l *Ledger, c ConsumerConfig) {
	defer close(m.ended)
	for ctx.Err() == nil {
		fetches := m.client.PollRecords(ctx, 100)
		fetches.EachError(func(_ string, _ int32, err error) {
			if !errors.Is(err, context.Canceled) {
				m.mu.Lock()
				m.errs = append(m.errs, err)
				m.mu.Unlock()
			}
		})
		if c.OnFetch != nil {
			c.OnFetch(&fetches)
		}
		var done []*kgo.Record
		for iter := fetches.RecordIter(); !iter.Done() && ctx.Err() == nil; {
			r := iter.Next()
			d := Delivery{Member: c.Member, Partition: r.Partition, Offset: r.Offset, N: number(r.Value), Start: time.Now()}
			if c.Handle != nil {
				c.Handle(r)
			}
			if c.Work > 0 {
				select {
				case <-time.After(c.Work):
				case <-ctx.Done():
				}
			}
			if m.cut.Load() { // a killed process finishes nothing
				return
			}
			d.End = time.Now()
			l.Delivered(d)
			done = append(done, r)
		}
		if len(done) > 0 {
			commit, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			if err := m.client.CommitRecords(commit, done...); err != nil && !m.cut.Load() {
				m.mu.Lock()
				m.errs = append(m.errs, err)
				m.mu.Unlock()
			}
			cancel()
		}
		m.client.AllowRebalance()
	}
}

// Close commits, leaves the group and waits until the consumer has ended.
func (m *Consumer) Close() {
	m.stop()
	<-m.ended
	if !m.cut.Load() {
		m.client.AllowRebalance()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = m.client.LeaveGroupContext(ctx)
	}
	m.client.CloseAllowingRebalance()
}

// Crash ends the consumer as kill -9 would: its connections break, it commits nothing and does not leave the group.
func (m *Consumer) Crash() {
	m.Cut()
	m.stop()
	<-m.ended
	m.client.CloseAllowingRebalance()
}

// Errors are the errors of polls and commits so far.
func (m *Consumer) Errors() []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]error(nil), m.errs...)
}

// Client is the franz-go client inside.
func (m *Consumer) Client() *kgo.Client { return m.client }
