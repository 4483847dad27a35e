package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/client/inspect"
	"github.com/tandem-kafka/tandem/client/internal/attempts"
	"github.com/tandem-kafka/tandem/internal/gateway"
	"github.com/tandem-kafka/tandem/internal/upstream"
	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Ten members work on one partition, all of them, and each record is with one of them. Then the stable offset is the end.
func TestMembersShareAPartitionByRecord(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	const n = 3000
	var mu sync.Mutex
	by := map[string]int{}
	var clients []*member
	for i := range 10 {
		name := fmt.Sprint(i)
		clients = append(clients, w.run(w.judge(name, func(context.Context, *Record) error {
			mu.Lock()
			defer mu.Unlock()
			by[name]++
			return nil
		}), ShareByRecord(), Concurrency(4)))
	}
	w.produce("t", n, n)
	w.until("3000 records", func() bool { return w.count() >= n })
	for _, c := range clients {
		c.close()
		if err := c.result(); err != nil {
			t.Error(err)
		}
	}
	w.wantOnce("t", n, n)
	offsets, err := kadm.NewClient(w.Direct()).FetchOffsets(context.Background(), "g")
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := offsets.Lookup("t", 0); o.At != n {
		t.Errorf("the stable offset is %d, not %d", o.At, n)
	}
	if len(by) < 2 {
		t.Errorf("handled by %v", by)
	}
}

// Every member has all partitions, those that a topic gets, too, until it leaves; or until it was not heard of for so long that others have what it had.
func TestCallbacksOfMembersThatShareByRecord(t *testing.T) {
	t.Parallel() // most of the time something waits
	w := newWorld(t, nil)
	w.Topic("t", 2)
	var mu sync.Mutex
	var told []string
	tell := func(what string) func(context.Context, Ranges) {
		return func(_ context.Context, r Ranges) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprint(what, r))
		}
	}
	opts := []Option{ShareByRecord(), SessionTimeout(time.Second), OnAssigned(tell("assigned ")), OnRevoked(tell("revoked ")), OnLost(tell("lost "))}
	var down atomic.Bool
	w.Fake.ControlKey(int16(kmsg.Heartbeat), func(kmsg.Request) (kmsg.Response, error, bool) { // by which the gateway asks, too
		w.Fake.KeepControl()
		return nil, errReset, down.Load()
	})
	c, d := w.run(w.judge("a", nil), opts...), w.run(w.judge("b", nil), ShareByRecord())
	all := fmt.Sprint(Ranges{"t": {0: {keyrange.Full}, 1: {keyrange.Full}}})
	w.until("both have all", func() bool { return fmt.Sprint(c.Assigned()) == all && fmt.Sprint(d.Assigned()) == all })
	down.Store(true)
	w.until("others have what it had", func() bool { return len(c.Assigned()) == 0 })
	down.Store(false)
	w.until("it has all again", func() bool { return len(c.Assigned()) > 0 })
	c.close()
	if got := fmt.Sprint(c.Assigned()); got != fmt.Sprint(Ranges{}) {
		t.Errorf("it left, and has %s", got)
	}
	mu.Lock()
	defer mu.Unlock()
	want := []string{"assigned " + all, "lost " + all, "assigned " + all, "revoked " + all}
	for len(told) > len(want) && slices.Equal(told[:2], want[:2]) { // on a busy machine its session may end by itself, too
		told = told[2:]
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %s, want %s", told, want)
	}
}

