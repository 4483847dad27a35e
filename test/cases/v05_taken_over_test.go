package cases

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A consumer that is at offset 10,000 gains a virtual partition whose oldest open record is 2,000: it gets that record first, then all that
// follow, and none again that was done. Until then the group's offset on the source is 2,000 (case V5).
func TestPartitionTakenOverFarBehind(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		const k, records, stuck = 4, 10_400, 2000
		source, view := e.source(t, 1, k)
		group, l, has := harness.Name(t, "group"), harness.NewLedger(), newAssignment(k)
		harness.WatchCommitted(t, e.kafka, group, source, l)

		var mu sync.Mutex
		newest := map[string]int64{} // offset of each member
		var stuckMember string
		var died bool
		first := int64(-1) // offset of the stuck partition's first delivery after the death
		hang := make(chan struct{})
		release := sync.OnceFunc(func() { close(hang) })
		defer release()
		consumers := map[string]*harness.Consumer{}
		for i := range k {
			c := e.consumer(group, fmt.Sprintf("member-%d", i), view)
			c.Opts = append(c.Opts, has.of(c.Member)...)
			var client atomic.Pointer[harness.Consumer]
			var before *kgo.Record
			c.Handle = func(r *kgo.Record) {
				mu.Lock()
				newest[c.Member] = max(newest[c.Member], r.Offset)
				if r.Partition == stuck%k && died && first < 0 {
					first = r.Offset
				}
				hangs := r.Offset == stuck && !died
				mu.Unlock()
				if !hangs {
					before = r
					return
				}
				// What was done is committed, so that the oldest open record is the stuck one.
				if err := client.Load().Client().CommitRecords(harness.Context(t, 10*time.Second), before); err != nil {
					t.Errorf("commit before the stuck record: %v", err)
				}
				mu.Lock()
				stuckMember = c.Member
				mu.Unlock()
				<-hang
			}
			m := harness.Consume(t, l, c)
			client.Store(m)
			consumers[c.Member] = m
		}
		await(t, 20*time.Second, func() string {
			for name := range consumers {
				if n := has.count(name); n != 1 {
					return fmt.Sprintf("%s has %d partitions", name, n)
				}
			}
			return ""
		})
		keys := keysOf(k, 25)
		harness.Produce(t, e.gateway.Bootstrap, l, harness.Production{Topic: source, Records: records, Batch: 200, Key: func(i int) []byte { return keys[i%len(keys)] }})
		await(t, 20*time.Second, func() string {
			mu.Lock()
			defer mu.Unlock()
			at := 0
			for _, offset := range newest {
				if offset >= 10_000 {
					at++
				}
			}
			if at < k-1 || stuckMember == "" || l.Open() > (records-stuck)/k {
				return fmt.Sprintf("members are at %v", newest)
			}
			return ""
		})
		await(t, 10*time.Second, func() string {
			if at := e.committed(t, group, source)[0]; at != stuck {
				return fmt.Sprintf("the group's offset on the source is %d, want %d", at, stuck)
			}
			return ""
		})

		consumers[stuckMember].Cut()
		mu.Lock()
		died = true
		mu.Unlock()
		release()
		consumers[stuckMember].Crash()
		l.AwaitDone(t, 20*time.Second)
		for _, m := range consumers {
			m.Close()
		}
		if r := l.Check(t, harness.View(1, k)); first != stuck || r.Duplicates > 0 {
			t.Errorf("after the death the partition went on at %d with %d duplicates, want %d and none", first, r.Duplicates, stuck)
		}
	})
}
