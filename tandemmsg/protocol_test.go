package tandemmsg

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var update = flag.Bool("update", false, "write the worked examples into docs/protocol.md")

// line is a line of a worked example: golden bytes, as hex, and what they mean.
type line struct{ hex, meaning string }

// example is a worked example of docs/protocol.md: the bytes of a struct, which are in a message in versions from and to, and
// in those between.
type example struct {
	title    string
	from, to int16
	lines    []line
	msg      func() message
}

var workedExamples = []example{
	{
		"A partition of an OffsetCommit request (v8 to v10): of the lower half of the key axis, the offsets 45 to 47 and 50 are done",
		8, 10,
		[]line{
			{"00000003", "partition 3"},
			{"ffffffffffffffff", "plain offset -1: the offset ranges count"},
			{"ffffffff", "leader epoch -1"},
			{"00", "metadata null"},
			{"03", "3 tagged fields"},
			{"904e 11", "tag 10000 KeyRanges, 17 bytes"},
			{"02", "an array of 1"},
			{"0000000000000000 000000007fffffff", "key range 0-2147483647"},
			{"914e 21", "tag 10001 OffsetRanges, 33 bytes"},
			{"03", "an array of 2"},
			{"000000000000002d 000000000000002f", "offset range 45-47"},
			{"0000000000000032 0000000000000032", "offset range 50-50"},
			{"944e 04", "tag 10004 KeyAxisBase, 4 bytes"},
			{"00000004", "base 4"},
		},
		func() message { return exampleCommit(exampleRanges) },
	},
	{
		"A TxnOffsetCommit request (v3 to v5), from its body's first byte to its last: in the transaction of producer 4711, member m-1 of the group pay has done the same",
		3, 5,
		[]line{
			{"0a 62696c6c696e672d31", "transactional id billing-1"},
			{"04 706179", "group pay"},
			{"0000000000001267", "producer id 4711"},
			{"0005", "producer epoch 5"},
			{"00000007", "generation 7"},
			{"04 6d2d31", "member id m-1"},
			{"00", "group instance id null"},
			{"02 07 6f7264657273", "an array of 1: topic orders"},
			{"02 00000003", "an array of 1: partition 3"},
			{"ffffffffffffffff", "plain offset -1: the offset ranges count"},
			{"ffffffff", "leader epoch -1"},
			{"00", "metadata null"},
			{"03", "3 tagged fields"},
			{"904e 11 02 0000000000000000 000000007fffffff", "KeyRanges 0-2147483647"},
			{"914e 21 03 000000000000002d 000000000000002f 0000000000000032 0000000000000032", "OffsetRanges 45-47 and 50-50"},
			{"944e 04 00000004", "KeyAxisBase 4"},
			{"00", "the topic has no tagged fields"},
			{"00", "nor has the request"},
		},
		func() message { return exampleTxnCommit(exampleRanges) },
	},
	{
		"The same as text, for any version of OffsetCommit (here v2 to v5), plain offset and metadata",
		2, 5,
		[]line{
			{"ffffffffffffffff", "plain offset -1"},
			{"002b", "a string of 43 bytes"},
			{"72616e6765733d34352d34372c35302d3530", "ranges=45-47,50-50"},
			{"206b6579733d302d32313437343833363437", " keys=0-2147483647"},
			{"20626173653d34", " base=4"},
		},
		func() message {
			req := exampleCommit(exampleRanges)
			must(panics{}, WriteCommitText(&req.Topics[0].Partitions[0], exampleRanges))
			return req
		},
	},
	{
		"A partition of an OffsetCommit request (v8 to v10): of the lower half of the key axis, everything below 48 is done",
		8, 10,
		[]line{
			{"00000003", "partition 3"},
			{"0000000000000030", "plain offset 48: a watermark of the key ranges"},
			{"ffffffff", "leader epoch -1"},
			{"00", "metadata null"},
			{"02", "2 tagged fields"},
			{"904e 11", "tag 10000 KeyRanges, 17 bytes"},
			{"02", "an array of 1"},
			{"0000000000000000 000000007fffffff", "key range 0-2147483647"},
			{"944e 04", "tag 10004 KeyAxisBase, 4 bytes"},
			{"00000004", "base 4"},
		},
		func() message { return exampleCommit(Commit{Keys: lowerHalf, Base: 4, Watermark: 48}) },
	},
	{
		"A topic of an OffsetFetch request (v8 and v9): what is committed of the lower half of the key axis",
		8, 9,
		[]line{
			{"07 6f7264657273", "topic orders"},
			{"02 00000003", "an array of 1: partition 3"},
			{"02", "2 tagged fields"},
			{"904e 11", "tag 10000 KeyRanges, 17 bytes"},
			{"02", "an array of 1"},
			{"0000000000000000 000000007fffffff", "key range 0-2147483647"},
			{"944e 04", "tag 10004 KeyAxisBase, 4 bytes"},
			{"00000004", "base 4"},
		},
		func() message {
			topic := kmsg.NewOffsetFetchRequestGroupTopic()
			topic.Topic, topic.Partitions = "orders", []int32{3}
			must(panics{}, SetKeyRanges(&topic, lowerHalf))
			must(panics{}, SetKeyAxisBase(&topic, 4))
			req, group := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewOffsetFetchRequestGroup()
			group.Topics = append(group.Topics, topic)
			req.Groups = append(req.Groups, group)
			return req
		},
	},
	{
		"A partition of its answer (v6 to v10): stable offset 42, and above it 45 to 47 and 50 are done",
		6, 10,
		[]line{
			{"00000003", "partition 3"},
			{"000000000000002a", "stable offset 42"},
			{"ffffffff", "leader epoch -1"},
			{"01", "metadata: an empty string"},
			{"0000", "no error"},
			{"02", "2 tagged fields"},
			{"924e 32", "tag 10002 CommittedRangeOffsets, 50 bytes"},
			{"02", "an array of 1"},
			{"0000000000000000 000000007fffffff", "key range 0-2147483647"},
			{"03", "an array of 2"},
			{"000000000000002d 000000000000002f", "offset range 45-47"},
			{"0000000000000032 0000000000000032", "offset range 50-50"},
			{"944e 04", "tag 10004 KeyAxisBase, 4 bytes"},
			{"00000004", "base 4"},
		},
		func() message {
			committed := []KeyRangeOffsets{{lowerHalf[0], exampleRanges.Offsets}}
			topic, p := kmsg.NewOffsetFetchResponseTopic(), kmsg.NewOffsetFetchResponseTopicPartition()
			p.Partition, p.Offset, p.Metadata = 3, 42, kmsg.StringPtr("")
			must(panics{}, SetCommittedRangeOffsets(&p, committed))
			must(panics{}, SetKeyAxisBase(&p, 4))
			topic.Partitions = append(topic.Partitions, p)
			inGroup, q := kmsg.NewOffsetFetchResponseGroupTopic(), kmsg.NewOffsetFetchResponseGroupTopicPartition() // v8+
			q.Partition, q.Offset, q.Metadata = 3, 42, kmsg.StringPtr("")
			must(panics{}, SetCommittedRangeOffsets(&q, committed))
			must(panics{}, SetKeyAxisBase(&q, 4))
			inGroup.Partitions = append(inGroup.Partitions, q)
			resp, group := kmsg.NewPtrOffsetFetchResponse(), kmsg.NewOffsetFetchResponseGroup()
			group.Topics = append(group.Topics, inGroup)
			resp.Topics, resp.Groups = append(resp.Topics, topic), append(resp.Groups, group)
			return resp
		},
	},
	{
		"A partition of a Fetch request (v12 to v18): the first and the last quarter of the key axis. The request's own tagged fields, at its end, may hold the same fields as the defaults of all partitions",
		12, 18,
		[]line{
			{"00000003", "partition 3"},
			{"ffffffff", "current leader epoch -1"},
			{"000000000000002a", "fetch offset 42"},
			{"ffffffff", "last fetched epoch -1"},
			{"ffffffffffffffff", "log start offset -1"},
			{"00100000", "at most 1 MiB"},
			{"02", "2 tagged fields"},
			{"904e 21", "tag 10000 KeyRanges, 33 bytes"},
			{"03", "an array of 2"},
			{"0000000000000000 000000003fffffff", "key range 0-1073741823"},
			{"00000000c0000000 00000000ffffffff", "key range 3221225472-4294967295"},
			{"944e 04", "tag 10004 KeyAxisBase, 4 bytes"},
			{"00000004", "base 4"},
		},
		func() message {
			topic, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
			p.Partition, p.FetchOffset, p.PartitionMaxBytes = 3, 42, 1<<20
			must(panics{}, SetKeyRanges(&p, keyrange.Set{{First: 0, Last: 1<<30 - 1}, {First: 3 << 30, Last: 1<<32 - 1}}))
			must(panics{}, SetKeyAxisBase(&p, 4))
			topic.Partitions = append(topic.Partitions, p)
			req := kmsg.NewPtrFetchRequest()
			req.Topics = append(req.Topics, topic)
			return req
		},
	},
	{
		"The tagged fields at the end of a Fetch request (v17 and v18) of member m-1 of the group pay, in generation 7",
		17, 18,
		[]line{
			{"01", "1 tagged field"},
			{"a04e 0c", "tag 10016 Member, 12 bytes"},
			{"04 706179", "group pay"},
			{"00000007", "generation 7"},
			{"04 6d2d31", "member id m-1"},
		},
		func() message {
			req := kmsg.NewPtrFetchRequest()
			must(panics{}, SetFetchMember(req, Member{"pay", "m-1", 7}))
			return req
		},
	},
	{
		"A partition of its answer (v12 to v18) without records: offsets 42 to 99 hold none of these key ranges",
		12, 18,
		[]line{
			{"00000003", "partition 3"},
			{"0000", "no error"},
			{"0000000000000064", "high watermark 100"},
			{"0000000000000064", "last stable offset 100"},
			{"0000000000000000", "log start offset 0"},
			{"00", "no aborted transactions"},
			{"ffffffff", "preferred read replica -1"},
			{"01", "no bytes of records"},
			{"01", "1 tagged field"},
			{"934e 08", "tag 10003 ScannedOffset, 8 bytes"},
			{"0000000000000064", "looked through up to 100"},
		},
		func() message {
			topic, p := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
			p.Partition, p.HighWatermark, p.LastStableOffset, p.LogStartOffset, p.RecordBatches = 3, 100, 100, 0, []byte{}
			must(panics{}, SetScannedOffset(&p, 100))
			topic.Partitions = append(topic.Partitions, p)
			resp := kmsg.NewPtrFetchResponse()
			resp.Topics = append(resp.Topics, topic)
			return resp
		},
	},
	{
		"The tagged fields of a cooperative Fetch request (v12 to v18): a member that can work on 40 records",
		12, 18,
		[]line{
			{"05", "5 tagged fields"},
			{"9a4e 08", "tag 10010 GroupId, 8 bytes"},
			{"08 776f726b657273", "workers"},
			{"9b4e 04", "tag 10011 GenerationId, 4 bytes"},
			{"00000007", "generation 7"},
			{"9c4e 04", "tag 10012 MemberId, 4 bytes"},
			{"04 6d2d31", "m-1"},
			{"9d4e 04", "tag 10013 SessionTimeout, 4 bytes"},
			{"0000afc8", "45000 ms"},
			{"9e4e 04", "tag 10014 MaxRecords, 4 bytes"},
			{"00000028", "40"},
		},
		func() message {
			req := kmsg.NewPtrFetchRequest()
			must(panics{}, WriteCooperative(req, Cooperative{Group: "workers", Generation: 7, Member: "m-1", SessionTimeout: 45000, MaxRecords: 40}))
			return req
		},
	},
	{
		"The tagged fields of a partition of that request: of what the member was given it has 45 to 47 still to do; of its answer they would say what it is given",
		12, 18,
		[]line{
			{"01", "1 tagged field"},
			{"9f4e 15", "tag 10015 AcquiredRanges, 21 bytes"},
			{"02", "an array of 1"},
			{"000000000000002d 000000000000002f", "offset range 45-47"},
			{"00000002", "given out for the 2nd time"},
		},
		func() message {
			topic, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
			must(panics{}, SetAcquiredRanges(&p, []AcquiredRange{{OffsetRange{45, 47}, 2}}))
			topic.Partitions = append(topic.Partitions, p)
			req := kmsg.NewPtrFetchRequest()
			req.Topics = append(req.Topics, topic)
			return req
		},
	},
	{
		"SupportedFeatures of an ApiVersions answer (v3 to v5), here without those of the cluster",
		3, 5,
		[]line{
			{"00 59", "tag 0 SupportedFeatures, 89 bytes"},
			{"04", "an array of 3"},
			{"19 74616e64656d2e696e646976696475616c2e636f6d6d6974", "tandem.individual.commit"},
			{"0001 0001 00", "version 1 to 1, no tagged fields"},
			{"17 74616e64656d2e6b65792e72616e67652e6665746368", "tandem.key.range.fetch"},
			{"0001 0001 00", "version 1 to 1, no tagged fields"},
			{"19 74616e64656d2e636f6f70657261746976652e6665746368", "tandem.cooperative.fetch"},
			{"0001 0001 00", "version 1 to 1, no tagged fields"},
		},
		func() message {
			resp := kmsg.NewPtrApiVersionsResponse()
			SetFeatures(resp, Features{IndividualCommit: true, KeyRangeFetch: true, CooperativeFetch: true})
			return resp
		},
	},
}

