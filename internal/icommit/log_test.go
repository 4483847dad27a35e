package icommit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit"
	"github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestWhatOneGatewayAppendsAnotherSees(t *testing.T) {
	c := newCluster(t)
	a, b := c.gateway(icommit.Config{}), c.gateway(icommit.Config{})
	a.sees("g") // there is no topic
	if a.Followed() != 0 {
		t.Error("a partition of nothing is followed")
	}
	a.append("g", put("g", 45, 47), put("g", 50, 50))
	b.sees("g", "45..47", "50..50")
	b.append("g", drop("g", 45, 47), drop("g", 50, 50), put("g", 45, 50))
	a.sees("g", "45..47", "50..50", "45..50", "-45..47", "-50..50")
	b.sees("g", "45..47", "50..50", "45..50", "-45..47", "-50..50")
	b.sees("other")
	if n := b.Followed(); n != 2 {
		t.Errorf("%d partitions are followed", n)
	}
	a.append("other", put("other", 1, 1))
	b.sees("other", "1..1")
	if got := b.holder.records[home("g")][0]; got != put("g", 45, 47) {
		t.Errorf("%+v became %+v", put("g", 45, 47), got)
	}
	m := b.Metrics()
	if m.Applied.Load() != 6 || m.Appended.Load() != 1 || m.Deleted.Load() != 2 || m.Bytes.Load() == 0 || m.Resets.Load() != 0 {
		t.Errorf("metrics: %+v", m)
	}
}

// The end is watched without anybody asking.
func TestFollowing(t *testing.T) {
	c := newCluster(t)
	a, b := c.gateway(icommit.Config{}), c.gateway(icommit.Config{})
	a.append("g", put("g", 1, 1))
	b.sees("g", "1..1")
	a.append("g", put("g", 3, 3))
	await(t, "3..3", func() bool { return slices.Equal(b.holder.of("g"), []string{"1..1", "3..3"}) })
}

func TestDeletionsFollowWhatReplacesThem(t *testing.T) {
	c := newCluster(t)
	a := c.gateway(icommit.Config{})
	a.append("g", put("g", 1, 1), put("g", 3, 3))
	refused := c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: icommit.TopicName, Err: kerr.InvalidRecord, Count: 1})
	err := a.Append(t.Context(), "g", []record.Record{drop("g", 1, 1), drop("g", 3, 3), put("g", 1, 3)})
	if !errors.Is(err, kerr.InvalidRecord) || refused.Hits() != 1 {
		t.Fatalf("%v", err)
	}
	a.sees("g", "1..1", "3..3")
	a.append("g", drop("g", 1, 1), drop("g", 3, 3), put("g", 1, 3))
	a.sees("g", "1..1", "3..3", "1..3", "-1..1", "-3..3")
}

