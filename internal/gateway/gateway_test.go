package gateway

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func be(b []byte) uint32 { return binary.BigEndian.Uint32(b) }

func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	content := make([]byte, be(head[:]))
	_, err := io.ReadFull(r, content)
	return content, err
}

// Every address that a client can learn is the gateway's.
func TestBrokersAreAdvertisedAsTheGateway(t *testing.T) {
	w := newWorld(t, nil)
	w.topic("orders", 4)
	conn := w.dial(anyBroker)
	meta := kmsg.NewPtrMetadataRequest()
	meta.Version = 12
	r := conn.ask(meta).(*kmsg.MetadataResponse)
	if len(r.Brokers) != 2 {
		t.Fatalf("%d brokers", len(r.Brokers))
	}
	for _, b := range r.Brokers {
		if want := int32(w.gw.ports.base) + 1 + b.NodeID; b.Host != "127.0.0.1" || b.Port != want {
			t.Errorf("broker %d is at %s:%d, want port %d", b.NodeID, b.Host, b.Port, want)
		}
	}
	for _, v := range []int16{0, 3, 6} {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.Version, find.CoordinatorKey, find.CoordinatorKeys = v, "g", []string{"g"}
		f := conn.ask(find).(*kmsg.FindCoordinatorResponse)
		port := f.Port
		if v >= 4 {
			port = f.Coordinators[0].Port
		}
		if port <= int32(w.gw.ports.base) || port > int32(w.gw.ports.base)+2 {
			t.Errorf("FindCoordinator v%d: port %d", v, port)
		}
	}
	cluster := conn.ask(kmsg.NewPtrDescribeClusterRequest()).(*kmsg.DescribeClusterResponse)
	for _, b := range cluster.Brokers {
		if b.Port != int32(w.gw.ports.base)+1+b.NodeID {
			t.Errorf("DescribeCluster: broker %d at port %d", b.NodeID, b.Port)
		}
	}
}

// Responses leave in the order of the requests, whoever answers them.
func TestPipelinedRequestsStayInOrder(t *testing.T) {
	w := newWorld(t, nil)
	w.topic("orders", 2)
	w.produce("orders", 50)
	if _, err := w.gw.views.Create(t.Context(), "orders.view4", "orders", 4); err != nil {
		t.Fatal(err)
	}
	conn := w.dial(0)
	var want []int32
	for range 20 {
		meta := kmsg.NewPtrMetadataRequest()
		meta.Version = 9
		want = append(want, conn.send(meta))
		lo := kmsg.NewPtrListOffsetsRequest()
		lo.Version = 7
		lt := kmsg.NewListOffsetsRequestTopic()
		lt.Topic = "orders.view4"
		lp := kmsg.NewListOffsetsRequestTopicPartition()
		lp.Timestamp = -1
		lt.Partitions = append(lt.Partitions, lp)
		lo.Topics = append(lo.Topics, lt)
		want = append(want, conn.send(lo))
		want = append(want, conn.send(kmsg.NewPtrApiVersionsRequest()))
	}
	for _, id := range want {
		if got := int32(be(conn.content())); got != id {
			t.Fatalf("response %d where %d was due", got, id)
		}
	}
}

// case V17: a client newer than the gateway, a broker newer than the gateway.
func TestUnknownVersionsAreHidden(t *testing.T) {
	w := newWorld(t, nil)
	conn := w.dial(anyBroker)
	r := conn.ask(kmsg.NewPtrApiVersionsRequest()).(*kmsg.ApiVersionsResponse)
	if len(r.ApiKeys) < 30 {
		t.Fatalf("only %d APIs are offered", len(r.ApiKeys))
	}
	for _, k := range r.ApiKeys {
		req := kmsg.RequestForKey(k.ApiKey)
		if req == nil || k.MaxVersion > req.MaxVersion() {
			t.Errorf("API %d up to v%d is offered", k.ApiKey, k.MaxVersion)
		}
	}
	// A future ApiVersions: a version 0 body that says what would do (KIP-511).
	frame := []byte{0, 0, 0, 11, 0, 18, 0, 99, 0, 0, 0, 5, 0xff, 0xff, 0}
	if _, err := conn.conn.Write(frame); err != nil {
		t.Fatal(err)
	}
	content := conn.content()
	var av kmsg.ApiVersionsResponse
	if err := av.ReadFrom(content[4:]); err != nil || be(content) != 5 {
		t.Fatalf("correlation %d, %v", be(content), err)
	}
	if av.ErrorCode != kerr.UnsupportedVersion.Code || len(av.ApiKeys) != 1 || av.ApiKeys[0].ApiKey != 18 {
		t.Fatalf("%+v", av)
	}
	if r := conn.ask(kmsg.NewPtrApiVersionsRequest()).(*kmsg.ApiVersionsResponse); r.ErrorCode != 0 {
		t.Fatal("the connection is no use any more")
	}
}

