package cases

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Consumers wait on an empty partition, on three brokers. The leader of the source and of the view moves, the coordinator moves, a broker
// dies that was leader and coordinator. The record after each is delivered within 2 s of its acknowledgement, and committed (case V12). So it is for members that wait for records of
// a topic that they share by record; and those that work on one when the broker dies go on (case C7). Alone: it takes a broker of the shared cluster down.
func TestWaitingConsumersSurviveMovesAndDeaths(t *testing.T) {
	k := threeBrokers(t)
	e := front(t, k, harness.GatewayConfig{})
	source, view := e.source(t, 1, 4)
	group, l := harness.Name(t, "group"), harness.NewLedger()
	coordinated := offsetsPartition(group)
	jobs, _ := e.source(t, 1, 1)
	crew, done := harness.Name(t, "crew"), harness.NewLedger().AnyOrder()
	for offsetsPartition(crew) != coordinated { // the two groups have one coordinator
		crew = harness.Name(t, "crew")
	}
	for i := range 2 {
		c := e.consumer(group, fmt.Sprintf("member-%d", i), view)
		// By default franz-go waits for up to 5 s after several failures, longer than what is measured here.
		c.Opts = append(c.Opts, kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }))
		harness.Consume(t, l, c)
		c.Group, c.Topics = crew, []string{jobs}
		recordSharers.start(t, done, c, nil)
	}
	awaitMembers(t, e.gateway.Bootstrap, group, view, 2, 4)
	awaitMembers(t, e.gateway.Bootstrap, crew, jobs, 2, 2) // each has the whole partition
	deliver := func(after string) {
		t.Helper()
		// A record for each virtual partition, so that each member has to get some.
		keys := keysOf(4, 1)
		start := time.Now()
		harness.Produce(t, k.Bootstrap, l, harness.Production{Topic: source, Records: 4, Key: func(i int) []byte { return keys[i] }})
		harness.Produce(t, k.Bootstrap, done, harness.Production{Topic: jobs, Records: 4})
		acked := time.Now()
		harness.Eventually(t, 20*time.Second, func() error {
			if n, other := l.Open(), done.Open(); n+other > 0 {
				return fmt.Errorf("after %s: %d records of the view are not delivered, and %d that are shared", after, n, other)
			}
			return nil
		})
		took := time.Since(acked)
		t.Logf("after %s: acknowledged in %v, delivered in %v", after, acked.Sub(start), took)
		if took > 2*time.Second {
			t.Errorf("after %s records came %v after their acknowledgement", after, took)
		}
		awaitNoLag(t, k.Bootstrap, group, source, 10*time.Second)
		awaitNoLag(t, k.Bootstrap, crew, jobs, 10*time.Second)
	}
	deliver("no failure")

	others := func(leader int32) int32 { return 2 + (leader-2+1)%3 } // of the brokers 2, 3 and 4
	for _, topic := range []string{source, jobs} {
		moveLeader(t, k, topic, 0, others(leaderOf(t, k.Bootstrap, topic, 0)))
	}
	deliver("the source's leader moved")
	for p := range int32(4) {
		moveLeader(t, k, view, p, others(leaderOf(t, k.Bootstrap, view, p)))
	}
	deliver("the view's leaders moved")
	moveLeader(t, k, "__consumer_offsets", coordinated, others(leaderOf(t, k.Bootstrap, "__consumer_offsets", coordinated)))
	deliver("the coordinator moved")
	const facts = "__individual_commit_offsets"
	moveLeader(t, k, facts, coordinated, others(leaderOf(t, k.Bootstrap, facts, coordinated)))
	deliver("the leader of individual commits moved")

	// One broker gets all the roles, and dies.
	victim := leaderOf(t, k.Bootstrap, "__consumer_offsets", coordinated)
	moveLeader(t, k, source, 0, victim)
	moveLeader(t, k, jobs, 0, victim)
	moveLeader(t, k, facts, coordinated, victim)
	moveLeader(t, k, view, 1, victim)
	shared := sharedUnderWork(t, e, victim)
	node := int(victim) - 1
	k.Kill(t, node)
	t.Cleanup(func() { k.Resume(t, node); awaitInSync(t, k) })
	rest := slices.DeleteFunc(strings.Split(k.Bootstrap, ","), func(a string) bool { return a == strings.Split(k.Bootstrap, ",")[node-1] })
	for topic, p := range map[string]int32{source: 0, jobs: 0, view: 1, facts: coordinated, "__consumer_offsets": coordinated} {
		awaitLeader(t, strings.Join(rest, ","), topic, p, func(leader int32) bool { return leader >= 0 && leader != victim })
	}
	deliver("the death of a broker")
	l.Check(t, harness.View(1, 4))
	done.Check(t, nil)
	shared()
}

// offsetsPartition is the partition of __consumer_offsets, one of four here, that holds a group: Java's String.hashCode.
func offsetsPartition(group string) int32 {
	var h int32
	for _, c := range []byte(group) {
		h = 31*h + int32(c)
	}
	return (h & 0x7fffffff) % 4
}

func leaderOf(t *testing.T, bootstrap, topic string, partition int32) (leader int32) {
	t.Helper()
	awaitLeader(t, bootstrap, topic, partition, func(l int32) bool { leader = l; return l >= 0 })
	return leader
}

// awaitLeader waits until the cluster shows a leader that will do.
func awaitLeader(t *testing.T, bootstrap, topic string, partition int32, ok func(leader int32) bool) {
	t.Helper()
	a := harness.Admin(t, bootstrap)
	harness.Eventually(t, 30*time.Second, func() error {
		topics, err := a.ListTopicsWithInternal(harness.Context(t, 5*time.Second), topic)
		if err != nil {
			return err
		}
		if p, found := topics[topic].Partitions[partition]; !found || !ok(p.Leader) {
			return fmt.Errorf("the leader of %s/%d is %d", topic, partition, p.Leader)
		}
		return nil
	})
}

// moveLeader makes a broker the preferred leader of a partition, and the leader.
func moveLeader(t *testing.T, k *harness.Kafka, topic string, partition, broker int32) {
	t.Helper()
	a := harness.Admin(t, k.Bootstrap)
	ctx := harness.Context(t, 30*time.Second)
	var req kadm.AlterPartitionAssignmentsReq
	req.Assign(topic, partition, []int32{broker, 2 + (broker-2+1)%3, 2 + (broker-2+2)%3})
	resp, err := a.AlterPartitionAssignments(ctx, req)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 20*time.Second, func() error {
		var set kadm.TopicsSet
		set.Add(topic, partition)
		results, err := a.ElectLeaders(ctx, kadm.ElectPreferredReplica, set)
		if err != nil {
			return err
		}
		if leader := leaderOf(t, k.Bootstrap, topic, partition); leader != broker {
			return fmt.Errorf("the leader of %s/%d is %d, not %d: %v", topic, partition, leader, broker, results[topic][partition].Err)
		}
		return nil
	})
}

// awaitInSync waits until every partition of the cluster has all its replicas in sync.
func awaitInSync(t *testing.T, k *harness.Kafka) {
	t.Helper()
	a := harness.Admin(t, k.Bootstrap)
	harness.Eventually(t, 2*time.Minute, func() error {
		topics, err := a.ListTopicsWithInternal(harness.Context(t, 10*time.Second))
		if err != nil {
			return err
		}
		for _, topic := range topics {
			for _, p := range topic.Partitions {
				if len(p.ISR) < len(p.Replicas) {
					return errors.New(topic.Topic + " has replicas that are not in sync")
				}
			}
		}
		return nil
	})
}
