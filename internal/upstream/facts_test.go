package upstream

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newFacts(t *testing.T, c *cluster) *Facts {
	t.Helper()
	f := c.Facts()
	t.Cleanup(f.Close)
	return f
}

func create(t *testing.T, f *Facts) icommit.Topic {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	topic, err := f.Create(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

// made is what the cluster says of the topic of individual commits.
func (c *cluster) made() (kadm.TopicDetail, map[string]string) {
	c.t.Helper()
	topics, err := c.user.ListTopicsWithInternal(c.t.Context(), icommit.TopicName)
	if err != nil {
		c.t.Fatal(err)
	}
	described, err := c.user.DescribeTopicConfigs(c.t.Context(), icommit.TopicName)
	if err != nil {
		c.t.Fatal(err)
	}
	settings := map[string]string{}
	for _, k := range described[0].Configs {
		settings[k.Key] = k.MaybeValue()
	}
	return topics[icommit.TopicName], settings
}

// assign answers questions for one topic alone with replicas in this order: kfake has one of its own for each answer.
func (c *cluster) assign(topic string, partitions int32, replicas func(int32) []int32) {
	brokers := c.Brokers()
	c.fake.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.fake.KeepControl()
		asked := req.(*kmsg.MetadataRequest).Topics
		if len(asked) != 1 || asked[0].Topic == nil || *asked[0].Topic != topic {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		for id, b := range brokers {
			rb := kmsg.NewMetadataResponseBroker()
			host, port, _ := net.SplitHostPort(b.Addr)
			n, _ := strconv.Atoi(port)
			rb.NodeID, rb.Host, rb.Port = id, host, int32(n)
			resp.Brokers = append(resp.Brokers, rb)
		}
		rt := kmsg.NewMetadataResponseTopic()
		rt.Topic = kmsg.StringPtr(topic)
		for p := range partitions {
			rp := kmsg.NewMetadataResponseTopicPartition()
			rp.Partition, rp.Replicas = p, replicas(p)
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
}

// assignments watches how the topic is asked for.
func (c *cluster) assignments() *[][]int32 {
	var asked [][]int32
	c.fake.ControlKey(int16(kmsg.CreateTopics), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.fake.KeepControl()
		if t := req.(*kmsg.CreateTopicsRequest).Topics[0]; t.Topic == icommit.TopicName {
			asked = nil
			for _, a := range t.ReplicaAssignment {
				asked = append(asked, a.Replicas)
			}
		}
		return nil, nil, false
	})
	return &asked
}

func TestFactsTopicIsMadeLikeTheOffsetsTopic(t *testing.T) {
	c := newCluster(t)
	settings := map[string]*string{"min.insync.replicas": kadm.StringPtr("2"), "segment.bytes": kadm.StringPtr("104857600"), "retention.ms": kadm.StringPtr("77")}
	if _, err := c.user.CreateTopic(t.Context(), 7, 3, settings, offsetsTopic); err != nil {
		t.Fatal(err)
	}
	c.assign(offsetsTopic, 7, func(p int32) []int32 { return []int32{(p + 1) % 3, p % 3, (p + 2) % 3} })
	asked := c.assignments()
	if topic := create(t, newFacts(t, c)); topic.Partitions != 7 || topic.ID == ([16]byte{}) {
		t.Errorf("%+v", topic)
	}
	detail, got := c.made()
	if len(detail.Partitions) != 7 || detail.Partitions.NumReplicas() != 3 {
		t.Errorf("%d partitions, %d replicas", len(detail.Partitions), detail.Partitions.NumReplicas())
	}
	want := [][]int32{{1, 0, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}}
	if !slices.EqualFunc(*asked, want, slices.Equal) {
		t.Errorf("assigned to %v, want %v", *asked, want)
	}
	for k, v := range map[string]string{"cleanup.policy": "compact", "min.insync.replicas": "2", "segment.bytes": "104857600"} {
		if got[k] != v {
			t.Errorf("%s is %q, want %s", k, got[k], v)
		}
	}
	if got["retention.ms"] == "77" {
		t.Error("retention.ms was taken over")
	}
}

// Kafka makes the offsets topic when somebody asks for a coordinator.
func TestFactsTopicWaitsForTheOffsetsTopic(t *testing.T) {
	c := newCluster(t)
	asks := 0
	c.fake.ControlKey(int16(kmsg.FindCoordinator), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.fake.KeepControl()
		if asks++; asks > 2 {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
		rc := kmsg.NewFindCoordinatorResponseCoordinator()
		rc.Key, rc.ErrorCode = "tandem", kerr.CoordinatorNotAvailable.Code
		resp.ErrorCode = rc.ErrorCode
		resp.Coordinators = append(resp.Coordinators, rc)
		if asks == 2 {
			go func() {
				if _, err := c.user.CreateTopic(t.Context(), 5, 1, nil, offsetsTopic); err != nil {
					t.Error(err)
				}
			}()
			c.fake.SleepControl(func() {
				for c.fake.TopicInfo(offsetsTopic) == nil {
					time.Sleep(time.Millisecond)
				}
			})
		}
		return resp, nil, true
	})
	if topic := create(t, newFacts(t, c)); topic.Partitions != 5 {
		t.Errorf("%+v", topic)
	}
}

// A program's user may describe its own groups only.
func TestFactsTopicNeedsNoGroupWhereTheOffsetsTopicIs(t *testing.T) {
	c := newCluster(t)
	if _, err := c.user.CreateTopic(t.Context(), 5, 1, nil, offsetsTopic); err != nil {
		t.Fatal(err)
	}
	c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.GroupAuthorizationFailed, Count: -1})
	if topic := create(t, newFacts(t, c)); topic.Partitions != 5 {
		t.Errorf("%+v", topic)
	}
}

// A broker that is asked for the offsets topic's settings may not have heard of it yet.
func TestFactsTopicOfAnOffsetsTopicThatIsNew(t *testing.T) {
	c := newCluster(t)
	if _, err := c.user.CreateTopic(t.Context(), 5, 1, nil, offsetsTopic); err != nil {
		t.Fatal(err)
	}
	behind := c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Resource: offsetsTopic, Err: kerr.UnknownTopicOrPartition, Count: 2})
	if topic := create(t, newFacts(t, c)); topic.Partitions != 5 || behind.Hits() != 2 {
		t.Errorf("%+v, asked %d times", topic, behind.Hits())
	}
}

