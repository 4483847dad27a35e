package cases

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client"
	"github.com/tandem-kafka/tandem/test/harness"
)

// With one handler at most a member never has two, though records come many to a compressed batch, and another member joins and leaves in the middle (case I11; with members that share by record case C9).
func TestOneInFlightIsNeverTwo(t *testing.T) {
	t.Parallel()
	harness.Need(t)
	onKafkaAs(t, harness.GatewayConfig{}, oneInFlight, sharers, recordSharers)
}

func oneInFlight(t *testing.T, e engine, of kind) {
	for name, codec := range map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()} {
		t.Run(name, func(t *testing.T) {
			const records, members = 600, 2
			source, _ := e.source(t, 1, 1)
			group, l := harness.Name(t, "group"), of.ledger(harness.NewLedger())
			harness.Produce(t, e.kafka, l, harness.Production{Topic: source, Records: records, Keys: 100, Opts: []kgo.Opt{
				kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(50 * time.Millisecond)}})
			join := func(i int) harness.Member {
				var running atomic.Int32
				c := e.consumer(group, fmt.Sprintf("member-%d", i), source)
				c.Handle = func(r *kgo.Record) {
					if n := running.Add(1); n > 1 {
						t.Errorf("%s: %d records at once, at offset %d", c.Member, n, r.Offset)
					}
					time.Sleep(time.Millisecond) // the work
					running.Add(-1)
				}
				return of.start(t, l, c, nil, client.Concurrency(1))
			}
			join(0)
			await(t, 20*time.Second, func() string {
				if l.Deliveries() == 0 {
					return "nothing is delivered"
				}
				return ""
			})
			other := join(1)
			await(t, 20*time.Second, func() string {
				if l.Open() > 0 && l.Members()["member-1"] == 0 {
					return "the other member gets nothing"
				}
				return ""
			})
			other.Close()
			l.AwaitDone(t, 20*time.Second)
			if r := l.Check(t, sharers.where(1, 1)); r.Within > 0 || r.Duplicates > 0 {
				t.Errorf("%s", r)
			}
		})
	}
}