var (
	lowerHalf     = keyrange.Set{{First: 0, Last: 1<<31 - 1}}
	exampleRanges = Commit{Keys: lowerHalf, Base: 4, Offsets: []OffsetRange{{45, 47}, {50, 50}}, Watermark: -1}
)

// panics stands in for a test where there is none.
type panics struct{}

func (panics) Fatal(v ...any) { panic(fmt.Sprint(v...)) }

func exampleCommit(c Commit) *kmsg.OffsetCommitRequest {
	topic, p := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition = 3
	must(panics{}, WriteCommit(&p, c))
	topic.Topic = "orders"
	topic.Partitions = append(topic.Partitions, p)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Topics = append(req.Topics, topic)
	return req
}

func exampleTxnCommit(c Commit) *kmsg.TxnOffsetCommitRequest {
	topic, p := kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Partition = 3
	must(panics{}, WriteCommit(&p, c))
	topic.Topic, topic.Partitions = "orders", append(topic.Partitions, p)
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch, req.Generation, req.MemberID = "billing-1", "pay", 4711, 5, 7, "m-1"
	req.Topics = append(req.Topics, topic)
	return req
}

func (l line) bytes(t *testing.T) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(l.hex, " ", ""))
	if err != nil {
		t.Fatalf("%q: %v", l.hex, err)
	}
	return b
}

