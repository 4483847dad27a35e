package peers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/tandem-kafka/tandem/client"
	"github.com/tandem-kafka/tandem/keyrange"
)

// Worker is one process of Tandem's client, or of several of them, each a member of the group. With key ranges it says how much of the key axis
// it has whenever that changes ({"share": 0.25}). It works from the line "go" on its standard input until the line "stop", and then closes in order.
func Worker(args []string) error {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	bootstrap, topic, group := flags.String("bootstrap", "", ""), flags.String("topic", "", ""), flags.String("group", "", "")
	file, profile := flags.String("journal", "", ""), flags.String("profile", "", "")
	concurrency, members := flags.Int("concurrency", 16, ""), flags.Int("members", 1, "")
	inProcess, byRecord := flags.Bool("in-process", false, ""), flags.Bool("by-record", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	journal, err := newJournal(*file)
	if err != nil {
		return err
	}
	opts := []client.Option{
		client.Bootstrap(*bootstrap), client.Group(*group), client.Topics(*topic), client.Concurrency(*concurrency),
		client.Logger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))),
	}
	if *inProcess {
		opts = append(opts, client.InProcess())
	}
	if *byRecord {
		opts = append(opts, client.ShareByRecord())
	} else {
		opts = append(append(opts, client.ShareByKey()), tellShare(*topic)...)
	}
	begun := make(chan struct{})
	var sleep sleeper
	handle := func(_ context.Context, r *client.Record) error {
		<-begun
		task, err := decodeTask(r.Value)
		if err != nil {
			return err
		}
		start := time.Now()
		if err := sleep.sleep(task.Takes); err != nil {
			return err
		}
		journal.add(task, start, time.Now())
		return nil
	}
	var clients []*client.Client
	over := make(chan error, *members)
	for range *members {
		c, err := client.New(opts...)
		if err != nil {
			return err
		}
		clients = append(clients, c)
		go func() { over <- c.Run(context.Background(), handle) }()
	}
	lines := bufio.NewScanner(os.Stdin)
	for begin := sync.OnceFunc(func() { close(begun) }); lines.Scan() && lines.Text() != "stop"; begin() {
		if *profile != "" {
			f, err := os.Create(*profile)
			if err != nil {
				return err
			}
			if err := pprof.StartCPUProfile(f); err != nil {
				return err
			}
			defer func() { pprof.StopCPUProfile(); _ = f.Close() }()
		}
	}
	limit, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	ends := make(chan error, *members)
	for _, c := range clients {
		go func() { ends <- errors.Join(c.Close(limit), <-over) }()
	}
	for range clients {
		err = errors.Join(err, <-ends)
	}
	return errors.Join(err, journal.close())
}

// tellShare are the options of a member that says how much of the key axis of partition 0 it has.
func tellShare(topic string) []client.Option {
	say := telling()
	var has keyrange.Set // callbacks come one after the other
	change := func(f func(dst, a, b keyrange.Set) keyrange.Set) func(context.Context, client.Ranges) {
		return func(_ context.Context, ranges client.Ranges) {
			has = f(nil, has, ranges[topic][0])
			say(map[string]float64{"share": axisShare(has)})
		}
	}
	lose := change(keyrange.AppendSubtract)
	return []client.Option{client.OnAssigned(change(keyrange.AppendUnion)), client.OnRevoked(lose), client.OnLost(lose)}
}

// axisShare is how much of the key axis some key ranges are.
func axisShare(keys keyrange.Set) float64 {
	sum := 0.0
	for _, k := range keys {
		sum += float64(k.Last-k.First) + 1
	}
	return sum / (1 << 32)
}

// telling returns a function that prints a line of JSON.
func telling() func(any) {
	var mu sync.Mutex
	return func(v any) {
		mu.Lock()
		defer mu.Unlock()
		line, _ := json.Marshal(v)
		fmt.Println(string(line))
	}
}
