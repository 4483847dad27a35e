package cases

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A producer's batch of 2,000 mixed keys, compressed: every consumer gets its share of it, and nobody another's keys (case V4).
func TestBatchOfMixedKeys(t *testing.T) {
	kinds(t, harness.GatewayConfig{}, func(t *testing.T, e engine, of kind) {
		for name, codec := range map[string]kgo.CompressionCodec{
			"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
		} {
			t.Run(name, func(t *testing.T) { mixedBatch(t, e, of, codec) })
		}
	})
}

// written notes the batches that a producer has written.
type written struct {
	mu      sync.Mutex
	batches []kgo.ProduceBatchMetrics
}

func (w *written) OnProduceBatchWritten(_ kgo.BrokerMetadata, _ string, _ int32, m kgo.ProduceBatchMetrics) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batches = append(w.batches, m)
}

func mixedBatch(t *testing.T, e engine, of kind, codec kgo.CompressionCodec) {
	const members, k, records = 4, 8, 2000
	source, view := e.source(t, 1, k)
	group, l, has := harness.Name(t, "group"), harness.NewLedger(), newAssignment(k)
	var mu sync.Mutex
	owner := map[string]string{} // of each key
	for i := range members {
		c := e.consumer(group, fmt.Sprintf("member-%d", i), of.reads(source, view))
		c.Handle = func(r *kgo.Record) {
			mu.Lock()
			defer mu.Unlock()
			if o := owner[string(r.Key)]; o != "" && o != c.Member {
				t.Errorf("key %s: first delivered to %s, then to %s", r.Key, o, c.Member)
			}
			owner[string(r.Key)] = c.Member
		}
		of.start(t, l, c, has)
	}
	has.awaitEach(t, members, k/members)
	// Twice: until the client knows the topic, what is to be flushed may go in several pieces.
	var w written
	harness.Produce(t, e.gateway.Bootstrap, l, harness.Production{Topic: source, Records: 2 * records, Batch: records, Keys: 300, Opts: []kgo.Opt{
		kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(10 * time.Second), kgo.WithHooks(&w),
	}})
	// The producer tells its hook after it has told its caller.
	await(t, 10*time.Second, func() string {
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := len(w.batches); n < 2 || w.batches[n-1].NumRecords != records {
			return fmt.Sprintf("the producer wrote %+v, and not one batch at the end", w.batches)
		}
		return ""
	})
	l.AwaitDone(t, 20*time.Second)
	r := l.Check(t, of.where(1, k))
	for i := range members {
		if n := r.Members[fmt.Sprintf("member-%d", i)]; n < records/members {
			t.Errorf("member %d got %d of %d records", i, n, 2*records)
		}
	}
	if r.Duplicates > 0 {
		t.Errorf("%d duplicates", r.Duplicates)
	}
}