func TestFactsTopicNeedsTheOffsetsTopicsSettings(t *testing.T) {
	c := newCluster(t)
	if _, err := c.user.CreateTopic(t.Context(), 5, 1, nil, offsetsTopic); err != nil {
		t.Fatal(err)
	}
	c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Resource: offsetsTopic, Err: kerr.TopicAuthorizationFailed, Count: -1})
	if _, err := newFacts(t, c).Create(t.Context()); !errors.Is(err, kerr.TopicAuthorizationFailed) || !strings.Contains(err.Error(), "DESCRIBE_CONFIGS") {
		t.Errorf("%v", err)
	}
}

// The embedded engine keeps committed offsets in no topic.
func TestFactsTopicWithoutAnOffsetsTopic(t *testing.T) {
	c := newCluster(t)
	create(t, newFacts(t, c))
	detail, got := c.made()
	if len(detail.Partitions) != 50 || detail.Partitions.NumReplicas() != 3 || got["cleanup.policy"] != "compact" || got["min.insync.replicas"] != "2" {
		t.Errorf("%d partitions, %d replicas, %v", len(detail.Partitions), detail.Partitions.NumReplicas(), got)
	}
}

func TestFactsTopicOfAnAssignmentThatIsImpossible(t *testing.T) {
	c := newCluster(t)
	if _, err := c.user.CreateTopic(t.Context(), 4, 3, nil, offsetsTopic); err != nil {
		t.Fatal(err)
	}
	c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Topic: icommit.TopicName, Err: kerr.InvalidReplicaAssignment, Count: 1})
	create(t, newFacts(t, c))
	if detail, _ := c.made(); len(detail.Partitions) != 4 || detail.Partitions.NumReplicas() != 3 {
		t.Errorf("%d partitions, %d replicas", len(detail.Partitions), detail.Partitions.NumReplicas())
	}
}