// The golden bytes are what kmsg writes with this package, and the document shows them.
func TestWorkedExamplesAreDocumented(t *testing.T) {
	var doc strings.Builder
	for _, e := range workedExamples {
		fmt.Fprintf(&doc, "%s:\n\n", e.title)
		var golden []byte
		for _, l := range e.lines {
			golden = append(golden, l.bytes(t)...)
			writeLine(&doc, l, t)
		}
		msg := e.msg()
		for v := e.from; v <= e.to; v++ {
			msg.SetVersion(v)
			if b := msg.AppendTo(nil); bytes.Count(b, golden) != 1 {
				t.Errorf("%s, v%d: want\n% x\nin\n% x", e.title, v, golden, b)
			}
		}
		doc.WriteByte('\n')
	}
	documented(t, "examples", doc.String())
}

// writeLine writes a line of an example, 16 bytes a row.
func writeLine(w *strings.Builder, l line, t *testing.T) {
	b, meaning := l.bytes(t), l.meaning
	for len(b) > 0 {
		row := b[:min(16, len(b))]
		w.WriteString(strings.TrimRight(fmt.Sprintf("    %-49s%s", fmt.Sprintf("% x", row), meaning), " ") + "\n")
		b, meaning = b[len(row):], ""
	}
}

// The vectors were calculated by a program that shares no code with this one.
func TestPositionsAreDocumented(t *testing.T) {
	doc := "| key (UTF-8) | base | h | x | position |\n|---|---|---|---|---|\n"
	for _, v := range []struct {
		key      string
		base     int32
		h, x     uint32
		position uint32
	}{
		{"foobar", 1, 1357151166, 1357151166, 2111710986},
		{"abc", 3, 479470107, 159823369, 2423087504},
		{"customer-4711", 12, 1775643036, 147970253, 3004926736},
		{"crème", 12, 1646138164, 137178180, 573879312},
		{"", 3, 275646681, 91882227, 3477102240},
	} {
		if p := keyrange.Position([]byte(v.key), v.base); p != v.position || keyrange.Hash([]byte(v.key)) != v.h || v.h/uint32(v.base) != v.x {
			t.Errorf("%q: position %d", v.key, p)
		}
		key := "`" + v.key + "`"
		if v.key == "" {
			key = "empty"
		}
		doc += fmt.Sprintf("| %s | %d | %d | %d | %d |\n", key, v.base, v.h, v.x, v.position)
	}
	for _, v := range []struct {
		offset   int64
		position uint32
	}{{5, 2684354560}, {7<<32 | 6, 1610612736}} {
		if p := keyrange.NullPosition(v.offset); p != v.position {
			t.Errorf("null at %d: position %d", v.offset, p)
		}
		doc += fmt.Sprintf("| null, at offset %d | | | | %d |\n", v.offset, v.position)
	}
	documented(t, "positions", doc)
}

