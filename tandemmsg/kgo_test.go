package tandemmsg

import (
	"context"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a kgo client is asked to send arrives with its additions, and a broker that does not know them does the rest.
func TestAdditionsPassThroughAClient(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	must(t, err)
	defer cluster.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	must(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	var mu sync.Mutex
	arrived := map[int16]kmsg.Request{}
	var committed []KeyRangeOffsets // in the answer to an OffsetFetch, if not nil
	last := func(key int16) kmsg.Request {
		mu.Lock()
		defer mu.Unlock()
		return arrived[key]
	}
	cluster.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		arrived[req.Key()] = req
		fetch, ok := req.(*kmsg.OffsetFetchRequest)
		if !ok || committed == nil {
			return nil, nil, false
		}
		resp := fetch.ResponseKind().(*kmsg.OffsetFetchResponse)
		group, topic, p := kmsg.NewOffsetFetchResponseGroup(), kmsg.NewOffsetFetchResponseGroupTopic(), kmsg.NewOffsetFetchResponseGroupTopicPartition()
		must(panics{}, SetCommittedRangeOffsets(&p, committed))
		topic.Topic, topic.TopicID = fetch.Groups[0].Topics[0].Topic, fetch.Groups[0].Topics[0].TopicID
		topic.Partitions = append(topic.Partitions, p)
		group.Group, group.Topics = "g", append(group.Topics, topic)
		resp.Groups = append(resp.Groups, group)
		return resp, nil, true
	})

	want := Commit{Keys: keyrange.Set{keyrange.OfSlice(1, 2)}, Base: 4, Offsets: []OffsetRange{{45, 47}}, Watermark: -1}
	commit := exampleCommit(want)
	id := cluster.TopicInfo("orders").TopicID
	commit.Group, commit.Topics[0].TopicID, commit.Topics[0].Partitions[0].Partition = "g", id, 0
	resp, err := commit.RequestWith(ctx, client)
	must(t, err)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Errorf("OffsetCommit: error %d", code)
	}
	got := last(8).(*kmsg.OffsetCommitRequest)
	if c, ok, err := ReadCommit(&got.Topics[0].Partitions[0]); !ok || err != nil || !sameCommit(c, want) {
		t.Errorf("OffsetCommit v%d: %+v, %v, %v", got.Version, c, ok, err)
	}

	for _, answer := range [][]KeyRangeOffsets{nil, {{keyrange.Full, []OffsetRange{{45, 47}}}}} {
		mu.Lock()
		committed = answer
		mu.Unlock()
		req, group, topic := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewOffsetFetchRequestGroup(), kmsg.NewOffsetFetchRequestGroupTopic()
		topic.Topic, topic.Partitions = "orders", []int32{0}
		must(t, SetKeyRanges(&topic, want.Keys))
		must(t, SetKeyAxisBase(&topic, want.Base))
		group.Group, group.Topics = "g", append(group.Topics, topic)
		req.Groups = append(req.Groups, group)
		resp, err := req.RequestWith(ctx, client)
		must(t, err)
		got := last(9).(*kmsg.OffsetFetchRequest)
		if k, err := KeyRanges(&got.Groups[0].Topics[0]); err != nil || !reflect.DeepEqual(k, want.Keys) {
			t.Errorf("OffsetFetch v%d: %v, %v", got.Version, k, err)
		}
		if base, err := KeyAxisBase(&got.Groups[0].Topics[0]); err != nil || base != want.Base {
			t.Errorf("OffsetFetch v%d: base %d, %v", got.Version, base, err)
		}
		if c, err := CommittedRangeOffsets(&resp.Groups[0].Topics[0].Partitions[0]); err != nil || !reflect.DeepEqual(c, answer) {
			t.Errorf("OffsetFetch's answer: %v, %v", c, err)
		}
	}

	fetch, topic, p := kmsg.NewPtrFetchRequest(), kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	must(t, SetKeyRanges(&p, want.Keys))
	topic.Topic, topic.TopicID, topic.Partitions = "orders", id, append(topic.Partitions, p)
	fetch.Topics = append(fetch.Topics, topic)
	must(t, SetKeyRanges(fetch, want.Keys))
	if _, err := fetch.RequestWith(ctx, client); err != nil {
		t.Error(err)
	}
	gotFetch := last(1).(*kmsg.FetchRequest)
	for name, k := range map[string]func() (keyrange.Set, error){
		"request":   func() (keyrange.Set, error) { return KeyRanges(gotFetch) },
		"partition": func() (keyrange.Set, error) { return KeyRanges(&gotFetch.Topics[0].Partitions[0]) },
	} {
		if k, err := k(); err != nil || !reflect.DeepEqual(k, want.Keys) {
			t.Errorf("Fetch v%d, %s: %v, %v", gotFetch.Version, name, k, err)
		}
	}
}
