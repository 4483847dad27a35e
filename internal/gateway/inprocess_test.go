package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit"
	"github.com/tandem-kafka/tandem/internal/upstream"
	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"go.uber.org/goleak"
)

// inProcess is a gateway without ports in front of three brokers, as a program
// has it that knows no views.
func inProcess(t *testing.T, change func(*Config), opts ...kfake.Opt) *world {
	t.Helper()
	return startWorld(t, func(c *Config) {
		c.NoViews, c.AutoCreate, c.IndividualCommits, c.KeyRangeFetch = true, false, true, true
		if change != nil {
			change(c)
		}
	}, true, append([]kfake.Opt{kfake.NumBrokers(3)}, opts...)...)
}

// inProcessAny is inProcess in front of the cluster of anyWorld.
func inProcessAny(t *testing.T, change func(*Config)) *world {
	t.Helper()
	return inProcess(t, func(c *Config) {
		if bootstrap := os.Getenv("TANDEM_TEST_KAFKA"); bootstrap != "" {
			c.Upstream.Bootstrap = []string{bootstrap}
		}
		if change != nil {
			change(c)
		}
	})
}

// consume polls until n records are there, commits them and returns how often
// each value came.
func consume(t *testing.T, c *kgo.Client, n int) map[string]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	seen := map[string]int{}
	for len(seen) < n {
		fs := c.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("%d of %d values: %v", len(seen), n, err)
		}
		fs.EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
	}
	if err := c.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	return seen
}

func TestInProcessClientsDoWhatOthersDo(t *testing.T) {
	w := inProcessAny(t, nil)
	topic, group := w.source(6)
	w.produce(topic, 300)
	// A group of two, whose commits a third member goes on from.
	member := func() *kgo.Client { return w.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic)) }
	seen := map[string]int{}
	a, b := member(), member()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, c := range []*kgo.Client{a, b} {
		wg.Go(func() {
			for {
				fs := c.PollFetches(t.Context())
				if fs.IsClientClosed() {
					return
				}
				mu.Lock()
				fs.EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
				mu.Unlock()
			}
		})
	}
	until(t, func() error {
		mu.Lock()
		defer mu.Unlock()
		if len(seen) < 300 {
			return fmt.Errorf("%d of 300 values", len(seen))
		}
		return nil
	})
	for _, c := range []*kgo.Client{a, b} {
		if err := c.CommitUncommittedOffsets(t.Context()); err != nil {
			t.Error(err)
		}
		c.Close()
	}
	wg.Wait()
	if err := w.client().ProduceSync(t.Context(), record(topic, "one more")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if got := consume(t, member(), 1); len(got) != 1 || got["one more"] != 1 {
		t.Errorf("after the commits come %v", slices.Collect(maps.Keys(got)))
	}
}

func TestInProcessIndividualCommitsAndKeyRanges(t *testing.T) {
	w := inProcessAny(t, nil)
	topic, group := w.source(1)
	w.produce(topic, 100)
	av := w.dial(anyBroker).ask(func() kmsg.Request { r := kmsg.NewPtrApiVersionsRequest(); r.Version = 3; return r }()).(*kmsg.ApiVersionsResponse)
	if f := tandemmsg.ReadFeatures(av); !f.IndividualCommit || !f.KeyRangeFetch {
		t.Errorf("features %+v", f)
	}
	keys := keyrange.Set{keyrange.OfSlice(1, 2)}
	p, offsets, names := w.fetchKeys(topic, 0, keys, 0)
	if p.ErrorCode != 0 || len(offsets) == 0 || len(offsets) == 100 {
		t.Errorf("code %d, %d records of half the keys", p.ErrorCode, len(offsets))
	}
	for _, name := range names {
		if !keys.Contains(keyrange.Position([]byte(name), 1)) {
			t.Errorf("%s is not in the key range", name)
		}
	}
	w.mustCommit(group, topic, watermark(43))
	w.mustCommit(group, topic, rangesOf(whole, 45, 47, 50, 50))
	w.wantCommitted(group, topic, 43, "[00000000-ffffffff] [45-47 50-50]")
	w.mustCommit(group, topic, rangesOf(whole, 43, 44))
	w.wantCommitted(group, topic, 48, "[00000000-ffffffff] [50-50]")
}

