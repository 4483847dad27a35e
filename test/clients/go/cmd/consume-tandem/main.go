// consume-tandem: the kit's consumer for Tandem's own Go client. Its members share partitions by keys, handle many records at once, and commit each on
// its own; with --in-process straight on a cluster, without a gateway. With --poll they poll, handle one record after the other, and commit it.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tandem-kafka/tandem/client"
	"github.com/tandem-kafka/tandem/test/clients/go/kit"
	"github.com/twmb/franz-go/pkg/kgo"
)

// flags are those that other programs of the kit do not have.
type flags struct {
	inProcess, whole, cooperative, latest, verbose bool
	poll, concurrency, attempts                    int
	order, deadLetter                              string
	commit, lease, drain, backoff                  time.Duration
	fail, die                                      string
}

func parse() *flags {
	f := &flags{}
	flag.BoolVar(&f.inProcess, "in-process", false, "carry the gateway in the process: --bootstrap names the cluster's brokers")
	flag.BoolVar(&f.whole, "whole", false, "take whole partitions: no ShareByKey")
	flag.BoolVar(&f.cooperative, "cooperative", false, "go on through rebalances")
	flag.BoolVar(&f.latest, "latest", false, "begin at the end where the group has committed nothing")
	flag.BoolVar(&f.verbose, "verbose", false, "log at debug level")
	flag.IntVar(&f.poll, "poll", 0, "poll so many records at once, in place of a handler")
	flag.IntVar(&f.concurrency, "concurrency", 16, "handlers at once")
	flag.StringVar(&f.order, "order", "key", "key, partition or none")
	flag.IntVar(&f.attempts, "attempts", 0, "give a record up after so many attempts, 0: never")
	flag.DurationVar(&f.backoff, "backoff", 100*time.Millisecond, "before the second attempt")
	flag.StringVar(&f.deadLetter, "dead-letter", "", "topic for records that are given up")
	flag.DurationVar(&f.commit, "commit-interval", 200*time.Millisecond, "how long what is done may wait for its commit")
	flag.DurationVar(&f.lease, "lease", time.Minute, "how long a handler may take before it is reported")
	flag.DurationVar(&f.drain, "drain", 10*time.Second, "how long handlers may go on when their keys are taken away")
	flag.StringVar(&f.fail, "fail", "", "records whose keys begin so fail in each attempt")
	flag.StringVar(&f.die, "die", "", "a record whose key begins so kills the process")
	return f
}

func (f *flags) options(k *kit.Kit) []client.Option {
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	orders := map[string]client.Ordering{"key": client.ByKey, "partition": client.ByPartition, "none": client.NoOrder}
	order, ok := orders[f.order]
	if !ok {
		kit.Fatal("--order %s: key, partition or none", f.order)
	}
	member := []kgo.Opt{kgo.SessionTimeout(k.Session), kgo.HeartbeatInterval(k.Session / 6)}
	if k.ClientID != "" {
		member = append(member, kgo.ClientID(k.ClientID))
	}
	event := func(name string) func(context.Context, client.Ranges) {
		return func(_ context.Context, ranges client.Ranges) {
			for topic, partitions := range ranges {
				kit.Log("%s %s: %v", name, topic, partitions)
				k.Event(name, slices.Sorted(maps.Keys(partitions)))
			}
		}
	}
	opts := []client.Option{
		client.Bootstrap(k.Brokers()...), client.Group(k.Group), client.Topics(strings.Split(k.Topic, ",")...), client.Concurrency(f.concurrency), client.Order(order),
		client.CommitInterval(f.commit), client.Lease(f.lease), client.DrainTimeout(f.drain), client.Retry(client.Backoff{First: f.backoff}, f.attempts),
		client.OnAssigned(event("assigned")), client.OnRevoked(event("revoked")), client.OnLost(event("lost")), client.KgoOpts(member...),
		client.Logger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))),
	}
	for _, o := range []struct {
		on     bool
		option client.Option
	}{
		{!f.whole, client.ShareByKey()}, {f.inProcess, client.InProcess()}, {f.cooperative, client.Cooperative()}, {f.latest, client.ResetOffset(client.Latest)},
		{k.ReadCommitted(), client.Isolation(client.ReadCommitted)}, {f.deadLetter != "", client.DeadLetter(f.deadLetter)},
	} {
		if o.on {
			opts = append(opts, o.option)
		}
	}
	return opts
}

// handle does the work for a record, unless the command line wants it to go wrong.
func (f *flags) handle(k *kit.Kit, r *client.Record) error {
	key := string(r.Key)
	switch {
	case f.die != "" && strings.HasPrefix(key, f.die):
		kit.Log("record %d of key %s kills the process, attempt %d", r.Offset, key, r.Attempt)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case f.fail != "" && strings.HasPrefix(key, f.fail):
		return errors.New("keys like this one fail")
	}
	k.Process(r.Partition, r.Offset, r.Key, r.Value)
	return nil
}

func main() {
	f := parse()
	k := kit.Start("tandem")
	c, err := client.New(f.options(k)...)
	if err != nil {
		kit.Fatal("%v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-k.Stopping(); cancel() }()
	if f.poll > 0 {
		err = f.loop(ctx, k, c)
	} else {
		err = c.Run(ctx, func(_ context.Context, r *client.Record) error { return f.handle(k, r) })
	}
	if err != nil {
		kit.Fatal("%v", err)
	}
}

// loop polls until ctx ends, and leaves then.
func (f *flags) loop(ctx context.Context, k *kit.Kit, c *client.Client) error {
	for {
		records, err := c.Poll(ctx, f.poll)
		if ctx.Err() != nil {
			return c.Close(context.Background())
		}
		if err != nil {
			return err
		}
		for _, r := range records {
			if ctx.Err() != nil {
				break
			}
			if err := f.handle(k, r); err != nil {
				return err
			}
			if err := c.Commit(r); err != nil {
				kit.Log("offset %d: %v", r.Offset, err)
			}
		}
	}
}
