package harness

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// FollowCommitted reads all that is committed in a topic, straight from Kafka, from its start up to the end that it has when all transactions are
// decided, and then on until stop is called. each is called for one record after the other, once for each that is in the topic, also where the reader is set back: a leader that
// has just taken over may not know yet what is committed.
func FollowCommitted(t testing.TB, kafka, topic string, each func(*kgo.Record)) (caughtUp func() error, stop func()) {
	t.Helper()
	c := Client(t, kafka, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	a := kadm.NewClient(Client(t, kafka))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	var mu sync.Mutex
	position := map[int32]int64{}
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			c.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				mu.Lock()
				defer mu.Unlock()
				if r.Offset < position[r.Partition] {
					t.Logf("the reader of %s was set back to %d/%d, behind which it had read up to %d", topic, r.Partition, r.Offset, position[r.Partition])
					return
				}
				position[r.Partition] = r.Offset + 1
				if !r.Attrs.IsControl() {
					each(r)
				}
			})
		}
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return func() error {
		limited, done := context.WithTimeout(ctx, 10*time.Second)
		defer done()
		decided, err := a.ListCommittedOffsets(limited, topic)
		if err == nil {
			err = decided.Error()
		}
		if err != nil {
			return err
		}
		ends, err := a.ListEndOffsets(limited, topic)
		if err == nil {
			err = ends.Error()
		}
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for p, o := range ends[topic] {
			if decided[topic][p].Offset != o.Offset {
				return fmt.Errorf("%s/%d: a transaction is not decided", topic, p)
			}
			if position[p] < o.Offset {
				return fmt.Errorf("%s/%d: read up to %d of %d", topic, p, position[p], o.Offset)
			}
		}
		return nil
	}, stop
}

// FollowOutput reads the committed output of a group that copies its input, and enters each record of it into the ledger as a delivery of "output", one after the other: a record is done when it is
// in the output. caughtUp is that of FollowCommitted.
func FollowOutput(t testing.TB, kafka, topic string, l *Ledger) (caughtUp func() error) {
	t.Helper()
	at := time.Now()
	caughtUp, _ = FollowCommitted(t, kafka, topic, func(r *kgo.Record) {
		at = at.Add(time.Microsecond)
		l.Delivered(Delivery{Member: "output", Partition: r.Partition, Offset: -1, N: number(r.Value), Start: at, End: at})
	})
	return caughtUp
}
