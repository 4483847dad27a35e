package cases

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/client"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// 100 records of one batch on one partition are with 100 members at the same time: nobody gets more than it can work on (case C3).
func TestHundredMembersShareOneBatch(t *testing.T) {
	harness.Need(t)
	const members = 100
	k := cluster(t)
	e := front(t, k, harness.GatewayConfig{})
	topic, group := harness.Name(t, "orders"), harness.Name(t, "group")
	harness.CreateTopic(t, k.Bootstrap, topic, 1)
	producer := harness.Client(t, k.Bootstrap, kgo.ProducerLinger(100*time.Millisecond))
	var records []*kgo.Record
	for i := range members {
		records = append(records, &kgo.Record{Topic: topic, Value: fmt.Append(nil, i)})
	}
	if err := producer.ProduceSync(harness.Context(t, 20*time.Second), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	var busy atomic.Int64
	all := make(chan struct{})
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	for range members {
		c, err := client.New(client.Bootstrap(e.gateway.Bootstrap), client.Group(group), client.Topics(topic), client.ShareByRecord(), client.Concurrency(1),
			client.Logger(slog.New(slog.DiscardHandler)), client.KgoOpts(kgo.SessionTimeout(30*time.Second)))
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			if err := c.Run(ctx, func(ctx context.Context, r *client.Record) error {
				if r.Attempt > 1 {
					t.Errorf("offset %d is given out again", r.Offset)
				}
				if busy.Add(1) == members {
					close(all)
				}
				select {
				case <-all:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	select {
	case <-all:
	case <-time.After(3 * time.Minute):
		t.Errorf("%d members of %d have a record", busy.Load(), members)
	}
	stop()
	running.Wait()
	w := e.wire(t, group)
	w.wantProgress(topic, fmt.Sprint(members))
}
