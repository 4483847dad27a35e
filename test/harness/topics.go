package harness

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var names atomic.Int64

// Name returns a topic or group name that no other test of this process has.
func Name(t testing.TB, prefix string) string {
	return fmt.Sprintf("%s-%d-%d", prefix, time.Now().UnixMilli()%1_000_000, names.Add(1))
}

// Client makes a franz-go client that is closed at the end of the test.
func Client(t testing.TB, bootstrap string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(strings.Split(bootstrap, ",")...)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseAllowingRebalance)
	return c
}

// AdminClient makes an administration client that is closed at the end of the test.
func AdminClient(t testing.TB, bootstrap string, opts ...kgo.Opt) *kadm.Client {
	t.Helper()
	return kadm.NewClient(Client(t, bootstrap, opts...))
}

var admins struct {
	sync.Mutex
	clients map[string]*kadm.Client // by bootstrap list
}

// Admin is an administration client for who asks again and again: all tests share one for each address, so that a question costs no connection. It
// may take a topic's leaders and id from what it knew a moment ago.
func Admin(t testing.TB, bootstrap string) *kadm.Client {
	t.Helper()
	admins.Lock()
	defer admins.Unlock()
	a := admins.clients[bootstrap]
	if a == nil {
		wait := func(int) time.Duration { return 100 * time.Millisecond } // by default, up to 5 s after several failures
		c, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.MetadataMinAge(wait(0)), kgo.RetryBackoffFn(wait))
		if err != nil {
			t.Fatal(err)
		}
		if admins.clients == nil {
			admins.clients = map[string]*kadm.Client{}
		}
		a = kadm.NewClient(c)
		admins.clients[bootstrap] = a
	}
	return a
}

// CreateTopic creates a topic and waits until all its partitions have leaders. configs are pairs of name and value.
func CreateTopic(t testing.TB, bootstrap, topic string, partitions int32, configs ...string) {
	t.Helper()
	a := Admin(t, bootstrap)
	set := map[string]*string{}
	for i := 0; i+1 < len(configs); i += 2 {
		set[configs[i]] = &configs[i+1]
	}
	ctx := Context(t, 30*time.Second)
	if _, err := a.CreateTopic(ctx, partitions, -1, set, topic); err != nil {
		t.Fatalf("create topic %s: %v", topic, err)
	}
	Eventually(t, 30*time.Second, func() error {
		topics, err := a.ListTopics(ctx, topic)
		if err != nil {
			return err
		}
		if n := len(topics[topic].Partitions); n != int(partitions) {
			return fmt.Errorf("topic %s has %d of %d partitions", topic, n, partitions)
		}
		for _, p := range topics[topic].Partitions {
			if p.Err != nil || p.Leader < 0 {
				return fmt.Errorf("topic %s partition %d: no leader: %v", topic, p.Partition, p.Err)
			}
		}
		return nil
	})
}

// Context returns a context that ends after limit and at the end of the test.
func Context(t testing.TB, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// CommittedOffsets returns a group's committed offsets of a topic, by partition.
func CommittedOffsets(t testing.TB, bootstrap, group, topic string) map[int32]int64 {
	t.Helper()
	out, err := committed(Context(t, 20*time.Second), Admin(t, bootstrap), group, topic)
	if err != nil {
		t.Fatalf("offsets of %s: %v", group, err)
	}
	return out
}

func committed(ctx context.Context, a *kadm.Client, group, topic string) (map[int32]int64, error) {
	offsets, err := a.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	out := map[int32]int64{}
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == topic && o.Err == nil && o.At >= 0 {
			out[o.Partition] = o.At
		}
	})
	return out, nil
}

// WatchCommitted asks Kafka itself for the group's committed offsets of a source, again and again until the test ends or stop is called,
// and writes them into the ledger, so that Check finds an offset that ran ahead of the work.
func WatchCommitted(t testing.TB, kafka, group, source string, l *Ledger, opts ...kgo.Opt) (stop func()) {
	t.Helper()
	a := AdminClient(t, kafka, opts...)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			// Errors are not the point here: the coordinator may be moving, or the test may have killed it.
			if offsets, err := committed(ctx, a, group, source); err == nil {
				now := time.Now()
				for p, o := range offsets {
					l.Committed(source, p, o, now)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return stop
}

// ConsumerSession sets the session timeout and the heartbeat interval of a KIP-848 group, which are the group's own configuration there. A cluster that knows no such
// configuration keeps its default.
func ConsumerSession(t testing.TB, bootstrap, group string, session, heartbeat time.Duration) {
	t.Helper()
	c := Client(t, bootstrap)
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	for name, d := range map[string]time.Duration{"consumer.session.timeout.ms": session, "consumer.heartbeat.interval.ms": heartbeat} {
		set := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		set.Name, set.Value = name, kmsg.StringPtr(fmt.Sprint(d.Milliseconds()))
		resource.Configs = append(resource.Configs, set)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, resource)
	if _, err := req.RequestWith(Context(t, 10*time.Second), c); err != nil {
		t.Fatal(err)
	}
}