func TestFactsTopicIsMadeOnce(t *testing.T) {
	c := newCluster(t)
	var wg sync.WaitGroup
	var made [4]icommit.Topic
	for i := range made {
		f := newFacts(t, c)
		wg.Go(func() { made[i] = create(t, f) })
	}
	wg.Wait()
	for _, topic := range made {
		if topic != made[0] {
			t.Errorf("%+v and %+v", made[0], topic)
		}
	}
}

// Not allowed to look is not the same as not there.
func TestFactsTopicThatMayNotBeDescribed(t *testing.T) {
	c := newCluster(t)
	f := newFacts(t, c)
	if _, found, err := f.Topic(t.Context()); found || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: icommit.TopicName, Err: kerr.TopicAuthorizationFailed, Count: -1})
	if _, _, err := f.Topic(t.Context()); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("looking: %v", err)
	}
	if _, err := f.Create(t.Context()); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("creating: %v", err)
	}
}

func TestFactsTopicNeedsToSeeTheOffsetsTopic(t *testing.T) {
	c := newCluster(t)
	c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: offsetsTopic, Err: kerr.TopicAuthorizationFailed, Count: -1})
	if _, err := newFacts(t, c).Create(t.Context()); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("%v", err)
	}
}

// A broker that has not heard of the topic yet must not make it look as if there were no facts.
func TestFactsTopicThatOneBrokerKnows(t *testing.T) {
	c := newCluster(t)
	f := newFacts(t, c)
	topic := create(t, f)
	c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: icommit.TopicName, Nodes: []int32{0, 1}, Err: kerr.UnknownTopicOrPartition, Count: -1})
	for range 6 {
		if got, found, err := f.Topic(t.Context()); got != topic || !found || err != nil {
			t.Fatalf("%+v, %v, %v", got, found, err)
		}
	}
}

func TestFactsThatBrokersRefuse(t *testing.T) {
	c := newCluster(t)
	f := newFacts(t, c)
	topic := create(t, f)
	c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: icommit.TopicName, Err: kerr.TopicAuthorizationFailed, Count: 1})
	entries := []icommit.Entry{{Key: []byte("a")}, {Key: []byte("b")}}
	if err := f.Append(t.Context(), topic, 3, entries); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("%v", err)
	}
	if err := f.Append(t.Context(), topic, 3, entries); err != nil {
		t.Error(err)
	}
	if end, err := f.End(t.Context(), topic, 3); end != 2 || err != nil {
		t.Errorf("end %d, %v", end, err)
	}
}

// A caller whose time is over is not kept until the broker is back.
func TestFactsAppendEndsWithItsContext(t *testing.T) {
	c := newCluster(t)
	f := newFacts(t, c)
	topic := create(t, f)
	c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: icommit.TopicName, Err: kerr.NotEnoughReplicas, Count: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := f.Append(ctx, topic, 3, []icommit.Entry{{Key: []byte("a")}}); err == nil {
		t.Error("no error")
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestFactsAfterClose(t *testing.T) {
	c := newCluster(t)
	f := newFacts(t, c)
	topic := create(t, f)
	f.Close()
	if err := f.Append(t.Context(), topic, 0, []icommit.Entry{{Key: []byte("a")}}); !errors.Is(err, icommit.ErrClosed) {
		t.Errorf("%v", err)
	}
}
