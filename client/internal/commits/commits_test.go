package commits

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/tandem-kafka/tandem/client/internal/gatewaytest"
	"github.com/tandem-kafka/tandem/internal/gateway"
	"github.com/tandem-kafka/tandem/keyrange"
)

func TestWhatIsCommittedComesBack(t *testing.T) {
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 1)
	w.Topic("bills", 1)
	w.Produce("orders", 100)
	w.Produce("bills", 100)
	c := guarded(t, w.Client)
	if f, err := c.Features(soon(t)); err != nil || !f.IndividualCommit || !f.KeyRangeFetch {
		t.Fatalf("%+v, %v", f, err)
	}
	want(t, c, part("orders", nil), "-1")
	// Two members' commits for one partition, one with both, in one call; and a whole partition.
	commit(t, c, entry("orders", halves[0], 20, 30, 39, 50, 50), entry("orders", halves[1], 10), entry("bills", nil, 5, 7, 7))
	want(t, c, part("orders", nil), "10 [00000000-7fffffff] [[10-19] [30-39] [50-50]]")
	want(t, c, part("orders", halves[0]), "10 [00000000-7fffffff] [[10-19] [30-39] [50-50]]")
	want(t, c, part("orders", halves[1]), "10")
	want(t, c, part("bills", nil), "5 [00000000-ffffffff] [[7-7]]")
	commit(t, c, entry("orders", halves[1], -1, 12, 12), entry("orders", halves[1], 12))
	list, err := c.Fetch(soon(t), []Partition{part("orders", halves[0]), part("bills", nil), part("orders", halves[1]), part("orders", keyrange.Set{{First: 0, Last: 9}})})
	if err != nil || len(list) != 4 {
		t.Fatal(list, err)
	}
	for i, want := range []string{
		"13 -1 [{[00000000-7fffffff] [[13-19] [30-39] [50-50]]}]", "5 -1 [{[00000000-ffffffff] [[7-7]]}]", "13 -1 []", "13 -1 [{[00000000-00000009] [[13-19] [30-39] [50-50]]}]",
	} {
		if got := fmt.Sprint(list[i].Offset, list[i].LeaderEpoch, list[i].Above); got != want || list[i].Err != nil {
			t.Errorf("%d: %s, not %s", i, got, want)
		}
	}
	if at := row(t, w, "orders"); at != 13 {
		t.Errorf("the cluster has %d", at)
	}
	if errs := c.Commit(soon(t), NoMember, []Entry{entry("orders", nil, -1)}); errs != nil { // nothing to say
		t.Error(errs)
	}
	if list, err := c.Fetch(soon(t), nil); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
}

// More than a request may have goes into several.
func TestMoreThanARequestMayHave(t *testing.T) {
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 1)
	c := guarded(t, w.Client)
	const n = 130_000
	e := entry("orders", nil, 7)
	for i := range int64(n) {
		e.Ranges = append(e.Ranges, entry("", nil, 0, 10+2*i, 10+2*i).Ranges...)
	}
	commit(t, c, e)
	list, err := c.Fetch(soon(t), []Partition{part("orders", nil)})
	if err != nil || list[0].Offset != 7 || len(list[0].Above) != 1 || len(list[0].Above[0].Ranges) != n {
		t.Fatalf("%d, %v, %v", list[0].Offset, list[0].Err, err)
	}
}

// What Kafka answers decides what comes next.
func TestErrors(t *testing.T) {
	const commits = int16(kmsg.OffsetCommit)
	for _, c := range []struct {
		err      *kerr.Error
		class    Class
		attempts int // until it is durable, 0: it is not
	}{
		{kerr.NotCoordinator, Done, 2}, {kerr.CoordinatorNotAvailable, Done, 2}, {kerr.CoordinatorLoadInProgress, Retriable, 0}, {kerr.RequestTimedOut, Retriable, 0},
		{kerr.UnknownTopicOrPartition, Retriable, 0}, {kerr.IllegalGeneration, Fenced, 0}, {kerr.UnknownMemberID, Fenced, 0}, {kerr.FencedInstanceID, Fenced, 0},
		{kerr.RebalanceInProgress, Fenced, 0}, {kerr.GroupAuthorizationFailed, Fatal, 0}, {kerr.TopicAuthorizationFailed, Fatal, 0}, {kerr.InvalidRequest, Fatal, 0},
		{kerr.InvalidCommitOffsetSize, Fatal, 0},
	} {
		t.Run(c.err.Message, func(t *testing.T) {
			w := gatewaytest.Start(t, nil)
			w.Topic("orders", 1)
			seen := w.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Key(commits)}, Observe: true, Count: -1})
			w.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Key(commits)}, Err: c.err})
			of := guarded(t, w.Client)
			errs := of.Commit(soon(t), NoMember, []Entry{entry("orders", nil, 10)})
			if errs == nil {
				errs = []error{nil}
			}
			if got := Classify(errs[0]); got != c.class || got != Done && !errors.Is(errs[0], c.err) {
				t.Fatalf("%v, class %d", errs[0], got)
			}
			if n := seen.Hits(); c.attempts != 0 && n != c.attempts || c.attempts == 0 && n != 1 {
				t.Errorf("%d attempts", n)
			}
			if c.err == kerr.RequestTimedOut {
				return // nobody knows
			}
			if at := row(t, w, "orders"); c.class == Done && at != 10 || c.class != Done && at != -1 {
				t.Errorf("the cluster has %d", at)
			}
			if c.class != Retriable {
				return
			}
			if errs := of.CommitUntil(soon(t), NoMember, []Entry{entry("orders", nil, 10)}); errs != nil || row(t, w, "orders") != 10 {
				t.Errorf("at last: %v", errs)
			}
		})
	}
}

