package gateway

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/upstream"
	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// logBuffer collects what a gateway logs.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// world is a gateway in front of an in-process cluster.
type world struct {
	t     *testing.T
	fake  *kfake.Cluster
	gw    *Gateway
	log   *logBuffer
	admin *kadm.Client // through the gateway

	inProcess bool // the gateway has no ports
}

func newWorld(t *testing.T, change func(*Config), opts ...kfake.Opt) *world {
	t.Helper()
	return startWorld(t, change, false, opts...)
}

func startWorld(t *testing.T, change func(*Config), inProcess bool, opts ...kfake.Opt) *world {
	t.Helper()
	fake, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(2)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	w := &world{t: t, fake: fake, log: &logBuffer{}, inProcess: inProcess}
	cfg := Config{
		Upstream: upstream.Config{Bootstrap: fake.ListenAddrs()}, Listen: "127.0.0.1:0", AutoCreate: true,
		Log: slog.New(slog.NewTextHandler(w.log, nil)),
	}
	start := Start
	if inProcess {
		start, cfg.Listen = StartInProcess, ""
	}
	if change != nil {
		change(&cfg)
	}
	if w.gw, err = start(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = w.gw.Shutdown(ctx)
		if t.Failed() {
			t.Log(w.log.String())
		}
	})
	w.admin = kadm.NewClient(w.client())
	return w
}

// client is a kgo client that knows the gateway only.
func (w *world) client(opts ...kgo.Opt) *kgo.Client {
	w.t.Helper()
	base := []kgo.Opt{kgo.SeedBrokers(w.gw.Addr()), kgo.FetchMaxWait(200 * time.Millisecond)}
	if w.inProcess {
		base = append(base, kgo.SeedBrokers(w.gw.Seed()...), kgo.Dialer(w.gw.Dial))
	}
	c, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

func (w *world) topic(name string, partitions int32) {
	w.t.Helper()
	if _, err := w.admin.CreateTopic(w.t.Context(), partitions, 1, nil, name); err != nil {
		w.t.Fatal(err)
	}
}

// config is the value of a topic's config.
func (w *world) config(topic, name string) string {
	w.t.Helper()
	rs, err := w.admin.DescribeTopicConfigs(w.t.Context(), topic)
	if err != nil || len(rs) != 1 || rs[0].Err != nil {
		w.t.Fatalf("configs of %s: %+v, %v", topic, rs, err)
	}
	for _, k := range rs[0].Configs {
		if k.Key == name {
			return k.MaybeValue()
		}
	}
	return ""
}

// produce writes n keyed records to a topic through the gateway.
func (w *world) produce(topic string, n int) {
	w.t.Helper()
	c := w.client()
	for i := range n {
		c.Produce(w.t.Context(), &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "value %d of a test, a text that can be compressed", i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				w.t.Error(err)
			}
		})
	}
	if err := c.Flush(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// raw is a bare connection to one of the gateway's ports.
type raw struct {
	t           *testing.T
	conn        net.Conn
	correlation int32
}

func (w *world) dial(broker int32) *raw {
	w.t.Helper()
	if w.inProcess {
		return w.dialInProcess(broker)
	}
	port := w.gw.ports.base
	if broker != anyBroker {
		p, err := w.gw.ports.ensure(w.t.Context(), broker)
		if err != nil {
			w.t.Fatal(err)
		}
		port = int(p)
	}
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.rawOf(conn)
}

func (w *world) dialInProcess(broker int32) *raw {
	w.t.Helper()
	addr := w.gw.Seed()[0]
	if broker != anyBroker {
		addr = net.JoinHostPort(brokerHost(broker), "9092")
	}
	conn, err := w.gw.Dial(w.t.Context(), "tcp", addr)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.rawOf(conn)
}

func (w *world) rawOf(conn net.Conn) *raw {
	w.t.Helper()
	w.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		w.t.Fatal(err)
	}
	return &raw{t: w.t, conn: conn}
}

func (r *raw) send(req kmsg.Request) int32 {
	r.t.Helper()
	r.correlation++
	if _, err := r.conn.Write(wire.AppendRequest(nil, r.correlation, kmsg.StringPtr("raw"), req)); err != nil {
		r.t.Fatal(err)
	}
	return r.correlation
}

// content reads one response frame without its size.
func (r *raw) content() []byte {
	r.t.Helper()
	content, err := readFrame(r.conn)
	if err != nil {
		r.t.Fatal(err)
	}
	return content
}

func (r *raw) ask(req kmsg.Request) kmsg.Response {
	r.t.Helper()
	want := r.send(req)
	content := r.content()
	if got := int32(be(content)); got != want {
		r.t.Fatalf("correlation id %d, want %d", got, want)
	}
	resp, err := wire.DecodeResponse(req.Key(), req.GetVersion(), content)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp
}