func TestHostileBytesCloseTheirConnectionOnly(t *testing.T) {
	w := newWorld(t, nil)
	w.topic("orders", 1)
	good := w.dial(anyBroker)
	for _, c := range []struct{ name, bytes, logged string }{
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00", "TLS handshake"},
		{"HTTP", "GET / HTTP/1.1\r\n\r\n", "HTTP"},
		{"huge", "\x7f\xff\xff\xff", "out of bounds"},
		{"tiny", "\x00\x00\x00\x01\x00", "out of bounds"},
		{"negative key", "\x00\x00\x00\x0a\xff\xff\x00\x00\x00\x00\x00\x01\xff\xff", "not a Kafka request header"},
		{"unknown key", "\x00\x00\x00\x0b\x27\x0f\x00\x00\x00\x00\x00\x01\xff\xff\x00", "was not offered"},
		{"cut body", "\x00\x00\x00\x0c\x00\x03\x00\x09\x00\x00\x00\x01\xff\xff\x00\x7f", "Metadata"},
		{"produce of nothing", "\x00\x00\x00\x0a\x00\x00\x00\x03\x00\x00\x00\x01\xff\xff", "without acks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := w.dial(anyBroker)
			if _, err := io.WriteString(bad.conn, c.bytes); err != nil {
				t.Fatal(err)
			}
			if n, err := bad.conn.Read(make([]byte, 100)); err == nil {
				t.Fatalf("%d bytes came back", n)
			}
			if !strings.Contains(w.log.String(), c.logged) {
				t.Errorf("the log does not say %q", c.logged)
			}
		})
	}
	good.ask(kmsg.NewPtrMetadataRequest())
}

func TestViewsAreMadeByAskingForThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.topic("orders", 4)
	ask := func(name string) kmsg.MetadataResponseTopic {
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.AllowAutoTopicCreation = 12, true
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, rt)
		resp := w.dial(anyBroker).ask(req).(*kmsg.MetadataResponse)
		if len(resp.Topics) != 1 {
			t.Fatalf("%s: %d topics answered", name, len(resp.Topics))
		}
		return resp.Topics[0]
	}
	if got := ask("orders.view16"); got.ErrorCode != 0 || len(got.Partitions) != 16 || got.TopicID == ([16]byte{}) {
		t.Errorf("orders.view16: %+v", got)
	}
	start := time.Now()
	if got := ask("orders.view6"); got.ErrorCode != kerr.InvalidTopicException.Code {
		t.Errorf("orders.view6: %v", kerr.ErrorForCode(got.ErrorCode))
	}
	if time.Since(start) < w.gw.cfg.Limits.HoldImpossible {
		t.Error("the answer to an impossible name was not held back")
	}
	if !strings.Contains(w.log.String(), "8") || !strings.Contains(w.log.String(), "orders.view6") {
		t.Error("the log does not say what would do")
	}
	for _, name := range []string{"nothing.view4", "orders.view16.view32"} {
		if got := ask(name); got.ErrorCode == 0 {
			t.Errorf("%s was made", name)
		}
	}
	topics, err := w.admin.ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if names := topics.Names(); slices.Contains(names, "nothing.view4") || slices.Contains(names, "orders.view6") {
		t.Errorf("the cluster has made a topic for a view that cannot be: %v", names)
	}
}

