package commits

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/client/internal/gatewaytest"
	"github.com/tandem-kafka/tandem/internal/gateway"
	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/tandem-kafka/tandem/tandemmsg"
)

// refused checks that nothing individual is sent, and that the group keeps its offset.
func refused(t *testing.T, c *Commits, w *gatewaytest.World) {
	t.Helper()
	for _, e := range []Entry{entry("orders", nil, 50), entry("orders", nil, -1, 60, 69), entry("orders", halves[0], 50, 60, 69)} {
		if errs := c.Commit(soon(t), NoMember, []Entry{e}); errs == nil || !errors.Is(errs[0], ErrUnsupported) || Classify(errs[0]) != Fatal {
			t.Errorf("%+v: %v", e, errs)
		}
	}
	if _, err := c.Fetch(soon(t), []Partition{part("orders", nil)}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("Fetch: %v", err)
	}
	if at := row(t, w, "orders"); at != 42 {
		t.Errorf("the cluster has %d", at)
	}
}

func TestAnUnmodifiedBroker(t *testing.T) {
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 1)
	setRow(t, w, "orders", 42)
	c := guarded(t, w.Direct)
	refused(t, c, w)
	if f, err := c.Features(soon(t)); err != nil || f.IndividualCommit {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestAGatewayThatHasThemOff(t *testing.T) {
	w := gatewaytest.Start(t, func(c *gateway.Config) { c.IndividualCommits = false })
	w.Topic("orders", 1)
	setRow(t, w, "orders", 42)
	refused(t, guarded(t, w.Client), w)
}

// The gateway goes, and metadata leads the client to the brokers themselves; when it is back, all is well.
func TestTheClientFailsOver(t *testing.T) {
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 1)
	c := guarded(t, w.Client)
	commit(t, c, entry("orders", nil, 42))
	if err := c.client.UpdateSeedBrokers(w.Fake.ListenAddrs()...); err != nil {
		t.Fatal(err)
	}
	w.Stop()
	for ctx := soon(t); ; {
		if ctx.Err() != nil {
			t.Fatal("it was led nowhere")
		}
		errs := c.Commit(soon(t), NoMember, []Entry{entry("orders", nil, 50, 60, 69)})
		if errs == nil {
			t.Fatal("committed without a gateway")
		}
		if errors.Is(errs[0], ErrUnsupported) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	refused(t, c, w)
}

// An address leads elsewhere with the next connection, after the coordinator was looked at: only the connection itself can tell.
func TestTheConnectionLeadsElsewhere(t *testing.T) {
	for name, what := range map[string]func(*Commits) error{
		"ranges": func(c *Commits) error {
			return c.Commit(soon(t), NoMember, []Entry{entry("orders", nil, -1, 60, 69)})[0]
		},
		"watermark": func(c *Commits) error { return c.Commit(soon(t), NoMember, []Entry{entry("orders", nil, 50)})[0] },
		"fetch": func(c *Commits) error {
			_, err := c.Fetch(soon(t), []Partition{part("orders", nil)})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := gatewaytest.Start(t, nil)
			w.Topic("orders", 1)
			d := divert{to: make(map[string]string)}
			c := guarded(t, w.Client, kgo.Dialer(d.dial))
			commit(t, c, entry("orders", nil, 42))
			d.to = addresses(t, c.client, w.Direct())
			if c.found == nil || !c.found.features.IndividualCommit {
				t.Fatal("it has not looked at the coordinator")
			}
			sent := w.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit, kmsg.OffsetFetch}, Observe: true, Count: -1})
			d.now()
			if err := what(c); !errors.Is(err, ErrUnsupported) {
				t.Errorf("%v", err)
			}
			if n := sent.Hits(); n != 0 {
				t.Errorf("%d requests reached the broker", n)
			}
			if at := row(t, w, "orders"); at != 42 {
				t.Errorf("the cluster has %d", at)
			}
		})
	}
}

// divert is a dialer that leads elsewhere from some moment on.
type divert struct {
	mu       sync.Mutex
	to       map[string]string
	diverted bool
	conns    []net.Conn
}

func (d *divert) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if to, ok := d.to[address]; ok && d.diverted {
		address = to
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		d.conns = append(d.conns, conn)
	}
	return conn, err
}

// now diverts, and ends the connections that there are.
func (d *divert) now() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.diverted = true
	for _, conn := range d.conns {
		conn.Close()
	}
}

