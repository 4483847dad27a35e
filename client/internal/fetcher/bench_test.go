package fetcher

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client/internal/gatewaytest"
	"github.com/tandem-kafka/tandem/keyrange"
)

// Reading of what is there: by polls of a kgo client, by the Fetcher, and by the Fetcher with key ranges. The brokers and the
// gateway run in the same process, so it is the ratio that counts.
func BenchmarkRead(b *testing.B) {
	w := gatewaytest.Start(b, nil)
	const size, total = 1000, 128 << 20
	value := make([]byte, size)
	for i := range value {
		value[i] = byte(i * i)
	}
	for _, partitions := range []int32{1, 8} {
		for codec, compression := range map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "lz4": kgo.Lz4Compression()} {
			topic := fmt.Sprintf("bench-%d-%s", partitions, codec)
			w.Topic(topic, partitions)
			records := make([]*kgo.Record, total/size)
			for i := range records {
				records[i] = &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "k%d", i%10_000), Value: value}
			}
			w.ProduceRecords(records, kgo.ProducerBatchCompression(compression), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
			n := len(records)
			b.Run(fmt.Sprintf("%d/%s/kgo", partitions, codec), func(b *testing.B) {
				b.SetBytes(total)
				b.ReportAllocs()
				for b.Loop() {
					readPlain(b, w, topic, n)
				}
			})
			for name, c := range map[string]struct {
				client func(...kgo.Opt) *kgo.Client
				keys   keyrange.Set
			}{"fetcher": {w.Direct, nil}, "gateway": {w.Client, nil}, "keys": {w.Client, keyrange.Set{{First: 0, Last: 1<<32 - 2}}}} {
				b.Run(fmt.Sprintf("%d/%s/%s", partitions, codec, name), func(b *testing.B) {
					f := fetching(b, c.client, nil)
					b.SetBytes(total)
					b.ReportAllocs()
					for b.Loop() {
						streams := wholes(topic, partitions)
						for i := range streams {
							streams[i].Keys, streams[i].Base = c.keys, partitions
						}
						tokens := add(b, f, streams...)
						for left := n; left > 0; {
							batch := next(b, f)
							if batch.Err != nil {
								b.Fatal(batch.Err)
							}
							left -= len(batch.Records)
						}
						f.Remove(tokens...)
					}
				})
			}
		}
	}
}

func readPlain(b *testing.B, w *gatewaytest.World, topic string, n int) {
	c, err := kgo.NewClient(kgo.SeedBrokers(w.Fake.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for n > 0 {
		fs := c.PollFetches(context.Background())
		if err := fs.Err(); err != nil {
			b.Fatal(err)
		}
		n -= fs.NumRecords()
	}
}
