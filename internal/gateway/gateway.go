package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-kafka/tandem/internal/slicecache"
	"github.com/tandem-kafka/tandem/internal/upstream"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Gateway is a running gateway.
type Gateway struct {
	cfg         Config
	log         *slog.Logger
	cluster     *upstream.Cluster
	views       *views
	ports       *ports
	cache       *slicecache.Cache
	reader      *upstream.Reader
	groups      *groups
	facts       *facts
	coop        *coop
	metrics     *metrics
	isolations  isolations
	generations generations
	compressors *compressors

	requestMemory requestMemory

	ctx       context.Context // ends when Shutdown gives up waiting
	cancel    context.CancelFunc
	drainCtx  context.Context // ends when Shutdown begins: long polls answer
	drain     context.CancelFunc
	wg        sync.WaitGroup
	serving   bool
	inProcess bool // in the process of its clients, without ports: see inprocess.go
	nextConn  atomic.Uint64

	mu    sync.Mutex
	conns map[*conn]struct{}

	often   often           // what was logged lately
	pending map[string]bool // views of the config file that wait for their source; Start's, then watch's
}

// Start connects to the cluster, loads the definitions, opens the ports, makes
// the configured views, and only then lets clients in. ctx bounds the start,
// not the life of the gateway.
func Start(ctx context.Context, cfg Config) (*Gateway, error) {
	if cfg.NoViews {
		return nil, fmt.Errorf("gateway: one that listens cannot do without views: %s has the ports of brokers", upstream.DefinitionsTopic)
	}
	return begin(ctx, cfg, false)
}

func begin(ctx context.Context, cfg Config, inProcess bool) (*Gateway, error) {
	cfg.Limits.defaults()
	cfg.Advertise = strings.TrimSuffix(strings.TrimPrefix(cfg.Advertise, "["), "]") // an IPv6 address as in a URL
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{cfg: cfg, log: cfg.Log, inProcess: inProcess, metrics: newMetrics(), compressors: newCompressors(cfg.Compression), requestMemory: newRequestMemory(), conns: make(map[*conn]struct{})}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.drainCtx, g.drain = context.WithCancel(g.ctx)
	g.ports = &ports{gw: g, bad: make(map[int32]string)}
	if err := g.start(ctx); err != nil {
		g.ports.close()
		g.stop()
		return nil, err
	}
	return g, nil
}

func (g *Gateway) start(ctx context.Context) (err error) {
	if g.cluster, err = upstream.Open(ctx, g.cfg.Upstream, g.log); err != nil {
		return err
	}
	g.reader = g.cluster.Reader()
	g.cache = slicecache.New(g.reader, slicecache.Config{MaxBytes: g.cfg.Limits.CacheBytes, Logger: g.log})
	g.metrics.registerCache(g.cache)
	g.groups = newGroups(g)
	g.coop = newCoop(g)
	g.metrics.registerCoop(g.coop.memory)
	g.facts = newFacts(g)
	if g.cfg.IndividualCommits {
		g.wg.Go(g.sweepFacts)
	}
	g.views = newViews(g)
	if g.cfg.NoViews {
		return nil
	}
	if err := g.loadViews(ctx); err != nil {
		return fmt.Errorf("loading the definitions of views from %s: %w", upstream.DefinitionsTopic, err)
	}
	if !g.inProcess {
		if err := g.ports.listen(ctx, slices.Sorted(maps.Keys(g.cluster.Brokers()))); err != nil {
			return err
		}
	}
	if err := g.makeConfigured(ctx); err != nil {
		return err
	}
	g.ports.serveAll()
	g.wg.Go(g.watch)
	return nil
}

// loadViews reads the definitions, and tries again while a cluster that has
// just started has no leader for them.
func (g *Gateway) loadViews(ctx context.Context) error {
	for {
		err := g.views.load(ctx)
		if err == nil || errors.Is(err, kerr.TopicAuthorizationFailed) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Addr is the bootstrap address to give to clients, HOST:PORT.
func (g *Gateway) Addr() string {
	if g.inProcess {
		return g.Seed()[0]
	}
	host := g.cfg.Advertise
	if host == "" {
		host = g.ports.host
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "127.0.0.1"
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(g.ports.base))
}

// Shutdown stops accepting, lets the requests under way finish for at most
// Limits.Drain (or until ctx ends), and releases everything.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.ports.close()
	g.drain()
	g.mu.Lock()
	for c := range g.conns {
		c.drain()
	}
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Limits.Drain)
	defer cancel()
	done := make(chan struct{})
	go func() { g.wg.Wait(); close(done) }()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		g.mu.Lock()
		err = fmt.Errorf("%d connections were cut with requests under way", len(g.conns))
		for c := range g.conns {
			c.close()
		}
		g.mu.Unlock()
		g.cancel() // what only the cluster could end, which is away
		<-done
	}
	g.stop()
	return err
}

