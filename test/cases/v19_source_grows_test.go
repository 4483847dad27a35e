package cases

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The source grows from 4 to 8 partitions while three consumers run on a view and producers with the default partitioner write: nothing is
// lost, the order of each key holds within each source partition, the records of the new partitions arrive in virtual partitions of their
// own, and the stable offsets reach the end everywhere (case V19).
func TestSourceGrowsUnderLoad(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		source, view := e.source(t, 4, 16)
		group, l := harness.Name(t, "group"), harness.NewLedger()
		for i := range 3 {
			c := e.consumer(group, fmt.Sprintf("member-%d", i), view)
			c.Work = time.Millisecond
			c.Opts = append(c.Opts, kgo.MetadataMaxAge(time.Second))
			harness.Consume(t, l, c)
		}
		ctx, stop := context.WithCancel(context.Background())
		var producing sync.WaitGroup
		t.Cleanup(func() { stop(); producing.Wait() })
		for n := range 2 {
			p := harness.Client(t, e.gateway.Bootstrap, kgo.MetadataMaxAge(time.Second), kgo.MetadataMinAge(100*time.Millisecond))
			producing.Go(func() { growingLoad(t, ctx, p, l, source, n) })
		}
		awaitDeliveries(t, l, 500, 20*time.Second)
		a := harness.AdminClient(t, e.gateway.Bootstrap)
		if resp, err := a.UpdatePartitions(harness.Context(t, 10*time.Second), 8, source); err != nil || resp.Error() != nil {
			t.Fatal(err, resp.Error())
		}
		await(t, 30*time.Second, func() string { // load on all eight, from both sides of the growth
			if ends := growingEnds(l, source); len(ends) < 8 {
				return fmt.Sprintf("records in %d partitions", len(ends))
			} else {
				for p, end := range ends {
					if end < 100 {
						return fmt.Sprintf("%d records in partition %d", end, p)
					}
				}
			}
			return ""
		})
		stop()
		producing.Wait()
		l.AwaitDone(t, 20*time.Second)
		if r := l.Check(t, harness.View(4, 4)); r.Duplicates > r.Produced/2 {
			t.Errorf("%d duplicates of %d records", r.Duplicates, r.Produced)
		}
		awaitNoLag(t, e.gateway.Bootstrap, group, view, 15*time.Second)
		awaitNoLag(t, e.kafka, group, source, 15*time.Second)
		if got := lags(t, e.gateway.Bootstrap, group, view); len(got) != 32 {
			t.Errorf("the view has %d virtual partitions, want 32", len(got))
		}
	})
}

// growingLoad writes until ctx ends. In the ledger a key's records are in order per partition, as the default partitioner moves keys when a
// topic grows: so the ledger's topic is the partition.
func growingLoad(t *testing.T, ctx context.Context, c *kgo.Client, l *harness.Ledger, source string, producer int) {
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Appendf(nil, "producer-%d-key-%d", producer, i%60)
		r := &kgo.Record{Topic: source, Key: key, Value: []byte(`{}`)}
		n := l.Next("", nil) // its number; where it goes is known when it is there
		r.Value = fmt.Appendf(nil, `{"n":%d}`, n.N)
		// One at a time for each producer: the order of a key is the order of the acknowledgements.
		if err := c.ProduceSync(context.WithoutCancel(ctx), r).FirstErr(); err != nil {
			t.Error(err)
			return
		}
		n.Topic, n.Key, n.Partition, n.Offset, n.Seq = fmt.Sprintf("%s/%d", source, r.Partition), key, r.Partition, r.Offset, r.Offset
		l.Acked(n)
	}
}

// growingEnds are the ends of the source's partitions.
func growingEnds(l *harness.Ledger, source string) map[int32]int64 {
	all := map[int32]int64{}
	for p := range int32(8) {
		for partition, end := range l.Ends(fmt.Sprintf("%s/%d", source, p)) {
			all[partition] = end
		}
	}
	return all
}
