package gateway

import (
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Requests of every API that the gateway looks into, with bytes changed at
// random: each gets an answer or ends its connection, and the gateway lives.
func TestMutatedRequests(t *testing.T) {
	t.Parallel()
	seed := uint64(1)
	if s := os.Getenv("TANDEM_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, func(c *Config) { c.Limits.Idle, c.Limits.HoldImpossible = 300*time.Millisecond, time.Millisecond })
	w.topic("orders", 1)
	w.produce("orders", 20)
	v, err := w.gw.views.Create(t.Context(), "wide", "orders", 4)
	if err != nil {
		t.Fatal(err)
	}
	var keys []int16
	for k := range apis {
		keys = append(keys, k)
	}
	keys = append(keys, wire.Produce, wire.APIVersions)
	for range 300 {
		key := keys[r.IntN(len(keys))]
		limit, _ := wire.MaxVersion(key)
		req := filled(key, int16(r.IntN(int(limit)+1)), v)
		frame := wire.AppendRequest(nil, 7, kmsg.StringPtr("mutant"), req)
		const body = 4 + 8
		for range r.IntN(4) {
			if len(frame) > body {
				frame[body+r.IntN(len(frame)-body)] = byte(r.Uint32())
			}
		}
		conn := w.dial(int32(r.IntN(2)))
		if _, err := conn.conn.Write(frame); err != nil {
			t.Fatal(err)
		}
		if r.IntN(16) > 0 { // most clients leave at once, the others see what comes back
			_ = conn.conn.(*net.TCPConn).CloseWrite()
		}
		if _, err := io.Copy(io.Discard, conn.conn); isTimeout(err) {
			t.Fatalf("%s v%d %x: neither an answer nor an end", kmsg.NameForKey(key), req.GetVersion(), frame)
		}
		_ = conn.conn.Close()
	}
	w.dial(0).ask(kmsg.NewPtrMetadataRequest())
}

// filled is a request that names the view and an ordinary topic where its API
// has topics.
func filled(key, version int16, v *View) kmsg.Request {
	switch key {
	case wire.Fetch:
		req := fetchOf(version, "wide", 1, 0, v.BackingID)
		addFetch(req, "orders", 0, 0, v.SourceID)
		return req
	case wire.ListOffsets:
		req := kmsg.NewPtrListOffsetsRequest()
		for _, name := range []string{"wide", "orders"} {
			rt := kmsg.NewListOffsetsRequestTopic()
			rt.Topic = name
			rt.Partitions = append(rt.Partitions, kmsg.ListOffsetsRequestTopicPartition{Timestamp: -1, CurrentLeaderEpoch: -1, MaxNumOffsets: 1})
			req.Topics = append(req.Topics, rt)
		}
		req.Version = version
		return req
	case wire.Metadata:
		req := kmsg.NewPtrMetadataRequest()
		for _, name := range []string{"wide", "orders.view2", "orders.view3"} {
			req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: kmsg.StringPtr(name)})
		}
		req.Version = version
		return req
	case wire.OffsetCommit:
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation = "g", -1
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID = "wide", v.BackingID
		rt.Partitions = append(rt.Partitions, kmsg.OffsetCommitRequestTopicPartition{Partition: 1, Offset: 3, LeaderEpoch: -1})
		req.Topics = append(req.Topics, rt)
		req.Version = version
		return req
	case wire.OffsetFetch:
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group = "g"
		req.Topics = append(req.Topics, kmsg.OffsetFetchRequestTopic{Topic: "wide", Partitions: []int32{0, 1}})
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = "g"
		g.Topics = append(g.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: "wide", TopicID: v.BackingID, Partitions: []int32{0, 1}})
		req.Groups = append(req.Groups, g)
		req.Version = version
		return req
	case wire.OffsetForLeaderEpoch:
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		for _, name := range []string{"wide", "orders"} {
			rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
			rt.Topic = name
			rt.Partitions = append(rt.Partitions, kmsg.OffsetForLeaderEpochRequestTopicPartition{CurrentLeaderEpoch: -1})
			req.Topics = append(req.Topics, rt)
		}
		req.Version = version
		return req
	case wire.Produce:
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis = 1, 100
		for name, id := range map[string][16]byte{"wide": v.BackingID, "orders": v.SourceID} {
			rt := kmsg.NewProduceRequestTopic()
			rt.Topic, rt.TopicID = name, id
			rt.Partitions = append(rt.Partitions, kmsg.ProduceRequestTopicPartition{Records: batchOf("v")})
			req.Topics = append(req.Topics, rt)
		}
		req.Version = version
		return req
	case wire.DescribeConfigs:
		req := describe(topicResource, "orders", []string{"retention.ms", configKeyRangeFetch})
		req.Resources = append(req.Resources, describe(brokerResource, "0", nil).Resources...)
		req.Version = version
		return req
	case wire.IncrementalAlterConfigs:
		req := incremental("orders", configKeyRangeFetch, kmsg.IncrementalAlterConfigOpSet, "false")
		req.Version = version
		return req
	case wire.AlterConfigs:
		req := reset("orders", configKeyRangeFetch, "false")
		req.Version = version
		return req
	}
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	return req
}