// A member that is none is refused, and its entries change nothing.
func TestMembers(t *testing.T) {
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 1)
	consumer := w.Client(kgo.ConsumerGroup(group), kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit())
	ctx, stop := context.WithCancel(context.Background())
	polls := make(chan struct{})
	go func() { defer close(polls); consumer.PollFetches(ctx) }()
	defer func() { stop(); <-polls }()
	if _, err := w.Fake.WaitGroupStable(soon(t), group, 1); err != nil {
		t.Fatal(err)
	}
	var m Member
	for m.Generation <= 0 {
		m.ID, m.Generation = consumer.GroupMetadata()
		time.Sleep(time.Millisecond)
	}
	c := guarded(t, w.Client)
	if errs := c.Commit(soon(t), m, []Entry{entry("orders", nil, 10, 20, 29)}); errs != nil {
		t.Fatal(errs)
	}
	for want, as := range map[error]Member{
		kerr.IllegalGeneration: {ID: m.ID, Generation: m.Generation + 1}, kerr.UnknownMemberID: {ID: "nobody", Generation: m.Generation},
	} {
		errs := c.CommitUntil(soon(t), as, []Entry{entry("orders", nil, 50), entry("orders", halves[0], -1, 60, 60)})
		if len(errs) != 2 || !errors.Is(errs[0], want) || !errors.Is(errs[1], want) || Classify(errs[0]) != Fenced {
			t.Errorf("%v, not %v", errs, want)
		}
	}
	want(t, c, part("orders", nil), "10 [00000000-ffffffff] [[20-29]]")
}

// At the limit of open ranges the gateway asks to come again, and nothing is lost.
func TestBackPressure(t *testing.T) {
	w := gatewaytest.Start(t, func(c *gateway.Config) { c.Limits.IndividualRanges = 10 })
	w.Topic("orders", 1)
	c := guarded(t, w.Client)
	var ranges []int64
	for i := range int64(10) {
		ranges = append(ranges, 10+2*i, 10+2*i)
	}
	commit(t, c, entry("orders", nil, 5, ranges...))
	more := []Entry{entry("orders", nil, -1, 100, 100, 102, 102)}
	for limit := 300 * time.Millisecond; ; limit *= 2 {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		errs := c.CommitUntil(ctx, NoMember, more)
		cancel()
		if errs != nil && errors.Is(errs[0], context.DeadlineExceeded) && limit < 20*time.Second {
			continue // it ended in the middle of an attempt
		}
		if errs == nil || !errors.Is(errs[0], kerr.CoordinatorLoadInProgress) || Classify(errs[0]) != Retriable {
			t.Fatal(errs)
		}
		break
	}
	commit(t, c, entry("orders", nil, 29)) // what is done moves on
	if errs := c.CommitUntil(soon(t), NoMember, more); errs != nil {
		t.Fatal(errs)
	}
	want(t, c, part("orders", nil), "29 [00000000-ffffffff] [[100-100] [102-102]]")
}

// Versions without room for the additions are not used for them.
func TestVersions(t *testing.T) {
	for name, c := range map[string]struct {
		commit, fetch int16
		commits, asks bool
	}{
		"the first with tags":       {8, 6, true, true},
		"the last before groups":    {9, 7, true, true},
		"the last that name topics": {9, 9, true, true},
		"too old for commits":       {7, 8, false, true},
		"too old for fetches":       {8, 5, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := kversion.Stable()
			v.SetMaxKeyVersion(int16(kmsg.OffsetCommit), c.commit)
			v.SetMaxKeyVersion(int16(kmsg.OffsetFetch), c.fetch)
			w := gatewaytest.Start(t, nil)
			w.Topic("orders", 1)
			// The client's own bound is not in what the coordinator says.
			of := guarded(t, w.Client, kgo.MaxVersions(v))
			setRow(t, w, "orders", 4)
			errs := of.Commit(soon(t), NoMember, []Entry{entry("orders", nil, -1, 20, 29)})
			if ok := errs == nil; ok != c.commits || !ok && !errors.Is(errs[0], ErrUnsupported) {
				t.Errorf("commit: %v", errs)
			}
			list, err := of.Fetch(soon(t), []Partition{part("orders", nil)})
			if ok := err == nil; ok != c.asks || !ok && !errors.Is(err, ErrUnsupported) {
				t.Errorf("fetch: %v", err)
			}
			if c.asks && c.commits && (len(list[0].Above) != 1 || list[0].Offset != 4) {
				t.Errorf("%+v", list[0])
			}
			if at := row(t, w, "orders"); at != 4 {
				t.Errorf("the cluster has %d", at)
			}
		})
	}
}

