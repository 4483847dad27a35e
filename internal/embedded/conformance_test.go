package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// What the gateway relies on at the cluster behind it. With
// TANDEM_CONFORMANCE_KAFKA=HOST:PORT the same runs against that Kafka, which
// shows that these are its rules and not kfake's.
func TestWhatTheGatewayReliesOn(t *testing.T) {
	addr := os.Getenv("TANDEM_CONFORMANCE_KAFKA")
	embedded := addr == ""
	if embedded {
		addr = open(t, Options{}).Addrs()[0]
	}
	for name, check := range map[string]func(*broker){
		"metadata":                 (*broker).metadata,
		"topic ids":                (*broker).topicIDs,
		"backing topic":            (*broker).backingTopic,
		"new partitions":           (*broker).newPartitions,
		"commit of two topics":     (*broker).commitTwoTopics,
		"refused commits":          (*broker).refusedCommits,
		"unknown group":            (*broker).unknownGroup,
		"transactional offsets":    (*broker).transactionalOffsets,
		"aborted records":          (*broker).abortedRecords,
		"list offsets":             (*broker).listOffsets,
		"fetch out of range":       (*broker).fetchOutOfRange,
		"deleted topic":            (*broker).deletedTopic,
		"KIP-848 commit":           (*broker).kip848Commit,
		"cluster and coordinators": (*broker).clusterAndCoordinators,
	} {
		t.Run(name, func(t *testing.T) {
			cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MetadataMinAge(10*time.Millisecond), kgo.FetchMaxWait(100*time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			b := &broker{T: t, embedded: embedded, addr: addr, cl: cl, adm: kadm.NewClient(cl), ctx: testContext(t)}
			b.prefix = fmt.Sprintf("conf-%d-", time.Now().UnixNano())
			check(b)
		})
	}
}

type broker struct {
	*testing.T
	embedded     bool
	addr, prefix string
	cl           *kgo.Client
	adm          *kadm.Client
	ctx          context.Context
}

// topic makes a topic and returns its name.
func (b *broker) topic(name string, partitions int32, configs ...string) string {
	b.Helper()
	cs := map[string]*string{}
	for i := 0; i < len(configs); i += 2 {
		cs[configs[i]] = &configs[i+1]
	}
	name = b.prefix + name
	if _, err := b.adm.CreateTopic(b.ctx, partitions, -1, cs, name); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cl, _ := kgo.NewClient(kgo.SeedBrokers(b.addr))
		defer cl.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		kadm.NewClient(cl).DeleteTopics(ctx, name)
	})
	// Kafka answers before every broker knows the topic.
	b.until(func() bool {
		m, err := b.adm.Metadata(b.ctx, name)
		return err == nil && len(m.Topics[name].Partitions) == int(partitions) && m.Topics[name].Partitions[0].Leader >= 0
	})
	return name
}

