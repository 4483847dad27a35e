// Package gatewaytest runs a gateway in front of an in-process cluster, for tests of the client.
package gatewaytest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/internal/gateway"
	"github.com/tandem-kafka/tandem/internal/upstream"
)

// World is a cluster of two brokers and a gateway that has all of its features on.
type World struct {
	T       testing.TB
	Fake    *kfake.Cluster
	Gateway *gateway.Gateway
	Config  gateway.Config // as it was started
	log     logBuffer
}

// Start starts a World, which ends with the test. change may change the gateway's config.
func Start(t testing.TB, change func(*gateway.Config), opts ...kfake.Opt) *World {
	t.Helper()
	fake, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(2)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	w := &World{T: t, Fake: fake}
	w.Config = gateway.Config{
		Upstream: upstream.Config{Bootstrap: fake.ListenAddrs()}, Listen: "127.0.0.1:0", AutoCreate: true,
		IndividualCommits: true, KeyRangeFetch: true, CooperativeFetch: true,
		Log: slog.New(slog.NewTextHandler(&w.log, nil)),
	}
	if change != nil {
		change(&w.Config)
	}
	if w.Gateway, err = gateway.Start(context.Background(), w.Config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Stop()
		if t.Failed() {
			t.Log(w.log.String())
		}
	})
	return w
}

// Stop stops the gateway.
func (w *World) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = w.Gateway.Shutdown(ctx)
}

// Client is a kgo client that knows the gateway only. It ends with the test.
func (w *World) Client(opts ...kgo.Opt) *kgo.Client {
	w.T.Helper()
	return w.client(append([]kgo.Opt{kgo.SeedBrokers(w.Gateway.Addr())}, opts...)...)
}

// Direct is a kgo client that knows the cluster's brokers only. It ends with the test.
func (w *World) Direct(opts ...kgo.Opt) *kgo.Client {
	w.T.Helper()
	return w.client(append([]kgo.Opt{kgo.SeedBrokers(w.Fake.ListenAddrs()...)}, opts...)...)
}

func (w *World) client(opts ...kgo.Opt) *kgo.Client {
	w.T.Helper()
	c, err := kgo.NewClient(opts...)
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(c.Close)
	return c
}

// Topic makes a topic.
func (w *World) Topic(name string, partitions int32) {
	w.T.Helper()
	if _, err := kadm.NewClient(w.Direct()).CreateTopic(context.Background(), partitions, 1, nil, name); err != nil {
		w.T.Fatal(err)
	}
}

// Produce writes n records with the keys k0, k1, ... to a topic, past the gateway, and waits until they are there.
func (w *World) Produce(topic string, n int, opts ...kgo.Opt) {
	w.T.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "value %d of a test, a text that can be compressed", i)}
	}
	w.ProduceRecords(records, opts...)
}

// ProduceRecords writes records past the gateway, and waits until they are there.
func (w *World) ProduceRecords(records []*kgo.Record, opts ...kgo.Opt) {
	w.T.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(w.Fake.ListenAddrs()...), kgo.DisableClientMetrics()}, opts...)...)
	if err != nil {
		w.T.Fatal(err)
	}
	defer c.Close()
	if err := c.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		w.T.Fatal(err)
	}
}

type logBuffer struct {
	mu  sync.Mutex
	buf []byte
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, p...)
	return len(p), nil
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.buf)
}
