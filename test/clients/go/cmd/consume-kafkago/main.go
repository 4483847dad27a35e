// consume-kafkago: the kit's consumer for segmentio/kafka-go.
//
// Default mode: ConsumerGroup, the library's lower interface: each generation starts one loop per partition with a plain Reader,
// commits with Generation.CommitOffsets, and ends before the next generation begins.
// --reader: the Reader with GroupID (FetchMessage, CommitMessages), the interface that most programs use. It gives no word of a revoked
// partition and keeps records that it fetched in an older generation, so that two members can hold one key for a moment.
package main

import (
	"context"
	"errors"
	"flag"
	"sync"
	"time"

	"github.com/tandem-kafka/tandem/test/clients/go/kit"

	"github.com/segmentio/kafka-go"
)

func balancers(k *kit.Kit) []kafka.GroupBalancer {
	if k.Assignor == "range" {
		return []kafka.GroupBalancer{kafka.RangeGroupBalancer{}}
	}
	return nil
}

func isolation(k *kit.Kit) kafka.IsolationLevel {
	if k.ReadCommitted() {
		return kafka.ReadCommitted
	}
	return kafka.ReadUncommitted
}

func main() {
	reader := flag.Bool("reader", false, "use Reader with GroupID instead of ConsumerGroup")
	name := "kafka-go"
	k := kit.Start(name)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-k.Stopping(); cancel() }()
	if *reader {
		readerMode(ctx, k)
		return
	}
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: k.Group, Brokers: k.Brokers(), Topics: []string{k.Topic}, GroupBalancers: balancers(k), StartOffset: kafka.FirstOffset,
		SessionTimeout: k.Session, HeartbeatInterval: k.Session / 6, JoinGroupBackoff: 200 * time.Millisecond,
		ErrorLogger: kafka.LoggerFunc(kit.Log),
	})
	if err != nil {
		kit.Fatal("%v", err)
	}
	for {
		gen, err := group.Next(ctx)
		if errors.Is(err, context.Canceled) || errors.Is(err, kafka.ErrGroupClosed) {
			break
		}
		if err != nil {
			kit.Log("next: %v", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		var ids []int32
		var loops sync.WaitGroup
		for _, a := range gen.Assignments[k.Topic] {
			ids = append(ids, int32(a.ID))
		}
		k.Event("assigned", ids)
		for _, a := range gen.Assignments[k.Topic] {
			loops.Add(1)
			gen.Start(func(gctx context.Context) {
				defer loops.Done()
				partition(ctx, gctx, k, gen, a)
			})
		}
		gen.Start(func(gctx context.Context) {
			<-gctx.Done()
			loops.Wait()
			k.Event("revoked", ids)
		})
	}
	group.Close()
}

// partition reads one partition for as long as the generation lasts.
func partition(ctx, gctx context.Context, k *kit.Kit, gen *kafka.Generation, a kafka.PartitionAssignment) {
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: k.Brokers(), Topic: k.Topic, Partition: a.ID, IsolationLevel: isolation(k),
		MinBytes: 1, MaxBytes: 1 << 20, MaxWait: 500 * time.Millisecond, QueueCapacity: 100, ErrorLogger: kafka.LoggerFunc(kit.Log)})
	defer r.Close()
	if err := r.SetOffset(a.Offset); err != nil {
		kit.Log("seek %d: %v", a.Offset, err)
		return
	}
	both, cancel := context.WithCancel(gctx)
	defer cancel()
	go func() {
		select {
		case <-ctx.Done():
			cancel()
		case <-both.Done():
		}
	}()
	next, count, committed := int64(-1), 0, time.Now()
	commit := func() {
		if count == 0 {
			return
		}
		if err := gen.CommitOffsets(map[string]map[int]int64{k.Topic: {a.ID: next}}); err != nil {
			kit.Log("commit: %v", err)
		}
		count, committed = 0, time.Now()
	}
	defer commit()
	for both.Err() == nil {
		wait, stop := context.WithTimeout(both, 500*time.Millisecond)
		m, err := r.ReadMessage(wait)
		stop()
		if err != nil {
			if wait.Err() == nil {
				kit.Log("read: %v", err)
				time.Sleep(100 * time.Millisecond)
			}
			commit()
			continue
		}
		if both.Err() != nil {
			return
		}
		k.Process(int32(m.Partition), m.Offset, m.Key, m.Value)
		next = m.Offset + 1
		if count++; count >= 100 || time.Since(committed) > 500*time.Millisecond {
			commit()
		}
	}
}

func readerMode(ctx context.Context, k *kit.Kit) {
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: k.Brokers(), GroupID: k.Group, Topic: k.Topic, GroupBalancers: balancers(k),
		IsolationLevel: isolation(k), StartOffset: kafka.FirstOffset, MinBytes: 1, MaxBytes: 1 << 20, MaxWait: 500 * time.Millisecond,
		QueueCapacity: 1, SessionTimeout: k.Session, HeartbeatInterval: k.Session / 6, JoinGroupBackoff: 200 * time.Millisecond,
		ErrorLogger: kafka.LoggerFunc(kit.Log)})
	var done []kafka.Message
	commit := func() {
		if len(done) == 0 {
			return
		}
		c, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		if err := r.CommitMessages(c, done...); err != nil {
			kit.Log("commit: %v", err)
		}
		done = nil
	}
	committed := time.Now()
	for ctx.Err() == nil {
		wait, stop := context.WithTimeout(ctx, 300*time.Millisecond)
		m, err := r.FetchMessage(wait)
		stop()
		if err != nil {
			if wait.Err() == nil {
				kit.Log("fetch: %v", err)
				time.Sleep(100 * time.Millisecond)
			}
			commit()
			continue
		}
		k.Process(int32(m.Partition), m.Offset, m.Key, m.Value)
		done = append(done, m)
		if len(done) >= 100 || time.Since(committed) > 500*time.Millisecond {
			commit()
			committed = time.Now()
		}
	}
	commit()
	if err := r.Close(); err != nil {
		kit.Log("close: %v", err)
	}
}
