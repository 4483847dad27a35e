package gateway

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Transactions that are open at the same time do not count each other. When they are decided, a heartbeat of the group brings the source row
// up to date.
func TestHeartbeatCountsDecidedTransactions(t *testing.T) {
	t.Parallel()
	w := anyWorld(t)
	orders, g, view := w.sourceAndView(1, 100, 2)
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

// So it is where they are committed through another gateway, which sees no heartbeats of the group.
func TestHeartbeatCountsWhatIsCommittedElsewhere(t *testing.T) {
	t.Parallel()
	w := anyWorld(t)
	orders, g, view := w.sourceAndView(1, 100, 2)
	_ = w.slices(view)
	joined := make(chan struct{}, 10)
	member := w.client(kgo.ConsumerGroup(g), kgo.ConsumeTopics(view), kgo.DisableAutoCommit(), kgo.HeartbeatInterval(50*time.Millisecond),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { joined <- struct{}{} }))
	go func() {
		for t.Context().Err() == nil {
			member.PollFetches(t.Context())
		}
	}()
	<-joined
	other := w.another()
	first, second := other.transaction(g+"-a"), other.transaction(g+"-b")
	first.commit(g, view, 0, 100)
	second.commit(g, view, 1, 100)
	first.end(true)
	second.end(true)
	w.until("the source row says so", func() bool {
		at, _ := w.stored(g, orders, 0)
		return at == 100
	})
}

// The last member to leave brings the source row up to date before it is told that it has left: no heartbeat would do it any more.
func TestLastToLeaveCountsWhatWasCommittedSideBySide(t *testing.T) { lastToLeave(t, t.Context()) }

func TestLastToLeaveOfTheNewerProtocol(t *testing.T) {
	lastToLeave(t, context.WithValue(t.Context(), "opt_in_kafka_next_gen_balancer_beta", true)) //nolint:staticcheck // the key's type is franz-go's choice
}

func lastToLeave(t *testing.T, ctx context.Context) {
	w, orders, g, leave := leaving(t, ctx)
	if err := leave(); err != nil {
		t.Fatal(err)
	}
	w.wantStored(g, orders, 0, 100, "tandem:1:0:100")
}

// leaving is a group whose last member leaves when all is done, and whose source row does not say so yet.
func leaving(t *testing.T, ctx context.Context) (w *world, orders, g string, leave func() error) {
	w = anyWorld(t)
	orders, g, view := w.sourceAndView(1, 100, 2)
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
	return w, orders, g, func() error { return last.LeaveGroupContext(t.Context()) }
}

func requireStable(req kmsg.Request) bool { return req.(*kmsg.OffsetFetchRequest).RequireStable }

// What keeps the source row of a group that was left from being written passes: it is tried again before the last member is told that it has left.
func TestSourceRowOfAGroupThatWasLeftIsTriedAgain(t *testing.T) {
	for name, fault := range map[string]func(orders, g string) kfake.Fault{
		"it is refused": func(orders, _ string) kfake.Fault {
			return kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: orders, Err: kerr.CoordinatorLoadInProgress, Count: 3}
		},
		"the rows cannot be read": func(_, g string) kfake.Fault {
			return kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Group: g, Err: kerr.CoordinatorNotAvailable, Count: 3}
		},
		"a transaction is decided late": func(orders, _ string) kfake.Fault {
			return kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Topic: orders, Err: kerr.UnstableOffsetCommit, Count: 3, When: requireStable}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, orders, g, leave := leaving(t, t.Context())
			failing := w.fake.Fault(fault(orders, g))
			if err := leave(); err != nil {
				t.Fatal(err)
			}
			if failing.Hits() != 3 {
				t.Errorf("it failed %d times", failing.Hits())
			}
			w.wantStored(g, orders, 0, 100, "tandem:1:0:100")
		})
	}
}

// Who leaves is not kept for long, and the log says what is left undone; neither is the gateway when it is to stop. Where the group has other members, they do it.
func TestSourceRowOfAGroupThatWasLeftIsGivenUp(t *testing.T) {
	refused := kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.CoordinatorLoadInProgress, Count: -1}
	waits := kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.UnstableOffsetCommit, Count: -1, When: requireStable}
	for name, c := range map[string]struct {
		fault     kfake.Fault
		meanwhile func(w *world, g, orders string)
		most      int // tries
		warns     bool
	}{
		"after a while":        {refused, func(*world, string, string) {}, 30, true},
		"the gateway stops":    {refused, func(w *world, _, _ string) { _ = w.gw.Shutdown(w.t.Context()) }, 9, true},
		"somebody else joined": {waits, func(w *world, g, orders string) { _, _, _ = w.member(g, orders) }, 9, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, orders, g, leave := leaving(t, t.Context())
			c.fault.Topic = orders
			failing := w.fake.Fault(c.fault)
			left := make(chan error)
			go func() { left <- leave() }()
			w.until("it is tried again", func() bool { return failing.Hits() > 2 })
			c.meanwhile(w, g, orders)
			if err := <-left; err != nil {
				t.Error(err)
			}
			if failing.Hits() > c.most {
				t.Errorf("it was tried %d times", failing.Hits())
			}
			if warned := strings.Contains(w.log.String(), "level=WARN msg=\"the source rows of a group that was left stay lower"); warned != c.warns {
				t.Errorf("the log warns: %v", warned)
			}
		})
	}
}

func TestWhatKeepsSourceRowsLow(t *testing.T) {
	for refused, want := range map[*kerr.Error]struct {
		again bool
		cause error
	}{
		kerr.CoordinatorLoadInProgress: {true, kerr.CoordinatorLoadInProgress},
		kerr.TopicAuthorizationFailed:  {false, kerr.TopicAuthorizationFailed},
		kerr.UnknownMemberID:           {},
		kerr.NotCoordinator:            {},
		kerr.UnknownTopicOrPartition:   {},
	} {
		again, cause := lowStill([]*partPlan{{}, {refused: refused.Code}, {}}, nil)
		if (len(again) == 1) != want.again || !errors.Is(cause, want.cause) {
			t.Errorf("%s: %d again, %v", refused.Message, len(again), cause)
		}
	}
}
