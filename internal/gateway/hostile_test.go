package gateway

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// observe counts requests without a fault.
func observe(keys ...kmsg.Key) kfake.Fault {
	return kfake.Fault{Keys: keys, Observe: true, Count: -1}
}

// closed waits for the gateway to end a connection.
func (r *raw) closed() {
	r.t.Helper()
	if n, err := r.conn.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		r.t.Fatalf("the connection is still open: %d bytes, %v", n, err)
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// shortIdle makes connections go soon.
func shortIdle(d time.Duration) func(*Config) {
	return func(c *Config) { c.Limits.Idle = d }
}

// A client that stops somewhere in a request.
func TestHalfARequestEndsItsConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shortIdle(300*time.Millisecond))
	whole := wire.AppendRequest(nil, 1, kmsg.StringPtr("half"), kmsg.NewPtrMetadataRequest())
	for _, n := range []int{0, 2, 4, 9, len(whole) - 1} {
		bad := w.dial(anyBroker)
		if _, err := bad.conn.Write(whole[:n]); err != nil {
			t.Fatal(err)
		}
		bad.closed()
	}
}

// A request that begins just before its connection has been idle for too long
// gets its own time to arrive.
func TestSlowRequestIsNoIdleConnection(t *testing.T) {
	t.Parallel()
	const idle = 1500 * time.Millisecond
	w := newWorld(t, shortIdle(idle))
	conn := w.dial(anyBroker)
	conn.ask(kmsg.NewPtrMetadataRequest())
	whole := wire.AppendRequest(nil, 9, nil, kmsg.NewPtrMetadataRequest())
	time.Sleep(idle * 2 / 3)
	for _, part := range [][]byte{whole[:6], whole[6:]} {
		if _, err := conn.conn.Write(part); err != nil {
			t.Fatal(err)
		}
		time.Sleep(idle / 2)
	}
	if got := be(conn.content()); got != 9 {
		t.Errorf("response %d", got)
	}
}

// A client that waits for a response is not idle: a rebalance may take longer.
func TestWaitingForTheBrokerIsNotIdle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shortIdle(200*time.Millisecond))
	conn := w.dial(0)
	wake := make(chan struct{})
	w.fake.ControlKey(int16(kmsg.ListGroups), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.fake.SleepControl(func() { <-wake })
		return nil, nil, false
	})
	id := conn.send(kmsg.NewPtrListGroupsRequest())
	time.AfterFunc(700*time.Millisecond, func() { close(wake) })
	if got := int32(be(conn.content())); got != id {
		t.Errorf("response %d", got)
	}
	conn.closed() // now it is
}

