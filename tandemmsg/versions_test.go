package tandemmsg

import (
	"reflect"
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// message is a request or a response of kmsg.
type message interface {
	SetVersion(int16)
	MaxVersion() int16
	IsFlexible() bool
	AppendTo([]byte) []byte
	ReadFrom([]byte) error
}

// travel encodes a message and decodes it into another one.
func travel(t *rapid.T, from, to message) {
	if err := to.ReadFrom(from.AppendTo(nil)); err != nil {
		t.Fatal(err)
	}
}

// everyVersion runs a test for each version of a message, in which additions travel from flexible on, and not before.
func everyVersion(t *testing.T, msg message, flexible int16, test func(t *rapid.T, version int16, travels bool)) {
	for v := int16(0); v <= msg.MaxVersion(); v++ {
		if msg.SetVersion(v); msg.IsFlexible() != (v >= flexible) {
			t.Errorf("version %d is flexible: %v", v, msg.IsFlexible())
		}
		rapid.Check(t, func(t *rapid.T) { test(t, v, v >= flexible) })
	}
}

// wantKeys checks the key ranges of what came over.
func wantKeys[T HasKeyRanges](t *rapid.T, of T, want keyrange.Set, travels bool) {
	if !travels {
		want = nil
	}
	if got, err := KeyRanges(of); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%T: key ranges %v, %v, want %v", of, got, err, want)
	}
}

// wantBase checks the base of what came over.
func wantBase[T HasKeyAxisBase](t *rapid.T, of T, want int32, travels bool) {
	if !travels {
		want = 0
	}
	if got, err := KeyAxisBase(of); err != nil || got != want {
		t.Fatalf("%T: base %d, %v, want %d", of, got, err, want)
	}
}