func TestAppendRefusesWhatItCouldNotRead(t *testing.T) {
	c := newCluster(t)
	a := c.gateway(icommit.Config{})
	for name, r := range map[string]record.Record{"offsets": put("g", 3, 2), "group": put("other", 1, 1)} {
		if err := a.Append(t.Context(), "g", []record.Record{put("g", 1, 1), r}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := a.Append(t.Context(), "g", nil); err != nil {
		t.Error(err)
	}
	a.sees("g")
}

func TestLeadersThatMoveAndBrokersThatDie(t *testing.T) {
	c := newCluster(t)
	a, b := c.gateway(icommit.Config{}), c.gateway(icommit.Config{})
	var want []string
	for i := range int64(12) {
		if i%2 == 1 {
			c.fake.ShufflePartitionLeaders()
		}
		if i == 6 || i == 9 {
			if err := c.fake.RemoveNode(c.fake.LeaderFor(icommit.TopicName, home("g"))); err != nil {
				t.Fatal(err)
			}
		}
		a.append("g", put("g", 2*i, 2*i))
		want = append(want, fmt.Sprintf("%d..%d", 2*i, 2*i))
		b.sees("g", want...)
	}
	if n := b.holder.resetCount(); n != 0 {
		t.Errorf("%d resets", n)
	}
}

func TestTopicDeleted(t *testing.T) {
	c := newCluster(t)
	a, b := c.gateway(icommit.Config{}), c.gateway(icommit.Config{})
	a.append("g", put("g", 1, 1), put("g", 3, 3))
	b.sees("g", "1..1", "3..3")
	if err := c.fake.DeleteTopic(icommit.TopicName); err != nil {
		t.Fatal(err)
	}
	b.sees("g")
	if n := b.holder.resetCount(); n != 1 {
		t.Errorf("%d resets", n)
	}
	b.sees("g")
	a.append("g", put("g", 5, 5)) // with the producer that knew the old topic
	b.sees("g", "5..5")
	a.sees("g", "5..5")
}

func TestTopicMadeAnew(t *testing.T) {
	c := newCluster(t)
	a, b := c.gateway(icommit.Config{}), c.gateway(icommit.Config{})
	for round := range int64(3) { // also with more records and with fewer than before
		n := []int64{3, 5, 1}[round]
		var want []string
		for i := range n {
			a.append("g", put("g", 10*i+round, 10*i+round))
			want = append(want, fmt.Sprintf("%d..%d", 10*i+round, 10*i+round))
		}
		b.sees("g", want...)
		a.sees("g", want...)
		if err := c.fake.DeleteTopic(icommit.TopicName); err != nil {
			t.Fatal(err)
		}
	}
}

// Without anybody asking: what is held of a topic that is gone is not kept.
func TestTopicThatGoesIsNoticed(t *testing.T) {
	c := newCluster(t)
	a := c.gateway(icommit.Config{})
	a.append("g", put("g", 1, 1))
	a.sees("g", "1..1")
	if err := c.fake.DeleteTopic(icommit.TopicName); err != nil {
		t.Fatal(err)
	}
	await(t, "the reset", func() bool { return a.holder.of("g") == nil && a.Followed() == 0 })
}

// Groups then belong to other partitions.
func TestTopicThatGetsMorePartitions(t *testing.T) {
	c := newCluster(t)
	if _, err := c.user.CreateTopic(t.Context(), 5, 1, nil, icommit.TopicName); err != nil {
		t.Fatal(err)
	}
	a, b := c.gateway(icommit.Config{}), c.gateway(icommit.Config{})
	a.append("orders-workers", put("orders-workers", 1, 1))
	b.sees("orders-workers", "1..1")
	if _, err := c.user.CreatePartitions(t.Context(), 4, icommit.TopicName); err != nil {
		t.Fatal(err)
	}
	if record.PartitionOf("orders-workers", 5) == record.PartitionOf("orders-workers", 9) {
		t.Fatal("the group does not show it")
	}
	b.sees("orders-workers")
	b.append("orders-workers", put("orders-workers", 3, 3))
	b.sees("orders-workers", "3..3")
	a.sees("orders-workers", "3..3")
}

func TestRecordsDeletedAtTheStart(t *testing.T) {
	c := newCluster(t)
	a, b := c.gateway(icommit.Config{}), c.gateway(icommit.Config{})
	a.append("g", put("g", 1, 1), put("g", 3, 3), put("g", 5, 5))
	if err := c.fake.DeleteRecords(icommit.TopicName, home("g"), 2); err != nil {
		t.Fatal(err)
	}
	b.sees("g", "5..5")
	b.sees("g", "5..5")
}

// produce writes as anybody could.
func (c *cluster) produce(partition int32, key, value []byte) {
	c.t.Helper()
	if err := c.kgo.ProduceSync(c.t.Context(), &kgo.Record{Topic: icommit.TopicName, Partition: partition, Key: key, Value: value}).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
}

func TestRecordsThatAreSkipped(t *testing.T) {
	c := newCluster(t)
	a, b := c.gateway(icommit.Config{}), c.gateway(icommit.Config{})
	a.append("g", put("g", 1, 1))
	good := put("g", 3, 3)
	key, value := record.AppendKey(nil, &good), record.AppendValue(nil, &good)
	p := home("g")
	c.produce(p, nil, value)
	c.produce(p, []byte("hello"), []byte("world"))
	c.produce(p, key[:len(key)-1], value)
	c.produce(p, key, value[:5])
	c.produce(p, key, []byte{})
	c.produce(p, []byte{0, 7, 1}, value)
	c.produce(p, key, []byte{0, 7, 1})
	c.produce(p, []byte{0, 7, 1}, nil)
	c.produce((p+1)%50, key, value)
	stray := put("h", 9, 9)
	c.produce(p, record.AppendKey(nil, &stray), value)
	a.append("g", put("g", 5, 5))
	b.sees("g", "1..1", "5..5")
	m := b.Metrics()
	if m.Foreign.Load() != 2 || m.Damaged.Load() != 3 || m.Newer.Load() != 3 || m.Misplaced.Load() != 1 {
		t.Errorf("metrics: %+v", m)
	}
	if end, err := c.user.ListEndOffsets(t.Context(), icommit.TopicName); err != nil || end[icommit.TopicName][p].Offset != 11 {
		t.Errorf("end %v, %v: nothing is deleted or written for what cannot be read", end[icommit.TopicName][p], err)
	}
}

func TestTransactions(t *testing.T) {
	c := newCluster(t)
	a, b := c.gateway(icommit.Config{}), c.gateway(icommit.Config{})
	a.append("g", put("g", 1, 1))
	tx, err := kgo.NewClient(kgo.SeedBrokers(c.fake.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("tx"))
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	transact := func(r record.Record, commit kgo.TransactionEndTry, during func()) {
		if err := tx.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		kr := &kgo.Record{Topic: icommit.TopicName, Partition: home("g"), Key: record.AppendKey(nil, &r), Value: record.AppendValue(nil, &r)}
		if err := tx.ProduceSync(t.Context(), kr).FirstErr(); err != nil {
			t.Fatal(err)
		}
		during()
		if err := tx.EndTransaction(t.Context(), commit); err != nil {
			t.Fatal(err)
		}
	}
	sees := func(undecided int, want ...string) {
		t.Helper()
		late := c.gateway(icommit.Config{}) // reads the log from its start
		for _, g := range []*gateway{b, late} {
			g.sees("g", want...)
			if n := g.holder.undecided(); n != undecided {
				t.Errorf("%d records are not decided, want %d", n, undecided)
			}
		}
	}
	transact(put("g", 3, 3), kgo.TryAbort, func() { sees(1, "1..1") })
	sees(0, "1..1")
	transact(put("g", 5, 5), kgo.TryCommit, func() {
		a.append("g", put("g", 7, 7))
		sees(1, "1..1", "7..7") // others do not wait
	})
	sees(0, "1..1", "7..7", "5..5")
	transact(put("g", 9, 9), kgo.TryAbort, func() {})
	sees(0, "1..1", "7..7", "5..5") // the log ends in a marker
}

func TestNobodyUsesThePartition(t *testing.T) {
	c := newCluster(t)
	a, b := c.gateway(icommit.Config{}), c.gateway(icommit.Config{Idle: 50 * time.Millisecond, Wait: 10 * time.Millisecond})
	a.append("g", put("g", 1, 1))
	b.sees("g", "1..1")
	await(t, "the end of following", func() bool { return b.Followed() == 0 && b.holder.resetCount() == 1 })
	if got := b.holder.of("g"); got != nil {
		t.Errorf("%v is still held", got)
	}
	a.append("g", put("g", 3, 3))
	b.sees("g", "1..1", "3..3")
}

// However many callers there are, the cluster is asked a few questions at a time.
func TestManyCatchUpsAtOnce(t *testing.T) {
	c := newCluster(t)
	a, b := c.gateway(icommit.Config{}), c.gateway(icommit.Config{})
	for i := range 20 {
		g := fmt.Sprint("g", i)
		a.append(g, put(g, 1, 1))
	}
	asked := c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets, kmsg.Metadata}, Topic: icommit.TopicName, Count: -1, Observe: true})
	var wg sync.WaitGroup
	var failed atomic.Int64
	for i := range 2000 {
		wg.Go(func() {
			if err := b.CatchUp(t.Context(), fmt.Sprint("g", i%20)); err != nil {
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	if failed.Load() > 0 {
		t.Errorf("%d failed", failed.Load())
	}
	for i := range 20 {
		b.sees(fmt.Sprint("g", i), "1..1")
	}
	if n := asked.Hits(); n > 1000 {
		t.Errorf("%d questions", n)
	}
}

func TestNoPermissionToRead(t *testing.T) {
	c := newCluster(t)
	a := c.gateway(icommit.Config{})
	a.append("g", put("g", 1, 1))
	denied := c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: icommit.TopicName, Err: kerr.TopicAuthorizationFailed, Count: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := a.CatchUp(ctx, "g"); !errors.Is(err, kerr.TopicAuthorizationFailed) || ctx.Err() != nil {
		t.Fatalf("%v", err)
	}
	denied.Remove()
	await(t, "the permission", func() bool { return a.CatchUp(ctx, "g") == nil })
	a.sees("g", "1..1")
}

func TestCatchUpEndsWithItsContext(t *testing.T) {
	c := newCluster(t)
	a := c.gateway(icommit.Config{})
	a.append("g", put("g", 1, 1))
	c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: icommit.TopicName, Err: kerr.KafkaStorageError, Count: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	err := a.CatchUp(ctx, "g")
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("%v", err)
	}
}

func TestClose(t *testing.T) {
	c := newCluster(t)
	a := c.gateway(icommit.Config{})
	a.append("g", put("g", 1, 1))
	a.sees("g", "1..1")
	c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: icommit.TopicName, Err: kerr.OffsetNotAvailable, Count: -1})
	done := make(chan error)
	go func() { done <- a.CatchUp(context.Background(), "g") }()
	a.Close()
	if err := <-done; !errors.Is(err, icommit.ErrClosed) && !errors.Is(err, context.Canceled) {
		t.Errorf("under way: %v", err)
	}
	if err := a.CatchUp(t.Context(), "g"); !errors.Is(err, icommit.ErrClosed) {
		t.Errorf("CatchUp: %v", err)
	}
	if err := a.Append(t.Context(), "g", []record.Record{put("g", 1, 1)}); !errors.Is(err, icommit.ErrClosed) {
		t.Errorf("Append: %v", err)
	}
	if n := a.holder.resetCount(); n != 0 {
		t.Errorf("%d resets", n)
	}
	a.Close()
}