func (b *broker) until(ok func() bool) {
	b.Helper()
	for !ok() {
		if b.ctx.Err() != nil {
			b.Fatal(b.ctx.Err())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (b *broker) request(req kmsg.Request) kmsg.Response {
	b.Helper()
	resp, err := b.cl.Request(b.ctx, req)
	if err != nil {
		b.Fatalf("%s: %v", kmsg.NameForKey(req.Key()), err)
	}
	return resp
}

func (b *broker) want(what string, got, want any) {
	b.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		b.Errorf("%s: %s, want %s", what, g, w)
	}
}

func (b *broker) id(topic string) [16]byte {
	m, err := b.adm.Metadata(b.ctx, topic)
	if err != nil {
		b.Fatal(err)
	}
	return m.Topics[topic].ID
}

func (b *broker) produce(topic string, values ...string) {
	b.Helper()
	for _, v := range values {
		if err := b.cl.ProduceSync(b.ctx, &kgo.Record{Topic: topic, Value: []byte(v), Timestamp: time.UnixMilli(int64(1000 * len(v)))}).FirstErr(); err != nil {
			b.Fatal(err)
		}
	}
}

func (b *broker) metadata() {
	topic := b.topic("t", 2)
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	for _, name := range []string{topic, b.prefix + "none"} {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, rt)
	}
	resp := b.request(req).(*kmsg.MetadataResponse)
	for _, t := range resp.Topics {
		if *t.Topic != topic {
			b.want("a topic that is not there", t.ErrorCode, kerr.UnknownTopicOrPartition.Code)
			continue
		}
		b.want("partitions", len(t.Partitions), 2)
		b.want("READ is among the authorized operations", t.AuthorizedOperations>>int(kmsg.ACLOperationRead)&1, 1)
		b.want("has an id", t.TopicID != [16]byte{}, true)
		b.want("leader epoch", t.Partitions[0].LeaderEpoch, 0)
	}
	b.want("not asked for: not created", b.id(b.prefix+"none") == [16]byte{}, true)
}

func (b *broker) topicIDs() {
	topic := b.topic("t", 1)
	b.produce(topic, "a")
	req := kmsg.NewPtrMetadataRequest()
	for _, id := range [][16]byte{b.id(topic), {1, 2, 3}} {
		rt := kmsg.NewMetadataRequestTopic()
		rt.TopicID = id
		req.Topics = append(req.Topics, rt)
	}
	for _, t := range b.request(req).(*kmsg.MetadataResponse).Topics {
		if t.TopicID == [16]byte{1, 2, 3} {
			b.want("metadata of a foreign id", t.ErrorCode, kerr.UnknownTopicID.Code)
		} else {
			b.want("name by id", *t.Topic, topic)
		}
	}
	b.want("fetch by a foreign id", b.fetch([16]byte{1, 2, 3}, topic, 0).ErrorCode, kerr.UnknownTopicID.Code)
}

// fetch asks once for partition 0 by topic id.
func (b *broker) fetch(id [16]byte, topic string, offset int64) kmsg.FetchResponseTopicPartition {
	b.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 200, 1, 1<<20, -1
	req.IsolationLevel = 1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = topic, id
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = offset, 1<<20, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	m, err := b.adm.Metadata(b.ctx, topic)
	if err != nil {
		b.Fatal(err)
	}
	kresp, err := b.cl.Broker(int(m.Topics[topic].Partitions[0].Leader)).Request(b.ctx, req)
	if err != nil {
		b.Fatal(err)
	}
	resp := kresp.(*kmsg.FetchResponse)
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		b.Fatalf("fetch: error %d, %d topics", resp.ErrorCode, len(resp.Topics))
	}
	return resp.Topics[0].Partitions[0]
}

func (b *broker) backingTopic() {
	topic := b.topic("view", 4, "max.message.bytes", "78")
	err := b.cl.ProduceSync(b.ctx, &kgo.Record{Topic: topic, Value: []byte(strings.Repeat("x", 40))}).FirstErr()
	if !errors.Is(err, kerr.MessageTooLarge) {
		b.Errorf("produce to it: %v, want MESSAGE_TOO_LARGE", err)
	}
	configs, err := b.adm.DescribeTopicConfigs(b.ctx, topic)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range configs[0].Configs {
		if c.Key == "max.message.bytes" {
			b.want("its config", c.MaybeValue(), "78")
		}
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, 4, -1
	req.Topics = append(req.Topics, rt)
	b.want("created again", b.request(req).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode, kerr.TopicAlreadyExists.Code)
}

func (b *broker) newPartitions() {
	topic := b.topic("t", 2)
	before := b.id(topic)
	if resp, err := b.adm.UpdatePartitions(b.ctx, 6, topic); errors.Join(err, resp.Error()) != nil {
		b.Fatal(err, resp.Error())
	}
	var m kadm.Metadata
	b.until(func() (ok bool) {
		var err error
		m, err = b.adm.Metadata(b.ctx, topic)
		return err == nil && len(m.Topics[topic].Partitions) == 6
	})
	b.want("same id", m.Topics[topic].ID == before, true)
	resp, _ := b.adm.UpdatePartitions(b.ctx, 3, topic)
	b.want("fewer", errors.Is(resp.Error(), kerr.InvalidPartitions), true)
}

// commitRequest commits partition 0 of the topics.
func (b *broker) commitRequest(group, member string, generation int32, topics ...string) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	for i, topic := range topics {
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID = topic, b.id(topic)
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Offset, rp.LeaderEpoch, rp.Metadata = int64(10+i), 0, kmsg.StringPtr(fmt.Sprint("text ", i))
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
	}
	return req
}

// commitCodes sends it and returns the error codes by topic.
func (b *broker) commitCodes(req *kmsg.OffsetCommitRequest) []int16 {
	b.Helper()
	var codes []int16
	for _, t := range b.request(req).(*kmsg.OffsetCommitResponse).Topics {
		codes = append(codes, t.Partitions[0].ErrorCode)
	}
	return codes
}

