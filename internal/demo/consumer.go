package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// pollRecords is how many records a consumer takes at a time: while it handles
// them, no partition can move.
const pollRecords = 20

// commitEvery is the time between two commits. What was handled since the last
// one comes again after a kill.
const commitEvery = 250 * time.Millisecond

// consumer is a member of the group. It commits in the background, marking
// what is handled: franz-go holds a commit of its own back while the group
// waits for a dead member, and the handlers would stand still with it.
type consumer struct {
	name   string
	client *kgo.Client
	conns  *conns
	work   time.Duration
	ledger *ledger
	stop   context.CancelFunc // after the records at hand
	life   context.Context    // ends when it is killed
	die    context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	assigned map[int32]bool
	handled  int
	lastEnd  time.Time
	err      error
}

func startConsumer(name, topic, group string, opts Options, l *ledger) (*consumer, error) {
	c := &consumer{
		name: name, work: opts.Work, ledger: l, conns: &conns{}, done: make(chan struct{}), assigned: map[int32]bool{},
	}
	c.life, c.die = context.WithCancel(context.Background())
	var err error
	c.client, err = kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(opts.Bootstrap...),
		kgo.ClientID(name),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitMarks(),
		kgo.AutoCommitInterval(commitEvery),
		kgo.BlockRebalanceOnPoll(), // what was polled is handled before it can go to another member
		kgo.SessionTimeout(6 * time.Second),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.Dialer(c.conns.dial),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { c.reassign(m, true) }),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, m map[string][]int32) {
			if err := client.CommitMarkedOffsets(ctx); err != nil {
				c.fail(fmt.Errorf("committing: %w", err))
			}
			c.reassign(m, false)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { c.reassign(m, false) }),
	}, opts.ClientOptions...)...)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(c.life)
	c.stop = stop
	go c.run(ctx)
	return c, nil
}

func (c *consumer) run(ctx context.Context) {
	defer close(c.done)
	defer c.client.CloseAllowingRebalance()
	for ctx.Err() == nil {
		fetches := c.client.PollRecords(ctx, pollRecords)
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, context.Canceled) && !errors.Is(e.Err, kgo.ErrClientClosed) {
				c.fail(fmt.Errorf("reading partition %d: %w", e.Partition, e.Err))
			}
		}
		for _, r := range fetches.Records() {
			if !c.handle(r) {
				return
			}
			c.client.MarkCommitRecords(r)
		}
		c.client.AllowRebalance()
	}
}

// handle takes the time of the work for a record; false: killed over it.
func (c *consumer) handle(r *kgo.Record) bool {
	key := string(r.Key)
	seq, err := strconv.Atoi(string(r.Value))
	if err != nil {
		seq = -1
	}
	if c.life.Err() != nil {
		return false
	}
	c.ledger.begin(c.name, key, seq)
	timer := time.NewTimer(c.work)
	defer timer.Stop()
	select {
	case <-c.life.Done():
		c.ledger.end(c.name, key, seq, false)
		return false
	case <-timer.C:
	}
	c.ledger.end(c.name, key, seq, true)
	c.mu.Lock()
	c.handled++
	c.lastEnd = time.Now()
	c.mu.Unlock()
	return true
}

// leave ends the consumer as a program that is stopped does: it finishes what
// it has, commits and leaves the group.
func (c *consumer) leave() {
	c.stop()
	<-c.done
}

// kill ends it as kill -9 does: its connections break off and it says nothing
// more. The client's own clean-up runs into that in the background.
func (c *consumer) kill() {
	c.conns.cut()
	c.die()
}

func (c *consumer) reassign(m map[string][]int32, add bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, partitions := range m {
		for _, p := range partitions {
			if add {
				c.assigned[p] = true
			} else {
				delete(c.assigned, p)
			}
		}
	}
}

func (c *consumer) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// state is what the picture shows.
func (c *consumer) state() ConsumerState {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := ConsumerState{Name: c.name, Handled: c.handled, Partitions: slices.Sorted(maps.Keys(c.assigned)), lastEnd: c.lastEnd, err: c.err}
	if c.life.Err() != nil {
		s.Killed, s.Partitions = true, nil
	}
	return s
}

// conns are a client's connections, which a kill cuts.
type conns struct {
	mu   sync.Mutex
	open []net.Conn
	dead bool
}

var errKilled = errors.New("killed")

func (c *conns) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second}
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		conn.Close()
		return nil, errKilled
	}
	c.open = append(c.open, conn)
	return conn, nil
}

func (c *conns) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
	for _, conn := range c.open {
		conn.Close()
	}
}
