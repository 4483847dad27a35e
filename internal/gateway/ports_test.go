package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// quietPort is an address whose next thousand ports are not handed out to
// outgoing connections.
func quietPort() string { return fmt.Sprintf("127.0.0.1:%d", 11_000+rand.IntN(9_000)) }

// A broker that joins while clients are connected, with an id far away, gets
// its port before any client learns of it, the same on every gateway.
func TestBrokerThatJoinsLater(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.RefreshTopics = time.Hour; c.Listen = quietPort() })
	cfg := w.gw.cfg
	cfg.Listen = quietPort()
	second, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Shutdown(context.Background()) }()
	conn := w.dial(anyBroker)
	conn.ask(kmsg.NewPtrMetadataRequest())
	for _, id := range []int32{100001, 5, 7_000_000} {
		if _, _, err := w.fake.AddNode(id, 0); err != nil {
			t.Fatal(err)
		}
	}
	first := w.gw
	defer func() { w.gw = first }()
	for _, gw := range []*Gateway{second, first} {
		w.gw = gw
		slots := map[int32]int32{}
		for _, b := range w.dial(anyBroker).ask(kmsg.NewPtrMetadataRequest()).(*kmsg.MetadataResponse).Brokers {
			slots[b.NodeID] = b.Port - int32(gw.ports.base)
			c, err := net.Dial("tcp", net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
			if err != nil {
				t.Errorf("broker %d: %v", b.NodeID, err)
				continue
			}
			_ = c.Close()
		}
		if want := map[int32]int32{0: 1, 1: 2, 5: 6, 100001: 1001, 7_000_000: 1002}; fmt.Sprint(slots) != fmt.Sprint(want) {
			t.Errorf("slots %v, want %v", slots, want)
		}
	}
	w.dial(100001).ask(kmsg.NewPtrMetadataRequest())
}

// A broker that leaves takes its clients' connections along; one that comes
// back with another address is reached at the same port.
func TestBrokerThatMoves(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.RefreshTopics = 20 * time.Millisecond })
	if _, _, err := w.fake.AddNode(7, 0); err != nil {
		t.Fatal(err)
	}
	w.dial(anyBroker).ask(kmsg.NewPtrMetadataRequest())
	w.dial(7).ask(kmsg.NewPtrMetadataRequest())
	if err := w.fake.RemoveNode(7); err != nil {
		t.Fatal(err)
	}
	gone := w.dial(7) // the port stays open
	gone.send(kmsg.NewPtrMetadataRequest())
	gone.closed()
	if _, _, err := w.fake.AddNode(7, 0); err != nil {
		t.Fatal(err)
	}
	until(t, func() error {
		addr, _ := w.gw.cluster.BrokerAddr(7)
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		return c.Close()
	})
	w.dial(7).ask(kmsg.NewPtrMetadataRequest())
}

// Another process has the port of a broker that joins: clients are never told
// the broker's own address, the log says it, and the port is taken once it is
// free.
func TestPortOfANewBrokerIsBusy(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.RefreshTopics = 20 * time.Millisecond })
	port := w.gw.ports.base + 1 + 9
	busy, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = busy.Close() }()
	if _, _, err := w.fake.AddNode(9, 0); err != nil {
		t.Fatal(err)
	}
	for _, b := range w.dial(anyBroker).ask(kmsg.NewPtrMetadataRequest()).(*kmsg.MetadataResponse).Brokers {
		if b.NodeID == 9 && b.Port != int32(port) {
			t.Errorf("clients are told port %d", b.Port)
		}
	}
	until(t, func() error {
		if !strings.Contains(w.log.String(), "clients cannot reach a broker") {
			return errString("the log does not say that the port is busy")
		}
		return nil
	})
	_ = busy.Close()
	until(t, func() error {
		w.gw.ports.mu.Lock()
		defer w.gw.ports.mu.Unlock()
		if w.gw.ports.open[9] == nil {
			return errString("the port is free and not taken")
		}
		return nil
	})
	w.dial(9).ask(kmsg.NewPtrMetadataRequest())
}

// A broker that joins while the gateway drains must not keep it alive.
func TestNoPortIsOpenedWhileDraining(t *testing.T) {
	w := newWorld(t, nil)
	w.gw.ports.close()
	if _, err := w.gw.ports.ensure(t.Context(), 40); err != nil {
		t.Fatal(err)
	}
	if err := w.gw.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(w.gw.ports.base+41))); err == nil {
		_ = c.Close()
		t.Error("a port was opened")
	}
}

func TestAdvertisedHost(t *testing.T) {
	for _, c := range []struct{ listen, advertise, dial, host string }{
		{"127.0.0.1:0", "", "127.0.0.1", "127.0.0.1"},
		{"0.0.0.0:0", "", "127.0.0.1", "127.0.0.1"},
		{":0", "", "127.0.0.1", "127.0.0.1"},
		{"[::1]:0", "", "::1", "::1"},
		{"[::]:0", "", "::1", "::1"},
		{"[::]:0", "", "127.0.0.1", "127.0.0.1"},
		{"127.0.0.1:0", "tandem.example.com", "127.0.0.1", "tandem.example.com"},
		{"127.0.0.1:0", "[2001:db8::1]", "127.0.0.1", "2001:db8::1"},
		{"localhost:0", "", "127.0.0.1", "localhost"},
	} {
		t.Run(c.listen+" "+c.advertise+" "+c.dial, func(t *testing.T) {
			if l, err := net.Listen("tcp", net.JoinHostPort(c.dial, "0")); err != nil {
				t.Skip(err)
			} else {
				_ = l.Close()
			}
			w := newWorld(t, func(cfg *Config) { cfg.Listen, cfg.Advertise = c.listen, c.advertise })
			nc, err := net.Dial("tcp", net.JoinHostPort(c.dial, strconv.Itoa(w.gw.ports.base)))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = nc.Close() }()
			meta := (&raw{t: t, conn: nc}).ask(kmsg.NewPtrMetadataRequest()).(*kmsg.MetadataResponse)
			if got := meta.Brokers[0].Host; got != c.host {
				t.Errorf("clients are told %q, want %q", got, c.host)
			}
			if host, _, err := net.SplitHostPort(w.gw.Addr()); err != nil || c.advertise != "" && host != c.host {
				t.Errorf("ready line says %s", w.gw.Addr())
			}
		})
	}
}

// The port of a broker that is down answers like one: the connection is reset.
// After a clean end franz-go takes the port for one that wants TLS, and fails
// its producer for good.
func TestPortOfADeadBrokerResetsConnections(t *testing.T) {
	w := newWorld(t, nil)
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	w.gw.cluster.NoteBroker(9, "127.0.0.1", int32(gone.Addr().(*net.TCPAddr).Port))
	dead := w.dial(9)
	dead.send(kmsg.NewPtrApiVersionsRequest())
	if _, err := dead.conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection ends with %v, want a reset", err)
	}
}
