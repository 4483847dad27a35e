package cases

import (
	"context"
	"testing"

	"github.com/tandem-kafka/tandem/client"
	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/test/harness"
)

// kind says how the members of a case's group are made, and what they read.
type kind struct {
	name     string
	shared   bool // the members are Tandem's own client, and share the source's partitions by keys; else they read a view
	byRecord bool // shared, and by record in place of keys: nothing is in order
	polls    bool // shared, with Poll and Commit in place of a handler
}

var (
	onViews       = kind{name: "views"}
	sharers       = kind{name: "shared by key", shared: true}
	recordSharers = kind{name: "shared by record", shared: true, byRecord: true}
	pollers       = kind{name: "shared by key, polled", shared: true, polls: true}
)

// kinds runs a case with ordinary consumers on a view, on both engines, and with Tandem's own client on the topic itself, on Kafka, as more kinds, too; beside other cases.
func kinds(t *testing.T, c harness.GatewayConfig, run func(t *testing.T, e engine, of kind), more ...kind) {
	t.Helper()
	engines(t, c, func(t *testing.T, e engine) { run(t, e, onViews) })
	onKafkaAs(t, c, run, append([]kind{sharers}, more...)...)
}

// onKafkaAs runs a case for kinds of members on Kafka, beside each other and other cases.
func onKafkaAs(t *testing.T, c harness.GatewayConfig, run func(t *testing.T, e engine, of kind), all ...kind) {
	t.Helper()
	for _, of := range all {
		t.Run(of.name, func(t *testing.T) {
			t.Parallel()
			run(t, onKafka(t, c), of)
		})
	}
}

// ledger judges l as the kind of members wants it.
func (of kind) ledger(l *harness.Ledger) *harness.Ledger {
	if of.byRecord {
		return l.AnyOrder()
	}
	return l
}

// reads is the topic that members read.
func (of kind) reads(source, view string) string {
	if of.shared {
		return source
	}
	return view
}

// where is in which partition they have to see a record.
func (of kind) where(base, k int32) func(harness.Produced) (int32, bool) {
	if of.shared {
		return func(p harness.Produced) (int32, bool) { return p.Partition, true }
	}
	return harness.View(base, k)
}

// start starts a member. What it has is noted in has, unless that is nil.
func (of kind) start(t testing.TB, l *harness.Ledger, c harness.ConsumerConfig, has *assignment, opts ...client.Option) harness.Member {
	t.Helper()
	if of.shared {
		if c.ByRecord, c.Polls = of.byRecord, of.polls; has != nil {
			opts = append(opts, has.sharer(c.Member)...)
		}
		return harness.Share(t, l, c, opts...)
	}
	if has != nil {
		c.Opts = append(c.Opts, has.of(c.Member)...)
	}
	return harness.Consume(t, l, c)
}

// sharer returns the options that note how much of the key axis of its partitions a member has, in slices: a partition of the view that others would read.
func (a *assignment) sharer(member string) []client.Option {
	change := func(has bool) func(context.Context, client.Ranges) {
		return func(_ context.Context, ranges client.Ranges) {
			a.mu.Lock()
			defer a.mu.Unlock()
			for _, partitions := range ranges {
				for p, keys := range partitions {
					if a.axis[member] == nil {
						a.axis[member] = map[int32]keyrange.Set{}
					}
					if has {
						a.axis[member][p] = keyrange.AppendUnion(nil, a.axis[member][p], keys)
					} else {
						a.axis[member][p] = keyrange.AppendSubtract(nil, a.axis[member][p], keys)
					}
				}
			}
		}
	}
	return []client.Option{client.OnAssigned(change(true)), client.OnRevoked(change(false)), client.OnLost(change(false))}
}

// slices is how many slices, of k for each partition, a sharer has. Shares are equal up to one position.
func (a *assignment) slices(member string, k uint64) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, keys := range a.axis[member] {
		n += int((keys.Len()*k + 1<<31) >> 32)
	}
	return n
}
