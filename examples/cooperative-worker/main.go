// Command cooperative-worker sends a welcome mail for each record of a topic. Start it as often as you like: the processes share the work record by
// record, however few partitions the topic has. Nobody waits for a slow record but the handler that has it, and what a process that dies had in hand goes
// to the others.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/tandem-kafka/tandem/client"
)

// signup is the value of a record.
type signup struct{ Name, Mail string }

func main() {
	bootstrap := flag.String("bootstrap", "127.0.0.1:9192", "of a Tandem gateway")
	topic := flag.String("topic", "signups", "")
	group := flag.String("group", "welcome", "its members share the records")
	flag.Parse()

	// SIGTERM or Ctrl-C: begin nothing more, let what has begun end, commit it, and leave the group.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	c, err := client.New(
		client.Bootstrap(*bootstrap), // or a plain cluster, with client.InProcess() beside it
		client.Group(*group),
		client.Topics(*topic),
		client.ShareByRecord(), // any process takes whatever record is next. There is no order
		client.Concurrency(8),  // handlers at once, in this process
		// How long others wait for what a process has that is not heard of any more. Handlers may take longer.
		client.SessionTimeout(10*time.Second),
		client.Retry(client.Backoff{First: 100 * time.Millisecond, Max: 10 * time.Second, Jitter: 20}, 5),
		client.DeadLetter(*topic+".failed"), // a record that failed 5 times. The topic has to exist
	)
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Run(ctx, welcome); err != nil {
		log.Fatal(err)
	}
}

// welcome handles one record: nil commits it, an error has it tried again. After a crash a record may come a second time, with r.Attempt above 1.
func welcome(ctx context.Context, r *client.Record) error {
	var s signup
	if err := json.Unmarshal(r.Value, &s); err != nil {
		return client.Permanent(err) // another attempt would not help: to the dead letters at once
	}
	select { // stands for a mail server that takes a moment
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	fmt.Printf("welcome %s <%s>, attempt %d\n", s.Name, s.Mail, r.Attempt)
	return nil
}
