// Command transactional-worker prices orders, exactly once: it reads the topic orders and writes each with its total to orders.priced. What it writes and what it has read are
// committed in one transaction, so whatever is killed, who reads orders.priced with read_committed sees each order once, and those of one customer in order. Start it as often as
// you like, each with an id of its own: the processes share the customers, however few partitions the topic has.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client"
)

// order is the value of a record; its key is the customer.
type order struct {
	ID, Item string
	Pieces   int
	Total    float64 `json:",omitempty"` // what this program adds
}

var prices = map[string]float64{"bolt": 0.1, "nut": 0.05, "gear": 12.5}

func main() {
	bootstrap := flag.String("bootstrap", "127.0.0.1:9192", "of a Tandem gateway")
	topic := flag.String("topic", "orders", "")
	group := flag.String("group", "pricing", "its members share the customers")
	id := flag.String("id", "", "of this process, such as the name of its pod: no other that runs may have it")
	flag.Parse()

	// SIGTERM or Ctrl-C: begin nothing more, let what has begun end, commit it, and leave the group.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	c, err := client.New(
		client.Bootstrap(*bootstrap), // or a plain cluster, with client.InProcess() beside it
		client.Group(*group),
		client.Topics(*topic),
		client.ShareByKey(),                        // each customer is with one process, and their orders run one after the other
		client.Transactional(*group+"-"+*id),       // the transactional.id. Who starts with an id ends the one who has it
		client.CommitInterval(50*time.Millisecond), // a transaction each 50 ms: how late readers see the output, at least
		client.Retry(client.Backoff{}, 3),          // what cannot be priced is tried 3 times
		client.DeadLetter(*topic+".failed"),        // and then goes there, in the transaction, too. The topic has to exist
		client.Concurrency(32),                     // customers at once, in this process
	)
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Run(ctx, func(_ context.Context, r *client.Record) error { return price(r, *topic+".priced") }); err != nil {
		log.Fatal(err) // client.ErrFenced: another process has begun with this id
	}
}

// price handles one order. What it writes with r.Produce is there if, and only if, it returns nil and the order is committed. It may run again after a crash, so what it does elsewhere, such as a
// payment, would be done at least once.
func price(r *client.Record, to string) error {
	var o order
	if err := json.Unmarshal(r.Value, &o); err != nil {
		return client.Permanent(err) // another attempt would not help: to the dead letters at once
	}
	o.Total = float64(o.Pieces) * prices[o.Item]
	value, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return r.Produce(&kgo.Record{Topic: to, Key: r.Key, Value: value})
}