// With views on, a gateway in the process serves them.
func TestInProcessViews(t *testing.T) {
	w := inProcessAny(t, func(c *Config) { c.NoViews, c.AutoCreate = false, true })
	topic, group, view := w.sourceAndView(2, 100, 8)
	got := consume(t, w.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(view), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), 100)
	for value, n := range got {
		if n != 1 {
			t.Errorf("%q came %d times", value, n)
		}
	}
	var sum int64
	for p := range int32(2) {
		at, _ := w.stored(group, topic, p)
		sum += at
	}
	if sum != 100 {
		t.Errorf("the stable offsets sum up to %d", sum)
	}
}

// Clients are told addresses that only Dial understands, of however large ids.
func TestInProcessAddresses(t *testing.T) {
	w := inProcess(t, nil)
	if _, _, err := w.fake.AddNode(7_000_000, 0); err != nil {
		t.Fatal(err)
	}
	conn := w.dial(anyBroker)
	meta := conn.ask(kmsg.NewPtrMetadataRequest()).(*kmsg.MetadataResponse)
	cluster := conn.ask(kmsg.NewPtrDescribeClusterRequest()).(*kmsg.DescribeClusterResponse)
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = "g"
	coordinator := conn.ask(find).(*kmsg.FindCoordinatorResponse)
	told := map[int32][]string{coordinator.NodeID: {net.JoinHostPort(coordinator.Host, fmt.Sprint(coordinator.Port))}}
	for _, b := range meta.Brokers {
		told[b.NodeID] = append(told[b.NodeID], net.JoinHostPort(b.Host, fmt.Sprint(b.Port)))
	}
	for _, b := range cluster.Brokers {
		told[b.NodeID] = append(told[b.NodeID], net.JoinHostPort(b.Host, fmt.Sprint(b.Port)))
	}
	if len(told) != 4 {
		t.Errorf("brokers %v", told)
	}
	for id, addrs := range told {
		for _, addr := range addrs {
			own, _ := w.gw.cluster.BrokerAddr(id)
			if got, err := w.gw.ClusterAddr(addr); got != own || err != nil || !strings.HasSuffix(addr, ".tandem.invalid:9092") {
				t.Errorf("broker %d is at %s, behind that is %s (%v), want %s", id, addr, got, err, own)
			}
			c, err := w.gw.Dial(t.Context(), "tcp", addr)
			if err != nil {
				t.Errorf("dialling %s: %v", addr, err)
				continue
			}
			w.rawOf(c).ask(kmsg.NewPtrMetadataRequest())
		}
	}
	for _, addr := range []string{"127.0.0.1:9092", "9.tandem.invalid:9092", "seed-3.tandem.invalid:9092", "seed-x.tandem.invalid:9092", "x.tandem.invalid:9092", "tandem.invalid", ""} {
		var op *net.OpError
		if c, err := w.gw.Dial(t.Context(), "tcp", addr); !errors.As(err, &op) || op.Op != "dial" {
			t.Errorf("dialling %q: %v, %v", addr, c, err)
		}
	}
	// A broker that comes back elsewhere keeps its address here.
	if err := w.fake.RemoveNode(7_000_000); err != nil {
		t.Fatal(err)
	}
	_, port, err := w.fake.AddNode(7_000_000, 0)
	if err != nil {
		t.Fatal(err)
	}
	conn.ask(kmsg.NewPtrMetadataRequest())
	if own, err := w.gw.ClusterAddr("7000000.tandem.invalid:9092"); own != net.JoinHostPort("127.0.0.1", fmt.Sprint(port)) || err != nil {
		t.Errorf("the broker that moved to port %d is at %s, %v", port, own, err)
	}
	ports := newWorld(t, nil)
	if _, err := ports.gw.Dial(t.Context(), "tcp", "0.tandem.invalid:9092"); err == nil {
		t.Error("a gateway with ports took a client of its process, and would have told it of the ports")
	}
}

// sockets are those of a cluster, so that a broker can be down.
type sockets struct {
	mu sync.Mutex
	of map[string]*listener
}

func (s *sockets) listen(network, addr string) (net.Listener, error) {
	l, err := net.Listen(network, addr)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &listener{addr: l.Addr(), open: l}
	out.changed.L = &out.mu
	if s.of == nil {
		s.of = make(map[string]*listener)
	}
	s.of[out.addr.String()] = out
	return out, nil
}

type listener struct {
	addr    net.Addr
	mu      sync.Mutex
	changed sync.Cond
	open    net.Listener // nil while down
	closed  bool
	conns   []net.Conn
}

func (l *listener) Addr() net.Addr { return l.addr }

func (l *listener) Close() error {
	l.down()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.changed.Broadcast()
	return nil
}

