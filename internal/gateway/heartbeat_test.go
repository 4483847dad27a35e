package gateway

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Transactions that are open at the same time do not count each other. When they are decided, a heartbeat of the group brings the source row
// up to date.
func TestHeartbeatCountsDecidedTransactions(t *testing.T) {
	t.Parallel()
	w := anyWorld(t)
	orders, g := w.names(t)
	w.topic(orders, 1)
	w.produce(orders, 100)
	view := w.view(orders, 2)
	_ = w.slices(view)
	first, second := w.transaction(g+"-a"), w.transaction(g+"-b")
	first.commit(g, view, 0, 100)
	second.commit(g, view, 1, 100)
	first.end(true)
	second.end(true)
	member := w.client(kgo.ConsumerGroup(g), kgo.ConsumeTopics(view), kgo.DisableAutoCommit(), kgo.HeartbeatInterval(50*time.Millisecond))
	go member.PollFetches(t.Context())
	deadline := time.Now().Add(20 * time.Second)
	for at := int64(-1); at < 100 && time.Now().Before(deadline); {
		at, _ = w.stored(g, orders, 0)
	}
	w.wantStored(g, orders, 0, 100, "tandem:1:0:100")
}

// The last member to leave brings the source row up to date before it is told that it has left: no heartbeat would do it any more.
func TestLastToLeaveCountsWhatWasCommittedSideBySide(t *testing.T) { lastToLeave(t, t.Context()) }

func TestLastToLeaveOfTheNewerProtocol(t *testing.T) {
	lastToLeave(t, context.WithValue(t.Context(), "opt_in_kafka_next_gen_balancer_beta", true)) //nolint:staticcheck // the key's type is franz-go's choice
}

func lastToLeave(t *testing.T, ctx context.Context) {
	w := anyWorld(t)
	orders, g := w.names(t)
	w.topic(orders, 1)
	w.produce(orders, 100)
	view := w.view(orders, 2)
	_ = w.slices(view)
	joined := make(chan struct{}, 10)
	last := w.client(kgo.WithContext(ctx), kgo.ConsumerGroup(g), kgo.ConsumeTopics(view), kgo.DisableAutoCommit(), kgo.HeartbeatInterval(time.Minute), kgo.SessionTimeout(5*time.Minute),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			if len(partitions) > 0 {
				joined <- struct{}{}
			}
		}))
	go last.PollFetches(t.Context())
	<-joined
	first, second := w.transaction(g+"-a"), w.transaction(g+"-b")
	first.commit(g, view, 0, 100)
	second.commit(g, view, 1, 100)
	first.end(true)
	second.end(true)
	if at, _ := w.stored(g, orders, 0); at >= 100 {
		t.Fatalf("the source row is %d already", at)
	}
	if err := last.LeaveGroupContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantStored(g, orders, 0, 100, "tandem:1:0:100")
}
