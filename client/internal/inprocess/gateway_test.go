package inprocess

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/gateway"
	"github.com/tandem-kafka/tandem/internal/upstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// told is a mechanism that takes note of the brokers it is for.
type told struct {
	sasl.Mechanism
	mu    sync.Mutex
	hosts []string
}

func (m *told) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	m.mu.Lock()
	m.hosts = append(m.hosts, host)
	m.mu.Unlock()
	return m.Mechanism.Authenticate(ctx, host)
}

func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// Credentials that are given once hold for the gateway and for its clients,
// which share it while any of them is there.
func TestClientsShareGatewayAndCredentials(t *testing.T) {
	cert, pool := certificate(t)
	fake, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(3, "orders"), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}),
		kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "app", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	m := &told{Mechanism: scram.Auth{User: "app", Pass: "secret"}.AsSha512Mechanism()}
	g := New(gateway.Config{NoViews: true, Upstream: upstream.Config{Bootstrap: fake.ListenAddrs(), TLS: &tls.Config{RootCAs: pool}, SASL: m}})
	for range 2 { // after the last has gone, the next starts afresh
		var holds []*Hold
		var wg sync.WaitGroup
		var mu sync.Mutex
		for range 3 {
			wg.Go(func() {
				h, err := g.Hold(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				holds = append(holds, h)
				mu.Unlock()
				c, err := kgo.NewClient(append(h.Options(), kgo.ConsumeTopics("orders"))...)
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("v")}).FirstErr(); err != nil {
					t.Error(err)
				}
				if fs := c.PollFetches(t.Context()); fs.Err() != nil || fs.NumRecords() == 0 {
					t.Errorf("%d records, %v", fs.NumRecords(), fs.Err())
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		if holds[0].Gateway != holds[1].Gateway || holds[0].Gateway != holds[2].Gateway {
			t.Error("clients of one process have several gateways")
		}
		for i, h := range holds {
			c, err := h.Dial(t.Context(), "tcp", h.Seed()[0])
			if err != nil {
				t.Fatalf("with %d holders left: %v", len(holds)-i, err)
			}
			_ = c.Close()
			for range 2 { // the second one does not count
				if err := h.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
		if _, err := holds[0].Dial(t.Context(), "tcp", holds[0].Seed()[0]); !errors.Is(err, net.ErrClosed) {
			t.Errorf("without holders: %v", err)
		}
	}
	for _, host := range m.hosts {
		if !slices.Contains(fake.ListenAddrs(), host) {
			t.Errorf("the mechanism was told %s", host)
		}
	}
}

// A start that fails is the failure of the one who waited for it; another may
// try, and whoever waits behind it may give up.
func TestStartThatFails(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	g := New(gateway.Config{NoViews: true, Upstream: upstream.Config{Bootstrap: []string{silent.Addr().String()}}})
	first, giveUp := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() { _, err := g.Hold(first); failed <- err }()
	reached, err := silent.Accept() // it holds the turn
	if err != nil {
		t.Fatal(err)
	}
	defer reached.Close()
	second, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Hold(second); !errors.Is(err, context.Canceled) {
		t.Errorf("behind a start that takes long: %v", err)
	}
	giveUp()
	if err := <-failed; err == nil {
		t.Error("it started")
	}
	fake, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	g.cfg.Upstream.Bootstrap = fake.ListenAddrs()
	h, err := g.Hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
