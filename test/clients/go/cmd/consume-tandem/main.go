// consume-tandem: the kit's consumer for Tandem's own Go client. Its members share partitions by keys, handle many records at once, and commit each on
// its own; with --in-process straight on a cluster, without a gateway. With --poll they poll, handle one record after the other, and commit it.
package main

import (
	"context"
	"flag"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tandem-kafka/tandem/client"
	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/test/clients/go/kit"
	"github.com/twmb/franz-go/pkg/kgo"
)

// flags are those that other programs of the kit do not have.
type flags struct {
	inProcess, cooperative, verbose bool
	poll, concurrency               int
}

func parse() *flags {
	f := &flags{}
	flag.BoolVar(&f.inProcess, "in-process", false, "carry the gateway in the process: --bootstrap names the cluster's brokers")
	flag.BoolVar(&f.cooperative, "cooperative", false, "go on through rebalances")
	flag.BoolVar(&f.verbose, "verbose", false, "log at debug level")
	flag.IntVar(&f.poll, "poll", 0, "poll so many records at once, in place of a handler")
	flag.IntVar(&f.concurrency, "concurrency", 16, "handlers at once")
	return f
}

func (f *flags) options(k *kit.Kit) []client.Option {
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
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
		client.Bootstrap(k.Brokers()...), client.Group(k.Group), client.Topics(strings.Split(k.Topic, ",")...), client.ShareByKey(), client.Concurrency(f.concurrency),
		client.OnAssigned(event("assigned")), client.OnRevoked(event("revoked")), client.OnLost(event("lost")), client.KgoOpts(member...),
		client.Metrics(client.Hook{Committed: func(_ string, partition int32, keys keyrange.Set, _ int, took time.Duration, err error) {
			if err == nil {
				k.Note("committed", partition, keys, time.Now().Add(-took))
			}
		}}),
		client.Logger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))),
	}
	if f.inProcess {
		opts = append(opts, client.InProcess())
	}
	if f.cooperative {
		opts = append(opts, client.Cooperative())
	}
	if k.ReadCommitted() {
		opts = append(opts, client.Isolation(client.ReadCommitted))
	}
	return opts
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
		err = c.Run(ctx, func(_ context.Context, r *client.Record) error {
			k.Process(r.Partition, r.Offset, r.Key, r.Value)
			return nil
		})
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
			k.Process(r.Partition, r.Offset, r.Key, r.Value)
			if err := c.Commit(r); err != nil {
				kit.Log("offset %d: %v", r.Offset, err)
			}
		}
	}
}
