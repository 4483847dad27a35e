package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/tandem-kafka/tandem/internal/pipe"
)

// This file carries the gateway in the process of its clients: without a
// listening port, they reach it through Dial. Brokers get addresses that no
// resolver knows, so that a client without this Dial fails, rather than reach
// the cluster past the gateway.

const (
	// processDomain is below a name that is reserved for what does not exist
	// (RFC 6761).
	processDomain = ".tandem.invalid"
	// processPort is for the form only.
	processPort = 9092
	seedPrefix  = "seed-"
)

func brokerHost(id int32) string { return strconv.Itoa(int(id)) + processDomain }

// StartInProcess is Start without listeners, for clients of the same process.
// Config.Listen, Advertise and TLS are of no use then.
//
// A client's connection goes on to the cluster over TLS if Config.Upstream says
// so; its SASL exchange passes as bytes, as through any gateway. So a program
// that has one set of credentials gives TLS to Config.Upstream only, and SASL
// both to Config.Upstream and to its clients.
func StartInProcess(ctx context.Context, cfg Config) (*Gateway, error) {
	if cfg.Listen != "" || cfg.Advertise != "" || cfg.TLS != nil {
		return nil, errors.New("gateway: one in the process has no listener: Listen, Advertise and TLS must be empty")
	}
	if cfg.NoViews && (len(cfg.Views) > 0 || cfg.AutoCreate) {
		return nil, errors.New("gateway: views are to be made, and there are to be none")
	}
	return begin(ctx, cfg, true)
}

// Seed is the bootstrap addresses to give to clients together with Dial: one
// for each of Config.Upstream.Bootstrap.
func (g *Gateway) Seed() []string {
	seeds := make([]string, len(g.cfg.Upstream.Bootstrap))
	for i := range seeds {
		seeds[i] = net.JoinHostPort(seedPrefix+strconv.Itoa(i)+processDomain, strconv.Itoa(processPort))
	}
	return seeds
}

// Dial connects a client of this process: addr is one of Seed, or a broker's as
// clients are told it. Like a dial to the cluster itself it returns once the
// cluster's broker, TLS included, is connected to, or cannot be. ctx bounds the
// dial, not the connection.
func (g *Gateway) Dial(ctx context.Context, _, addr string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tandem", Err: fmt.Errorf("%s: %w", addr, err)}
	}
	target, broker, err := g.target(addr)
	if err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.drainCtx, cancel)()
	up, err := g.cfg.Upstream.Dial(ctx, target)
	if g.drainCtx.Err() != nil {
		if err == nil {
			_ = up.Close()
		}
		return fail(errShutDown)
	}
	if err != nil {
		return nil, err
	}
	client, server := pipe.New("a client in this process", addr)
	if !g.serveConn(server, broker, up) {
		_ = up.Close()
		return fail(errShutDown)
	}
	return client, nil
}

// errShutDown is Dial's answer while a gateway shuts down, and afterwards.
var errShutDown = fmt.Errorf("the gateway is shut down: %w", net.ErrClosed)

// ClusterAddr returns the cluster's own address, HOST:PORT, behind one that
// Dial takes. SASL mechanisms that sign the broker's host need it.
func (g *Gateway) ClusterAddr(addr string) (string, error) {
	target, _, err := g.target(addr)
	return target, err
}

func (g *Gateway) target(addr string) (target string, broker int32, err error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	name, ok := strings.CutSuffix(host, processDomain)
	if !ok || !g.inProcess {
		return "", 0, errors.New("not an address of a gateway in this process")
	}
	if number, ok := strings.CutPrefix(name, seedPrefix); ok {
		if i, err := strconv.Atoi(number); err == nil && i >= 0 && i < len(g.cfg.Upstream.Bootstrap) {
			return g.cfg.Upstream.Bootstrap[i], anyBroker, nil
		}
		return "", 0, errors.New("no such bootstrap address")
	}
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return "", 0, errors.New("not a broker's id")
	}
	target, ok = g.cluster.BrokerAddr(int32(id))
	if !ok {
		return "", 0, errors.New("no such broker has been seen")
	}
	return target, int32(id), nil
}