// A member that its group drops lets go of what it has, long before its session would end: others have that as soon as the group goes on without it.
func TestMemberThatSharesByRecordAndIsDropped(t *testing.T) {
	t.Parallel() // most of the time something waits
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.produce("t", 1, 1)
	var lost, ended atomic.Bool
	c := w.run(func(ctx context.Context, _ *Record) error {
		<-ctx.Done()
		ended.Store(true)
		return ctx.Err()
	}, ShareByRecord(), Concurrency(1), DrainTimeout(20*time.Millisecond), OnLost(func(context.Context, Ranges) { lost.Store(true) }))
	w.until("the record is with the first", func() bool { return c.Stats().Running == 1 })
	admin := kadm.NewClient(w.Direct())
	groups, err := admin.DescribeGroups(t.Context(), "g")
	if err != nil || len(groups["g"].Members) != 1 {
		t.Fatalf("group %+v: %v", groups["g"], err)
	}
	kick := kmsg.NewPtrLeaveGroupRequest()
	kick.Group, kick.MemberID = "g", groups["g"].Members[0].MemberID
	who := kmsg.NewLeaveGroupRequestMember()
	who.MemberID = kick.MemberID
	kick.Members = append(kick.Members, who)
	if _, err := kick.RequestWith(t.Context(), w.Direct()); err != nil {
		t.Fatal(err)
	}
	w.until("its handler ends", ended.Load)
	w.until("it is told", lost.Load)
	again := make(chan int, 1)
	d := w.run(func(_ context.Context, r *Record) error {
		again <- r.Attempt
		return nil
	}, ShareByRecord(), Concurrency(1))
	c.close()
	select {
	case n := <-again:
		if n < 2 {
			t.Errorf("attempt %d", n)
		}
	case <-time.After(20 * time.Second):
		t.Error("the record did not come again")
	}
	d.close()
}

// An answer may come so late that the member's session has ended meanwhile. What handlers have not begun with since is let go of, and they go on.
func TestMembersThatShareByRecordOutliveALateAnswer(t *testing.T) {
	t.Parallel() // most of the time something waits
	const n, session = 1000, 4 * time.Second
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.produce("t", n, n)
	held, asked := make(chan struct{}), make(chan struct{})
	var holding atomic.Bool
	w.Fake.ControlKey(int16(kmsg.Heartbeat), func(kmsg.Request) (kmsg.Response, error, bool) { // by which the gateway asks, too
		w.Fake.KeepControl()
		if holding.Load() {
			w.Fake.SleepControl(func() { <-held })
		}
		return nil, nil, false
	})
	var c *member
	started := make(chan struct{})
	done := 0 // before the one that is held
	c = w.run(w.judge("a", func(context.Context, *Record) error {
		if <-started; c.Stats().Records > 2 && !holding.Load() { // more than it is about to begin with
			done = w.count()
			holding.Store(true)
			<-asked
		}
		return nil
	}), ShareByRecord(), SessionTimeout(session), Concurrency(1))
	close(started)
	w.until("it has more than one record", holding.Load)
	w.until("its session ends", func() bool { return c.session.coop.silent() > session })
	close(asked)
	w.until("the next one waits to be rid of its record", func() bool { return w.count() == done+1 && c.Stats().Running == 1 })
	close(held)
	w.until("all records", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.done) == n
	})
	c.close()
}