func TestAutoCreateHasALimit(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.AutoCreateMax = 16
		c.Views = map[string]ViewConfig{"orders.view64": {Source: "orders", Partitions: 64}}
	})
	w.topic("orders", 4)
	for name, want := range map[string]error{"orders.view16": nil, "orders.view32": kerr.InvalidTopicException, "orders.view64": nil} {
		meta, err := w.admin.Metadata(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if got := meta.Topics[name].Err; !errors.Is(got, want) {
			t.Errorf("%s: %v, not %v", name, got, want)
		}
	}
	if !strings.Contains(w.log.String(), "auto-create-max-partitions") {
		t.Error("the log does not name the setting")
	}
}

func TestAutoCreateCanBeSwitchedOff(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.AutoCreate = false })
	w.topic("orders", 4)
	meta, err := w.admin.Metadata(t.Context(), "orders.view16")
	if err != nil {
		t.Fatal(err)
	}
	if err := meta.Topics["orders.view16"].Err; !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Fatalf("%v", err)
	}
}

func TestWritesToAViewAreRefused(t *testing.T) {
	w := newWorld(t, nil)
	w.topic("orders", 1)
	c := w.client(kgo.RecordRetries(2))
	for _, topics := range [][]string{{"orders.view4"}, {"orders.view4", "orders"}} {
		var records []*kgo.Record
		for _, topic := range topics {
			records = append(records, &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("v")})
		}
		for _, r := range c.ProduceSync(t.Context(), records...) {
			want := error(nil)
			if r.Record.Topic == "orders.view4" {
				want = kerr.PolicyViolation
			}
			if !errors.Is(r.Err, want) {
				t.Errorf("%s: %v, want %v", r.Record.Topic, r.Err, want)
			}
		}
	}
	if !strings.Contains(w.log.String(), "produce to orders") {
		t.Error("the log does not say where to write")
	}
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.Version, req.TransactionalID = 3, "t"
	for _, topic := range []string{"orders", "orders.view4"} {
		rt := kmsg.NewAddPartitionsToTxnRequestTopic()
		rt.Topic, rt.Partitions = topic, []int32{0}
		req.Topics = append(req.Topics, rt)
	}
	resp := w.dial(0).ask(req).(*kmsg.AddPartitionsToTxnResponse)
	if resp.Topics[0].Partitions[0].ErrorCode != kerr.OperationNotAttempted.Code || resp.Topics[1].Partitions[0].ErrorCode != kerr.PolicyViolation.Code {
		t.Errorf("%+v", resp.Topics)
	}
}

// The backing topic refuses writes that go past the gateway, and still has room
// for a transaction's end marker.
func TestBackingTopicHasRoomForMarkersOnly(t *testing.T) {
	w := newWorld(t, nil)
	w.topic("orders", 1)
	if _, err := w.gw.views.Create(t.Context(), "wide", "orders", 8); err != nil {
		t.Fatal(err)
	}
	configs, err := w.admin.DescribeTopicConfigs(t.Context(), "wide")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range configs[0].Configs {
		if c.Key == "max.message.bytes" && c.MaybeValue() != "78" {
			t.Errorf("max.message.bytes is %s", c.MaybeValue())
		}
	}
}

func TestConsumerReadsAViewWithItsSourceOffsets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.topic("orders", 2)
	w.produce("orders", 500)
	c := w.client(kgo.ConsumeTopics("orders.view8"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	view := w.gw.views
	seen := map[string]bool{}
	for len(seen) < 500 {
		fs := c.PollFetches(t.Context())
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			d := view.Name("orders.view8")
			p, _, _ := d.Locate(r.Partition)
			if want := d.VirtualPartition(r.Key, r.Offset, p); r.Partition != want {
				t.Errorf("key %s is in virtual partition %d, want %d", r.Key, r.Partition, want)
			}
			if seen[string(r.Key)] {
				t.Errorf("key %s came twice", r.Key)
			}
			seen[string(r.Key)] = true
		})
	}
}

