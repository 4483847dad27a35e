package main

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// logBytes is the size of a topic's log on the broker.
func (b *bench) logBytes(topic string) (float64, error) {
	cl, err := client(b.kafka.addr)
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	dirs, err := kadm.NewClient(cl).DescribeAllLogDirs(b.ctx, kadm.TopicsSet{})
	if err != nil {
		return 0, err
	}
	sum := 0.0
	dirs.Each(func(d kadm.DescribedLogDir) {
		for _, p := range d.Topics[topic] {
			sum += float64(p.Size)
		}
	})
	return sum, nil
}

// tailTable shows how much is read from the broker, and how late records arrive, near the end of the log.
func tailTable(b *bench) (*result, error) {
	r := &result{Head: []string{"near the tail", "plain, direct", "plain, through the gateway", "view", "target"}}
	if err := b.tailBytes(r); err != nil {
		return nil, err
	}
	if err := b.tailLatency(r); err != nil {
		return nil, err
	}
	r.note("Bytes: all that the gateway reads from its sockets, clients' requests included, over what was appended to the log. " +
		"Latency: from before the producer's send to the consumer's poll, 200 records a second, each in a batch of its own, all sides at the same time and of the same records.")
	return r, nil
}

// tailBytes reads a topic that is being written with 1, 8 and 16 consumers.
func (b *bench) tailBytes(r *result) error {
	for _, members := range []int{1, 8, 16} {
		g, err := b.gateway()
		if err != nil {
			return err
		}
		defer g.stop()
		topic := b.name("tail")
		if err := b.topic(topic, 1); err != nil {
			return err
		}
		view, err := b.view(g.addr, topic, 16)
		if err != nil {
			return err
		}
		rate, seconds := 20_000, b.scaled(10, 2)
		done := make(chan error, 1)
		go func() {
			_, err := b.consume(g.addr, view, 16, members, rate*seconds)
			done <- err
		}()
		time.Sleep(time.Second)
		before := g.read()
		if err := b.paced(topic, rate, rate*seconds, 1000); err != nil {
			return err
		}
		if err := <-done; err != nil {
			return err
		}
		log, err := b.logBytes(topic)
		if err != nil {
			return err
		}
		x := (g.read() - before) / log
		r.row(fmt.Sprintf("read from the broker per byte of the log, %d consumers, 20 MB/s", members), "", "", fmt.Sprintf("%.3f", x), verdict(x <= 1.05, "≤ 1.05"))
		g.stop()
		b.dropTopics(view, topic)
	}
	return nil
}

// paced writes keyed records at a steady rate.
func (b *bench) paced(topic string, rate, n, size int) error {
	cl, err := client(b.kafka.addr, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	v := make([]byte, size)
	start := time.Now()
	for i := range n {
		cl.Produce(b.ctx, &kgo.Record{Key: key(i % 10_000), Value: v}, nil)
		if i%20 == 0 {
			time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		}
	}
	return cl.Flush(b.ctx)
}

// tailLatency times records from the producer to consumers of the topic and of its view.
func (b *bench) tailLatency(r *result) error {
	g, err := b.gateway()
	if err != nil {
		return err
	}
	defer g.stop()
	topic := b.name("latency")
	if err := b.topic(topic, 1); err != nil {
		return err
	}
	view, err := b.view(g.addr, topic, 16)
	if err != nil {
		return err
	}
	defer b.dropTopics(view, topic)
	sides := []struct {
		addr, topic string
		partitions  int
	}{{b.kafka.addr, topic, 1}, {g.addr, topic, 1}, {g.addr, view, 16}}
	n := b.scaled(3000, 200)
	warm := 100
	took := make([][]float64, len(sides))
	var wg sync.WaitGroup
	for i, s := range sides {
		cl, err := client(s.addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.topic: dealt(s.partitions, 0, 1)}))
		if err != nil {
			return err
		}
		defer cl.Close()
		wg.Go(func() {
			for seen := 0; seen < n+warm; {
				fetches := cl.PollFetches(b.ctx)
				now := time.Now().UnixNano()
				if b.ctx.Err() != nil {
					return
				}
				fetches.EachRecord(func(rec *kgo.Record) {
					if seen++; seen > warm {
						took[i] = append(took[i], float64(now-int64(binary.BigEndian.Uint64(rec.Value)))/1e6)
					}
				})
			}
		})
	}
	cl, err := client(b.kafka.addr, kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
	if err != nil {
		return err
	}
	defer cl.Close()
	for i := range n + warm {
		v := binary.BigEndian.AppendUint64(make([]byte, 0, 100), uint64(time.Now().UnixNano()))
		cl.Produce(b.ctx, &kgo.Record{Key: key(i), Value: append(v, make([]byte, 92)...)}, nil)
		time.Sleep(5 * time.Millisecond)
	}
	if err := cl.Flush(b.ctx); err != nil {
		return err
	}
	wg.Wait()
	for _, q := range []float64{0.5, 0.99} {
		cells := []string{fmt.Sprintf("producer to consumer, p%.0f", q*100)}
		for i := range sides {
			cells = append(cells, fmt.Sprintf("%.2f ms", quantile(took[i], q)))
		}
		over := quantile(took[2], q) - quantile(took[0], q)
		target := ""
		if q == 0.5 {
			target = verdict(over <= 2, "≤ 2 ms over direct")
		}
		r.row(append(cells, target)...)
	}
	return nil
}