// addresses are those of the brokers as one client knows them, and another.
func addresses(t *testing.T, from, to *kgo.Client) map[string]string {
	t.Helper()
	known := make(map[string]string)
	var all [2]map[int32]string
	for i, c := range []*kgo.Client{from, to} {
		resp, err := kmsg.NewPtrMetadataRequest().RequestWith(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = make(map[int32]string)
		for _, b := range resp.Brokers {
			all[i][b.NodeID] = address(b)
		}
	}
	for id, a := range all[0] {
		known[a] = all[1][id]
	}
	return known
}

func address(b kmsg.MetadataResponseBroker) string {
	return net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
}

func TestTheGuardIsNeeded(t *testing.T) {
	w := gatewaytest.Start(t, nil)
	c := New(w.Client(), new(Guard), group)
	if errs := c.Commit(soon(t), NoMember, []Entry{entry("orders", nil, 5)}); errs == nil || Classify(errs[0]) != Fatal {
		t.Error(errs)
	}
}

// The guard keeps a dialer and TLS as they were set.
func TestGuardOverTLS(t *testing.T) {
	cert := httptest.NewTLSServer(nil) // has one for 127.0.0.1
	defer cert.Close()
	w := gatewaytest.Start(t, func(c *gateway.Config) { c.TLS = &tls.Config{Certificates: cert.TLS.Certificates} })
	w.Topic("orders", 1)
	roots := x509.NewCertPool()
	roots.AddCert(cert.Certificate())
	c := guarded(t, w.Client, kgo.DialTLSConfig(&tls.Config{RootCAs: roots}), kgo.ConsumerGroup("other"), kgo.ConsumeTopics("orders"))
	commit(t, c, entry("orders", nil, 5, 7, 7))
	want(t, c, part("orders", nil), "5 [00000000-ffffffff] [[7-7]]")
	if _, err := new(Guard).Opts(kgo.MaxBufferedRecords(-1)); err == nil {
		t.Error("options that are not valid are no error")
	}
}

// wired is a conn whose peer answers what it is told to.
type wired struct {
	net.Conn
	answers bytes.Buffer
	step    int // most bytes of a read
	sent    bytes.Buffer
}

func (w *wired) Read(p []byte) (int, error) {
	return w.answers.Read(p[:min(len(p), w.step)])
}

func (w *wired) Write(p []byte) (int, error) { return w.sent.Write(p) }

func versionsAnswer(version int16, f tandemmsg.Features, code int16) []byte {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version, resp.ErrorCode = version, code
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MaxVersion = wire.APIVersions, 4
	resp.ApiKeys = append(resp.ApiKeys, k)
	tandemmsg.SetFeatures(resp, f)
	return wire.AppendResponse(nil, 1, resp)
}

func individual(version int16) []byte {
	req := kmsg.NewPtrOffsetCommitRequest()
	p, rt := kmsg.NewOffsetCommitRequestTopicPartition(), kmsg.NewOffsetCommitRequestTopic()
	if err := tandemmsg.WriteCommit(&p, tandemmsg.Commit{Offsets: []tandemmsg.OffsetRange{{First: 1, Last: 2}}, Watermark: -1}); err != nil {
		panic(err)
	}
	rt.Topic, rt.Partitions = "orders", append(rt.Partitions, p)
	req.Topics, req.Version = append(req.Topics, rt), version
	return wire.AppendRequest(nil, 2, nil, req)
}

func text() []byte {
	req := kmsg.NewPtrOffsetCommitRequest()
	p, rt := kmsg.NewOffsetCommitRequestTopicPartition(), kmsg.NewOffsetCommitRequestTopic()
	if err := tandemmsg.WriteCommitText(&p, tandemmsg.Commit{Offsets: []tandemmsg.OffsetRange{{First: 1, Last: 2}}, Watermark: -1}); err != nil {
		panic(err)
	}
	rt.Topic, rt.Partitions = "orders", append(rt.Partitions, p)
	req.Topics, req.Version = append(req.Topics, rt), 5
	return wire.AppendRequest(nil, 2, nil, req)
}

func ordinary(version int16) []byte {
	req := kmsg.NewPtrOffsetCommitRequest()
	p, rt := kmsg.NewOffsetCommitRequestTopicPartition(), kmsg.NewOffsetCommitRequestTopic()
	p.Offset = 5
	rt.Topic, rt.Partitions = "orders", append(rt.Partitions, p)
	req.Topics, req.Version = append(req.Topics, rt), version
	return wire.AppendRequest(nil, 2, nil, req)
}

func ask(version int16) []byte {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = version
	return wire.AppendRequest(nil, 1, nil, req)
}

// What leaves on a connection depends on what its broker said, in however many pieces that came.
func TestConnections(t *testing.T) {
	all := tandemmsg.Features{IndividualCommit: true, KeyRangeFetch: true}
	tooNew := versionsAnswer(0, tandemmsg.Features{}, kerr.UnsupportedVersion.Code)
	for name, c := range map[string]struct {
		asked   [][]byte
		answers []byte
		request []byte
		ok      bool
	}{
		"it knows them":                     {[][]byte{ask(3)}, versionsAnswer(3, all, 0), individual(8), true},
		"it knows others":                   {[][]byte{ask(3)}, versionsAnswer(3, tandemmsg.Features{KeyRangeFetch: true}, 0), individual(8), false},
		"it knows none":                     {[][]byte{ask(3)}, versionsAnswer(3, tandemmsg.Features{}, 0), individual(9), false},
		"it is old":                         {[][]byte{ask(0)}, versionsAnswer(0, tandemmsg.Features{}, 0), individual(8), false},
		"no version with room for them":     {[][]byte{ask(3)}, versionsAnswer(3, all, 0), individual(7), false},
		"as text":                           {[][]byte{ask(3)}, versionsAnswer(3, all, 0), text(), false},
		"as text, and it knows none":        {[][]byte{ask(3)}, versionsAnswer(3, tandemmsg.Features{}, 0), text(), false},
		"asked twice":                       {[][]byte{ask(5), ask(4)}, append(tooNew, versionsAnswer(4, all, 0)...), individual(8), true},
		"asked twice for none":              {[][]byte{ask(5), ask(4)}, append(tooNew, versionsAnswer(4, tandemmsg.Features{}, 0)...), individual(8), false},
		"it was not asked":                  {nil, nil, individual(8), false},
		"an answer to a question not asked": {[][]byte{ordinary(8)}, versionsAnswer(3, all, 0), individual(8), false},
		"nonsense":                          {[][]byte{ask(3)}, []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), individual(8), false},
		"an ordinary commit":                {[][]byte{ask(3)}, versionsAnswer(3, tandemmsg.Features{}, 0), ordinary(8), true},
		"an old ordinary commit":            {[][]byte{ask(3)}, versionsAnswer(3, all, 0), ordinary(2), true},
		"without its beginning":             {[][]byte{ask(3)}, versionsAnswer(3, tandemmsg.Features{}, 0), individual(8)[:6], false},
		"without its end":                   {[][]byte{ask(3)}, versionsAnswer(3, tandemmsg.Features{}, 0), individual(8)[:60], false},
		"behind another":                    {[][]byte{ask(3)}, versionsAnswer(3, tandemmsg.Features{}, 0), append(ordinary(8), individual(8)...), false},
	} {
		for _, step := range []int{1, 7, 1 << 20} {
			w := &wired{step: step}
			g := new(Guard)
			conn, err := g.Dial(func(context.Context, string, string) (net.Conn, error) { return w, nil })(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			for _, asked := range c.asked {
				if _, err := conn.Write(asked); err != nil {
					t.Fatal(name, err)
				}
			}
			w.sent.Reset()
			w.answers.Write(c.answers)
			if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, c.answers) {
				t.Fatalf("%s: the answer has %d bytes, not %d: %v", name, len(got), len(c.answers), err)
			}
			n, err := conn.Write(c.request)
			if ok := err == nil; ok != c.ok || !ok && (!errors.Is(err, ErrUnsupported) || n != 0) {
				t.Errorf("%s: %d, %v", name, n, err)
			}
			if sent := w.sent.Bytes(); c.ok != bytes.Equal(sent, c.request) || !c.ok && len(sent) > 0 {
				t.Errorf("%s: %d bytes were sent", name, len(sent))
			}
		}
	}
}

// Whatever is written and read, nothing with additions passes to a broker that did not say that it knows them, and nothing is changed.
func FuzzConn(f *testing.F) {
	f.Add(append(ask(3), individual(8)...), versionsAnswer(3, tandemmsg.Features{IndividualCommit: true}, 0))
	f.Add(individual(8), []byte{0, 0, 0, 1})
	f.Add([]byte{0, 0, 0, 0, 0, 8, 0, 8}, []byte{0})
	f.Add(text(), []byte{0xff, 0xff, 0xff, 0xff, 0})
	f.Fuzz(func(t *testing.T, request, answer []byte) {
		w := &wired{step: 5}
		w.answers.Write(answer)
		c := &conn{Conn: w}
		if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, answer) {
			t.Fatalf("%d bytes were read, not %d: %v", len(got), len(answer), err)
		}
		known := strings.Contains(string(answer), tandemmsg.FeatureIndividualCommit)
		_, err := c.Write(request)
		if err == nil && !bytes.Equal(w.sent.Bytes(), request) {
			t.Fatal("it was changed")
		}
		if err == nil && !known && bytes.Equal(request, individual(8)) {
			t.Fatal("it passed")
		}
	})
}
