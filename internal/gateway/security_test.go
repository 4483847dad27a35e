package gateway

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/upstream"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// certificate is one for 127.0.0.1, and a pool that trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tandem"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
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

// TLS on both sides: nothing can be spliced, and large frames arrive whole.
func TestTLSOnBothSides(t *testing.T) {
	t.Parallel()
	cert, pool := certificate(t)
	server := &tls.Config{Certificates: []tls.Certificate{cert}}
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.TLS(server))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	log := &logBuffer{}
	gw, err := Start(t.Context(), Config{
		Upstream: upstream.Config{Bootstrap: fake.ListenAddrs(), TLS: &tls.Config{RootCAs: pool}},
		Listen:   "127.0.0.1:0", TLS: server, AutoCreate: true, Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = gw.Shutdown(context.Background()) }()
	client, err := kgo.NewClient(kgo.SeedBrokers(gw.Addr()), kgo.DialTLSConfig(&tls.Config{RootCAs: pool}), kgo.AllowAutoTopicCreation(),
		kgo.ConsumeTopics("orders.view2", "orders"), kgo.FetchMaxWait(200*time.Millisecond), kgo.UnknownTopicRetries(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 5000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "orders", 1, 1
	create.Topics = append(create.Topics, topic)
	if _, err := create.RequestWith(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	const n, size = 20, 300_000
	for range n {
		if err := client.ProduceSync(t.Context(), record("orders", strings.Repeat("x", size))).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]int{}
	for seen["orders"] < n || seen["orders.view2"] < n {
		fs := client.PollFetches(t.Context())
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			seen[r.Topic]++
			if len(r.Value) != size {
				t.Errorf("%d bytes", len(r.Value))
			}
		})
	}
	plain, err := net.Dial("tcp", gw.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	(&raw{t: t, conn: plain}).send(kmsg.NewPtrMetadataRequest())
	until(t, func() error {
		if !strings.Contains(log.String(), "does not speak TLS") {
			return errString("the log does not say that a client speaks no TLS")
		}
		return nil
	})
}

// A client that connects to a TLS port and says nothing goes when the gateway
// drains, and otherwise soon.
func TestTLSHandshakeThatNeverComes(t *testing.T) {
	cert, _ := certificate(t)
	w := newWorld(t, func(c *Config) { c.TLS = &tls.Config{Certificates: []tls.Certificate{cert}} })
	c, err := net.Dial("tcp", w.gw.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	until(t, func() error {
		w.gw.mu.Lock()
		defer w.gw.mu.Unlock()
		if len(w.gw.conns) == 0 {
			return errString("not accepted yet")
		}
		return nil
	})
	start := time.Now()
	if err := w.gw.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("shutting down took %v", took)
	}
}

func allow(resource kmsg.ACLResourceType, name string, op kmsg.ACLOperation) kfake.ACL {
	return kfake.ACL{Resource: resource, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true}
}

// On a secured cluster clients are themselves: who may not READ the source gets
// no view of it, neither made nor read, and does not learn whether it exists.
func TestClientsRightsOnASecuredCluster(t *testing.T) {
	t.Parallel()
	topic, read, describe := kmsg.ACLResourceTypeTopic, kmsg.ACLOperationRead, kmsg.ACLOperationDescribe
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser("SCRAM-SHA-256", "tandem", "secret"),
		kfake.User("PLAIN", "reader", "r", allow(topic, "orders", read), allow(topic, "orders.view4", read)),
		kfake.User("PLAIN", "half", "h", allow(topic, "orders", describe), allow(topic, "orders.view4", read)),
		kfake.User("PLAIN", "nobody", "n", allow(topic, "orders.view4", read), allow(topic, "orders.view8", read), allow(topic, "secret.view8", read)))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	user, err := upstream.Mechanism("SCRAM-SHA-256", "tandem", "secret")
	if err != nil {
		t.Fatal(err)
	}
	log := &logBuffer{}
	gw, err := Start(t.Context(), Config{
		Upstream: upstream.Config{Bootstrap: fake.ListenAddrs(), SASL: user}, Listen: "127.0.0.1:0", AutoCreate: true,
		Log: slog.New(slog.NewTextHandler(log, nil)), Limits: Limits{Authorization: 50 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = gw.Shutdown(context.Background()) }()
	as := func(name, pass string) *kgo.Client {
		opt := kgo.SASL(plain.Auth{User: name, Pass: pass}.AsMechanism())
		if name == "tandem" {
			opt = kgo.SASL(scram.Auth{User: name, Pass: pass}.AsSha256Mechanism())
		}
		c, err := kgo.NewClient(kgo.SeedBrokers(gw.Addr()), opt, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	admin := as("tandem", "secret")
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 5000
	for _, name := range []string{"orders", "secret"} {
		ct := kmsg.NewCreateTopicsRequestTopic()
		ct.Topic, ct.NumPartitions, ct.ReplicationFactor = name, 1, 1
		create.Topics = append(create.Topics, ct)
	}
	if _, err := create.RequestWith(t.Context(), admin); err != nil {
		t.Fatal(err)
	}
	if err := admin.ProduceSync(t.Context(), record("orders", "v")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	metadata := func(c *kgo.Client, name string) error {
		req := kmsg.NewPtrMetadataRequest()
		req.AllowAutoTopicCreation = true
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, rt)
		resp, err := req.RequestWith(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	denied := kerr.TopicAuthorizationFailed
	nobody, half, reader := as("nobody", "n"), as("half", "h"), as("reader", "r")
	for _, name := range []string{"orders.view8", "secret.view8", "missing.view8"} {
		if err := metadata(nobody, name); !errors.Is(err, denied) {
			t.Errorf("nobody asks for %s: %v", name, err)
		}
	}
	if err := metadata(half, "orders.view4"); !errors.Is(err, denied) {
		t.Errorf("who may only describe the source asks for its view: %v", err)
	}
	if gw.views.Name("orders.view4") != nil {
		t.Error("it was made")
	}
	if err := metadata(reader, "orders.view4"); err != nil {
		t.Fatalf("the reader: %v", err)
	}
	v := gw.views.Name("orders.view4")
	fetch := func(c *kgo.Client) (bytes int, err error) {
		for p := range int32(4) {
			kresp, ferr := c.Broker(0).Request(t.Context(), fetchOf(13, "orders.view4", p, 0, v.BackingID))
			if ferr != nil {
				t.Fatal(ferr)
			}
			rp := kresp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
			bytes += len(rp.RecordBatches)
			err = errors.Join(err, kerr.ErrorForCode(rp.ErrorCode))
		}
		return bytes, err
	}
	if n, err := fetch(reader); n == 0 || err != nil {
		t.Errorf("the reader gets %d bytes, %v", n, err)
	}
	for name, c := range map[string]*kgo.Client{"nobody": nobody, "half": half} {
		if n, err := fetch(c); n != 0 || !errors.Is(err, denied) {
			t.Errorf("%s gets %d bytes, %v", name, n, err)
		}
	}
	// The right is taken away: the shared data stops on the open connection.
	deny := kmsg.NewPtrCreateACLsRequest()
	dc := kmsg.NewCreateACLsRequestCreation()
	dc.ResourceType, dc.ResourceName, dc.ResourcePatternType = topic, "orders", kmsg.ACLResourcePatternTypeLiteral
	dc.Principal, dc.Host, dc.Operation, dc.PermissionType = "User:reader", "*", read, kmsg.ACLPermissionTypeDeny
	deny.Creations = append(deny.Creations, dc)
	if _, err := deny.RequestWith(t.Context(), admin); err != nil {
		t.Fatal(err)
	}
	until(t, func() error {
		if n, err := fetch(reader); n != 0 || !errors.Is(err, denied) {
			return errString("the reader still reads")
		}
		return nil
	})
}