func (g *Gateway) stop() {
	g.cancel()
	if g.facts != nil {
		g.facts.close()
	}
	if g.cache != nil {
		g.cache.Close()
	}
	if g.reader != nil {
		g.reader.Close()
	}
	if g.cluster != nil {
		g.cluster.Close()
	}
}

func (g *Gateway) accept(l net.Listener, broker int32) {
	for {
		raw, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if g.often.now("accept", 10*time.Second) {
				g.log.Error("accepting connections", "cause", err, "cure", "raise the limit of open files if that is the cause")
			}
			select {
			case <-g.drainCtx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		g.serveConn(raw, broker, nil)
	}
}

// serveConn starts the goroutine of a new client connection, and reports
// whether it did. up is the upstream connection, where there is one already.
func (g *Gateway) serveConn(raw net.Conn, broker int32, up net.Conn) bool {
	g.mu.Lock()
	full := g.cfg.Limits.Connections > 0 && len(g.conns) >= g.cfg.Limits.Connections
	if full || g.drainCtx.Err() != nil {
		g.mu.Unlock()
		if full {
			g.log.Warn("a client was turned away", "connections", g.cfg.Limits.Connections, "cure", "raise limits.max.connections")
		}
		_ = raw.Close()
		return false
	}
	c := &conn{gw: g, id: g.nextConn.Add(1), broker: broker, client: raw}
	c.linger, _ = raw.(lingerer)
	c.peer, _, _ = net.SplitHostPort(raw.RemoteAddr().String())
	c.log = g.log.With("client", raw.RemoteAddr().String(), "conn", c.id)
	c.ctx, c.cancel = context.WithCancel(g.ctx)
	c.changed = sync.NewCond(&c.mu)
	if g.cfg.TLS != nil {
		c.client = tls.Server(raw, g.cfg.TLS)
	}
	c.cr = bufio.NewReaderSize(c.client, bufferSize)
	g.conns[c] = struct{}{}
	g.metrics.connections.Set(float64(len(g.conns)))
	if up != nil {
		_ = c.attach(up)
	}
	g.wg.Go(func() { // before mu is given back: Shutdown must not wait already
		c.serve()
		g.mu.Lock()
		delete(g.conns, c)
		g.metrics.connections.Set(float64(len(g.conns)))
		g.mu.Unlock()
	})
	g.mu.Unlock()
	return true
}

func (g *Gateway) dialFor(ctx context.Context, broker int32) (net.Conn, error) {
	if broker == anyBroker {
		return g.cluster.DialAny(ctx)
	}
	return g.cluster.DialBroker(ctx, broker)
}

// logUnreachable says once in a while that a broker cannot be dialled.
func (g *Gateway) logUnreachable(broker int32, err error) {
	if !g.often.now(broker, 10*time.Second) {
		return
	}
	g.log.Warn("a client asks for a broker that cannot be reached", "broker", broker, "cause", err, "cure", "none needed if the broker is restarting")
}

// advertised returns the address of the gateway that stands for a broker, and
// takes note of the broker's own.
func (c *conn) advertised(id int32, host string, port int32) (string, int32) {
	if id < 0 || host == "" {
		return host, port
	}
	g := c.gw
	g.cluster.NoteBroker(id, host, port)
	if g.inProcess {
		return brokerHost(id), processPort
	}
	ctx, cancel := context.WithTimeout(c.ctx, resolveWait)
	defer cancel()
	open, err := g.ports.ensure(ctx, id)
	if err != nil {
		g.ports.complain(id, err)
	}
	return c.advertisedHost(), open
}

func (c *conn) advertisedHost() string {
	if c.gw.cfg.Advertise != "" {
		return c.gw.cfg.Advertise
	}
	host := c.gw.ports.host
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host, _, _ = net.SplitHostPort(c.client.LocalAddr().String())
	}
	return host
}
