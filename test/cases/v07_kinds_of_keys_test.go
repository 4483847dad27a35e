package cases

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Records without a key, with an empty, a binary and a long key, and two keys with one hash, in three topics of two partitions that one
// group reads through views: each arrives once, with its key as it was, where the formula says and in order (case V7).
func TestKindsOfKeys(t *testing.T) {
	kinds(t, harness.GatewayConfig{}, func(t *testing.T, e engine, of kind) {
		const topics, base, k, records, members = 3, 2, 4, 600, 3
		one, other := equalHash()
		keys := [][]byte{nil, {}, {0}, {0, 0xff, 0xfe, 0x80, 0}, one, other, make([]byte, 10_000), []byte("key"), []byte("schlüssel"), nil}
		ledgers := map[string]*harness.Ledger{} // by view
		group := harness.Name(t, "group")
		var views []string
		for range topics {
			source, view := e.source(t, base, base*k)
			read := of.reads(source, view)
			views = append(views, read)
			l := harness.NewLedger()
			ledgers[read] = l
			harness.WatchCommitted(t, e.kafka, group, source, l)
			defer func() {
				if r := l.Check(t, of.where(base, k)); r.Duplicates > 0 {
					t.Errorf("%s: %d duplicates", read, r.Duplicates)
				}
			}()
			harness.Produce(t, e.gateway.Bootstrap, l, harness.Production{Topic: source, Records: records, Batch: 50, Key: func(i int) []byte { return keys[i%len(keys)] }})
		}
		for i := range members {
			c := e.consumer(group, fmt.Sprintf("member-%d", i), views...)
			c.Handle = func(r *kgo.Record) {
				if want, got := string(valueOf(t, r).Key), jsonKey(r.Key); want != got {
					t.Errorf("%s: offset %d was produced with key %.60s and delivered with %.60s", r.Topic, r.Offset, want, got)
				}
				now := time.Now()
				ledgers[r.Topic].Delivered(harness.Delivery{Member: c.Member, Partition: r.Partition, Offset: r.Offset, N: valueOf(t, r).N, Start: now, End: now})
			}
			of.start(t, harness.NewLedger(), c, nil)
		}
		for _, l := range ledgers {
			l.AwaitDone(t, 20*time.Second)
		}
	})
}

// jsonKey is a key as the values of records have it: null for none.
func jsonKey(key []byte) string {
	if key == nil {
		return "null"
	}
	b, _ := json.Marshal(string(key))
	return string(b)
}

// equalHash finds two keys with the same murmur2.
var equalHash = sync.OnceValues(func() (one, other []byte) {
	seen := map[uint32][]byte{}
	for i := uint64(1); ; i++ {
		key := binary.BigEndian.AppendUint64(nil, i*0x9e3779b97f4a7c15)
		h := harness.Murmur2(key)
		if before, ok := seen[h]; ok {
			return before, key
		}
		seen[h] = key
	}
})