// A client that never reads loses its connection, whether the gateway or the
// broker answers, and holds up nobody else.
func TestClientThatNeverReads(t *testing.T) {
	w := newWorld(t, shortIdle(700*time.Millisecond))
	w.topic("orders", 1)
	big := strings.Repeat("x", 500_000)
	c := w.client()
	for range 20 {
		if err := c.ProduceSync(t.Context(), record("orders", big)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	v, err := w.gw.views.Create(t.Context(), "wide", "orders", 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		id   [16]byte
		part int32
	}{{"orders", w.fake.TopicInfo("orders").TopicID, 0}, {"wide", v.BackingID, 0}, {"wide", v.BackingID, 1}} {
		bad := w.dial(w.leader("orders", 0))
		_ = bad.conn.(*net.TCPConn).SetReadBuffer(4096)
		for range 6 {
			req := fetchOf(13, c.name, c.part, 0, c.id)
			req.MaxBytes, req.Topics[0].Partitions[0].PartitionMaxBytes = 10<<20, 10<<20
			bad.send(req)
		}
	}
	until(t, func() error { return w.onlyConns(3) }) // those of the clients that read
}

// onlyConns fails while more than n connections are open.
func (w *world) onlyConns(n int) error {
	w.gw.mu.Lock()
	defer w.gw.mu.Unlock()
	if len(w.gw.conns) > n {
		return errString("connections are open")
	}
	return nil
}

type errString string

func (e errString) Error() string { return string(e) }

// A Metadata request whose topics are two bytes each.
func manyTopics(n int) []byte {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	frame := wire.AppendRequest(nil, 1, nil, req)
	head := frame[: 4+10+1 : 4+10+1]
	body := binary.AppendUvarint(nil, uint64(n+1))
	body = append(body, bytes.Repeat([]byte{1, 0}, n)...) // empty names
	body = append(body, 0, 0, 0, 0)
	out := append(head, body...)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}

// Many connections with requests that decoding makes large: memory stays
// bounded, and a good client is served meanwhile.
func TestManyLargeRequests(t *testing.T) {
	w := newWorld(t, nil)
	w.topic("orders", 1)
	frame := manyTopics(maxDecoded/2 - 100)
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 40 {
		bad := w.dial(anyBroker)
		go func() {
			_, _ = bad.conn.Write(frame[:len(frame)-1]) // all but the last byte
		}()
	}
	good := w.dial(anyBroker)
	for range 50 {
		good.ask(kmsg.NewPtrMetadataRequest())
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		if grown := int64(now.HeapAlloc) - int64(before.HeapAlloc); grown > decodedRequests {
			t.Fatalf("the heap has grown by %d MB", grown>>20)
		}
		time.Sleep(2 * time.Millisecond)
	}
	huge := w.dial(anyBroker)
	if _, err := huge.conn.Write(manyTopics(maxDecoded)[:1000]); err != nil {
		t.Fatal(err)
	}
	huge.closed()
}

// A produce request to a view that is too large to be decoded is refused too.
func TestLargeProduceToAView(t *testing.T) {
	w, _ := viewWorld(t)
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, 1, 10_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = "wide"
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = make([]byte, maxDecoded+1)
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp := w.dial(w.leader("wide", 0)).ask(req).(*kmsg.ProduceResponse)
	if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 44 || p.ErrorMessage == nil {
		t.Errorf("%+v", p)
	}
}

// acks=0 has no answer, so that what comes behind it must not be shifted.
func TestProduceWithoutAcks(t *testing.T) {
	w, _ := viewWorld(t)
	conn := w.dial(w.leader("orders", 0))
	produce := func(topics ...string) *kmsg.ProduceRequest {
		req := kmsg.NewPtrProduceRequest()
		req.Version, req.Acks, req.TimeoutMillis = 9, 0, 1000
		for _, name := range topics {
			rt := kmsg.NewProduceRequestTopic()
			rt.Topic = name
			rp := kmsg.NewProduceRequestTopicPartition()
			rp.Records = batchOf("v")
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
		}
		return req
	}
	conn.send(produce("orders"))
	conn.send(produce("wide", "orders"))
	conn.ask(kmsg.NewPtrMetadataRequest())
	until(t, func() error {
		if end := w.end("orders", 0); end != 102 {
			return errString("not both records are there")
		}
		return nil
	})
	conn.send(produce("wide"))
	conn.closed() // as a broker does: the producer sees that something is wrong
}

// A SASL handshake of version 0 is followed by bytes without a frame header,
// which the gateway could not follow: it is not offered.
func TestOldSASLHandshakeIsNotOffered(t *testing.T) {
	w := newWorld(t, nil)
	conn := w.dial(anyBroker)
	for _, k := range conn.ask(kmsg.NewPtrApiVersionsRequest()).(*kmsg.ApiVersionsResponse).ApiKeys {
		if k.ApiKey == wire.SASLHandshake && k.MinVersion == 0 {
			t.Error("it is offered")
		}
	}
	conn.send(kmsg.NewPtrSASLHandshakeRequest())
	conn.closed()
}

// A client id as long as Kafka allows passes, or its connection ends; it never
// takes the gateway along.
func TestHugeClientID(t *testing.T) {
	w := newWorld(t, nil)
	for _, n := range []int{300, 10_000, 32_000} {
		conn := w.dial(anyBroker)
		id := strings.Repeat("c", n)
		if _, err := conn.conn.Write(wire.AppendRequest(nil, 3, &id, kmsg.NewPtrMetadataRequest())); err != nil {
			t.Fatal(err)
		}
		if n > bufferSize {
			conn.closed()
		} else if got := be(conn.content()); got != 3 {
			t.Errorf("%d bytes of client id: response %d", n, got)
		}
	}
	w.dial(anyBroker).ask(kmsg.NewPtrMetadataRequest())
}

func record(topic, value string) *kgo.Record {
	return &kgo.Record{Topic: topic, Value: []byte(value)}
}

// batchOf is a record batch with one record.
func batchOf(value string) []byte {
	r := kmsg.Record{Key: []byte("k"), Value: []byte(value)}
	r.Length = int32(len(r.AppendTo(nil)) - 1)
	b := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1, Records: r.AppendTo(nil)}
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// A defect that one connection runs into ends that connection only.
func TestPanicOfAHandlerEndsItsConnectionOnly(t *testing.T) {
	w := newWorld(t, nil)
	good := w.dial(anyBroker)
	const key = 71 // GetTelemetrySubscriptions
	if apis[key] != nil {
		t.Fatal("choose another API")
	}
	register(key, &api{decode: true, owns: func(*conn, kmsg.Request) (bool, error) { panic("a defect") }})
	defer delete(apis, key)
	bad := w.dial(anyBroker)
	bad.send(kmsg.NewPtrGetTelemetrySubscriptionsRequest())
	if n, err := bad.conn.Read(make([]byte, 1)); err == nil {
		t.Fatalf("%d bytes came back", n)
	}
	good.ask(kmsg.NewPtrMetadataRequest())
	if !strings.Contains(w.log.String(), "a defect") {
		t.Error("the log says nothing")
	}
}

// A client that resets its connection, as a process that crashes does, is nothing to warn of.
func TestAResetIsNoWarning(t *testing.T) {
	w := newWorld(t, nil)
	for _, sent := range []string{"", "\x00\x00\x00\x20\x00\x12"} { // between requests, and in the middle of one
		gone := w.dial(anyBroker)
		gone.ask(kmsg.NewPtrApiVersionsRequest())
		if _, err := io.WriteString(gone.conn, sent); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(gone.conn.(*net.TCPConn).SetLinger(0), gone.conn.Close()); err != nil {
			t.Fatal(err)
		}
	}
	until(t, func() error { return w.onlyConns(0) })
	if log := w.log.String(); strings.Contains(log, "level=WARN") {
		t.Errorf("the log warns:\n%s", log)
	}
}
