package cases

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/client"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// sharer is a member of a group that runs package client in this process.
type sharer struct {
	*client.Client
	name  string
	t     testing.TB
	ended chan error
}

// work takes a moment for each record.
func work(d time.Duration) client.Handler {
	return func(context.Context, *client.Record) error { time.Sleep(d); return nil }
}

// sharer starts a member that shares partitions by key. What handle does with success goes into the ledger.
func (e engine) sharer(t testing.TB, l *harness.Ledger, group, name, topic string, handle client.Handler, opts ...client.Option) *sharer {
	t.Helper()
	return e.member(t, l, group, name, topic, handle, append([]client.Option{client.ShareByKey()}, opts...)...)
}

// member starts one that shares partitions as opts say.
func (e engine) member(t testing.TB, l *harness.Ledger, group, name, topic string, handle client.Handler, opts ...client.Option) *sharer {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})).With("member", name)
	c, err := client.New(append([]client.Option{client.Bootstrap(e.gateway.Bootstrap), client.Group(group), client.Topics(topic), client.Logger(log),
		client.KgoOpts(kgo.SessionTimeout(6 * time.Second))}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	s := &sharer{Client: c, name: name, t: t, ended: make(chan error, 1)}
	go func() {
		s.ended <- c.Run(context.Background(), func(ctx context.Context, r *client.Record) error {
			start := time.Now()
			if err := handle(ctx, r); err != nil {
				return err
			}
			l.Delivered(harness.Delivery{Member: name, Partition: r.Partition, Offset: r.Offset, N: valueOf(t, r.Record).N, Start: start, End: time.Now()})
			return nil
		})
	}()
	t.Cleanup(s.close)
	return s
}

// close closes the member, and fails the test if it does not end in order.
func (s *sharer) close() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		s.t.Errorf("%s: Close: %v", s.name, err)
	}
	select {
	case err := <-s.ended:
		if err != nil {
			s.t.Errorf("%s: Run: %v", s.name, err)
		}
		s.ended <- nil
	case <-ctx.Done():
		s.t.Errorf("%s does not end", s.name)
	}
}

// duo is two members of a group, time and again, that handle what there is in a topic.
type duo struct {
	engine
	t            testing.TB
	group, topic string
	all          []*kgo.Record
	opts         []client.Option // how they share
}

// run has them handle the records that wanted names, and returns the ledger of it. What else they do with success shows there as foreign.
func (d duo) run(what string, handle client.Handler, wanted func(*kgo.Record) bool) *harness.Ledger {
	d.t.Helper()
	l := ledgerOf(d.t, slices.DeleteFunc(slices.Clone(d.all), func(r *kgo.Record) bool { return !wanted(r) }))
	var members []*sharer
	for i := range 2 {
		members = append(members, d.member(d.t, l, d.group, fmt.Sprintf("%s-%d", what, i), d.topic, handle,
			append(slices.Clip(d.opts), client.Retry(client.Backoff{First: 50 * time.Millisecond, Max: 200 * time.Millisecond}, 0))...))
	}
	l.AwaitDone(d.t, 30*time.Second)
	for _, m := range members {
		m.close()
	}
	return l
}

// awaitShared waits until members have all of so many partitions of a topic among them, nothing twice.
func awaitShared(t testing.TB, limit time.Duration, topic string, partitions int32, members ...*sharer) {
	t.Helper()
	await(t, limit, func() string {
		has := map[int32]uint64{}
		for _, m := range members {
			mine := m.Assigned()[topic]
			if len(mine) == 0 && len(members) >= int(partitions) {
				return m.name + " has nothing"
			}
			for p, keys := range mine {
				has[p] += keys.Len()
			}
		}
		for p := range partitions {
			if has[p] != 1<<32 {
				return fmt.Sprintf("of partition %d the members have %d of %d positions", p, has[p], uint64(1)<<32)
			}
		}
		return ""
	})
}
