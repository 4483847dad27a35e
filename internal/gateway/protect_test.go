package gateway

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What an admin tool can do to a topic but must not do to a view. The ordinary
// topics of the same request are done.
func TestAdminRequestsThatWouldBreakAView(t *testing.T) {
	w, v := viewWorld(t)
	w.topic("plain", 1)
	conn := w.dial(0)
	refused := kerr.PolicyViolation.Code

	parts := kmsg.NewPtrCreatePartitionsRequest()
	parts.Version = 3
	for _, name := range []string{"wide", "plain"} {
		pt := kmsg.NewCreatePartitionsRequestTopic()
		pt.Topic, pt.Count = name, 8
		parts.Topics = append(parts.Topics, pt)
	}
	meta, err := w.admin.Metadata(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range w.dial(meta.Controller).ask(parts).(*kmsg.CreatePartitionsResponse).Topics {
		if (r.ErrorCode == refused) != (r.Topic == "wide") || r.Topic == "plain" && r.ErrorCode != 0 {
			t.Errorf("CreatePartitions of %s: error %d", r.Topic, r.ErrorCode)
		}
	}

	del := kmsg.NewPtrDeleteRecordsRequest()
	del.Version = 2
	for _, name := range []string{"wide", "plain"} {
		dt := kmsg.NewDeleteRecordsRequestTopic()
		dt.Topic, dt.Partitions = name, []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 0, Offset: -1}}
		del.Topics = append(del.Topics, dt)
	}
	for _, r := range conn.ask(del).(*kmsg.DeleteRecordsResponse).Topics {
		if code := r.Partitions[0].ErrorCode; (code == refused) != (r.Topic == "wide") {
			t.Errorf("DeleteRecords of %s: error %d", r.Topic, code)
		}
	}

	for _, c := range []struct {
		key, value string
		op         kmsg.IncrementalAlterConfigOp
		code       int16
	}{
		{"max.message.bytes", "1000000", kmsg.IncrementalAlterConfigOpSet, refused},
		{"max.message.bytes", "", kmsg.IncrementalAlterConfigOpDelete, refused},
		{"max.message.bytes", "78", kmsg.IncrementalAlterConfigOpSet, 0},
		{"retention.ms", "1000", kmsg.IncrementalAlterConfigOpSet, 0},
	} {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Version = 1
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, "wide"
		k := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		k.Name, k.Op, k.Value = c.key, c.op, kmsg.StringPtr(c.value)
		r.Configs = append(r.Configs, k)
		req.Resources = append(req.Resources, r)
		resp := conn.ask(req).(*kmsg.IncrementalAlterConfigsResponse)
		if len(resp.Resources) != 1 || resp.Resources[0].ErrorCode != c.code {
			t.Errorf("%s=%s: %+v", c.key, c.value, resp.Resources)
		}
	}

	legacy := kmsg.NewPtrAlterConfigsRequest()
	lr := kmsg.NewAlterConfigsRequestResource()
	lr.ResourceType, lr.ResourceName = kmsg.ConfigResourceTypeTopic, "wide"
	legacy.Resources = append(legacy.Resources, lr) // everything back to its default
	if r := conn.ask(legacy).(*kmsg.AlterConfigsResponse); r.Resources[0].ErrorCode != refused {
		t.Errorf("AlterConfigs: %+v", r.Resources)
	}

	now := w.gw.views.Name("wide")
	if info := w.fake.TopicInfo("wide"); len(w.fake.PartitionInfos("wide")) != 4 || info == nil || now.BackingID != v.BackingID {
		t.Errorf("the backing topic is %+v", info)
	}
}

