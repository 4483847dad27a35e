package cases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/client"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A topic grows from 2 to 4 partitions and then to 8, while five members of the Go client have key ranges of its partitions and producers with the default
// partitioner write: key positions are of another base then, and in the end there are more partitions than members. Then more members than partitions again, so that
// partitions are split that were taken whole before the growth. Nothing is lost, the order of each
// key holds within each partition, the new partitions have a member soon, and the stable offsets reach the end everywhere (case V19).
func TestTopicGrowsUnderMembersThatShareIt(t *testing.T) {
	t.Parallel()
	for _, cooperative := range []bool{false, true} {
		t.Run(fmt.Sprintf("cooperative=%t", cooperative), func(t *testing.T) {
			engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
				topic, _ := e.source(t, 2, 2)
				group, l := harness.Name(t, "group"), harness.NewLedger()
				opts := []client.Option{client.Concurrency(8), client.KgoOpts(kgo.MetadataMaxAge(time.Second), kgo.MetadataMinAge(100*time.Millisecond))}
				if cooperative {
					opts = append(opts, client.Cooperative())
				}
				var members []*sharer
				more := func(n int) {
					for range n {
						members = append(members, e.sharer(t, l, group, fmt.Sprintf("member-%d", len(members)), topic, work(time.Millisecond), opts...))
					}
				}
				more(5)
				awaitShared(t, 30*time.Second, topic, 2, members...)
				ctx, stop := context.WithCancel(context.Background())
				var producing sync.WaitGroup
				t.Cleanup(func() { stop(); producing.Wait() })
				for n := range 4 {
					p := harness.Client(t, e.gateway.Bootstrap, kgo.MetadataMaxAge(time.Second), kgo.MetadataMinAge(100*time.Millisecond))
					producing.Go(func() { growingLoad(t, ctx, p, l, topic, n) })
				}
				awaitDeliveries(t, l, 500, 30*time.Second)
				for _, partitions := range []int32{4, 8} {
					a := harness.AdminClient(t, e.gateway.Bootstrap)
					if resp, err := a.UpdatePartitions(harness.Context(t, 10*time.Second), int(partitions), topic); err != nil || resp.Error() != nil {
						t.Fatal(err, resp.Error())
					}
					start := time.Now()
					awaitShared(t, 15*time.Second, topic, partitions, members...)
					t.Logf("%d partitions have members after %v", partitions, time.Since(start).Round(time.Millisecond))
					await(t, 30*time.Second, func() string { // load on all
						for p := range partitions {
							if end := growingEnds(l, topic)[p]; end < 100 {
								return fmt.Sprintf("%d records in partition %d", end, p)
							}
						}
						return ""
					})
				}
				more(11) // two for each
				awaitShared(t, 30*time.Second, topic, 8, members...)
				awaitDeliveries(t, l, l.Deliveries()+500, 30*time.Second)
				stop()
				producing.Wait()
				l.AwaitDone(t, 30*time.Second)
				if r := l.Check(t, nil); r.Duplicates > r.Produced/10 {
					t.Errorf("%d duplicates of %d records", r.Duplicates, r.Produced)
				}
				awaitNoLag(t, e.kafka, group, topic, 15*time.Second)
				slices.Reverse(members)
				for _, m := range members {
					m.close()
				}
			})
		})
	}
}

// The records of one key fail, and all others are done, when a topic grows. Members that start then do what is left, and nothing twice: of
// each offset that all keys have behind them it does not matter by which partition count (case V19).
func TestWhatIsCommittedHoldsWhenATopicGrows(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]client.Option{"key ranges": {client.ShareByKey()}, "whole partitions": nil, "by record": {client.ShareByRecord()}} {
		t.Run(name, func(t *testing.T) {
			engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
				const records, keys, bad = 2000, 40, 250
				topic, group := harness.Name(t, "orders"), harness.Name(t, "group")
				harness.CreateTopic(t, e.kafka, topic, 1)
				harness.Produce(t, e.kafka, harness.NewLedger(), spread(topic, records, keys))
				d := duo{e, t, group, topic, readAll(t, e.kafka, topic), opts}
				fails := func(r *kgo.Record) bool { return r.Offset >= bad && r.Offset%keys == bad%keys }
				d.run("before", func(_ context.Context, r *client.Record) error {
					if fails(r.Record) {
						return errors.New("not now")
					}
					return nil
				}, func(r *kgo.Record) bool { return !fails(r) })
				if at := e.committed(t, group, topic)[0]; at != bad {
					t.Fatalf("the stable offset is %d", at)
				}
				if resp, err := harness.AdminClient(t, e.gateway.Bootstrap).UpdatePartitions(harness.Context(t, 10*time.Second), 3, topic); err != nil || resp.Error() != nil {
					t.Fatal(err, resp.Error())
				}
				l := d.run("after", func(context.Context, *client.Record) error { return nil }, fails)
				if name == "by record" {
					l.AnyOrder()
				}
				if r := l.Check(t, nil); r.Bad() || r.Duplicates > 0 {
					t.Errorf("after the growth: %s", r)
				}
				e.awaitAllDone(t, group, topic, records)
			})
		})
	}
}