func (l *listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for l.open == nil && !l.closed {
			l.changed.Wait()
		}
		if l.closed {
			return nil, net.ErrClosed
		}
		open := l.open
		l.mu.Unlock()
		c, err := open.Accept()
		l.mu.Lock()
		switch {
		case err == nil && l.open == open:
			l.conns = append(l.conns, c)
			return c, nil
		case err == nil:
			_ = c.Close()
		case l.open == open:
			return nil, err
		}
	}
}

// down ends the broker's connections, and refuses new ones until up.
func (l *listener) down() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open != nil {
		_ = l.open.Close()
	}
	l.open = nil
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}

func (l *listener) up(t *testing.T) {
	t.Helper()
	open, err := net.Listen("tcp", l.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = open
	l.changed.Broadcast()
}

// A broker that dies takes its connections along, as it does those of a direct
// client, and dialling it fails; clients go on once it is back.
func TestInProcessBrokerDies(t *testing.T) {
	var sockets sockets
	w := inProcess(t, nil, kfake.ListenFn(sockets.listen))
	topic, group := w.source(6)
	w.produce(topic, 60)
	c := w.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())
	first := consume(t, c, 60)
	victim := w.fake.LeaderFor(topic, 0)
	own, _ := w.gw.cluster.BrokerAddr(victim)
	used, fresh := w.dial(victim), w.dial(victim)
	used.ask(kmsg.NewPtrApiVersionsRequest())
	broker := sockets.of[own]
	broker.down()
	used.closed()
	// Without an answer so far it ends in a reset: after a clean end franz-go
	// takes the port for one that wants TLS.
	if _, err := fresh.conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a fresh connection ends with %v", err)
	}
	if _, err := w.gw.Dial(t.Context(), "tcp", net.JoinHostPort(brokerHost(victim), "9092")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialling a dead broker: %v", err)
	}
	producer := w.client()
	for i := range 60 {
		r := &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "later %d", i)}
		producer.Produce(t.Context(), r, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	broker.up(t)
	if err := producer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for value, n := range consume(t, c, 60) {
		if n != 1 || first[value] > 0 {
			t.Errorf("%q came %d times", value, n+first[value])
		}
	}
}

// Whoever dials a broker that does not answer may give up, and Shutdown does.
func TestInProcessDialEndsWithItsContext(t *testing.T) {
	cert, pool := certificate(t)
	w := inProcess(t, func(c *Config) {
		c.Upstream.TLS, c.Upstream.DialTimeout = &tls.Config{RootCAs: pool}, time.Hour
	}, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}))
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the handshake never comes
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	w.gw.cluster.NoteBroker(9, "127.0.0.1", int32(silent.Addr().(*net.TCPAddr).Port))
	ctx, cancel := context.WithCancel(t.Context())
	dial := func() chan error {
		failed := make(chan error, 1)
		go func() { _, err := w.gw.Dial(ctx, "tcp", "9.tandem.invalid:9092"); failed <- err }()
		reached, err := silent.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = reached.Close() })
		return failed
	}
	failed := dial()
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("a dial that was given up: %v", err)
	}
	ctx = t.Context()
	failed = dial()
	if err := w.gw.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case err := <-failed:
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("a dial while the gateway is shut down: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a dial outlives its gateway")
	}
}