func (b *broker) committed(group string) string {
	b.Helper()
	got, err := b.adm.FetchOffsets(b.ctx, group)
	if err != nil {
		b.Fatal(err)
	}
	var s []string
	for _, o := range got.Sorted() {
		s = append(s, fmt.Sprint(strings.TrimPrefix(o.Topic, b.prefix), "=", o.At, "/", o.LeaderEpoch, "/", o.Metadata))
	}
	return strings.Join(s, " ")
}

// member joins the group with a subscription to the topic.
func (b *broker) member(group, topic string, opts ...kgo.Opt) (cl *kgo.Client, id string, generation int32) {
	b.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.addr), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.FetchMaxWait(100 * time.Millisecond)}, opts...)...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(cl.Close)
	for b.ctx.Err() == nil {
		pollCtx, cancel := context.WithTimeout(b.ctx, 50*time.Millisecond)
		cl.PollFetches(pollCtx)
		cancel()
		if id, generation = cl.GroupMetadata(); generation > 0 {
			return cl, id, generation
		}
	}
	b.Fatal("no member")
	return nil, "", 0
}

func (b *broker) commitTwoTopics() {
	source, view := b.topic("source", 1), b.topic("view", 2)
	group := b.prefix + "g"
	b.want("without members", b.commitCodes(b.commitRequest(group, "", -1, source, view)), "[0 0]")
	b.want("rows", b.committed(group), "source=10/0/text 0 view=11/0/text 1")
	group = b.prefix + "h"
	_, member, generation := b.member(group, view)
	b.want("by a member that is subscribed to one", b.commitCodes(b.commitRequest(group, member, generation, source, view)), "[0 0]")
	b.want("rows", b.committed(group), "source=10/0/text 0 view=11/0/text 1")
}

func (b *broker) refusedCommits() {
	topic := b.topic("t", 1)
	group := b.prefix + "g"
	_, member, generation := b.member(group, topic)
	b.want("older generation", b.commitCodes(b.commitRequest(group, member, generation-1, topic)), fmt.Sprint("[", kerr.IllegalGeneration.Code, "]"))
	b.want("no member", b.commitCodes(b.commitRequest(group, "", -1, topic)), fmt.Sprint("[", kerr.UnknownMemberID.Code, "]"))
	b.want("foreign member", b.commitCodes(b.commitRequest(group, "x", generation, topic)), fmt.Sprint("[", kerr.UnknownMemberID.Code, "]"))
	b.want("rows", b.committed(group), "")
	if b.embedded {
		return // kfake takes texts of any length
	}
	long := b.commitRequest(group, member, generation, topic)
	long.Topics[0].Partitions[0].Metadata = kmsg.StringPtr(strings.Repeat("x", 4097))
	b.want("text beyond offset.metadata.max.bytes", b.commitCodes(long), fmt.Sprint("[", kerr.OffsetMetadataTooLarge.Code, "]"))
}

func (b *broker) unknownGroup() {
	topic := b.topic("t", 1)
	for version := int16(1); version <= 10; version++ {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group = b.prefix + "none"
		rt := kmsg.NewOffsetFetchRequestTopic()
		rt.Topic, rt.Partitions = topic, []int32{0}
		req.Topics = append(req.Topics, rt)
		rg := kmsg.NewOffsetFetchRequestGroup()
		rg.Group, rg.MemberEpoch = req.Group, -1
		gt := kmsg.NewOffsetFetchRequestGroupTopic()
		gt.Topic, gt.TopicID, gt.Partitions = topic, b.id(topic), []int32{0}
		rg.Topics = append(rg.Topics, gt)
		req.Groups = append(req.Groups, rg)
		cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.MaxVersions(versions(9, version)))
		if err != nil {
			b.Fatal(err)
		}
		resp, err := req.RequestWith(b.ctx, cl)
		cl.Close()
		if err != nil {
			b.Fatalf("v%d: %v", version, err)
		}
		b.want(fmt.Sprint("version ", version), resp.Version, version)
		if version >= 8 {
			p := resp.Groups[0].Topics[0].Partitions[0]
			b.want("offset, error", fmt.Sprint(p.Offset, resp.Groups[0].ErrorCode, p.ErrorCode), "-1 0 0")
			b.want("topic", version < 10 && resp.Groups[0].Topics[0].Topic == topic || resp.Groups[0].Topics[0].TopicID == gt.TopicID, true)
		} else {
			p := resp.Topics[0].Partitions[0]
			b.want("offset, error", fmt.Sprint(p.Offset, resp.ErrorCode, p.ErrorCode), "-1 0 0")
		}
	}
	b.want("all rows", b.committed(b.prefix+"none"), "")
}

// versions are the newest ones of all keys, but for one.
func versions(key, version int16) *kversion.Versions {
	v := kversion.Tip()
	v.SetMaxKeyVersion(key, version)
	return v
}

