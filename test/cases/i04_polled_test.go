package cases

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/client"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// All key ranges are taken from a process that polls, and given back at once, again and again, while it has polled records in hand. What it commits counts, or it is told that it
// does not: what was committed is never polled again, everything else is, and in the end as many records can be polled at once as before (case I4).
func TestPolledRangesTakenAndGivenBack(t *testing.T) {
	t.Parallel()
	const rounds, records, buffered = 50, 1000, 50
	e := onKafka(t, harness.GatewayConfig{})
	s := harness.WorkerSpec{}
	topic, l := e.orders(t, &s, 1), harness.NewLedger()
	hook, assigned := &groupClient{group: s.Group}, make(chan struct{}, rounds+1)
	c, err := client.New(client.Bootstrap(e.gateway.Bootstrap), client.Group(s.Group), client.Topics(topic), client.ShareByKey(), client.DrainTimeout(0), client.MaxBuffered(buffered, 64<<20),
		client.Logger(slog.New(slog.DiscardHandler)), client.KgoOpts(kgo.WithHooks(hook)), client.OnAssigned(func(context.Context, client.Ranges) { assigned <- struct{}{} }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(harness.Context(t, 0)) })
	harness.Produce(t, e.kafka, l, spread(topic, records+buffered, 100))
	ctx := harness.Context(t, 2*time.Minute)
	done, refused := map[int64]bool{}, 0
	poll := func(n int) []*client.Record {
		t.Helper()
		list, err := c.Poll(ctx, n)
		if err != nil {
			t.Fatalf("after %d records: %v", len(done), err)
		}
		for _, r := range list {
			if done[r.Offset] {
				t.Fatalf("offset %d was committed, and is polled again", r.Offset)
			}
		}
		return list
	}
	commit := func(list []*client.Record) {
		t.Helper()
		for _, r := range list {
			switch err := c.Commit(r); {
			case err == nil:
				done[r.Offset] = true
			case errors.Is(err, client.ErrNotAssigned):
				refused++
			default:
				t.Fatal(err)
			}
		}
	}
	hand := poll(4) // joins
	<-assigned
	for range rounds {
		hand = append(hand, poll(4)...)
		hook.rebalance()
		commit(hand[:len(hand)/2]) // at some moment of the rebalance
		select {
		case <-assigned:
		case <-ctx.Done():
			t.Fatalf("stuck with %d records done", len(done))
		}
		commit(hand[len(hand)/2:]) // it was taken away
		hand = poll(2)
	}
	if refused == 0 {
		t.Error("no commit came too late: nothing is proven")
	}
	commit(hand)
	for len(done) < records {
		commit(poll(min(buffered, records-len(done))))
	}
	for hand = nil; len(hand) < buffered; {
		hand = append(hand, poll(buffered)...)
	}
	commit(hand)
	if err := c.Flush(ctx); err != nil {
		t.Error(err)
	}
	e.awaitCommitted(t, s.Group, topic, records+buffered)
}
