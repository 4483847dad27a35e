package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-kafka/tandem/client"
	"github.com/tandem-kafka/tandem/internal/config"
	"github.com/tandem-kafka/tandem/internal/consume"
)

// postTimeout bounds a request where --timeout says nothing: endpoints that never answer are common, commands that never end are not.
const postTimeout = 30 * time.Second

// consumeCommand are the flags of tandem consume.
type consumeCommand struct {
	settings    settingFlags
	group       string
	keyOrder    bool
	noOrder     bool
	concurrency int
	beginning   bool
	inProcess   bool

	post    string
	header  []string
	timeout time.Duration
	prefix  bool

	attempts            int
	backoff, maxBackoff time.Duration
	deadLetter          string
	skip, stop          bool
}

func newConsume() *cobra.Command {
	var f consumeCommand
	cmd := &cobra.Command{
		Use:   "consume TOPIC --group GROUP [--key-order | --no-order] {-- COMMAND [ARG...] | --post URL}",
		Short: "Run a command, or post to a URL, for each record of a topic",
		Long: `Run a command for each record of a topic, or post each record to an HTTP
endpoint. With --key-order any number of processes share the topic by key,
however few partitions it has, and each key's records are handled one after the
other, in order. A record that fails holds up its own key only. With --no-order
any process takes whatever record is next, and one that fails holds up nothing:
for work where each record stands by itself. (All processes of a group say it,
or none does.) With neither a process gets whole partitions and handles each of
them in order.

The command gets the record's value on stdin, and in its environment TANDEM_KEY,
TANDEM_KEY_BASE64, TANDEM_TOPIC, TANDEM_PARTITION, TANDEM_OFFSET,
TANDEM_TIMESTAMP (milliseconds), TANDEM_ATTEMPT (from 1), TANDEM_GROUP,
TANDEM_HEADER_NAME for each header, and TANDEM_HEADERS, all of them as JSON.
Exit code 0: the record is done and committed. Anything else is a failure.

A request has the value as its body, and the same in headers Tandem-*. An answer
2xx: the record is done and committed. Anything else is a failure; 429 and 503
may say with Retry-After when to try again.

A record that fails is tried again, after --backoff and then ever longer. After
--attempts it is given up: --dead-letter, --skip-failed or --stop-on-failure say
what comes then.

SIGTERM lets what has begun end, at most limits.drain-timeout (10 s), commits it
and exits with 0. A summary is the last line on stderr.`,
		Example: `  tandem consume orders --group billing --key-order -- ./bill.sh
  tandem consume orders --group billing --key-order --concurrency 50 --post http://localhost:8080/orders --dead-letter orders.failed
  tandem consume uploads --group thumbnails --no-order -- ./thumbnail.sh`,
		Args:                  f.args,
		RunE:                  f.run,
		DisableFlagsInUseLine: true,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.group, "group", "", "consumer `GROUP`: its members share the records, and it keeps what is done")
	flags.BoolVar(&f.keyOrder, "key-order", false, "share partitions by key, and handle the records of each key in order")
	flags.BoolVar(&f.noOrder, "no-order", false, "share partitions record by record: each process takes whatever is next (cooperative fetch)")
	flags.IntVar(&f.concurrency, "concurrency", 16, "records at once in this process")
	flags.BoolVar(&f.beginning, "from-beginning", false, "begin with the oldest record where the group has committed nothing; otherwise with new ones")
	flags.StringVar(&f.post, "post", "", "post records to this `URL` instead of running a command")
	flags.StringArrayVar(&f.header, "header", nil, "`NAME:VALUE` of a header of each request; may be repeated")
	flags.DurationVar(&f.timeout, "timeout", 0, "of a request, or of a run of the command, which is then ended; 0: none (default 30s with --post)")
	flags.BoolVar(&f.prefix, "prefix", false, "begin each line of the command's output with TOPIC-PARTITION@OFFSET")
	flags.IntVar(&f.attempts, "attempts", 10, "attempts before a record is given up; 0: no limit, as where neither this flag nor --dead-letter, --skip-failed or --stop-on-failure is given")
	flags.DurationVar(&f.backoff, "backoff", 100*time.Millisecond, "wait before the second attempt; then twice as long each time")
	flags.DurationVar(&f.maxBackoff, "max-backoff", 30*time.Second, "longest wait between attempts")
	flags.StringVar(&f.deadLetter, "dead-letter", "", "write records that are given up to this `TOPIC`, which has to exist where the cluster creates none, with the cause in their headers")
	flags.BoolVar(&f.skip, "skip-failed", false, "count records that are given up as done")
	flags.BoolVar(&f.stop, "stop-on-failure", false, "end with exit code 1 when a record is given up")
	f.settings.addKafka(cmd, "`HOST:PORT,...` of a gateway or of a cluster (default "+config.Default().Listen+")")
	flags.BoolVar(&f.inProcess, "in-process", false, "carry a gateway in this process; without a gateway behind --kafka, --key-order and --no-order do so anyway")
	f.settings.add(cmd, "log-level", "`LEVEL`: debug, info, warn or error (default info)", func(c *config.Config, v string) { c.Log.Level = v })
	f.settings.addConfig(cmd)
	return cmd
}

// shares says that processes may work on one partition together, for which a gateway is needed.
func (f *consumeCommand) shares() bool { return f.keyOrder || f.noOrder }