func (b *broker) transactionalOffsets() {
	source, view := b.topic("source", 1), b.topic("view", 2)
	group := b.prefix + "g"
	b.commitCodes(b.commitRequest(group, "", -1, b.topic("other", 1))) // kfake sees pending rows of groups that exist only
	for _, commit := range []bool{false, true} {
		tx, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.TransactionalID(b.prefix+"tx"))
		if err != nil {
			b.Fatal(err)
		}
		defer tx.Close()
		if err := tx.BeginTransaction(); err != nil {
			b.Fatal(err)
		}
		pid, epoch, err := tx.ProducerID(b.ctx)
		if err != nil {
			b.Fatal(err)
		}
		add := kmsg.NewPtrAddOffsetsToTxnRequest()
		add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = b.prefix+"tx", pid, epoch, group
		b.want("AddOffsetsToTxn", b.request(add).(*kmsg.AddOffsetsToTxnResponse).ErrorCode, 0)
		req := kmsg.NewPtrTxnOffsetCommitRequest()
		req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch, req.Generation = b.prefix+"tx", group, pid, epoch, -1
		for _, topic := range []string{source, view} {
			rt := kmsg.NewTxnOffsetCommitRequestTopic()
			rt.Topic, rt.TopicID = topic, b.id(topic)
			rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
			rp.Offset, rp.LeaderEpoch, rp.Metadata = 5, -1, kmsg.StringPtr("tx")
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
		}
		for _, t := range b.request(req).(*kmsg.TxnOffsetCommitResponse).Topics {
			b.want("TxnOffsetCommit", t.Partitions[0].ErrorCode, 0)
		}
		b.want("a pending row, stable wanted", b.offsetFetchCode(group, view, true), kerr.UnstableOffsetCommit.Code)
		b.want("a pending row, any", b.offsetFetchCode(group, view, false), 0)
		end := kmsg.NewPtrEndTxnRequest()
		end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = b.prefix+"tx", pid, epoch, commit
		b.want("EndTxn", b.request(end).(*kmsg.EndTxnResponse).ErrorCode, 0)
		want := "other=10/0/text 0"
		if commit {
			want += " source=5/-1/tx view=5/-1/tx"
		}
		// Kafka writes the markers after its answer.
		b.until(func() bool { return b.offsetFetchCode(group, view, true) != kerr.UnstableOffsetCommit.Code })
		b.want(fmt.Sprint("rows after the end, commit ", commit), b.committed(group), want)
	}
}

func (b *broker) offsetFetchCode(group, topic string, stable bool) int16 {
	b.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = stable
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group, rg.MemberEpoch = group, -1
	rt := kmsg.NewOffsetFetchRequestGroupTopic()
	rt.Topic, rt.TopicID, rt.Partitions = topic, b.id(topic), []int32{0}
	rg.Topics = append(rg.Topics, rt)
	req.Groups = append(req.Groups, rg)
	resp := b.request(req).(*kmsg.OffsetFetchResponse)
	if code := resp.Groups[0].ErrorCode; code != 0 || len(resp.Groups[0].Topics) == 0 {
		return code
	}
	return resp.Groups[0].Topics[0].Partitions[0].ErrorCode
}

func (b *broker) abortedRecords() {
	topic := b.topic("t", 1)
	b.produce(topic, "a")
	tx, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.TransactionalID(b.prefix+"tx"))
	if err != nil {
		b.Fatal(err)
	}
	defer tx.Close()
	if err := tx.BeginTransaction(); err != nil {
		b.Fatal(err)
	}
	if err := tx.ProduceSync(b.ctx, &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr(); err != nil {
		b.Fatal(err)
	}
	p := b.fetch(b.id(topic), topic, 0)
	b.want("while it is open: high watermark, last stable offset", fmt.Sprint(p.HighWatermark, p.LastStableOffset), "2 1")
	if err := tx.EndTransaction(b.ctx, kgo.TryAbort); err != nil {
		b.Fatal(err)
	}
	b.until(func() bool { p = b.fetch(b.id(topic), topic, 0); return p.LastStableOffset == 3 })
	p = b.fetch(b.id(topic), topic, 1) // from 0 Kafka may stop before the transaction
	b.want("after: high watermark, last stable offset", fmt.Sprint(p.HighWatermark, p.LastStableOffset), "3 3")
	b.want("aborted transactions", len(p.AbortedTransactions), 1)
	if len(p.AbortedTransactions) == 1 {
		b.want("first offset", p.AbortedTransactions[0].FirstOffset, 1)
	}
}

