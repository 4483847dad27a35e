package cases

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// unknownVersion is a version of any API that nobody knows yet.
const unknownVersion = 90

// raw sends a request of which only the header can be read, and returns the answer; nil where the connection was closed.
func raw(c net.Conn, key, version int16) ([]byte, error) {
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	defer func() { _ = c.SetDeadline(time.Time{}) }()
	req := binary.BigEndian.AppendUint16(nil, uint16(key))
	req = binary.BigEndian.AppendUint16(req, uint16(version))
	req = append(req, 0, 0, 0, 7, 0xff, 0xff, 0, 1, 2, 3) // correlation id, no client id, and what nobody can read
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(req))), req...)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err == io.EOF {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(c, b)
	return b, err
}

// refused checks the answer to ApiVersions in a version of the future: version 0, UNSUPPORTED_VERSION, and the range to choose from
// (KIP-511).
func refused(answer []byte) error {
	resp := kmsg.NewPtrApiVersionsResponse()
	if len(answer) < 4 || binary.BigEndian.Uint32(answer) != 7 {
		return fmt.Errorf("answer to ApiVersions v%d: %x", unknownVersion, answer)
	}
	if err := resp.ReadFrom(answer[4:]); err != nil {
		return err
	}
	for _, k := range resp.ApiKeys {
		if k.ApiKey == int16(kmsg.ApiVersions) && k.MinVersion == 0 && k.MaxVersion >= 3 && resp.ErrorCode == 35 {
			return nil
		}
	}
	return fmt.Errorf("answer to ApiVersions v%d: %+v", unknownVersion, resp)
}

// A client newer than the gateway: it begins each connection with a version of ApiVersions that the gateway does not know, is told the
// range, and works (case V17).
func TestClientNewerThanTheGateway(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		source, view := e.source(t, 2, 8)
		group, l := harness.Name(t, "group"), harness.NewLedger()
		var connections atomic.Int32
		future := kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			connections.Add(1)
			answer, err := raw(c, int16(kmsg.ApiVersions), unknownVersion)
			if err == nil {
				err = refused(answer)
			}
			if err != nil {
				t.Error(err)
			}
			return c, nil // from here on it is franz-go's, which asks in the version that both know
		})
		harness.Produce(t, e.gateway.Bootstrap, l, harness.Production{Topic: source, Records: 500, Keys: 50, Opts: []kgo.Opt{future}})
		c := e.consumer(group, "member", view)
		c.Opts = append(c.Opts, future)
		m := harness.Consume(t, l, c)
		l.AwaitDone(t, 15*time.Second)
		m.Close()
		l.Check(t, harness.View(2, 4))
		if n := connections.Load(); n < 3 {
			t.Errorf("only %d connections were made in the new way", n)
		}
	})
}

// Versions and APIs that were never offered: that connection is closed, as a broker does it, and no other (case V17).
func TestVersionsThatWereNotOffered(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		for _, r := range [][2]int16{{3, unknownVersion}, {1, unknownVersion}, {0, unknownVersion}, {8, unknownVersion}, {1000, 0}, {-1, 0}} {
			c, err := net.Dial("tcp", e.gateway.Bootstrap)
			if err != nil {
				t.Fatal(err)
			}
			if answer, err := raw(c, r[0], r[1]); answer != nil || err != nil {
				t.Errorf("key %d version %d: %x, %v in place of the connection's end", r[0], r[1], answer, err)
			}
			_ = c.Close()
		}
		if _, err := harness.AdminClient(t, e.gateway.Bootstrap).ListBrokers(harness.Context(t, 10*time.Second)); err != nil {
			t.Errorf("the gateway does not work any more: %v", err)
		}
	})
}

// A broker newer than the gateway: it offers higher versions of everything, and an API that the gateway has never heard of. Clients are not
// told of them, none of them is ever used, and all works (case V17).
func TestBrokerNewerThanTheGateway(t *testing.T) {
	t.Parallel()
	harness.Need(t)
	const futureAPI = 900
	cluster, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "1000"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	now, err := kmsg.NewPtrApiVersionsRequest().RequestWith(harness.Context(t, 10*time.Second), harness.Client(t, cluster.ListenAddrs()[0]))
	if err != nil {
		t.Fatal(err)
	}
	highest := map[int16]int16{}
	for _, k := range now.ApiKeys {
		highest[k.ApiKey] = k.MaxVersion
	}
	var past sync.Map // API -> version, where a request came that nobody at that time can have known
	cluster.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if limit, ok := highest[req.Key()]; !ok || req.GetVersion() > limit {
			past.Store(req.Key(), req.GetVersion())
		}
		return nil, nil, false
	})
	cluster.ControlKey(int16(kmsg.ApiVersions), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		resp := kreq.ResponseKind().(*kmsg.ApiVersionsResponse)
		for _, k := range now.ApiKeys {
			if known := kmsg.RequestForKey(k.ApiKey); known != nil && k.MaxVersion == known.MaxVersion() {
				k.MaxVersion += 3 // what this engine knows of it is all that anybody knows
			}
			resp.ApiKeys = append(resp.ApiKeys, k)
		}
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MaxVersion = futureAPI, 2
		resp.ApiKeys = append(resp.ApiKeys, k)
		return resp, nil, true
	})
	bootstrap := strings.Join(cluster.ListenAddrs(), ",")
	e := engine{name: "newer", gateway: harness.StartGateway(t, harness.GatewayConfig{Kafka: bootstrap}), kafka: bootstrap}

	client := harness.Client(t, e.gateway.Bootstrap)
	ask := kmsg.NewPtrApiVersionsRequest()
	ask.ClientSoftwareName, ask.ClientSoftwareVersion = "test", "1"
	offered, err := ask.RequestWith(harness.Context(t, 10*time.Second), client)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range offered.ApiKeys {
		if limit, ok := highest[k.ApiKey]; !ok || k.MaxVersion > limit {
			t.Errorf("clients are offered API %d up to version %d", k.ApiKey, k.MaxVersion)
		}
	}
	if len(offered.ApiKeys) < 40 {
		t.Errorf("only %d APIs are offered", len(offered.ApiKeys))
	}

	source, view := e.source(t, 2, 8)
	group, l := harness.Name(t, "group"), harness.NewLedger()
	harness.Produce(t, e.gateway.Bootstrap, l, harness.Production{Topic: source, Records: 1000, Keys: 50})
	for i := range 2 {
		harness.Consume(t, l, e.consumer(group, fmt.Sprintf("member-%d", i), view))
	}
	l.AwaitDone(t, 20*time.Second)
	l.Check(t, harness.View(2, 4))
	awaitNoLag(t, e.gateway.Bootstrap, group, view, 10*time.Second)
	past.Range(func(key, version any) bool {
		t.Errorf("the broker got API %d version %d", key, version)
		return true
	})
}
