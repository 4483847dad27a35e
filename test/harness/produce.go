package harness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Production says what Produce writes.
type Production struct {
	Topic   string
	Records int
	Keys    int                // distinct keys "key-0" ...; 0: records without a key
	Key     func(i int) []byte // overrides Keys: the key of the i-th record
	Bytes   int                // length of each value, default 100
	Batch   int                // flush after so many records; 0: let the client batch as it likes
	Rate    float64            // records a second; 0: as fast as possible
	Seed    uint64             // of the choice of keys
	Opts    []kgo.Opt          // more options of the client, for example a codec
}

// Produce writes records through bootstrap and enters the acknowledged ones into the ledger. Keyed records go where Kafka's default
// partitioner puts them.
func Produce(t testing.TB, bootstrap string, l *Ledger, p Production) {
	t.Helper()
	if err := produce(context.Background(), Client(t, bootstrap, p.options()...), l, p); err != nil {
		t.Fatal(err)
	}
}

// ProduceInBackground is Produce on a goroutine. wait waits for its end and fails the test if a record was refused.
func ProduceInBackground(t testing.TB, bootstrap string, l *Ledger, p Production) (wait func()) {
	t.Helper()
	c := Client(t, bootstrap, p.options()...)
	ctx, cancel := context.WithCancel(context.Background())
	failure := make(chan error, 1)
	go func() { failure <- produce(ctx, c, l, p) }()
	t.Cleanup(cancel)
	return func() {
		t.Helper()
		if err := <-failure; err != nil {
			t.Fatal(err)
		}
	}
}

func (p Production) options() []kgo.Opt {
	return append([]kgo.Opt{kgo.MaxBufferedRecords(1 << 20), kgo.ProducerBatchCompression(kgo.NoCompression())}, p.Opts...)
}

func produce(ctx context.Context, c *kgo.Client, l *Ledger, p Production) error {
	if p.Bytes == 0 {
		p.Bytes = 100
	}
	random := rand.New(rand.NewPCG(p.Seed, 1))
	var mu sync.Mutex
	var failure error
	start := time.Now()
	for i := range p.Records {
		var key []byte
		switch {
		case p.Key != nil:
			key = p.Key(i)
		case p.Keys > 0:
			key = fmt.Appendf(nil, "key-%d", random.IntN(p.Keys))
		}
		r := l.Next(p.Topic, key)
		c.Produce(ctx, &kgo.Record{Topic: p.Topic, Key: key, Value: encode(r, p.Bytes)}, func(got *kgo.Record, err error) {
			if err != nil {
				mu.Lock()
				failure = fmt.Errorf("produce to %s: %w", p.Topic, err)
				mu.Unlock()
				return
			}
			r.Partition, r.Offset = got.Partition, got.Offset
			l.Acked(r)
		})
		if p.Batch > 0 && i%p.Batch == p.Batch-1 {
			if err := c.Flush(ctx); err != nil {
				return err
			}
		}
		if p.Rate > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Until(start.Add(time.Duration(float64(i+1) / p.Rate * float64(time.Second))))):
			}
		}
	}
	if err := c.Flush(ctx); err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	return failure
}