// args wants a topic, and a command behind -- or --post.
func (f *consumeCommand) args(cmd *cobra.Command, args []string) error {
	before := cmd.ArgsLenAtDash()
	if before < 0 {
		before = len(args)
	}
	switch commands := len(args) - before; {
	case before == 0:
		return fmt.Errorf("a TOPIC is missing: %s", cmd.UseLine())
	case before > 1:
		return fmt.Errorf("one TOPIC is needed, not %d: put -- before the command", before)
	case commands == 0 && f.post == "":
		return errors.New("nothing is said of what to do with the records: add -- COMMAND, or --post URL")
	case commands > 0 && f.post != "":
		return errors.New("a command and --post exclude each other")
	}
	return f.check(args[0])
}

// check looks at what a flag means next to others.
func (f *consumeCommand) check(topic string) error {
	switch {
	case f.group == "":
		return errors.New("no consumer group: add --group")
	case f.keyOrder && f.noOrder:
		return errors.New("--key-order and --no-order exclude each other")
	case f.deadLetter != "" && (f.skip || f.stop) || f.skip && f.stop:
		return errors.New("--dead-letter, --skip-failed and --stop-on-failure exclude each other")
	case f.concurrency < 1:
		return fmt.Errorf("--concurrency must be at least 1, not %d", f.concurrency)
	case f.attempts < 0:
		return fmt.Errorf("--attempts must not be negative: %d", f.attempts)
	case f.backoff <= 0 || f.maxBackoff < f.backoff:
		return fmt.Errorf("--backoff must be more than 0 and at most --max-backoff: %v and %v", f.backoff, f.maxBackoff)
	case f.timeout < 0:
		return fmt.Errorf("--timeout must not be negative: %v", f.timeout)
	case f.deadLetter == topic:
		return fmt.Errorf("--dead-letter %s is the topic itself: what fails would come again for ever", topic)
	case len(f.header) > 0 && f.post == "":
		return errors.New("--header is for --post")
	case f.prefix && f.post != "":
		return errors.New("--prefix is for commands, not for --post")
	}
	return nil
}

// run consumes until the command's context ends.
func (f *consumeCommand) run(cmd *cobra.Command, args []string) error {
	ctx, topic := cmd.Context(), args[0]
	c, err := f.settings.load()
	if err != nil {
		return err
	}
	log := newLogger(cmd.ErrOrStderr(), c.Log)
	handle, release, err := f.handler(cmd, args[1:])
	if err != nil {
		return err
	}
	defer release()
	var tally consume.Tally
	began := time.Now()
	summary := func() {
		fmt.Fprintf(cmd.ErrOrStderr(), "tandem consume: topic %s, group %s: %s, in %v\n", topic, f.group, &tally, time.Since(began).Round(time.Millisecond))
	}
	cluster, err := findCluster(ctx, c, f, topic, log)
	if err != nil {
		if ctx.Err() != nil { // told to end before it had started
			summary()
			return nil
		}
		return err
	}
	opts := append(f.options(cmd, topic), cluster...)
	cl, err := client.New(append(opts, client.Metrics(tally.Hook()), client.Logger(log), client.DrainTimeout(c.Limits.DrainTimeout))...)
	if err != nil {
		return err
	}
	began = time.Now()
	var handlers sync.WaitGroup // Run leaves handlers that are slow to end
	err = cl.Run(ctx, func(ctx context.Context, r *client.Record) error {
		handlers.Add(1)
		defer handlers.Done()
		return handle(ctx, r)
	})
	handlers.Wait()
	summary()
	return err
}

// handler is what is done with a record; release frees what it holds.
func (f *consumeCommand) handler(cmd *cobra.Command, argv []string) (handle client.Handler, release func(), err error) {
	if f.post == "" {
		command, err := consume.NewCommand(argv, consume.CommandOptions{
			Env: []string{"TANDEM_GROUP=" + f.group}, Timeout: f.timeout,
			Stdout: consume.NewOutput(cmd.OutOrStdout(), f.prefix), Stderr: consume.NewOutput(cmd.ErrOrStderr(), f.prefix),
		})
		if err != nil {
			return nil, nil, err
		}
		return command.Handle, func() {}, nil
	}
	header := http.Header{}
	for _, h := range f.header {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, nil, fmt.Errorf("--header must be NAME:VALUE, not %q", h)
		}
		header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	header.Set("Tandem-Group", f.group)
	if !cmd.Flags().Changed("timeout") {
		f.timeout = postTimeout
	}
	post, err := consume.NewPost(f.post, consume.PostOptions{Header: header, Timeout: f.timeout, Concurrency: f.concurrency})
	if err != nil {
		return nil, nil, fmt.Errorf("--post: %w", err)
	}
	return post.Handle, post.Close, nil
}

// options are those that do not depend on the cluster.
func (f *consumeCommand) options(cmd *cobra.Command, topic string) []client.Option {
	opts := []client.Option{client.Group(f.group), client.Topics(topic), client.Concurrency(f.concurrency)}
	switch {
	case f.keyOrder:
		opts = append(opts, client.Order(client.ByKey), client.ShareByKey(), client.Cooperative())
	case f.noOrder:
		opts = append(opts, client.ShareByRecord())
	default:
		opts = append(opts, client.Order(client.ByPartition), client.Cooperative())
	}
	reset := client.Latest
	if f.beginning {
		reset = client.Earliest
	}
	attempts := f.attempts
	switch {
	case f.deadLetter != "":
		opts = append(opts, client.DeadLetter(f.deadLetter))
	case f.skip:
		opts = append(opts, client.Skip())
	case f.stop:
		opts = append(opts, client.StopOnFailure())
	case !cmd.Flags().Changed("attempts"):
		attempts = 0
	}
	return append(opts, client.ResetOffset(reset), client.Retry(client.Backoff{First: f.backoff, Max: f.maxBackoff, Jitter: 20}, attempts))
}
