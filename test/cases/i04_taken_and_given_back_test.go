package cases

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/client"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// groupClient catches the client of the group among those that package client makes.
type groupClient struct {
	group string
	mu    sync.Mutex
	found *kgo.Client
}

func (g *groupClient) OnNewClient(c *kgo.Client) {
	if c.OptValue(kgo.ConsumerGroup) == g.group {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.found = c
	}
}

// rebalance has the member join anew.
func (g *groupClient) rebalance() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.found.ForceRebalance()
}

// giver is a member whose key ranges are taken away and given back, and the judge of its handlers.
type giver struct {
	t       *testing.T
	l       *harness.Ledger
	hold    time.Duration // how long the handlers of slow keys take, whatever happens
	allAt   int           // so many handlers wait for each other
	mu      sync.Mutex
	busy    map[string]bool
	done    map[int64]int  // by offset
	calm    map[int64]bool // a run was over before anything was taken
	calms   int            // such runs of keys that are not slow
	again   int            // runs of such keys after one that was calm
	fast    int            // records of such keys that were handled
	spanned int            // the most times that key ranges were given while a slow handler ran
	given   int
	taking  bool // key ranges are being taken, or were and are not given back yet
	slow    int  // handlers of slow keys that run
	waiting int
	allRun  chan struct{} // closed when so many wait
	changed chan struct{} // handlers have begun or ended; cap 1
}

// take says that key ranges are being taken from now on, and give that they were given back.
func (g *giver) take() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.taking = true
}

func (g *giver) give() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.given, g.taking = g.given+1, false
}

