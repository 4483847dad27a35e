// consume-franz: the kit's consumer for franz-go.
// Idiom: BlockRebalanceOnPoll, process every polled record, CommitUncommittedOffsets, AllowRebalance.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/tandem-kafka/tandem/test/clients/go/kit"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	k := kit.Start("franz-go")
	event := func(name string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, m map[string][]int32) { k.Event(name, m[k.Topic]) }
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(k.Brokers()...), kgo.ConsumerGroup(k.Group), kgo.ConsumeTopics(k.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(k.Session), kgo.HeartbeatInterval(k.Session / 6),
		kgo.OnPartitionsAssigned(event("assigned")), kgo.OnPartitionsRevoked(event("revoked")), kgo.OnPartitionsLost(event("lost")),
	}
	if k.Assignor == "range" {
		opts = append(opts, kgo.Balancers(kgo.RangeBalancer()))
	}
	if k.ClientID != "" {
		opts = append(opts, kgo.ClientID(k.ClientID))
	}
	if k.ReadCommitted() {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	c, err := kgo.NewClient(opts...)
	if err != nil {
		kit.Fatal("%v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-k.Stopping(); cancel() }()
	for !k.Stopped() {
		fetches := c.PollRecords(ctx, 100)
		fetches.EachError(func(t string, p int32, err error) {
			if !errors.Is(err, context.Canceled) {
				kit.Log("fetch %s/%d: %v", t, p, err)
			}
		})
		var done []*kgo.Record
		for iter := fetches.RecordIter(); !iter.Done() && !k.Stopped(); {
			r := iter.Next()
			k.Process(r.Partition, r.Offset, r.Key, r.Value)
			done = append(done, r)
		}
		if len(done) > 0 {
			commit, stop := context.WithTimeout(context.Background(), 10*time.Second)
			if err := c.CommitRecords(commit, done...); err != nil {
				kit.Log("commit: %v", err)
			}
			stop()
		}
		c.AllowRebalance()
	}
	if err := c.LeaveGroupContext(context.Background()); err != nil {
		kit.Log("leave: %v", err)
	}
	c.CloseAllowingRebalance()
}
