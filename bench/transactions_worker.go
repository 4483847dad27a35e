package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	tandem "github.com/tandem-kafka/tandem/client"
)

// interval is how often the copiers end a transaction, or commit.
const interval = 100 * time.Millisecond

// transactionsWorker copies a topic to another: HOW BOOTSTRAP IN OUT GROUP ID.
func transactionsWorker(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	how, bootstrap, in, out, group, id := args[0], args[1], args[2], args[3], args[4], args[5]
	fmt.Println("ready: bootstrap", bootstrap)
	if how == "plain" {
		return copyPlain(ctx, bootstrap, in, out, group, id)
	}
	opts := []tandem.Option{tandem.Bootstrap(bootstrap), tandem.Group(group), tandem.Topics(in), tandem.CommitInterval(interval),
		tandem.Logger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))}
	if how != "whole" {
		opts = append(opts, tandem.ShareByKey())
	}
	if how == "in-process" {
		opts = append(opts, tandem.InProcess())
	}
	handle := func(_ context.Context, r *tandem.Record) error {
		return r.Produce(&kgo.Record{Topic: out, Key: r.Key, Value: r.Value})
	}
	if how == "at-least-once" {
		p, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ProducerLinger(time.Millisecond))
		if err != nil {
			return err
		}
		defer p.Close()
		opts = append(opts, tandem.Concurrency(256))
		handle = func(ctx context.Context, r *tandem.Record) error {
			return p.ProduceSync(ctx, &kgo.Record{Topic: out, Key: r.Key, Value: r.Value}).FirstErr()
		}
	} else {
		opts = append(opts, tandem.Transactional(id))
	}
	c, err := tandem.New(opts...)
	if err != nil {
		return err
	}
	return c.Run(ctx, handle)
}

// copyPlain is the loop of consume, produce and end, with franz-go alone.
func copyPlain(ctx context.Context, bootstrap, in, out, group, id string) error {
	s, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(bootstrap), kgo.TransactionalID(id), kgo.ConsumerGroup(group), kgo.ConsumeTopics(in),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MaxBufferedRecords(1<<20))
	if err != nil {
		return err
	}
	defer s.Close()
	for ctx.Err() == nil {
		fetches := s.PollRecords(ctx, 10_000)
		if fetches.Empty() {
			continue
		}
		if err := s.Begin(); err != nil {
			return err
		}
		write := func(f kgo.Fetches) {
			f.EachRecord(func(r *kgo.Record) { s.Produce(ctx, &kgo.Record{Topic: out, Key: r.Key, Value: r.Value}, nil) })
		}
		write(fetches)
		for end := time.Now().Add(interval); time.Now().Before(end); {
			limited, cancel := context.WithDeadline(ctx, end)
			write(s.PollRecords(limited, 10_000))
			cancel()
		}
		if _, err := s.End(context.WithoutCancel(ctx), kgo.TryCommit); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return nil
}
