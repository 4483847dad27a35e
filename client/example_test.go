package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client"
	"github.com/tandem-kafka/tandem/keyrange"
)

// cluster is a small Kafka in this process, with records of three keys in the topic orders.
func cluster() (address string, stop func()) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", "orders.dlq", "orders.priced"))
	if err != nil {
		panic(err)
	}
	p, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...))
	if err != nil {
		panic(err)
	}
	defer p.Close()
	for i := range 6 {
		r := &kgo.Record{Topic: "orders", Key: fmt.Appendf(nil, "customer-%d", i%3), Value: fmt.Appendf(nil, "order %d", i)}
		if err := p.ProduceSync(context.Background(), r).FirstErr(); err != nil {
			panic(err)
		}
	}
	return fake.ListenAddrs()[0], fake.Close
}

var quiet = client.Logger(slog.New(slog.DiscardHandler))

// A handler for each record, many at once, in order for each key.
func Example() {
	address, stop := cluster()
	defer stop()
	c, err := client.New(
		client.Bootstrap(address),
		client.InProcess(), // carry the gateway in this process: address is Kafka's own
		client.Group("payments"),
		client.Topics("orders"),
		client.ShareByKey(),
		client.Concurrency(100),
		quiet,
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	paid := make(chan string)
	go func() {
		for range 6 {
			fmt.Println(<-paid)
		}
		cancel() // as SIGTERM does in a real program
	}()
	err = c.Run(ctx, func(_ context.Context, r *client.Record) error {
		paid <- fmt.Sprintf("%s: %s", r.Key, r.Value)
		return nil
	})
	fmt.Println(err)
	// Unordered output:
	// customer-0: order 0
	// customer-1: order 1
	// customer-2: order 2
	// customer-0: order 3
	// customer-1: order 4
	// customer-2: order 5
	// <nil>
}

// A record that fails is attempted again, and in the end goes to a dead-letter topic.
func ExampleDeadLetter() {
	address, stop := cluster()
	defer stop()
	given := make(chan client.Event, 1)
	c, err := client.New(
		client.Bootstrap(address), client.InProcess(), client.Group("payments"), client.Topics("orders"),
		client.Retry(client.Backoff{First: time.Millisecond, Max: time.Second, Jitter: 20}, 3),
		client.DeadLetter("orders.dlq"),
		client.Metrics(client.Hook{Event: func(e client.Event) {
			if e.Kind == client.DeadLettered {
				given <- e
			}
		}}),
		quiet,
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		e := <-given
		fmt.Printf("%s at offset %d, after %d attempts: %v\n", e.Key, e.Offset, e.Attempts, e.Err)
		_ = c.Close(context.Background())
	}()
	err = c.Run(context.Background(), func(_ context.Context, r *client.Record) error {
		if string(r.Value) == "order 4" {
			return errors.New("no such account")
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// customer-1 at offset 4, after 3 attempts: no such account
	// <nil>
}

// Records by hand: polled, and committed in any order.
func ExampleClient_Poll() {
	address, stop := cluster()
	defer stop()
	c, err := client.New(client.Bootstrap(address), client.InProcess(), client.Group("payments"), client.Topics("orders"), quiet)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for polled := 0; polled < 6; {
		records, err := c.Poll(ctx, 100)
		if err != nil {
			fmt.Println(err)
			return
		}
		polled += len(records)
		for _, r := range records {
			if r.Offset%2 == 1 { // the others come again after a restart
				if err := c.Commit(r); err != nil {
					fmt.Println(err)
				}
			}
		}
	}
	fmt.Println(c.Close(ctx))
	// Output: <nil>
}

// Key ranges of partitions without a group's rebalances: this process has the first quarter of the keys of partition 0.
func ExampleAssign() {
	address, stop := cluster()
	defer stop()
	c, err := client.New(
		client.Bootstrap(address), client.InProcess(),
		client.Assign(client.Ranges{"orders": {0: keyrange.Set{keyrange.OfSlice(0, 4)}}}),
		client.Group("payments"), // keeps what is done
		quiet,
	)
	fmt.Println(c != nil, err)
	// Output: true <nil>
}

// Work without order: any process takes whatever record is next.
func ExampleShareByRecord() {
	address, stop := cluster()
	defer stop()
	c, err := client.New(
		client.Bootstrap(address), client.InProcess(), client.Group("welcome"), client.Topics("orders"),
		client.ShareByRecord(),
		client.Concurrency(8),
		client.SessionTimeout(10*time.Second), // what a process has that is not heard of for so long goes to others
		quiet,
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	done := make(chan string)
	go func() {
		for range 6 {
			fmt.Println(<-done)
		}
		cancel()
	}()
	err = c.Run(ctx, func(_ context.Context, r *client.Record) error {
		done <- fmt.Sprintf("%s, attempt %d", r.Value, r.Attempt)
		return nil
	})
	fmt.Println(err)
	// Unordered output:
	// order 0, attempt 1
	// order 1, attempt 1
	// order 2, attempt 1
	// order 3, attempt 1
	// order 4, attempt 1
	// order 5, attempt 1
	// <nil>
}

// Exactly once: what the handler writes, and the commits of the records that it was made of, are one transaction.
func ExampleTransactional() {
	address, stop := cluster()
	defer stop()
	c, err := client.New(
		client.Bootstrap(address), client.InProcess(), client.Group("pricing"), client.Topics("orders"),
		client.ShareByKey(),
		client.Transactional("pricing-0"), // each process that runs has its own
		client.CommitInterval(10*time.Millisecond),
		quiet,
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go func() {
		readCommitted(address, "orders.priced", 6)
		cancel()
	}()
	err = c.Run(ctx, func(_ context.Context, r *client.Record) error {
		return r.Produce(&kgo.Record{Topic: "orders.priced", Key: r.Key, Value: fmt.Appendf(nil, "%s costs 5", r.Value)})
	})
	fmt.Println(err)
	// Unordered output:
	// customer-0: order 0 costs 5
	// customer-1: order 1 costs 5
	// customer-2: order 2 costs 5
	// customer-0: order 3 costs 5
	// customer-1: order 4 costs 5
	// customer-2: order 5 costs 5
	// <nil>
}

// readCommitted prints n records that transactions have written to a topic.
func readCommitted(address, topic string, n int) {
	reader, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		panic(err)
	}
	defer reader.Close()
	for read := 0; read < n; {
		reader.PollFetches(context.Background()).EachRecord(func(r *kgo.Record) {
			fmt.Printf("%s: %s\n", r.Key, r.Value)
			read++
		})
	}
}
