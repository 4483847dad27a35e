package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// client makes a franz-go client with default settings and opts.
func client(addr string, opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(strings.Split(addr, ",")...), kgo.ClientID("bench"), kgo.UnknownTopicRetries(20)}, opts...)...)
}

// through makes a client reach every broker by one address.
func through(addr string) kgo.Opt {
	return kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	})
}

// topic creates a topic on the broker and waits until it can be used.
func (b *bench) topic(name string, partitions int) error {
	k, err := b.broker()
	if err != nil {
		return err
	}
	cl, err := client(k.addr)
	if err != nil {
		return err
	}
	defer cl.Close()
	if _, err = kadm.NewClient(cl).CreateTopic(b.ctx, int32(partitions), 1, nil, name); err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	return b.awaitPartitions(k.addr, name, partitions)
}

func (b *bench) dropTopics(names ...string) {
	cl, err := client(b.kafka.addr)
	if err != nil {
		return
	}
	defer cl.Close()
	_, _ = kadm.NewClient(cl).DeleteTopics(b.ctx, names...)
}

// awaitPartitions waits until a topic or view shows its partitions at addr.
func (b *bench) awaitPartitions(addr, topic string, partitions int) error {
	cl, err := client(addr, kgo.AllowAutoTopicCreation())
	if err != nil {
		return err
	}
	defer cl.Close()
	// Deleting a view of 2,048 partitions keeps a broker busy for a while.
	for deadline := time.Now().Add(3 * time.Minute); ; {
		topics, err := kadm.NewClient(cl).ListTopics(b.ctx, topic)
		if err == nil && len(topics[topic].Partitions) == partitions {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s at %s has %d partitions, want %d (%w)", topic, addr, len(topics[topic].Partitions), partitions, errors.Join(err, topics[topic].Err))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// view makes the view topic.viewN by asking the gateway for it.
func (b *bench) view(gateway, source string, partitions int) (string, error) {
	name := fmt.Sprintf("%s.view%d", source, partitions)
	return name, b.awaitPartitions(gateway, name, partitions)
}

// data says what fill writes.
type data struct {
	records int
	bytes   int // of a value
	keys    int // 0: no keys, round robin
	codec   kgo.CompressionCodec
}

// value is bytes that compress to about half: random hexadecimal digits.
func value(r *rand.Rand, n int) []byte {
	const digits = "0123456789abcdef"
	v := make([]byte, n)
	for i := 0; i < n; i += 16 {
		x := r.Uint64()
		for j := i; j < min(n, i+16); j++ {
			v[j] = digits[x&15]
			x >>= 4
		}
	}
	return v
}

// fill writes records to a topic. Equal data gives equal records, whatever the topic.
func (b *bench) fill(addr, topic string, d data, opts ...kgo.Opt) error {
	if d.codec == (kgo.CompressionCodec{}) {
		d.codec = kgo.NoCompression()
	}
	cl, err := client(addr, append([]kgo.Opt{kgo.ProducerBatchCompression(d.codec), kgo.MaxBufferedRecords(20_000)}, opts...)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	r := rand.New(rand.NewPCG(1, 2))
	values := make([][]byte, 1000)
	for i := range values {
		values[i] = value(r, d.bytes)
	}
	var mu sync.Mutex
	var failed error
	for range d.records {
		rec := &kgo.Record{Topic: topic, Value: values[r.IntN(len(values))]}
		if d.keys > 0 {
			rec.Key = key(r.IntN(d.keys))
		}
		cl.Produce(b.ctx, rec, func(_ *kgo.Record, err error) {
			if err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
		})
	}
	if err := cl.Flush(b.ctx); err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	return failed
}

func key(n int) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, 8), uint64(n)*0x9e3779b97f4a7c15)
}