func must(t interface{ Fatal(...any) }, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

func TestFetchRequestsCarryKeyRangesAndBases(t *testing.T) {
	everyVersion(t, kmsg.NewPtrFetchRequest(), 12, func(t *rapid.T, version int16, travels bool) {
		all, one := drawKeys(t, 0), drawKeys(t, 0)
		base, baseOfOne := drawBase(t), drawBase(t)
		topic, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
		must(t, SetKeyRanges(&p, one))
		must(t, SetKeyAxisBase(&p, baseOfOne))
		if rapid.Bool().Draw(t, "known tags") { // which come before ours
			p.ReplicaDirectoryID, p.HighWatermark = [16]byte{1}, 7
		}
		topic.Partitions = append(topic.Partitions, p, kmsg.NewFetchRequestTopicPartition())
		req, got := kmsg.NewPtrFetchRequest(), kmsg.NewPtrFetchRequest()
		req.Version, got.Version = version, version
		req.Topics = append(req.Topics, topic)
		req.ClusterID = kmsg.StringPtr("cluster")
		must(t, SetKeyRanges(req, all))
		must(t, SetKeyAxisBase(req, base))
		travel(t, req, got)
		wantKeys(t, got, all, travels)
		wantKeys(t, &got.Topics[0].Partitions[0], one, travels)
		wantKeys(t, &got.Topics[0].Partitions[1], nil, travels)
		wantBase(t, got, base, travels)
		wantBase(t, &got.Topics[0].Partitions[0], baseOfOne, travels)
		wantBase(t, &got.Topics[0].Partitions[1], 0, travels)
		if d := got.Topics[0].Partitions[0].ReplicaDirectoryID; travels && d != p.ReplicaDirectoryID {
			t.Fatalf("the directory became %x", d)
		}
	})
}

func TestFetchResponsesCarryScannedOffsets(t *testing.T) {
	everyVersion(t, kmsg.NewPtrFetchResponse(), 12, func(t *rapid.T, version int16, travels bool) {
		topic, p := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
		want := rapid.Int64Min(-1).Draw(t, "scanned")
		must(t, SetScannedOffset(&p, want))
		p.CurrentLeader.LeaderID = 3
		topic.Partitions = append(topic.Partitions, p)
		resp, got := kmsg.NewPtrFetchResponse(), kmsg.NewPtrFetchResponse()
		resp.Version, got.Version = version, version
		resp.Topics = append(resp.Topics, topic)
		travel(t, resp, got)
		if !travels {
			want = -1
		}
		if scanned, err := ScannedOffset(&got.Topics[0].Partitions[0]); err != nil || scanned != want {
			t.Fatalf("scanned offset %d, %v, want %d", scanned, err, want)
		}
	})
}

// wantCommit checks what a partition that came over says.
func wantCommit[P CommitPartition](t *rapid.T, p P, want Commit, travels bool) {
	got, ok, err := ReadCommit(p)
	if err != nil || ok != travels || travels && !sameCommit(got, want) {
		t.Fatalf("%T: %+v, %v, %v, want %+v", p, got, ok, err, want)
	}
	if ranges, err := OffsetRanges(p); err != nil || travels && !reflect.DeepEqual(ranges, want.Offsets) || !travels && ranges != nil {
		t.Fatalf("offset ranges %v, %v", ranges, err)
	}
}

func sameCommit(a, b Commit) bool {
	return reflect.DeepEqual(a.Keys, b.Keys) && a.Base == b.Base && reflect.DeepEqual(a.Offsets, b.Offsets) && a.Watermark == b.Watermark
}

func TestOffsetCommitsCarryCommits(t *testing.T) {
	everyVersion(t, kmsg.NewPtrOffsetCommitRequest(), 8, func(t *rapid.T, version int16, travels bool) {
		want := drawCommit(t)
		topic, p := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
		must(t, WriteCommit(&p, want))
		topic.Topic = "orders"
		topic.Partitions = append(topic.Partitions, p)
		req, got := kmsg.NewPtrOffsetCommitRequest(), kmsg.NewPtrOffsetCommitRequest()
		req.Version, got.Version = version, version
		req.Topics = append(req.Topics, topic)
		travel(t, req, got)
		wantKeys(t, &got.Topics[0].Partitions[0], want.Keys, travels)
		wantBase(t, &got.Topics[0].Partitions[0], want.Base, travels)
		wantCommit(t, &got.Topics[0].Partitions[0], want, travels)
		if plain := got.Topics[0].Partitions[0].Offset; plain != want.Watermark {
			t.Fatalf("the plain offset is %d, want %d", plain, want.Watermark)
		}
	})
}

func TestTransactionalOffsetCommitsCarryCommits(t *testing.T) {
	everyVersion(t, kmsg.NewPtrTxnOffsetCommitRequest(), 3, func(t *rapid.T, version int16, travels bool) {
		want := drawCommit(t)
		topic, p := kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
		must(t, WriteCommit(&p, want))
		topic.Topic = "orders"
		topic.Partitions = append(topic.Partitions, p)
		req, got := kmsg.NewPtrTxnOffsetCommitRequest(), kmsg.NewPtrTxnOffsetCommitRequest()
		req.Version, got.Version = version, version
		req.Topics = append(req.Topics, topic)
		travel(t, req, got)
		wantKeys(t, &got.Topics[0].Partitions[0], want.Keys, travels)
		wantBase(t, &got.Topics[0].Partitions[0], want.Base, travels)
		wantCommit(t, &got.Topics[0].Partitions[0], want, travels)
	})
}

func TestOffsetFetchRequestsCarryKeyRangesAndBases(t *testing.T) {
	everyVersion(t, kmsg.NewPtrOffsetFetchRequest(), 6, func(t *rapid.T, version int16, travels bool) {
		want, base := drawKeys(t, 0), drawBase(t)
		req, got := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewPtrOffsetFetchRequest()
		req.Version, got.Version = version, version
		topic, inGroup := kmsg.NewOffsetFetchRequestTopic(), kmsg.NewOffsetFetchRequestGroupTopic()
		topic.Partitions, inGroup.Partitions = []int32{4}, []int32{4}
		must(t, SetKeyRanges(&topic, want))
		must(t, SetKeyRanges(&inGroup, want))
		must(t, SetKeyAxisBase(&topic, base))
		must(t, SetKeyAxisBase(&inGroup, base))
		group := kmsg.NewOffsetFetchRequestGroup()
		group.Topics = append(group.Topics, inGroup)
		req.Topics, req.Groups = append(req.Topics, topic), append(req.Groups, group)
		travel(t, req, got)
		if version >= 8 {
			wantKeys(t, &got.Groups[0].Topics[0], want, travels)
			wantBase(t, &got.Groups[0].Topics[0], base, travels)
		} else {
			wantKeys(t, &got.Topics[0], want, travels)
			wantBase(t, &got.Topics[0], base, travels)
		}
	})
}

func TestOffsetFetchResponsesCarryCommittedRangeOffsetsAndBases(t *testing.T) {
	everyVersion(t, kmsg.NewPtrOffsetFetchResponse(), 6, func(t *rapid.T, version int16, travels bool) {
		want, base := drawCommitted(t), drawBase(t)
		resp, got := kmsg.NewPtrOffsetFetchResponse(), kmsg.NewPtrOffsetFetchResponse()
		resp.Version, got.Version = version, version
		topic, inGroup := kmsg.NewOffsetFetchResponseTopic(), kmsg.NewOffsetFetchResponseGroupTopic()
		p, pInGroup := kmsg.NewOffsetFetchResponseTopicPartition(), kmsg.NewOffsetFetchResponseGroupTopicPartition()
		must(t, SetCommittedRangeOffsets(&p, want))
		must(t, SetCommittedRangeOffsets(&pInGroup, want))
		must(t, SetKeyAxisBase(&p, base))
		must(t, SetKeyAxisBase(&pInGroup, base))
		topic.Partitions, inGroup.Partitions = append(topic.Partitions, p), append(inGroup.Partitions, pInGroup)
		group := kmsg.NewOffsetFetchResponseGroup()
		group.Topics = append(group.Topics, inGroup)
		resp.Topics, resp.Groups = append(resp.Topics, topic), append(resp.Groups, group)
		travel(t, resp, got)
		if !travels {
			want = nil
		}
		var committed []KeyRangeOffsets
		var err error
		if version >= 8 {
			committed, err = CommittedRangeOffsets(&got.Groups[0].Topics[0].Partitions[0])
			wantBase(t, &got.Groups[0].Topics[0].Partitions[0], base, travels)
		} else {
			committed, err = CommittedRangeOffsets(&got.Topics[0].Partitions[0])
			wantBase(t, &got.Topics[0].Partitions[0], base, travels)
		}
		if err != nil || !reflect.DeepEqual(committed, want) {
			t.Fatalf("%v, %v, want %v", committed, err, want)
		}
	})
}

func TestApiVersionsResponsesCarryFeatures(t *testing.T) {
	everyVersion(t, kmsg.NewPtrApiVersionsResponse(), 3, func(t *rapid.T, version int16, travels bool) {
		want := Features{rapid.Bool().Draw(t, "commits"), rapid.Bool().Draw(t, "key ranges"), rapid.Bool().Draw(t, "cooperative")}
		resp, got := kmsg.NewPtrApiVersionsResponse(), kmsg.NewPtrApiVersionsResponse()
		resp.Version, got.Version = version, version
		SetFeatures(resp, want)
		travel(t, resp, got)
		if !travels {
			want = Features{}
		}
		if f := ReadFeatures(got); f != want {
			t.Fatalf("%+v, want %+v", f, want)
		}
	})
}
