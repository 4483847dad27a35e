// produce: the kit's producers for the Go libraries, in several modes one after the other.
//
//	produce --library franz-go|sarama|kafka-go --bootstrap B --topic T [--mode plain,idempotent,transactional] [--records N]
//
// Prints one line for each mode: {"mode":M,"records":N,"seconds":S} or {"mode":M,"error":TEXT,"seconds":S}.
// kafka-go has neither idempotent nor transactional writers.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	library   = flag.String("library", "franz-go", "franz-go, sarama or kafka-go")
	bootstrap = flag.String("bootstrap", "127.0.0.1:9092", "broker list")
	topic     = flag.String("topic", "", "topic")
	modes     = flag.String("mode", "plain", "plain, idempotent, transactional, separated by commas")
	records   = flag.Int("records", 100, "records of each mode")
	_         = flag.String("codec", "none", "ignored: the consumers' data has all codecs")
)

func main() {
	flag.Parse()
	produce := map[string]func(context.Context, string) error{"franz-go": franz, "sarama": saramaSync, "kafka-go": kafkaGo}[*library]
	for mode := range strings.SplitSeq(*modes, ",") {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		start := time.Now()
		line := map[string]any{"mode": mode}
		if err := produce(ctx, mode); err != nil {
			line["error"] = err.Error()
		} else {
			line["records"] = *records
		}
		cancel()
		line["seconds"] = time.Since(start).Seconds()
		_ = json.NewEncoder(os.Stdout).Encode(line)
	}
}

func brokers() []string { return strings.Split(*bootstrap, ",") }

func record(mode string, i int) (key, value []byte) {
	return fmt.Appendf(nil, "key-%d", i%10), fmt.Appendf(nil, `{"from":"%s-%s","i":%d}`, *library, mode, i)
}

func id() string { return fmt.Sprintf("kit-%s-%d", *library, os.Getpid()) }

func franz(ctx context.Context, mode string) error {
	opts := []kgo.Opt{kgo.SeedBrokers(brokers()...), kgo.DefaultProduceTopic(*topic)}
	switch mode {
	case "plain":
		opts = append(opts, kgo.DisableIdempotentWrite())
	case "transactional":
		opts = append(opts, kgo.TransactionalID(id()))
	}
	c, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer c.Close()
	if mode == "transactional" {
		if err := c.BeginTransaction(); err != nil {
			return err
		}
	}
	var batch []*kgo.Record
	for i := range *records {
		k, v := record(mode, i)
		batch = append(batch, &kgo.Record{Key: k, Value: v})
	}
	if err := c.ProduceSync(ctx, batch...).FirstErr(); err != nil {
		return err
	}
	if mode == "transactional" {
		return c.EndTransaction(ctx, kgo.TryCommit)
	}
	return nil
}

func saramaSync(_ context.Context, mode string) error {
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	c.Producer.Return.Successes = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	if mode != "plain" {
		c.Producer.Idempotent = true
		c.Net.MaxOpenRequests = 1
	}
	if mode == "transactional" {
		c.Producer.Transaction.ID = id()
	}
	p, err := sarama.NewSyncProducer(brokers(), c)
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	if mode == "transactional" {
		if err := p.BeginTxn(); err != nil {
			return err
		}
	}
	var batch []*sarama.ProducerMessage
	for i := range *records {
		k, v := record(mode, i)
		batch = append(batch, &sarama.ProducerMessage{Topic: *topic, Key: sarama.ByteEncoder(k), Value: sarama.ByteEncoder(v)})
	}
	if err := p.SendMessages(batch); err != nil {
		return fmt.Errorf("%w: %v", err, firstSarama(err))
	}
	if mode == "transactional" {
		return p.CommitTxn()
	}
	return nil
}

func firstSarama(err error) error {
	if all, ok := err.(sarama.ProducerErrors); ok && len(all) > 0 {
		return all[0].Err
	}
	return err
}

func kafkaGo(ctx context.Context, mode string) error {
	if mode != "plain" {
		return fmt.Errorf("kafka-go has no %s writer", mode)
	}
	w := &kafka.Writer{Addr: kafka.TCP(brokers()...), Topic: *topic, Balancer: kafka.Murmur2Balancer{}, RequiredAcks: kafka.RequireAll,
		BatchTimeout: 5 * time.Millisecond, MaxAttempts: 3}
	defer func() { _ = w.Close() }()
	var batch []kafka.Message
	for i := range *records {
		k, v := record(mode, i)
		batch = append(batch, kafka.Message{Key: k, Value: v})
	}
	return w.WriteMessages(ctx, batch...)
}
