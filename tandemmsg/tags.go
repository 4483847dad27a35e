package tandemmsg

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// HasKeyRanges are the structs that may carry KeyRanges. In an OffsetFetch request that is the topic, the finest level that has
// room: its partitions are bare numbers. v6 and v7 have their topics in the request, v8+ in each of its groups. A kgo client sends
// any version from Groups, and loses the tags of Topics and of v6 and v7 on the way.
type HasKeyRanges interface {
	*kmsg.FetchRequest | *kmsg.FetchRequestTopicPartition |
		*kmsg.OffsetCommitRequestTopicPartition | *kmsg.TxnOffsetCommitRequestTopicPartition |
		*kmsg.OffsetFetchRequestTopic | *kmsg.OffsetFetchRequestGroupTopic
}

// HasKeyAxisBase are the structs that may carry KeyAxisBase.
type HasKeyAxisBase interface {
	HasKeyRanges | OffsetFetchPartition
}

// CommitPartition are the structs that commit a partition's offsets; they may carry OffsetRanges.
type CommitPartition interface {
	*kmsg.OffsetCommitRequestTopicPartition | *kmsg.TxnOffsetCommitRequestTopicPartition
}

// OffsetFetchPartition are the structs that may carry CommittedRangeOffsets: of v6 and v7, and of v8+.
type OffsetFetchPartition interface {
	*kmsg.OffsetFetchResponseTopicPartition | *kmsg.OffsetFetchResponseGroupTopicPartition
}

// HasAcquiredRanges are the structs that may carry AcquiredRanges.
type HasAcquiredRanges interface {
	*kmsg.FetchRequestTopicPartition | *kmsg.FetchResponseTopicPartition
}

func tagsOf(of any) *kmsg.Tags {
	switch v := of.(type) {
	case *kmsg.FetchRequest:
		return &v.UnknownTags
	case *kmsg.FetchRequestTopicPartition:
		return &v.UnknownTags
	case *kmsg.FetchResponseTopicPartition:
		return &v.UnknownTags
	case *kmsg.OffsetCommitRequestTopicPartition:
		return &v.UnknownTags
	case *kmsg.TxnOffsetCommitRequestTopicPartition:
		return &v.UnknownTags
	case *kmsg.OffsetFetchRequestTopic:
		return &v.UnknownTags
	case *kmsg.OffsetFetchRequestGroupTopic:
		return &v.UnknownTags
	case *kmsg.OffsetFetchResponseTopicPartition:
		return &v.UnknownTags
	case *kmsg.OffsetFetchResponseGroupTopicPartition:
		return &v.UnknownTags
	}
	panic(fmt.Sprintf("tandemmsg: %T has no additions", of)) // the exported constraints list the same types
}

// find returns the bytes of a tag, which belong to the message; nil if it is absent.
func find(tags *kmsg.Tags, tag uint32) (value []byte, ok bool) {
	tags.Each(func(t uint32, v []byte) {
		if t == tag {
			value, ok = v, true
		}
	})
	return value, ok
}

// replace sets a tag, or removes it if value is nil. kmsg.Tags cannot remove: the others move to a new one.
func replace(tags *kmsg.Tags, tag uint32, value []byte) {
	if value != nil {
		tags.Set(tag, value)
		return
	}
	if _, ok := find(tags, tag); !ok {
		return
	}
	var rest kmsg.Tags
	tags.Each(func(t uint32, v []byte) {
		if t != tag {
			rest.Set(t, v)
		}
	})
	*tags = rest
}