// handle takes long for slow keys, and deaf to its context; the handlers of keys of the kind "all" wait until as many run as there can be.
func (g *giver) handle(_ context.Context, r *client.Record) error {
	key, start := string(r.Key), time.Now()
	g.mu.Lock()
	if g.busy[key] {
		g.t.Errorf("key %s is on two workers at once, at offset %d", key, r.Offset)
	}
	g.busy[key] = true
	given, slow := g.given, strings.HasPrefix(key, "slow")
	if !slow && g.calm[r.Offset] {
		g.again++
	}
	if strings.HasPrefix(key, "all") {
		if g.waiting++; g.waiting == g.allAt {
			close(g.allRun)
		}
	}
	g.mu.Unlock()
	switch {
	case slow:
		g.count(1)
		<-time.After(g.hold)
		g.count(-1)
	case strings.HasPrefix(key, "all"):
		select {
		case <-g.allRun:
		case <-time.After(20 * time.Second):
			g.t.Errorf("not all of %d handlers run at once", g.allAt)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spanned = max(g.spanned, g.given-given)
	delete(g.busy, key)
	if g.done[r.Offset]++; !slow && g.done[r.Offset] == 1 {
		g.fast++
	}
	if !slow && !g.taking && g.given == given {
		g.calm[r.Offset] = true
		g.calms++
	}
	g.change()
	g.l.Delivered(harness.Delivery{Member: "only", Partition: r.Partition, Offset: r.Offset, N: numberOf(g.t, r), Start: start, End: time.Now()})
	return nil
}

func (g *giver) count(slow int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.slow += slow
	g.change()
}

// awaitHolding waits until a slow handler runs, and another one has ended since the ranges were given, unless so many records were handled.
func (g *giver) awaitHolding(ctx context.Context, all int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for calms := g.calms; g.slow == 0 || g.calms == calms && g.fast < all; {
		g.mu.Unlock()
		select {
		case <-g.changed:
		case <-ctx.Done():
		}
		g.mu.Lock()
		if ctx.Err() != nil {
			return fmt.Errorf("%d handlers of slow keys run, %d of %d other records were handled", g.slow, g.fast, all)
		}
	}
	return nil
}

// change says that handlers have begun or ended.
func (g *giver) change() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

func numberOf(t *testing.T, r *client.Record) int64 { return valueOf(t, r.Record).N }

// All key ranges are taken from a process 1,000 times, and given back at once, while handlers take longer than many such rounds and are deaf to
// their contexts. No key is ever on two workers at once; when it is over all workers work, and every record was handled: those that take no time once, but for
// what was being handled while it was taken (case I4).
func TestRangesTakenAndGivenBack(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, e engine, s harness.WorkerSpec) {
		const rounds, workers, slow, fast, rate = 1000, 8, 4, 20, 100
		topic := e.orders(t, &s, 1)
		g := &giver{t: t, l: harness.NewLedger(), hold: time.Second, allAt: workers, busy: map[string]bool{}, done: map[int64]int{}, calm: map[int64]bool{},
			allRun: make(chan struct{}), changed: make(chan struct{}, 1)}
		hook := &groupClient{group: s.Group}
		assigned := make(chan struct{}, 10)
		opts := []client.Option{client.Bootstrap(s.Bootstrap), client.Group(s.Group), client.Topics(topic), client.ShareByKey(), client.Concurrency(workers),
			client.DrainTimeout(0), client.Logger(slog.New(slog.DiscardHandler)), client.KgoOpts(kgo.WithHooks(hook)),
			client.OnAssigned(func(context.Context, client.Ranges) {
				g.give()
				assigned <- struct{}{}
			}),
			client.OnRevoked(func(context.Context, client.Ranges) { g.take() }), client.OnLost(func(context.Context, client.Ranges) { g.take() })}
		if s.InProcess {
			opts = append(opts, client.InProcess())
		}
		c, err := client.New(opts...)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Run(context.Background(), g.handle) }()
		t.Cleanup(func() { _ = c.Close(harness.Context(t, 0)) })
		produce := func(records int, kind string, keys int, rate float64) func() {
			return harness.ProduceInBackground(t, e.kafka, g.l, harness.Production{Topic: topic, Records: records, Rate: rate,
				Key: func(i int) []byte { return fmt.Appendf(nil, "%s-%d", kind, i%keys) }})
		}
		harness.WatchCommitted(t, e.kafka, s.Group, topic, g.l)
		produce(2*slow, "slow", slow, 0)()
		wait := produce(10*rate, "fast", fast, rate)
		limit, begin := harness.Context(t, 2*time.Minute), time.Now()
		for n := range rounds + 1 {
			select {
			case <-assigned:
			case err := <-ended:
				t.Fatalf("Run returned %v", err)
			case <-limit.Done():
				t.Fatalf("stuck in round %d: %+v", n, c.Slow(10))
			}
			if n < rounds {
				if err := g.awaitHolding(limit, 10*rate); err != nil { // in the middle of a handler, just after another one
					t.Fatal(err)
				}
				g.take()
				hook.rebalance()
			}
		}
		t.Logf("%d rounds took %v; a handler ran through %d of them", rounds, time.Since(begin), g.spanned)
		wait()
		produce(workers, "all", workers, 0)()
		g.l.AwaitDone(t, 30*time.Second)
		e.awaitCommitted(t, s.Group, topic, 2*slow+10*rate+workers)
		if err := c.Close(harness.Context(t, 10*time.Second)); err != nil {
			t.Error(err)
		}
		g.l.Check(t, nil)
		for o := int64(2 * slow); o < 2*slow+10*rate+workers; o++ {
			if g.done[o] == 0 {
				t.Errorf("offset %d was not handled", o)
			}
		}
		t.Logf("%d of %d records that take no time were over before anything was taken; %d of them were handled again", len(g.calm), 10*rate+workers, g.again)
		if g.again > rate/10 { // the client hears of a handler's end a moment after it
			t.Errorf("%d of %d records were handled again, though they were over before anything was taken", g.again, len(g.calm))
		}
		if len(g.calm) < 5*rate {
			t.Errorf("only %d records were over before anything was taken: nothing is proven", len(g.calm))
		}
		if g.spanned < 10 {
			t.Errorf("no handler ran through more than %d rounds", g.spanned)
		}
	})
}
