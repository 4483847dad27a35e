package cases

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kadm"
)

// threeBrokers is a cluster of the brokers 2, 3 and 4 (nodes 1, 2 and 3), which can get a broker 1. It finds dead brokers and old records
// quickly. A test that takes a broker down brings it back.
func threeBrokers(t *testing.T) *harness.Kafka {
	t.Helper()
	harness.Need(t)
	return harness.SharedKafka(t, harness.KafkaConfig{Brokers: 3, IDs: "2 3 4 1", Heap: "256m", Properties: strings.Join([]string{
		"broker.heartbeat.interval.ms=500", "broker.session.timeout.ms=4000",
		"log.retention.check.interval.ms=300", "log.initial.task.delay.ms=300"}, "\n")})
}

// front starts a gateway in front of a cluster.
func front(t *testing.T, k *harness.Kafka, c harness.GatewayConfig) engine {
	t.Helper()
	c.Kafka = k.Bootstrap
	return engine{name: "kafka", gateway: harness.StartGateway(t, c), kafka: k.Bootstrap, cluster: k}
}

// lag is what an administration client sees of a group on one partition.
type lag struct {
	start, end, committed int64 // committed is -1 where there is none
}

// lags asks through bootstrap where a group stands on each partition of a topic, and fails the test on a lag that cannot be.
func lags(t *testing.T, bootstrap, group, topic string) map[int32]lag {
	t.Helper()
	a, ctx := harness.Admin(t, bootstrap), harness.Context(t, 20*time.Second)
	offsets, err := a.FetchOffsetsForTopics(ctx, group, topic)
	if err != nil {
		t.Fatal(err)
	}
	// The ends after the committed offsets: these may move on in between.
	starts, err := a.ListStartOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	ends, err := a.ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	all := map[int32]lag{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			t.Errorf("end offset of %s/%d: %v", topic, o.Partition, o.Err)
		}
		l := lag{end: o.Offset, committed: -1}
		if s, ok := starts.Lookup(topic, o.Partition); ok {
			l.start = s.Offset
		}
		if c, ok := offsets.Lookup(topic, o.Partition); ok {
			l.committed = c.At
			if c.Err != nil {
				t.Errorf("committed offset of %s on %s/%d: %v", group, topic, o.Partition, c.Err)
			}
		}
		if l.committed > l.end {
			t.Errorf("%s on %s/%d: committed %d is beyond the end %d: a negative lag", group, topic, o.Partition, l.committed, l.end)
		}
		all[o.Partition] = l
	})
	return all
}

// awaitNoLag waits until a group has done all of a topic: no partition has a lag, and none an offset beyond the end.
func awaitNoLag(t *testing.T, bootstrap, group, topic string, limit time.Duration) {
	t.Helper()
	harness.Eventually(t, limit, func() error {
		for p, l := range lags(t, bootstrap, group, topic) {
			if from := max(l.committed, l.start); from < l.end {
				return fmt.Errorf("%s on %s/%d: committed %d, log from %d to %d", group, topic, p, l.committed, l.start, l.end)
			}
		}
		return nil
	})
}

// awaitDeliveries waits until the ledger has so many deliveries.
func awaitDeliveries(t *testing.T, l *harness.Ledger, n int, limit time.Duration) {
	t.Helper()
	harness.Eventually(t, limit, func() error {
		if got := l.Deliveries(); got < n {
			return fmt.Errorf("%d of %d deliveries", got, n)
		}
		return nil
	})
}

// awaitMembers waits until a group is stable with so many members that share so many partitions of a topic. It has time: how soon they join is nowhere
// the point.
func awaitMembers(t *testing.T, bootstrap, group, topic string, members, partitions int) {
	t.Helper()
	a := harness.Admin(t, bootstrap)
	harness.Eventually(t, time.Minute, func() error {
		groups, err := a.DescribeGroups(harness.Context(t, 10*time.Second), group)
		if err != nil {
			return err
		}
		assigned := 0
		for _, m := range groups[group].Members {
			if c, ok := m.Assigned.AsConsumer(); ok {
				for _, t := range c.Topics {
					if t.Topic == topic {
						assigned += len(t.Partitions)
					}
				}
			}
		}
		if g := groups[group]; g.State != "Stable" || len(g.Members) != members || assigned != partitions {
			return fmt.Errorf("group %s is %s with %d members and %d partitions", group, g.State, len(g.Members), assigned)
		}
		return nil
	})
}

// alterTopic sets a configuration of a topic.
func alterTopic(t *testing.T, bootstrap, topic, name, value string) {
	t.Helper()
	resp, err := harness.Admin(t, bootstrap).AlterTopicConfigs(harness.Context(t, 10*time.Second),
		[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic)
	if err == nil {
		for _, r := range resp {
			if r.Err != nil {
				err = r.Err
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// procNumber reads a number after a label from a file of /proc/PID.
func procNumber(t *testing.T, pid int, file, label string) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		t.Skipf("needs Linux's /proc: %v", err)
	}
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte(label+":")); ok {
			n, err := strconv.ParseInt(strings.Fields(string(rest))[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("/proc/%d/%s has no %s", pid, file, label)
	return 0
}