// A KIP-848 member's regular expression is evaluated by the cluster; the
// gateway still sees that it matches one input twice.
func TestRegexThatMatchesAViewAndItsSource(t *testing.T) {
	w, _ := viewWorld(t)
	for _, c := range []struct {
		group, expr string
		warns       bool
	}{{"g1", "wide", false}, {"g2", "ord.*", false}, {"g3", "wide|orders", true}, {"g4", "(", false}, {"g5", "wid", false}} {
		w.gw.checkRegex(c.group, c.expr)
		if got := strings.Contains(w.log.String(), "group="+c.group); got != c.warns {
			t.Errorf("%s: warned %v", c.expr, got)
		}
	}
}

// A share group would read the empty topic: its heartbeat is refused, also
// before the view is there.
func TestShareGroupsOfViewsAreRefused(t *testing.T) {
	w, _ := viewWorld(t)
	w.topic("real.view4", 1)
	conn := w.dial(0)
	for topic, refused := range map[string]bool{"wide": true, "orders.view8": true, "orders": false, "real.view4": false, "nothing.view4": false} {
		req := kmsg.NewPtrShareGroupHeartbeatRequest()
		req.Version, req.GroupID, req.MemberID, req.SubscribedTopicNames = 1, "shared", "AAAAAAAAAAAAAAAAAAAAAA", []string{topic}
		resp := conn.ask(req).(*kmsg.ShareGroupHeartbeatResponse)
		got := resp.ErrorMessage != nil && strings.Contains(*resp.ErrorMessage, "is a view")
		if got != refused {
			t.Errorf("%s: error %d, refused %v", topic, resp.ErrorCode, got)
		}
	}
	if w.gw.views.Name("orders.view8") != nil {
		t.Error("the view was made for it")
	}
}

// A request that names an ordinary topic and a view behind it.
func TestOffsetForLeaderEpochOfViewsAndOrdinaryTopics(t *testing.T) {
	w, _ := viewWorld(t)
	w.topic("plain", 1)
	conn := w.dial(w.leader("plain", 0))
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.Version, req.ReplicaID = 4, -1
	for _, name := range []string{"plain", "wide"} {
		rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
		rt.Topic = name
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.CurrentLeaderEpoch = -1
		rt.Partitions = append(rt.Partitions, p)
		req.Topics = append(req.Topics, rt)
	}
	resp := conn.ask(req).(*kmsg.OffsetForLeaderEpochResponse)
	if len(resp.Topics) != 2 {
		t.Fatalf("%+v", resp.Topics)
	}
	for _, rt := range resp.Topics {
		end := map[string]int64{"plain": 0, "wide": 100}[rt.Topic]
		if p := rt.Partitions[0]; p.ErrorCode != 0 || p.EndOffset != end {
			t.Errorf("%s: %+v", rt.Topic, p)
		}
	}
}

// One request for very many virtual partitions asks the cluster once for each
// source partition, and answers all of them.
func TestListOffsetsOfAThousandPartitions(t *testing.T) {
	w := newWorld(t, nil)
	w.topic("orders", 1)
	w.produce("orders", 100)
	if _, err := w.gw.views.Create(t.Context(), "wide", "orders", 1024); err != nil {
		t.Fatal(err)
	}
	asked := w.fake.Fault(observe(kmsg.ListOffsets))
	conn := w.dial(0)
	for _, timestamp := range []int64{-2, -1, 0} {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version = 7
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = "wide"
		for p := range int32(1024) {
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = p, timestamp, -1
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
		resp := conn.ask(req).(*kmsg.ListOffsetsResponse)
		if n := asked.Hits(); timestamp == -2 && n > 5 {
			t.Errorf("the cluster was asked for its log start %d times", n)
		}
		records := 0
		for _, p := range resp.Topics[0].Partitions {
			if p.ErrorCode != 0 {
				t.Fatalf("time %d partition %d: error %d", timestamp, p.Partition, p.ErrorCode)
			}
			if p.Offset > 0 {
				records++
			}
		}
		if timestamp == -1 && (records == 0 || records > 100) {
			t.Errorf("%d virtual partitions have an end, of 100 records", records)
		}
	}
}
