package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Consumers say who does the work.
type Consumers struct {
	Command     []string // that starts a process; Run adds the options that all have
	Bootstrap   string   // for them
	Processes   int
	Members     int  // of each process; 0: one
	Concurrency int  // of each process, or where there are several of each member
	Group       Kind // how their group tells that all are there
}

// Kind is a kind of group.
type Kind int

// The kinds.
const (
	KeyRanges Kind = iota // members say themselves what they have
	Classic
	Share
	ByRecord // everybody has every partition
)

// Bench is what runs have in common.
type Bench struct {
	Kafka   string         // the broker
	Dir     string         // for journals
	Log     *os.File       // what the processes write to stderr
	Others  map[string]int // processes whose CPU time counts, too, by name
	Profile string         // folder for CPU profiles of Tandem's clients; "": none are made
	runs    int
}

// Run makes a topic, starts the consumers, has them do the work, and returns what they did.
func (b *Bench) Run(ctx context.Context, w Work, c Consumers) (*Outcome, error) {
	t, err := b.start(ctx, w, c)
	if err != nil {
		return nil, err
	}
	defer t.end()
	before := t.read()
	if w.Rate == 0 {
		if err := t.produce(ctx); err != nil {
			return nil, err
		}
	}
	o := t.outcome()
	cpu := t.cpu()
	o.Begin = time.Now()
	if err := t.tell("go"); err != nil {
		return nil, err
	}
	produced := make(chan error, 1)
	go func() {
		var err error
		if w.Rate > 0 {
			_, err = t.producePaced(ctx, o.Begin)
		}
		produced <- err
	}()
	for every := time.NewTicker(20 * time.Millisecond); !o.over() && time.Since(o.Begin) < w.Cap; <-every.C {
		if err := t.collect(o); err != nil {
			return nil, err
		}
	}
	o.CPU = map[string]float64{}
	for name, v := range t.cpu() {
		o.CPU[name] = v - cpu[name]
	}
	o.Read = t.read() - before
	if err := <-produced; err != nil {
		return nil, err
	}
	if err := t.stop(); err != nil {
		return nil, err
	}
	return o, t.collect(o) // with what was done twice
}

// trial is one topic with the processes that consume it.
type trial struct {
	b       *Bench
	c       Consumers
	w       Work
	tasks   []Task
	topic   string
	dir     string
	client  *kgo.Client
	members []*member
}

func (b *Bench) start(ctx context.Context, w Work, c Consumers) (t *trial, err error) {
	b.runs++
	t = &trial{b: b, c: c, w: w, tasks: w.Tasks(), topic: fmt.Sprintf("peers-%d-%d", time.Now().Unix(), b.runs)}
	defer func() {
		if err != nil {
			t.end()
		}
	}()
	t.dir = filepath.Join(b.Dir, t.topic)
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return t, err
	}
	linger, batch := 5*time.Millisecond, int32(16<<10) // Java's default size
	if w.Rate > 0 {
		linger = 0
	}
	t.client, err = kgo.NewClient(kgo.SeedBrokers(b.Kafka), kgo.DefaultProduceTopic(t.topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(20),
		kgo.ProducerLinger(linger), kgo.ProducerBatchMaxBytes(batch), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(20_000))
	if err != nil {
		return t, err
	}
	admin := kadm.NewClient(t.client)
	if _, err := admin.CreateTopic(ctx, 1, 1, nil, t.topic); err != nil {
		return t, err
	}
	if c.Group == Share {
		if err := t.fromEarliest(ctx); err != nil {
			return t, err
		}
	}
	for range c.Processes {
		if _, err := t.launch(); err != nil {
			return t, err
		}
	}
	return t, t.awaitMembers(ctx, admin)
}

// fromEarliest has the share group begin with the first record: that is a setting of the group, not of its consumers.
func (t *trial) fromEarliest(ctx context.Context) error {
	earliest := "earliest"
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
		ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: t.topic,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "share.auto.offset.reset", Value: &earliest}},
	}}
	resp, err := req.RequestWith(ctx, t.client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Resources[0].ErrorCode)
}

// awaitMembers waits until all members have their share of the partition.
func (t *trial) awaitMembers(ctx context.Context, admin *kadm.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	ready := 0
	for {
		want := t.c.Processes
		switch t.c.Group {
		case KeyRanges:
			ready = t.shared()
		case Classic, ByRecord:
			want *= max(t.c.Members, 1)
			groups, _ := admin.DescribeGroups(ctx, t.topic)
			ready = 0
			for _, m := range groups[t.topic].Members {
				if a, ok := m.Assigned.AsConsumer(); ok && len(a.Topics) > 0 {
					ready++
				}
			}
		case Share:
			want *= t.c.Concurrency
			groups, _ := admin.DescribeShareGroups(ctx, t.topic)
			ready = 0
			for _, m := range groups[t.topic].Members {
				if len(m.Assignment) > 0 {
					ready++
				}
			}
		}
		if ready == want {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d members have a share of the partition: %w", ready, want, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// record is the record of a task.
func (t *trial) record(task Task) *kgo.Record {
	return &kgo.Record{Key: fmt.Appendf(nil, "key-%d", task.Key), Value: task.encode(t.w.Bytes)}
}

// produce writes all records.
func (t *trial) produce(ctx context.Context) error {
	var first error
	for _, task := range t.tasks {
		t.client.Produce(ctx, t.record(task), func(_ *kgo.Record, err error) {
			if first == nil {
				first = err // promises are called one after the other
			}
		})
	}
	return errors.Join(t.client.Flush(ctx), first)
}

// producePaced sends each record when it is due, until ctx ends, and returns how many it sent.
func (t *trial) producePaced(ctx context.Context, begin time.Time) (sent int, err error) {
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var first error
	var sleep sleeper
	for ; sent < len(t.tasks) && ctx.Err() == nil; sent++ {
		if err := sleep.sleep(time.Until(begin.Add(t.w.due(sent)))); err != nil {
			return sent, err
		}
		t.client.Produce(flush, t.record(t.tasks[sent]), func(_ *kgo.Record, err error) {
			if first == nil {
				first = err
			}
		})
	}
	return sent, errors.Join(t.client.Flush(flush), first)
}

// end takes everything away.
func (t *trial) end() {
	for _, m := range t.members {
		m.kill()
	}
	if t.client != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, _ = kadm.NewClient(t.client).DeleteTopics(ctx, t.topic)
		t.client.Close()
	}
	_ = os.RemoveAll(t.dir)
}
