package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Answers that nobody reads hold up no other read, whatever carries them, and their clients get all of them when they read on.
func TestAnswersThatNobodyReadsHoldNoChunks(t *testing.T) {
	t.Parallel()
	cert, pool := certificate(t)
	for name, connect := range map[string]func() (server, client net.Conn){
		"plain": net.Pipe,
		"TLS": func() (server, client net.Conn) {
			a, b := net.Pipe()
			s, c := tls.Server(a, &tls.Config{Certificates: []tls.Certificate{cert}}), tls.Client(b, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
			done := make(chan error)
			go func() { done <- s.HandshakeContext(t.Context()) }()
			if err := c.HandshakeContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			return s, c
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const size = 100 << 10
			m, charged, _ := memoryFor(3 * size)
			w := ranged(t, nil)
			want := bytes.Repeat([]byte("0123456789"), size/10)
			var clients []net.Conn
			written := make(chan error, 3)
			for range 3 {
				k := &chunk{bytes: size}
				m.list(k, 0)
				server, client := connect()
				clients = append(clients, client)
				c := &conn{gw: w.gw, ctx: t.Context(), client: server}
				pins := []*chunk{k}
				release := func() {
					m.unpin(pins)
					pins = nil
				}
				go func() {
					err := c.writeHeld(net.Buffers{bytes.Clone(want[:1000]), bytes.Clone(want[1000:])}, size, m, release)
					release()
					written <- err
				}()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if err := m.reserve(ctx, 3*size); err != nil {
				t.Fatal("a read waits for those who do not read")
			}
			if m.unread.Load() == 0 || charged.Load() != m.usage()+m.unread.Load() || m.waits.Load() != 1 {
				t.Errorf("%d bytes are copied, and %d counted, and %d held", m.unread.Load(), charged.Load(), m.usage())
			}
			for _, client := range clients {
				got := make([]byte, len(want))
				if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, want) {
					t.Errorf("the answer is not what was sent: %v", err)
				}
			}
			for range clients {
				if err := <-written; err != nil {
					t.Error(err)
				}
			}
			if n := m.unread.Load(); n != 0 || charged.Load() != 3*size {
				t.Errorf("%d bytes count as copied, %d in all", n, charged.Load())
			}
		})
	}
}

// While much lies unread answers are small.
func TestAnswersAreSmallWhileMuchLiesUnread(t *testing.T) {
	m, _, _ := memoryFor(32 << 20)
	most := m.answerMost()
	_, done := m.own(net.Buffers{make([]byte, 33<<20)})
	if n := m.answerMost(); most != 8<<20 || n != tailBytes {
		t.Errorf("an answer may have %d bytes, then %d", most, n)
	}
	if done(); m.answerMost() != most {
		t.Error("what was read counts still")
	}
}

// Members that never read, of several groups, in little memory: another member goes on, and gets all.
func TestMembersThatNeverRead(t *testing.T) {
	t.Parallel()
	const stalled, records = 4, 800
	w := ranged(t, func(c *Config) { c.CooperativeFetch, c.Limits.CacheBytes = true, 4<<20 })
	topic, group := w.names()
	w.topic(topic, 1)
	c := w.client(kgo.ProducerBatchCompression(kgo.NoCompression()))
	for range records {
		c.Produce(t.Context(), &kgo.Record{Topic: topic, Value: bytes.Repeat([]byte("v"), 10_000)}, nil)
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	memory := w.gw.coop.memory
	for i := range stalled {
		m := w.cooperate(fmt.Sprint(group, i), topic)
		m.fetch(0) // its group does not rebalance any more
		r, was := m.send(time.Second), memory.unread.Load()
		for range 20 { // answers that lie in no buffer any more
			r.send(m.request(time.Second))
		}
		w.until("it does not read", func() bool { return memory.unread.Load() > was })
	}
	m := w.cooperate(group, topic)
	m.fetch(0)
	w.until("another gets all", func() bool {
		m.has = append(m.has, m.send(time.Second).givenOf()[0]...)
		n := int64(0)
		for _, r := range m.has {
			n += r.Last - r.First + 1
		}
		return n == records
	})
}
