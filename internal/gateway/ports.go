package gateway

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
)

// anyBroker stands for the bootstrap port.
const anyBroker int32 = -1

// ports owns the listeners: the bootstrap port, and one port per broker.
// Clients keep using a broker's port for as long as they live, so it is a pure
// function of the config and the broker's slot.
type ports struct {
	gw   *Gateway
	host string
	base int

	mu   sync.Mutex
	open map[int32]net.Listener // by broker
	bad  map[int32]string       // last error, so that it is logged once

	closed bool
}

// listen opens the bootstrap port and the ports of the brokers that are known.
func (p *ports) listen(ctx context.Context, brokers []int32) error {
	host, port, err := net.SplitHostPort(p.gw.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen address %q: want HOST:PORT", p.gw.cfg.Listen)
	}
	want, err := strconv.Atoi(port)
	if err != nil || want < 0 || want > 65535 {
		return fmt.Errorf("listen address %q: the port must be a number from 0 to 65535", p.gw.cfg.Listen)
	}
	p.host = host
	for attempt := 0; ; attempt++ {
		if err = p.listenAll(ctx, want, brokers); err == nil || want != 0 || attempt == 50 {
			return err
		}
		p.mu.Lock()
		p.closeLocked() // another process has the port of a broker: try others
		p.mu.Unlock()
	}
}

func (p *ports) listenAll(ctx context.Context, base int, brokers []int32) error {
	l, err := net.Listen("tcp", net.JoinHostPort(p.host, strconv.Itoa(base)))
	if err != nil {
		return fmt.Errorf("bootstrap port: %w", err)
	}
	p.mu.Lock()
	p.open = map[int32]net.Listener{anyBroker: l}
	p.base = l.Addr().(*net.TCPAddr).Port
	p.mu.Unlock()
	for _, id := range brokers {
		if _, err := p.ensure(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// serveAll begins to accept on every listener opened before the start.
func (p *ports) serveAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, l := range p.open {
		p.gw.wg.Go(func() { p.gw.accept(l, id) })
	}
	p.gw.serving = true
}

// ensure returns the port of a broker, and opens it where it is not open yet.
// The port returned is right even when it could not be opened: a true address
// must never reach a client.
func (p *ports) ensure(ctx context.Context, id int32) (int32, error) {
	if p.gw.inProcess {
		return processPort, nil
	}
	p.mu.Lock()
	if l, ok := p.open[id]; ok {
		p.mu.Unlock()
		return int32(l.Addr().(*net.TCPAddr).Port), nil
	}
	p.mu.Unlock()
	slot, err := p.gw.views.slot(ctx, id)
	if err != nil {
		return 0, fmt.Errorf("port of broker %d: %w", id, err)
	}
	port := p.base + int(slot)
	if port > 65535 {
		return 0, fmt.Errorf("port of broker %d would be %d: choose a lower port for listen", id, port)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.open[id]; ok || p.closed {
		return int32(port), nil
	}
	l, err := net.Listen("tcp", net.JoinHostPort(p.host, strconv.Itoa(port)))
	if err != nil {
		return int32(port), fmt.Errorf("port of broker %d: %w", id, err)
	}
	p.open[id] = l
	if p.gw.serving {
		p.gw.wg.Go(func() { p.gw.accept(l, id) })
	}
	return int32(port), nil
}

// complain logs a port's error once per cause.
func (p *ports) complain(id int32, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bad[id] != err.Error() {
		p.bad[id] = err.Error()
		p.gw.log.Error("clients cannot reach a broker through this gateway", "broker", id, "cause", err, "cure", "free the port, or choose another listen port")
	}
}

// close closes every listener for good.
func (p *ports) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.closeLocked()
}

func (p *ports) closeLocked() {
	for _, l := range p.open {
		_ = l.Close()
	}
}
