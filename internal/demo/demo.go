package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Options of a demo; zero values get their defaults.
type Options struct {
	Bootstrap []string      // HOST:PORT of a gateway
	Topic     string        // the topic to make, with one partition; default: a name nobody has
	Consumers int           // default 8
	Records   int           // default 16000
	Keys      int           // default 1000, at most Records
	Work      time.Duration // a handler's time for one record; default 5 ms
	Plain     time.Duration // how long the consumers stay on the topic; default 6 s
	Screen    Screen        // default: none
	// ClientOptions are added to every client's, say credentials.
	ClientOptions []kgo.Opt

	// viewOf returns the topic that the consumers move to when `done` records
	// of the topic are done. Tests without a gateway put a real topic there.
	viewOf func(ctx context.Context, done int) (string, error)
}

// Summary is the result; the names in JSON do not change.
type Summary struct {
	Consumers       int     `json:"consumers"`
	Records         int     `json:"records"`
	PlainRate       float64 `json:"plain_records_per_second"`
	ViewRate        float64 `json:"view_records_per_second"` // while every consumer is at work
	Speedup         float64 `json:"speedup"`
	Lost            int     `json:"lost"`
	Duplicates      int     `json:"duplicates"` // redelivered after the kill; at-least-once allows them
	OrderViolations int     `json:"order_violations"`
}

// Failed says that a promise was broken.
func (s Summary) Failed() bool { return s.Lost > 0 || s.OrderViolations > 0 }

// stuckAfter ends a demo that handles no record any more; what it did not
// handle is lost.
const stuckAfter = 60 * time.Second

// Run runs the demo and removes its topics. A summary that Failed is not an
// error.
func Run(ctx context.Context, opts Options) (s Summary, err error) {
	if err := opts.complete(); err != nil {
		return s, err
	}
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(opts.Bootstrap...),
		kgo.ClientID("tandem-demo"),
	}, opts.ClientOptions...)...)
	if err != nil {
		return s, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 1, -1, nil, opts.Topic); err != nil {
		return s, fmt.Errorf("creating topic %s: %w", opts.Topic, err)
	}
	made := []string{opts.Topic}
	group := opts.Topic + "-workers"
	defer func() { err = errors.Join(err, remove(admin, group, made)) }()

	l, err := load(ctx, client, opts)
	if err != nil {
		return s, err
	}
	r := &run{opts: opts, group: group, ledger: l, screen: opts.Screen}
	r.screen.Event("%d records with %d keys are in topic %s, which has one partition", opts.Records, opts.Keys, opts.Topic)

	plain, err := r.onTopic(ctx)
	if err != nil {
		return s, err
	}
	viewName, err := opts.viewOf(ctx, l.done())
	if err != nil {
		return s, err
	}
	made = append([]string{viewName}, made...) // the view goes before its source
	shared, err := r.onView(ctx, viewName)
	if err != nil {
		return s, err
	}
	s = Summary{Consumers: opts.Consumers, Records: opts.Records, PlainRate: plain, ViewRate: shared}
	if plain > 0 {
		s.Speedup = shared / plain
	}
	s.Lost, s.Duplicates, s.OrderViolations = l.verdict()
	return s, nil
}

func (o *Options) complete() error {
	setDefault(&o.Consumers, 8)
	setDefault(&o.Records, 16000)
	setDefault(&o.Keys, min(1000, o.Records))
	setDefault(&o.Work, 5*time.Millisecond)
	setDefault(&o.Plain, 6*time.Second)
	if o.Topic == "" {
		o.Topic = "tandem-demo-" + strings.ToLower(rand.Text()[:8])
	}
	if o.Screen == nil {
		o.Screen = noScreen{}
	}
	if o.viewOf == nil {
		o.viewOf = func(context.Context, int) (string, error) {
			return fmt.Sprintf("%s.view%d", o.Topic, viewPartitions(o.Consumers)), nil
		}
	}
	switch {
	case o.Consumers < 1 || o.Consumers > 64:
		return fmt.Errorf("consumers must be 1 to 64, not %d", o.Consumers)
	case o.Records < o.Consumers:
		return fmt.Errorf("records must be at least as many as consumers, not %d", o.Records)
	case o.Keys < 1 || o.Keys > o.Records:
		return fmt.Errorf("keys must be 1 to the number of records, not %d", o.Keys)
	case o.Work < 0 || o.Work > time.Second:
		return fmt.Errorf("work must be 0 to 1s, not %v", o.Work)
	}
	return nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// viewPartitions is the smallest power of two that gives every consumer a
// virtual partition of a topic with one.
func viewPartitions(consumers int) int {
	v := 1
	for v < consumers {
		v *= 2
	}
	return v
}

// remove deletes what the demo made on the cluster.
func remove(admin *kadm.Client, group string, topics []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	// A killed consumer is a member until its session ends: the group then
	// expires by itself.
	_, _ = admin.DeleteGroups(ctx, group)
	var errs []error
	for _, topic := range topics {
		resp, err := admin.DeleteTopic(ctx, topic)
		if err == nil {
			err = resp.Err
		}
		if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			errs = append(errs, fmt.Errorf("removing topic %s: %w", topic, err))
		}
	}
	return errors.Join(errs...)
}
