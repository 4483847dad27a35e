package gateway

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// coordinator is the broker of a group.
func (w *world) coordinator(group string) int32 {
	w.t.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = group, []string{group}
	resp, err := req.RequestWith(w.t.Context(), w.client())
	if err != nil {
		w.t.Fatal(err)
	}
	if len(resp.Coordinators) > 0 {
		return resp.Coordinators[0].NodeID
	}
	return resp.NodeID
}

// Commits and fetches in every version that brokers offer, for a view and an ordinary topic in one request.
func TestOffsetVersions(t *testing.T) {
	w := anyWorld(t)
	orders, g := w.names()
	plain := "plain-" + orders
	w.topic(orders, 1)
	w.topic(plain, 1)
	w.produce(orders, 50)
	view := w.view(orders, 2)
	topics, err := w.admin.ListTopics(t.Context(), plain)
	if err != nil {
		t.Fatal(err)
	}
	plainID := topics[plain].ID
	viewID := w.gw.views.Name(view).BackingID
	r := w.dial(w.coordinator(g))
	av := r.ask(kmsg.NewPtrApiVersionsRequest()).(*kmsg.ApiVersionsResponse)
	versions := func(key int16) (lo, hi int16) {
		for _, k := range av.ApiKeys {
			if k.ApiKey == key {
				return k.MinVersion, k.MaxVersion
			}
		}
		return 0, -1
	}
	at := int64(0)
	lo, hi := versions(8)
	for v := max(lo, 1); v <= hi; v++ {
		at++
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.Generation = v, g, -1
		for _, x := range []struct {
			name string
			id   [16]byte
		}{{view, viewID}, {plain, plainID}} {
			rt := kmsg.NewOffsetCommitRequestTopic()
			rt.Topic, rt.TopicID = x.name, x.id
			rp := kmsg.NewOffsetCommitRequestTopicPartition()
			rp.Offset, rp.Metadata, rp.Timestamp = at, kmsg.StringPtr("mine"), -1
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
		}
		resp := r.ask(req).(*kmsg.OffsetCommitResponse)
		if len(resp.Topics) != 2 {
			t.Fatalf("OffsetCommit v%d: %d topics, want the client's two", v, len(resp.Topics))
		}
		for i, rt := range resp.Topics {
			if code := rt.Partitions[0].ErrorCode; code != 0 || len(rt.Partitions) != 1 || v < 10 && rt.Topic != req.Topics[i].Topic || v >= 10 && rt.TopicID != req.Topics[i].TopicID {
				t.Errorf("OffsetCommit v%d: %+v, %v", v, rt, kerr.ErrorForCode(code))
			}
		}
		w.wantStored(g, view, 0, at, fmt.Sprintf("mine|tandem:1:0:%d", at))
		w.wantStored(g, plain, 0, at, "mine")
	}
	lo, hi = versions(9)
	for v := max(lo, 1); v <= hi; v++ {
		for _, all := range []bool{false, true} {
			if all && v < 2 {
				continue
			}
			offset, text, n := w.fetchOffsets(r, v, g, all, []string{view, plain}, [][16]byte{viewID, plainID})
			if offset != at || text != "mine" || !all && n != 2 {
				t.Errorf("OffsetFetch v%d, all %v: %d %q, %d topics", v, all, offset, text, n)
			}
		}
	}
}

// fetchOffsets asks for partition 0 of topics, and returns the first one's row and the number of topics.
func (w *world) fetchOffsets(r *raw, v int16, group string, all bool, names []string, ids [][16]byte) (offset int64, text string, n int) {
	w.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = v, group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	for i, name := range names {
		if all {
			break
		}
		rt := kmsg.NewOffsetFetchRequestTopic()
		rt.Topic, rt.Partitions = name, []int32{0}
		req.Topics = append(req.Topics, rt)
		gt := kmsg.NewOffsetFetchRequestGroupTopic()
		gt.Topic, gt.TopicID, gt.Partitions = name, ids[i], []int32{0}
		g.Topics = append(g.Topics, gt)
	}
	req.Groups = append(req.Groups, g)
	resp := r.ask(req).(*kmsg.OffsetFetchResponse)
	for _, t := range resp.Topics {
		n++
		for _, p := range t.Partitions {
			if t.Topic == names[0] && p.Partition == 0 && p.Metadata != nil {
				offset, text = p.Offset, *p.Metadata
			}
		}
	}
	for _, g := range resp.Groups {
		if g.ErrorCode != 0 {
			w.t.Errorf("v%d: %v", v, kerr.ErrorForCode(g.ErrorCode))
		}
		for _, t := range g.Topics {
			n++
			for _, p := range t.Partitions {
				if (v < 10 && t.Topic == names[0] || v >= 10 && t.TopicID == ids[0]) && p.Partition == 0 && p.Metadata != nil {
					offset, text = p.Offset, *p.Metadata
				}
			}
		}
	}
	return offset, text, n
}