func (b *broker) listOffsets() {
	topic := b.topic("t", 1)
	b.produce(topic, "a", "bb", "dddd") // at 1, 2 and 4 s
	for timestamp, want := range map[int64]string{
		-2: "0 -1", -1: "3 -1", 1500: "1 2000", 2000: "1 2000", 5000: "-1 -1", -3: "2 4000",
	} {
		req := kmsg.NewPtrListOffsetsRequest()
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = topic
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Timestamp, rp.CurrentLeaderEpoch = timestamp, -1
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		p := b.request(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
		b.want(fmt.Sprint("at ", timestamp), fmt.Sprint(p.Offset, p.Timestamp), want)
		if timestamp == -1 {
			b.want("leader epoch at the end", p.LeaderEpoch, 0)
		}
	}
}

func (b *broker) fetchOutOfRange() {
	topic := b.topic("t", 1)
	b.produce(topic, "a", "b", "c")
	os := kadm.Offsets{}
	os.AddOffset(topic, 0, 2, -1)
	if resp, err := b.adm.DeleteRecords(b.ctx, os); errors.Join(err, resp.Error()) != nil {
		b.Fatal(err, resp.Error())
	}
	for _, offset := range []int64{0, 4} {
		p := b.fetch(b.id(topic), topic, offset)
		b.want(fmt.Sprint("fetch of ", offset), p.ErrorCode, kerr.OffsetOutOfRange.Code)
	}
	p := b.fetch(b.id(topic), topic, 2)
	b.want("log start", p.LogStartOffset, 2)
	p = b.fetch(b.id(topic), topic, 3)
	b.want("at the end: error, bytes", fmt.Sprint(p.ErrorCode, len(p.RecordBatches)), "0 0")
}

func (b *broker) deletedTopic() {
	topic := b.topic("t", 1)
	other := b.topic("other", 1)
	group := b.prefix + "g"
	b.commitCodes(b.commitRequest(group, "", -1, topic, other))
	old := b.id(topic)
	if resp, err := b.adm.DeleteTopics(b.ctx, topic); errors.Join(err, resp.Error()) != nil {
		b.Fatal(err, resp.Error())
	}
	// Kafka removes the rows after its answer.
	b.until(func() bool { return b.committed(group) == "other=11/0/text 1" })
	b.until(func() bool { return b.id(topic) != old })
	if _, err := b.adm.CreateTopic(b.ctx, 1, -1, nil, topic); err != nil {
		b.Fatal(err)
	}
	b.until(func() bool { return b.id(topic) != [16]byte{} })
	b.want("made anew, the same id", b.id(topic) == old, false)
	b.want("fetch by the old id", b.fetch(old, topic, 0).ErrorCode, kerr.UnknownTopicID.Code)
}

func (b *broker) kip848Commit() {
	source, view := b.topic("source", 1), b.topic("view", 2)
	group := b.prefix + "g"
	_, member, epoch := b.member(group, view, kgo.ServerSideBalancer())
	groups, err := b.adm.ListGroups(b.ctx)
	if err != nil {
		b.Fatal(err)
	}
	b.want("group type", groups[group].GroupType, "consumer")
	b.want("both topics", b.commitCodes(b.commitRequest(group, member, epoch, source, view)), "[0 0]")
	b.want("rows", b.committed(group), "source=10/0/text 0 view=11/0/text 1")
	b.want("stale epoch", b.commitCodes(b.commitRequest(group, member, epoch+5, source)), fmt.Sprint("[", kerr.StaleMemberEpoch.Code, "]"))
	b.want("foreign member", b.commitCodes(b.commitRequest(group, "x", epoch, source)), fmt.Sprint("[", kerr.UnknownMemberID.Code, "]"))
}

func (b *broker) clusterAndCoordinators() {
	for _, kind := range []int8{0, 1} {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorType, req.CoordinatorKeys, req.CoordinatorKey = kind, []string{"x"}, "x"
		b.until(func() bool { // Kafka makes its internal topics at the first request
			resp := b.request(req).(*kmsg.FindCoordinatorResponse)
			return len(resp.Coordinators) == 1 && resp.Coordinators[0].ErrorCode == 0 && resp.Coordinators[0].Port > 0
		})
	}
	cluster := b.request(kmsg.NewPtrDescribeClusterRequest()).(*kmsg.DescribeClusterResponse)
	b.want("has a cluster id", cluster.ClusterID != "", true)
	b.want("brokers", len(cluster.Brokers), 1)
}
