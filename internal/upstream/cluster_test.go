package upstream

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// A bootstrap address that is down costs one dial, not one for every client.
func TestDialAnyRemembersWhoAnswers(t *testing.T) {
	c := newCluster(t)
	good := c.fake.ListenAddrs()[0]
	c.cfg.Bootstrap = []string{"127.0.0.1:1", good}
	for range 2 {
		conn, err := c.DialAny(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := conn.RemoteAddr().String(); got != good {
			t.Errorf("connected to %s", got)
		}
		_ = conn.Close()
	}
	if got := c.bootstrap.Load(); got != 1 {
		t.Errorf("the next dial begins at address %d", got)
	}
}

func TestBrokersThatComeAndMove(t *testing.T) {
	c := newCluster(t)
	id, port, err := c.fake.AddNode(100001, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Topics(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.BrokerAddr(id); !ok {
		t.Fatal("a new broker is not seen")
	}
	if err := c.fake.RemoveNode(id); err != nil {
		t.Fatal(err)
	}
	if _, moved, err := c.fake.AddNode(id, 0); err != nil || moved == port {
		t.Fatalf("port %d again, %v", moved, err)
	}
	if _, err := c.Topics(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := c.DialBroker(t.Context(), id)
	if err != nil {
		t.Fatalf("a broker with a new address: %v", err)
	}
	_ = conn.Close()
	if _, err := c.DialBroker(t.Context(), 77); err == nil {
		t.Error("dialled a broker that nobody has seen")
	}
}

func TestKnownAnywhere(t *testing.T) {
	c := newCluster(t)
	topic := c.topic("orders", 1)
	if known, err := c.KnownAnywhere(t.Context(), topic.ID); err != nil || !known {
		t.Errorf("%v, %v", known, err)
	}
	if known, err := c.KnownAnywhere(t.Context(), [16]byte{1}); err != nil || known {
		t.Errorf("an id of no topic: %v, %v", known, err)
	}
	byID, err := c.TopicsByID(t.Context(), topic.ID, [16]byte{1})
	if err != nil || len(byID) != 1 || byID[topic.ID].Name != "orders" {
		t.Errorf("%v, %v", byID, err)
	}
}

func TestOpenSaysWhyItFails(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("PLAIN", "tandem", "right"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	for _, c := range []struct{ password, says string }{{"wrong", "SASL authentication"}, {"right", ""}} {
		m, err := Mechanism("PLAIN", "tandem", c.password)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		cl, err := Open(ctx, Config{Bootstrap: fake.ListenAddrs(), SASL: m}, slog.New(slog.DiscardHandler))
		cancel()
		switch {
		case c.says == "" && err == nil:
			cl.Close()
		case c.says == "" || err == nil || !strings.Contains(err.Error(), c.says):
			t.Errorf("password %s: %v", c.password, err)
		}
	}
}

// hostOf is a mechanism that takes note of the broker it is for.
type hostOf struct {
	sasl.Mechanism
	host string
}

func (m *hostOf) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	m.host = host
	return m.Mechanism.Authenticate(ctx, host)
}

// Some mechanisms sign the broker's name, which is the one that was dialled.
func TestMechanismIsToldTheBroker(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("PLAIN", "tandem", "right"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	m := &hostOf{Mechanism: plain.Auth{User: "tandem", Pass: "right"}.AsMechanism()}
	cfg := Config{SASL: m}
	addr := strings.Replace(fake.ListenAddrs()[0], "127.0.0.1", "localhost", 1)
	conn, err := cfg.Connect(t.Context(), addr, "x")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if m.host != addr {
		t.Errorf("%s, and %s was dialled", m.host, addr)
	}
}

// Kafka before 2.4 does not know the ApiVersions request that is sent first.
func TestConnectToAnOldBroker(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.MaxVersions(kversion.V2_3_0()))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	cfg := Config{}
	conn, err := cfg.Connect(t.Context(), fake.ListenAddrs()[0], "x")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if v := conn.Versions()[3]; v[1] != 8 {
		t.Errorf("Metadata up to v%d", v[1])
	}
}
