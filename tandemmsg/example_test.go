package tandemmsg_test

import (
	"fmt"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A client looks at an ApiVersions answer first: a broker that does not know the additions ignores them.
func ExampleReadFeatures() {
	resp := kmsg.NewPtrApiVersionsResponse() // from kgo: kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, client)
	tandemmsg.SetFeatures(resp, tandemmsg.Features{IndividualCommit: true})

	features := tandemmsg.ReadFeatures(resp)
	fmt.Println("individual commits:", features.IndividualCommit)
	fmt.Println("key ranges in Fetch:", features.KeyRangeFetch)
	// Output:
	// individual commits: true
	// key ranges in Fetch: false
}

// A client commits offsets 45 to 47 and 50 of a quarter of the key axis.
func ExampleWriteCommit() {
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	err := tandemmsg.WriteCommit(&p, tandemmsg.Commit{
		Keys:      keyrange.Set{keyrange.OfSlice(0, 4)},
		Offsets:   []tandemmsg.OffsetRange{{First: 45, Last: 47}, {First: 50, Last: 50}},
		Watermark: -1,
	})
	fmt.Println(p.Offset, err)
	// Output: -1 <nil>
}

// A client says that everything below offset 48 of a quarter of the key axis is done.
func ExampleWriteCommit_watermark() {
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	err := tandemmsg.WriteCommit(&p, tandemmsg.Commit{Keys: keyrange.Set{keyrange.OfSlice(0, 4)}, Watermark: 48})
	fmt.Println(p.Offset, err)
	// Output: 48 <nil>
}

// A server finds the individual commits of a request; the other partitions are ordinary commits.
func ExampleReadCommits() {
	plain, text := kmsg.NewOffsetCommitRequestTopicPartition(), kmsg.NewOffsetCommitRequestTopicPartition()
	plain.Partition, plain.Offset, plain.Metadata = 3, 42, kmsg.StringPtr("host-7")
	text.Partition, text.Offset, text.Metadata = 4, -1, kmsg.StringPtr("ranges=45-47,50-50")
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.Partitions = "orders", append(topic.Partitions, plain, text)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Topics = append(req.Topics, topic)

	commits, err := tandemmsg.ReadCommits(req)
	for _, c := range commits {
		t := req.Topics[c.Topic]
		fmt.Println(t.Topic, t.Partitions[c.Partition].Partition, c.Offsets)
	}
	fmt.Println(err)

	req.Topics[0].Partitions[1].Metadata = kmsg.StringPtr("ranges=45-47,47-50")
	_, err = tandemmsg.ReadCommits(req)
	fmt.Println(err)
	// Output:
	// orders 4 [45-47 50-50]
	// <nil>
	// topic "orders", partition 4: metadata text: ranges[1]: 47-50 is not after the range before it, which ends at 47
}

// A partition of a Fetch without key ranges of its own has those of the request.
func ExampleKeyRanges() {
	req := kmsg.NewPtrFetchRequest()
	topic := kmsg.NewFetchRequestTopic()
	for i := range int32(2) {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = i
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	_ = tandemmsg.SetKeyRanges(req, keyrange.Set{keyrange.OfSlice(0, 2)})
	_ = tandemmsg.SetKeyRanges(&req.Topics[0].Partitions[1], keyrange.Set{keyrange.OfSlice(1, 2)})

	byDefault, err := tandemmsg.KeyRanges(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range req.Topics[0].Partitions {
		p := &req.Topics[0].Partitions[i]
		keys, err := tandemmsg.KeyRanges(p)
		if len(keys) == 0 {
			keys = byDefault
		}
		fmt.Println(p.Partition, keys, err)
	}
	// Output:
	// 0 [[00000000-7fffffff]] <nil>
	// 1 [[80000000-ffffffff]] <nil>
}

// A consumer starts at the stable offset and leaves out what is committed above it.
func ExampleCommittedRangeOffsets() {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Offset = 42
	_ = tandemmsg.SetCommittedRangeOffsets(&p, []tandemmsg.KeyRangeOffsets{
		{Keys: keyrange.Full, Offsets: []tandemmsg.OffsetRange{{First: 45, Last: 47}}},
	})

	committed, err := tandemmsg.CommittedRangeOffsets(&p)
	fmt.Println("begin at", p.Offset)
	for _, c := range committed {
		fmt.Println("of", c.Keys, "leave out", c.Offsets, err)
	}
	// Output:
	// begin at 42
	// of [00000000-ffffffff] leave out [45-47] <nil>
}

// A client whose library cannot send tags commits with the metadata text and the plain offset -1.
func ExampleCommit_Text() {
	c := tandemmsg.Commit{
		Keys:      keyrange.Set{keyrange.OfSlice(0, 2)},
		Offsets:   []tandemmsg.OffsetRange{{First: 45, Last: 47}, {First: 50, Last: 50}},
		Watermark: -1,
	}
	text, err := c.Text()
	fmt.Println(text, err)
	// Output: ranges=45-47,50-50 keys=0-2147483647 <nil>
}
