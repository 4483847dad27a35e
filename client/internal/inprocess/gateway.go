package inprocess

import (
	"context"
	"sync"

	"github.com/tandem-kafka/tandem/internal/gateway"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
)

// Gateway is a gateway in the process that runs while anybody holds it.
type Gateway struct {
	cfg  gateway.Config
	turn chan struct{} // holds a value while nobody starts or shuts down

	running *gateway.Gateway
	holders int
}

// New returns a gateway that nobody holds yet. cfg.Upstream has the program's
// TLS and SASL: both hold for the gateway's own connections and for those of
// the clients that Options configures.
func New(cfg gateway.Config) *Gateway {
	g := &Gateway{cfg: cfg, turn: make(chan struct{}, 1)}
	g.turn <- struct{}{}
	return g
}

// Hold returns the running gateway, started if nobody else holds it. ctx bounds
// the start, and the wait for others that start it or shut it down.
func (g *Gateway) Hold(ctx context.Context) (*Hold, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-g.turn:
	}
	defer func() { g.turn <- struct{}{} }()
	if g.running == nil {
		running, err := gateway.StartInProcess(ctx, g.cfg)
		if err != nil {
			return nil, err
		}
		g.running = running
	}
	g.holders++
	return &Hold{Gateway: g.running, of: g}, nil
}

// release shuts the gateway down if nobody holds it any more.
func (g *Gateway) release(ctx context.Context) error {
	<-g.turn
	defer func() { g.turn <- struct{}{} }()
	if g.holders--; g.holders > 0 {
		return nil
	}
	running := g.running
	g.running = nil
	return running.Shutdown(ctx)
}

// Hold keeps a gateway running for one client, until Release.
type Hold struct {
	*gateway.Gateway
	of   *Gateway
	once sync.Once
}

// Options are those of a kgo client of the gateway, in place of seed brokers,
// dialler, TLS and SASL.
func (h *Hold) Options() []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(h.Seed()...), kgo.Dialer(h.Dial)}
	if m := h.of.cfg.Upstream.SASL; m != nil {
		opts = append(opts, kgo.SASL(mechanism{m, h.Gateway}))
	}
	return opts
}

// Release gives the gateway up, and shuts it down if nobody else holds it. The
// client must be closed before: requests under way are waited for until ctx
// ends, and then an error says so. Only the first call counts.
func (h *Hold) Release(ctx context.Context) (err error) {
	h.once.Do(func() { err = h.of.release(ctx) })
	return err
}

// mechanism is the program's own, told the brokers' true names, which some
// mechanisms sign. It is shared, so that a client that closes does not close it.
type mechanism struct {
	sasl.Mechanism
	gw *gateway.Gateway
}

// Authenticate implements sasl.Mechanism.
func (m mechanism) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	addr, err := m.gw.ClusterAddr(host)
	if err != nil {
		return nil, nil, err
	}
	return m.Mechanism.Authenticate(ctx, addr)
}