func TestInvalidEntries(t *testing.T) {
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 1)
	c := guarded(t, w.Client)
	plain := entry("orders", nil, 5, 7, 7)
	plain.Plain = true
	errs := c.Commit(soon(t), NoMember, []Entry{
		entry("orders", nil, 3), entry("orders", nil, -1, 9, 8), entry("orders", append(halves[1], halves[0]...), 5), plain, entry("orders", nil, 5, -3, 2),
	})
	if len(errs) != 5 || errs[0] != nil {
		t.Fatal(errs)
	}
	for _, err := range errs[1:] {
		if Classify(err) != Fatal {
			t.Errorf("%v", err)
		}
	}
	want(t, c, part("orders", nil), "3")
	if _, err := c.Fetch(soon(t), []Partition{{Topic: "orders", Base: 1}, {Topic: "orders", Partition: 1, Base: 2}}); Classify(err) != Fatal {
		t.Errorf("two bases: %v", err)
	}
}

// Where individual commits are not to be had, ordinary ones are.
func TestPlain(t *testing.T) {
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 2)
	p := Partition{Topic: "orders", Plain: true}
	for name, c := range map[string]*Commits{"direct": guarded(t, w.Direct), "gateway": guarded(t, w.Client)} {
		commit(t, c, Entry{Partition: p, Watermark: 42})
		if at := row(t, w, "orders"); at != 42 {
			t.Errorf("%s: the cluster has %d", name, at)
		}
		list, err := c.Fetch(soon(t), []Partition{p, {Topic: "orders", Partition: 1, Plain: true}})
		if err != nil || list[0].Offset != 42 || list[1].Offset != -1 || list[0].Err != nil || list[1].Err != nil {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
		commit(t, c, Entry{Partition: p, Watermark: 0})
	}
	// Both in one call, of one topic.
	c := guarded(t, w.Client)
	commit(t, c, Entry{Partition: p, Watermark: 7}, Entry{Partition: Partition{Topic: "orders", Partition: 1}, Watermark: 8})
	list, err := c.Fetch(soon(t), []Partition{p, {Topic: "orders", Partition: 1}})
	if err != nil || list[0].Offset != 7 || list[1].Offset != 8 {
		t.Errorf("%+v, %v", list, err)
	}
}

// Undecided transactions are waited for, and what cannot be read now is asked for again.
func TestFetchComesAgain(t *testing.T) {
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 1)
	c := guarded(t, w.Client)
	commit(t, c, entry("orders", nil, 10))
	for _, err := range []*kerr.Error{kerr.UnstableOffsetCommit, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress} {
		w.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: err, Count: 2})
		want(t, c, part("orders", nil), "10")
		w.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: err, Count: 2, TopLevel: true})
		want(t, c, part("orders", nil), "10")
	}
	forever := w.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.UnstableOffsetCommit, Count: -1})
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := c.Fetch(ctx, []Partition{part("orders", nil)}); !errors.Is(err, kerr.UnstableOffsetCommit) {
		t.Errorf("%v", err)
	}
	forever.Remove()
	w.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Group: group, Err: kerr.GroupAuthorizationFailed})
	if _, err := c.Fetch(soon(t), []Partition{part("orders", nil)}); !errors.Is(err, kerr.GroupAuthorizationFailed) {
		t.Errorf("%v", err)
	}
}

// The coordinator moves, and the gateway goes and comes back on the same port.
func TestCoordinatorMoves(t *testing.T) {
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 1)
	c := guarded(t, w.Client)
	commit(t, c, entry("orders", nil, 1))
	for i := range int64(5) {
		w.Fake.RehashCoordinators()
		if errs := c.CommitUntil(soon(t), NoMember, []Entry{entry("orders", nil, 2+i, 20, 20)}); errs != nil {
			t.Fatal(errs)
		}
	}
	w.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if errs := c.CommitUntil(ctx, NoMember, []Entry{entry("orders", nil, 10)}); errs == nil || Classify(errs[0]) != Retriable {
		t.Fatal(errs)
	}
	cfg := w.Config
	cfg.Listen = w.Gateway.Addr()
	var err error
	if w.Gateway, err = gateway.Start(context.Background(), cfg); err != nil {
		t.Skipf("the port was taken: %v", err)
	}
	if errs := c.CommitUntil(soon(t), NoMember, []Entry{entry("orders", nil, 10)}); errs != nil {
		t.Fatal(errs)
	}
	want(t, c, part("orders", nil), "10 [00000000-ffffffff] [[20-20]]")
}