// What a member had in hand when it left goes to another one, whose attempt counts on; a record that fails for good becomes a dead letter.
func TestAttemptsSurviveMembersThatShareByRecord(t *testing.T) {
	t.Parallel() // most of the time something waits
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.Topic("dead", 1)
	w.produce("t", 10, 10)
	stuck := w.run(w.judge("a", func(ctx context.Context, r *Record) error {
		<-ctx.Done()
		return ctx.Err()
	}), ShareByRecord(), Concurrency(10), DrainTimeout(20*time.Millisecond))
	w.until("all are with the first", func() bool { return stuck.Stats().Running == 10 })
	stuck.close()
	// What is kept of a topic that had the name before does not count.
	anew := attempts.Change{ID: attempts.ID{Topic: "t", Partition: 0, Offset: 4}, State: &attempts.State{Attempts: 3, TopicID: kadm.TopicID{1}.String()}}
	if err := w.kept().Save(t.Context(), []attempts.Change{anew}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	tried := map[string][]int{}
	next := w.run(w.judge("b", func(_ context.Context, r *Record) error {
		mu.Lock()
		defer mu.Unlock()
		tried[string(r.Key)] = append(tried[string(r.Key)], r.Attempt)
		if string(r.Key) == "k3" {
			return errors.New("no")
		}
		return nil
	}), ShareByRecord(), Concurrency(10), Retry(Backoff{First: time.Millisecond}, 4), DeadLetter("dead"))
	w.until("9 records", func() bool { return w.count() >= 9 })
	w.until("a dead letter", func() bool {
		ends, err := kadm.NewClient(w.Direct()).ListEndOffsets(context.Background(), "dead")
		o, _ := ends.Lookup("dead", 0)
		return err == nil && o.Offset == 1
	})
	next.close()
	mu.Lock()
	defer mu.Unlock()
	if got := fmt.Sprint(tried["k3"], tried["k4"]); got != "[2 3 4] [2]" {
		t.Errorf("attempts %s", got)
	}
}

// A description of the group names a record that fails, with its attempts and the last one's error.
func TestDescriptionOfAGroupThatSharesByRecordHasAttempts(t *testing.T) {
	t.Parallel() // most of the time something waits
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.produce("t", 10, 10)
	c := w.run(w.judge("a", func(_ context.Context, r *Record) error {
		if string(r.Key) == "k3" {
			return errors.New("no such account")
		}
		return nil
	}), ShareByRecord(), Retry(Backoff{First: time.Millisecond, Max: 10 * time.Millisecond}, 0))
	var got []inspect.Record
	w.until("k3 is named alone, with its attempts", func() bool {
		g, err := inspect.Describe(t.Context(), inspect.Config{Upstream: upstream.Config{Bootstrap: []string{w.Gateway.Addr()}}, Group: "g", Records: 10, Log: slog.New(slog.DiscardHandler)})
		if err != nil || len(g.Partitions) != 1 {
			return false
		}
		got = g.Partitions[0].Records
		return len(got) == 1 && got[0].Attempts > 1
	})
	if r := got[0]; string(r.Key) != "k3" || r.Offset != 3 || r.Cause != "no such account" {
		t.Errorf("described as %+v", r)
	}
	c.close()
}

func TestShareByRecordSaysWhatItNeeds(t *testing.T) {
	t.Parallel() // most of the time something waits
	for want, opts := range map[string][]Option{
		"excludes ShareByKey":  {ShareByRecord(), ShareByKey()},
		"without order":        {ShareByRecord(), Order(ByKey)},
		"needs ResetOffset":    {ShareByRecord(), ResetOffset(NoReset)},
		"SessionTimeout(1ms):": {ShareByRecord(), SessionTimeout(time.Millisecond)},
	} {
		if _, err := New(append([]Option{Bootstrap("b:1"), Group("g"), Topics("t")}, opts...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	off := false
	w := newWorld(t, func(c *gateway.Config) { c.Topics = map[string]gateway.TopicConfig{"closed": {CooperativeFetch: &off}} })
	for _, topic := range []string{"t", "closed"} {
		w.Topic(topic, 1)
	}
	w.produce("t", 1, 1)
	if err := w.run(w.judge("a", nil), ShareByRecord(), Topics("t", "closed")).result(); err == nil || !strings.Contains(err.Error(), "cooperative.fetch.enable): topic closed:") {
		t.Errorf("error %v", err)
	}
	if err := w.run(w.judge("a", nil), ShareByRecord(), Topics("t.view4")).result(); err == nil || !strings.Contains(err.Error(), "not for views") || !strings.Contains(err.Error(), "topic t.view4:") {
		t.Errorf("error %v", err)
	}
	first := w.run(w.judge("a", nil), ShareByRecord())
	w.until("the first handled a record", func() bool { return w.count() > 0 })
	if err := w.run(w.judge("b", nil), ShareByKey()).result(); !errors.Is(err, kerr.InconsistentGroupProtocol) || !strings.Contains(err.Error(), "all share by record") {
		t.Errorf("error %v", err)
	}
	first.close()
	w = newWorld(t, func(c *gateway.Config) { c.CooperativeFetch = false })
	w.Topic("t", 1)
	if err := w.run(w.judge("a", nil), ShareByRecord()).result(); err == nil || !strings.Contains(err.Error(), "cooperative.fetch.enable or") {
		t.Errorf("error %v", err)
	}
}