// documented checks a generated part of docs/protocol.md, or writes it with -update.
func documented(t *testing.T, name, part string) {
	t.Helper()
	const path = "../docs/protocol.md"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+": made by go test ./tandemmsg -update -->\n", "<!-- end of "+name+" -->"
	before, rest, ok := strings.Cut(string(raw), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for a part that begins with %s", path, begin)
	}
	if old == part {
		return
	}
	if !*update {
		t.Fatalf("the %s in %s are old: run go test ./tandemmsg -run Documented -update", name, path)
	}
	if err := os.WriteFile(path, []byte(before+begin+part+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTheDocumentNamesTagsAndLimits(t *testing.T) {
	raw, err := os.ReadFile("../docs/protocol.md")
	must(t, err)
	for _, want := range []string{
		fmt.Sprintf("| **KeyRanges** | %d |", TagKeyRanges), fmt.Sprintf("| **OffsetRanges** | %d |", TagOffsetRanges),
		fmt.Sprintf("| **CommittedRangeOffsets** | %d |", TagCommittedRangeOffsets), fmt.Sprintf("| **ScannedOffset** | %d |", TagScannedOffset),
		fmt.Sprintf("| **KeyAxisBase** | %d |", TagKeyAxisBase), fmt.Sprintf("at most %d in a request", MaxFacts),
		fmt.Sprintf("at most %d key ranges", MaxKeyRanges), fmt.Sprintf("at most %d offset ranges", MaxOffsetRanges),
		FeatureIndividualCommit, FeatureKeyRangeFetch, FeatureCooperativeFetch,
		fmt.Sprintf("| **GroupId** | %d |", TagGroupID), fmt.Sprintf("| **GenerationId** | %d |", TagGenerationID), fmt.Sprintf("| **MemberId** | %d |", TagMemberID),
		fmt.Sprintf("| **SessionTimeout** | %d |", TagSessionTimeout), fmt.Sprintf("| **MaxRecords** | %d |", TagMaxRecords), fmt.Sprintf("| **AcquiredRanges** | %d |", TagAcquiredRanges),
		fmt.Sprintf("at most %d acquired ranges", MaxAcquired), fmt.Sprintf("0 to %d ms", MaxSessionTimeout),
	} {
		if !bytes.Contains(raw, []byte(want)) {
			t.Errorf("docs/protocol.md does not say %q", want)
		}
	}
}