// Without views a program needs rights to what it uses, and nothing of
// __tandem_views; topics may have names that look like views'.
func TestWithoutViewsNoRightsToTheirTopic(t *testing.T) {
	topic, group := kmsg.ACLResourceTypeTopic, kmsg.ACLResourceTypeGroup
	rights := []kfake.ACL{allow(group, "g", kmsg.ACLOperationRead)}
	for _, name := range []string{"orders.view2", icommit.TopicName} {
		for _, op := range []kmsg.ACLOperation{kmsg.ACLOperationRead, kmsg.ACLOperationWrite} {
			rights = append(rights, allow(topic, name, op))
		}
	}
	fake, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.EnableSASL(), kfake.EnableACLs(), kfake.SeedTopics(1, "orders.view2", icommit.TopicName),
		kfake.User("PLAIN", "app", "a", rights...))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	var without atomic.Bool
	without.Store(true)
	fake.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		for _, rt := range req.(*kmsg.MetadataRequest).Topics {
			if rt.Topic != nil && *rt.Topic == upstream.DefinitionsTopic && without.Load() {
				t.Error("the topic of definitions is asked for")
			}
		}
		return nil, nil, false
	})
	user, err := upstream.Mechanism("PLAIN", "app", "a")
	if err != nil {
		t.Fatal(err)
	}
	log := &logBuffer{}
	cfg := Config{Upstream: upstream.Config{Bootstrap: fake.ListenAddrs(), SASL: user}, NoViews: true, IndividualCommits: true, KeyRangeFetch: true, Log: slog.New(slog.NewTextHandler(log, nil))}
	gw, err := StartInProcess(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = gw.Shutdown(context.Background()) }()
	w := &world{t: t, gw: gw, log: log, inProcess: true}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	sasl := kgo.SASL(plain.Auth{User: "app", Pass: "a"}.AsMechanism())
	c := w.client(sasl, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("orders.view2"))
	if err := c.ProduceSync(ctx, record("orders.view2", "v")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if got := consume(t, c, 1); got["v"] != 1 {
		t.Errorf("consumed %v", got)
	}
	c.Close()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = "g", -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = "orders.view2"
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	if err := tandemmsg.WriteCommit(&rp, rangesOf(whole, 5, 6)); err != nil {
		t.Fatal(err)
	}
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, w.client(sasl, kgo.MaxVersions(versions(kmsg.OffsetCommit, 9))))
	if err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Errorf("an individual commit: %+v, %v\n%s", resp, err, log.String())
	}
	// With views on, the same user cannot start.
	short, end := context.WithTimeout(ctx, 5*time.Second)
	defer end()
	without.Store(false)
	cfg.NoViews = false
	if g, err := StartInProcess(short, cfg); err == nil || !strings.Contains(err.Error(), upstream.DefinitionsTopic) {
		t.Errorf("with views: %v", err)
		if g != nil {
			_ = g.Shutdown(ctx)
		}
	}
}

func TestInProcessConfig(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"listens":          func(c *Config) { c.Listen = "127.0.0.1:0" },
		"advertises":       func(c *Config) { c.Advertise = "h" },
		"makes views":      func(c *Config) { c.NoViews, c.AutoCreate = true, true },
		"configured views": func(c *Config) { c.NoViews, c.Views = true, map[string]ViewConfig{"v": {"t", 2}} },
	} {
		cfg := Config{}
		change(&cfg)
		if _, err := StartInProcess(t.Context(), cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Start(t.Context(), Config{NoViews: true, Listen: "127.0.0.1:0"}); err == nil {
		t.Error("a gateway that listens is without views")
	}
}

// Clients that come while the gateway goes are served to their end, or refused.
func TestInProcessDialsWhileShuttingDown(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	for range 50 {
		gw, err := StartInProcess(t.Context(), Config{Upstream: upstream.Config{Bootstrap: fake.ListenAddrs()}, NoViews: true})
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{}, 4)
		var wg sync.WaitGroup
		for range cap(served) {
			wg.Go(func() {
				for {
					c, err := gw.Dial(t.Context(), "tcp", gw.Seed()[0])
					if err != nil {
						if !errors.Is(err, net.ErrClosed) {
							t.Errorf("dialling meanwhile: %v", err)
						}
						return
					}
					_ = c.Close()
					select {
					case served <- struct{}{}:
					default:
					}
				}
			})
		}
		<-served
		if err := gw.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if n := len(gw.conns); n > 0 {
			t.Errorf("%d connections outlive the gateway", n)
		}
	}
}

// Shutting down leaves nothing behind, and answers what is under way.
func TestInProcessShutdown(t *testing.T) {
	before := goleak.IgnoreCurrent()
	fake, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	gw, err := StartInProcess(t.Context(), Config{Upstream: upstream.Config{Bootstrap: fake.ListenAddrs()}, NoViews: true, IndividualCommits: true, KeyRangeFetch: true})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, gw: gw, inProcess: true}
	client, err := kgo.NewClient(kgo.SeedBrokers(gw.Seed()...), kgo.Dialer(gw.Dial), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("orders"))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(t.Context(), record("orders", "v")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	consume(t, client, 1)
	idle, poll := w.dial(anyBroker), w.dial(fake.LeaderFor("orders", 0))
	idle.ask(kmsg.NewPtrApiVersionsRequest())
	long := fetchOf(12, "orders", 0, 1, [16]byte{})
	long.MaxWaitMillis, long.MinBytes = 300, 1
	poll.send(long)
	client.Close()
	if err := gw.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	poll.content() // was under way
	idle.closed()
	fake.Close() // its connections too have goroutines
	goleak.VerifyNone(t, before)
}