// Two gateways on one cluster find each other's views, at once.
func TestGatewaysShareViews(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.topic("orders", 1)
	w.produce("orders", 10)
	cfg := w.gw.cfg
	second, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Shutdown(context.Background()) }()
	if _, err := w.gw.views.Create(t.Context(), "wide", "orders", 4); err != nil {
		t.Fatal(err)
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(second.Addr()), kgo.ConsumeTopics("wide"), kgo.FetchMaxWait(200*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for n := 0; n < 10; {
		fs := c.PollFetches(t.Context())
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		n += fs.NumRecords()
	}
}

func TestLargeBrokerIDsGetTheSamePortEverywhere(t *testing.T) {
	w := newWorld(t, nil)
	if slot, err := w.gw.views.slot(t.Context(), 100001); err != nil || slot != 1001 {
		t.Fatalf("slot %d for the first large id, %v", slot, err)
	}
	other := newViews(w.gw) // as after a restart
	if err := other.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if slot, err := other.slot(t.Context(), 100001); err != nil || slot != 1001 {
		t.Errorf("slot %d, %v", slot, err)
	}
	if slot, err := other.slot(t.Context(), 7); err != nil || slot != 8 {
		t.Errorf("slot %d for broker 7, %v", slot, err)
	}
}

func TestShutdownDrains(t *testing.T) {
	w := newWorld(t, nil)
	w.topic("orders", 1)
	if _, err := w.gw.views.Create(t.Context(), "wide", "orders", 4); err != nil {
		t.Fatal(err)
	}
	idle := w.dial(0)
	idle.ask(kmsg.NewPtrMetadataRequest())
	conn := w.dial(0)
	fetch := fetchOf(12, "wide", 0, 0, [16]byte{})
	fetch.MaxWaitMillis = 60_000
	id := conn.send(fetch)
	waiting := func() bool { return w.gw.cache.Metrics().Waits.Load() > 0 }
	for deadline := time.Now().Add(10 * time.Second); !waiting(); {
		if time.Now().After(deadline) {
			t.Fatal("the long poll does not wait")
		}
	}
	start := time.Now()
	done := make(chan error, 1)
	go func() { done <- w.gw.Shutdown(context.Background()) }()
	if got := int32(be(conn.content())); got != id {
		t.Errorf("response %d", got)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("shutting down took %v", took)
	}
	if _, err := net.Dial("tcp", w.gw.Addr()); err == nil {
		t.Error("the port is still open")
	}
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	w := newWorld(t, nil)
	cfg := w.gw.cfg
	cfg.Listen = w.gw.Addr()
	if _, err := Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("busy port: %v", err)
	}
	cfg.Listen = "127.0.0.1"
	if _, err := Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "HOST:PORT") {
		t.Errorf("bad address: %v", err)
	}
	cfg.Listen, cfg.Upstream.Bootstrap = "127.0.0.1:0", []string{"127.0.0.1:1"}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, cfg); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("unreachable cluster: %v", err)
	}
}

// A view's source that grows, and one that is deleted and made anew.
func TestViewsFollowTheirSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Limits.RefreshTopics = 20 * time.Millisecond })
	w.topic("orders", 4)
	if _, err := w.gw.views.Create(t.Context(), "wide", "orders", 16); err != nil {
		t.Fatal(err)
	}
	old := w.gw.views.Name("wide").BackingID
	if _, err := w.admin.UpdatePartitions(t.Context(), 8, "orders"); err != nil {
		t.Fatal(err)
	}
	until(t, func() error {
		if v := w.gw.views.Name("wide"); v.Backing != 32 || v.SourcePartitions != 8 || v.Base != 4 {
			return fmt.Errorf("%+v", v)
		}
		return nil
	})
	if _, err := w.admin.DeleteTopic(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	until(t, func() error {
		meta, err := w.admin.Metadata(t.Context(), "wide")
		if err != nil {
			return err
		}
		if err := meta.Topics["wide"].Err; !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("view of a deleted source: %v", err)
		}
		return nil
	})
	w.topic("orders", 2)
	until(t, func() error {
		v := w.gw.views.Name("wide")
		if v == nil || v.SourcePartitions != 2 || v.Base != 2 || v.BackingID == old || v.Backing != 16 {
			return fmt.Errorf("%+v", v)
		}
		return nil
	})
}

func until(t *testing.T, done func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); {
		if err = done(); err == nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal(err)
}
