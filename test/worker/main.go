// Worker is a program that consumes with package client as harness.WorkerSpec says, given as JSON, and prints each attempt of a record as a line of
// JSON (harness.WorkerRun) before the client learns of its end. SIGTERM ends it gracefully. Its log goes to standard error.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client"
	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/test/harness"
)

var errDigest = errors.New("cannot be digested")

func main() {
	w := &worker{}
	err := errors.New("usage: worker SPEC")
	if len(os.Args) == 2 {
		err = json.Unmarshal([]byte(os.Args[1]), &w.WorkerSpec)
	}
	if err == nil {
		err = w.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// worker is a worker at work.
type worker struct {
	harness.WorkerSpec
	told     <-chan struct{} // to end
	printing sync.Mutex
	counts   harness.WorkerRun // under printing
}

func (w *worker) run() error {
	opts := &slog.HandlerOptions{}
	if w.Counts > 0 {
		opts.Level = slog.LevelWarn // failures are many
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, opts))
	c, err := client.New(w.options(log)...)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	w.told = ctx.Done()
	if w.Counts > 0 {
		go w.count()
	}
	if w.Poll {
		return w.poll(ctx, c)
	}
	return c.Run(ctx, w.handle)
}

// poll handles what it polls, up to Concurrency records at once, and commits each when its attempt has succeeded. When ctx ends what has begun may go on for Drain.
func (w *worker) poll(ctx context.Context, c *client.Client) error {
	working, give := context.WithCancel(context.Background())
	defer give()
	free := make(chan struct{}, max(1, w.Concurrency))
	for range cap(free) {
		free <- struct{}{}
	}
	for ctx.Err() == nil {
		select {
		case <-free:
		case <-ctx.Done():
			continue
		}
		records, err := c.Poll(ctx, 1+len(free)) // nobody else takes
		if err != nil && ctx.Err() == nil {
			return err
		}
		for range len(records) - 1 {
			<-free
		}
		if len(records) == 0 {
			free <- struct{}{}
		}
		for _, r := range records {
			go func() {
				if w.handle(working, r) == nil {
					if err := c.Commit(r); err != nil {
						fmt.Fprintf(os.Stderr, "offset %d is not committed: %v\n", r.Offset, err)
					}
				}
				free <- struct{}{}
			}()
		}
	}
	late := time.AfterFunc(cmp.Or(w.Drain, 10*time.Second), give)
	defer late.Stop()
	for range cap(free) {
		<-free
	}
	return c.Close(context.Background())
}

func (w *worker) options(log *slog.Logger) []client.Option {
	opts := []client.Option{client.Bootstrap(strings.Split(w.Bootstrap, ",")...), client.Group(w.Group), client.Topics(w.Topics...), client.Logger(log),
		client.OnAssigned(w.event("assigned")), client.OnRevoked(w.event("revoked")), client.OnLost(w.event("lost"))}
	add := func(ok bool, o client.Option) {
		if ok {
			opts = append(opts, o)
		}
	}
	if w.ByRecord > 0 {
		opts = append(opts, client.ShareByRecord(), client.SessionTimeout(w.ByRecord))
	} else {
		opts = append(opts, client.ShareByKey())
	}
	add(w.InProcess, client.InProcess())
	add(w.Committed, client.Isolation(client.ReadCommitted))
	add(w.Commits, client.Metrics(client.Hook{Committed: w.committed}))
	add(w.Cooperative, client.Cooperative())
	add(w.Concurrency > 0, client.Concurrency(w.Concurrency))
	add(w.Buffered > 0, client.MaxBuffered(w.Buffered, 64<<20))
	add(w.Drain > 0, client.DrainTimeout(w.Drain))
	add(w.Lease > 0, client.Lease(w.Lease))
	add(w.CommitInterval > 0, client.CommitInterval(w.CommitInterval))
	add(w.First > 0 || w.Attempts > 0, client.Retry(client.Backoff{First: w.First, Max: w.Max}, w.Attempts))
	add(w.Transactional != "", client.Transactional(w.Transactional))
	add(w.DeadLetter != "", client.DeadLetter(w.DeadLetter))
	kafka := []kgo.Opt{kgo.ClientID(w.Member)}
	if w.Session > 0 {
		kafka = append(kafka, kgo.SessionTimeout(w.Session), kgo.HeartbeatInterval(w.Session/6))
	}
	if w.Transaction > 0 {
		kafka = append(kafka, kgo.TransactionTimeout(w.Transaction))
	}
	if w.Instance != "" {
		kafka = append(kafka, kgo.InstanceID(w.Instance))
	}
	return append(opts, client.KgoOpts(kafka...))
}

func (w *worker) event(name string) func(context.Context, client.Ranges) {
	return func(_ context.Context, ranges client.Ranges) {
		w.print(&harness.WorkerRun{Member: w.Member, Event: name, Ranges: fmt.Sprint(ranges), Start: time.Now().UnixNano()})
	}
}

func (w *worker) committed(topic string, partition int32, _ keyrange.Set, _ int, took time.Duration, err error) {
	now := time.Now()
	line := &harness.WorkerRun{Member: w.Member, Event: "committed", Topic: topic, Partition: partition, Start: now.Add(-took).UnixNano(), End: now.UnixNano()}
	if err != nil {
		line.Err = err.Error()
	}
	w.print(line)
}

func (w *worker) print(r *harness.WorkerRun) {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	w.printing.Lock()
	defer w.printing.Unlock()
	if _, err := os.Stdout.Write(append(b, '\n')); err != nil {
		panic(err)
	}
}

func (w *worker) handle(ctx context.Context, r *client.Record) error {
	line := &harness.WorkerRun{Member: w.Member, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: string(r.Key), Value: string(r.Value),
		Attempt: r.Attempt, Written: r.Timestamp.UnixMilli(), Start: time.Now().UnixNano()}
	if w.Begins {
		w.print(line)
	}
	err := w.work(ctx, r)
	if err != nil {
		line.Err = err.Error()
	}
	line.End = time.Now().UnixNano()
	if w.Counts > 0 {
		w.add(line)
	} else {
		w.print(line)
	}
	return err
}

// add counts an attempt.
func (w *worker) add(r *harness.WorkerRun) {
	w.printing.Lock()
	defer w.printing.Unlock()
	if w.counts.Start == 0 {
		w.counts.Start = r.Start
	}
	if r.Err != "" {
		w.counts.Failed++
		return
	}
	w.counts.Done++
	w.counts.End = r.End
}

// count prints the counts until the process ends.
func (w *worker) count() {
	for range time.Tick(w.Counts) {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		w.printing.Lock()
		r := w.counts
		w.printing.Unlock()
		r.Member, r.Event, r.Heap = w.Member, "counts", int64(m.HeapAlloc)
		w.print(&r)
	}
}

func (w *worker) work(ctx context.Context, r *client.Record) error {
	if slices.Contains(w.Hang, r.Offset) {
		select {}
	}
	if w.Hold > 0 && r.Offset >= w.Hold {
		select {
		case <-w.told:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if w.Work > 0 {
		select {
		case <-time.After(w.Work):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if slices.Contains(w.Kill, r.Offset) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until it arrives
	}
	if w.FailKeys != "" && strings.HasPrefix(string(r.Key), w.FailKeys) {
		return errDigest
	}
	if n := w.Fail[r.Offset]; n < 0 || r.Attempt <= n {
		return errDigest
	}
	if d := w.Later[r.Offset]; d > 0 && r.Attempt == 1 {
		return client.RetryAfter(errDigest, d)
	}
	if w.Out != "" {
		return r.Produce(&kgo.Record{Topic: w.Out, Key: r.Key, Value: r.Value})
	}
	return nil
}
