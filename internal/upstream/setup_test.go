package upstream

import (
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// cluster is an in-process cluster and the gateway's view of it.
type cluster struct {
	*Cluster
	t    *testing.T
	fake *kfake.Cluster
	user *kadm.Client // past Cluster
	kgo  *kgo.Client
}

func newCluster(t *testing.T, opts ...kfake.Opt) *cluster {
	t.Helper()
	fake, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return &cluster{Cluster: open(t, Config{Bootstrap: fake.ListenAddrs()}), t: t, fake: fake, user: kadm.NewClient(cl), kgo: cl}
}

func open(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := Open(ctx, cfg, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (c *cluster) topic(name string, partitions int32) Topic {
	c.t.Helper()
	if _, err := c.user.CreateTopic(c.t.Context(), partitions, 1, nil, name); err != nil {
		c.t.Fatal(err)
	}
	topics, err := c.Topics(c.t.Context(), name)
	if err != nil {
		c.t.Fatal(err)
	}
	return topics[name]
}

func (c *cluster) produce(topic string, partition int32, values ...string) {
	c.t.Helper()
	for _, v := range values {
		if err := c.kgo.ProduceSync(c.t.Context(), &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)}).FirstErr(); err != nil {
			c.t.Fatal(err)
		}
	}
}

// silent is a listener that accepts and never answers.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}
