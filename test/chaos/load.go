package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	rate = 100  // records a second that each producer writes
	most = 1500 // records that wait for the group: with more, producers pause, so that a busy machine does not fall behind for ever
)

// load is a producer in this process that writes until it is stopped: acks=all, idempotent, the keys its own, so that their order is.
// Of twenty records one has no key.
type load struct {
	topic, name string
	ledger      *harness.Ledger
	random      *rand.Rand
	stop        chan struct{}
	ended       chan struct{}
	failure     error // read it when ended is closed
}

// startLoad starts a producer. A transactional one aborts a part of its transactions, and enters what it has committed; see also truth.
func startLoad(t testing.TB, bootstrap, topic, name string, transactional bool, l *harness.Ledger, seed uint64) *load {
	t.Helper()
	p := &load{topic: topic, name: name, ledger: l, random: rand.New(rand.NewPCG(seed, 7)), stop: make(chan struct{}), ended: make(chan struct{})}
	opts := []kgo.Opt{kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.MaxBufferedRecords(1 << 20), kgo.ProducerLinger(5 * time.Millisecond),
		kgo.ProducerBatchCompression([]kgo.CompressionCodec{kgo.NoCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}[seed%3])}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(p.ended)
		if transactional {
			p.transactions(ctx, append(opts, kgo.TransactionalID(topic+"-"+name), kgo.TransactionTimeout(10*time.Second)))
			return
		}
		c, err := kgo.NewClient(opts...)
		if err != nil {
			p.failure = err
			return
		}
		defer c.Close()
		p.plain(ctx, c)
	}()
	t.Cleanup(func() {
		cancel()
		<-p.ended
	})
	return p
}

// Stop ends the production and waits until all records are acknowledged.
func (p *load) Stop(t testing.TB, limit time.Duration) {
	t.Helper()
	close(p.stop)
	select {
	case <-p.ended:
	case <-time.After(limit):
		t.Fatalf("producer %s: records are not acknowledged after %v", p.name, limit)
	}
	if p.failure != nil {
		t.Fatalf("producer %s: %v", p.name, p.failure)
	}
}

// next makes a record and its entry in the ledger.
func (p *load) next() (*kgo.Record, harness.Produced) {
	var key []byte
	if p.random.IntN(20) > 0 {
		key = fmt.Appendf(nil, "%s-%d", p.name, p.random.IntN(120))
	}
	e := p.ledger.Next(p.topic, key)
	value := struct {
		K   *string `json:"k"`
		Seq int64   `json:"seq"`
		N   int64   `json:"n"`
	}{Seq: e.Seq, N: e.N}
	if key != nil {
		s := string(key)
		value.K = &s
	}
	b, _ := json.Marshal(value)
	return &kgo.Record{Topic: p.topic, Key: key, Value: b}, e
}

func (p *load) plain(ctx context.Context, c *kgo.Client) {
	var mu sync.Mutex
	var failure error
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-ctx.Done():
			return
		case <-p.stop:
			running = false
		case <-tick.C:
			if p.ledger.Open() > most {
				continue
			}
			r, e := p.next()
			c.Produce(ctx, r, func(got *kgo.Record, err error) {
				if err != nil {
					mu.Lock()
					defer mu.Unlock()
					failure = err
					return
				}
				e.Partition, e.Offset = got.Partition, got.Offset
				p.ledger.Acked(e)
			})
		}
	}
	_ = c.Flush(ctx)
	mu.Lock()
	defer mu.Unlock()
	p.failure = failure
}

// transactions writes transactions of up to 30 records and aborts every fourth. The last one is committed. When the end of one is not
// known, a new client takes the name over; what became of the records tells the log.
func (p *load) transactions(ctx context.Context, opts []kgo.Opt) {
	var c *kgo.Client
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	for last := false; ; {
		if ctx.Err() != nil {
			break
		}
		if c == nil {
			var err error
			if c, err = kgo.NewClient(opts...); err != nil {
				p.failure = err
				return
			}
		}
		select {
		case <-p.stop:
			last = true
		default:
			if p.ledger.Open() > most {
				<-tick.C
				continue
			}
		}
		entries, committed := p.transaction(ctx, c, tick.C, last)
		if committed == nil {
			c.Close()
			c = nil
			continue
		}
		if *committed {
			for _, e := range entries {
				p.ledger.Acked(e)
			}
			if last {
				break
			}
		}
	}
	if c != nil {
		c.Close()
	}
}

func (p *load) transaction(ctx context.Context, c *kgo.Client, tick <-chan time.Time, last bool) (entries []harness.Produced, committed *bool) {
	if c.BeginTransaction() != nil {
		return nil, nil
	}
	var mu sync.Mutex
	var failure error
	for range 1 + p.random.IntN(30) {
		select {
		case <-tick:
		case <-ctx.Done():
			return nil, nil
		}
		r, e := p.next()
		c.Produce(ctx, r, func(got *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failure = err
			}
			e.Partition, e.Offset = got.Partition, got.Offset
			entries = append(entries, e)
		})
	}
	if c.Flush(ctx) != nil {
		return nil, nil
	}
	mu.Lock()
	defer mu.Unlock()
	commit := failure == nil && (last || p.random.IntN(4) > 0)
	limited, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if c.EndTransaction(limited, kgo.TransactionEndTry(commit)) != nil {
		return nil, nil
	}
	return entries, &commit
}

// truth enters into the ledger all records that are committed in the source: of some the producers do not know.
func truth(t testing.TB, kafka, source string, l *harness.Ledger) {
	t.Helper()
	caughtUp, stop := harness.FollowCommitted(t, kafka, source, func(r *kgo.Record) {
		var v struct{ Seq, N int64 }
		if json.Unmarshal(r.Value, &v) == nil {
			l.Acked(harness.Produced{N: v.N, Topic: source, Partition: r.Partition, Offset: r.Offset, Key: slices.Clone(r.Key), Seq: v.Seq})
		}
	})
	defer stop()
	harness.Eventually(t, time.Minute, caughtUp)
}
