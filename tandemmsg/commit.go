package tandemmsg

import (
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Commit is what a partition of an OffsetCommit or TxnOffsetCommit request says: of the key ranges Keys, the offset ranges
// Offsets are done; or, without Offsets, everything below Watermark is.
type Commit struct {
	Keys      keyrange.Set  // empty: the whole key axis
	Base      int32         // of the positions of Keys, >= 1; 0: the topic's partition count at that moment
	Offsets   []OffsetRange // at most MaxOffsetRanges, sorted, disjoint
	Watermark int64         // an offset, >= 0; -1 if there are Offsets
}

// Validate returns what is wrong with a Commit.
func (c Commit) Validate() error {
	if err := checkKeyRanges("Keys", c.Keys); err != nil {
		return err
	}
	if err := checkBase("Base", c.Base); err != nil {
		return err
	}
	if err := checkCommitRanges("Offsets", c.Offsets); err != nil {
		return err
	}
	return checkPlain(c.Watermark, len(c.Offsets))
}

// checkPlain returns what is wrong with a plain offset beside n offset ranges.
func checkPlain(plain int64, n int) error {
	if n > 0 && plain != -1 {
		return fmt.Errorf("the plain offset is %d, with offset ranges it has to be -1", plain)
	}
	if n == 0 && plain < 0 {
		return fmt.Errorf("the plain offset is %d, without offset ranges it has to be 0 or more", plain)
	}
	return nil
}

// plainParts are the fields of a CommitPartition that an individual commit concerns.
func plainParts(p any) (plain *int64, metadata **string) {
	switch v := p.(type) {
	case *kmsg.OffsetCommitRequestTopicPartition:
		return &v.Offset, &v.Metadata
	case *kmsg.TxnOffsetCommitRequestTopicPartition:
		return &v.Offset, &v.Metadata
	}
	panic(fmt.Sprintf("tandemmsg: %T commits no partition", p)) // CommitPartition lists the same types
}

// ReadCommit returns what a partition says with the tags KeyRanges, KeyAxisBase and OffsetRanges or, if it has neither key
// ranges nor offset ranges, with a text. ok is false if it says nothing with them: it is a commit of its plain offset, in which
// a text that is not ours belongs to the client, and a KeyAxisBase means nothing.
//
// A text is ours if the plain offset is -1 and it begins with "ranges=": it is an error if ParseText does not understand the
// rest of it, since no client commits -1 as such. With another plain offset a text that ParseText understands is an error, and
// one that it does not understand is the client's own. A KeyAxisBase beside a text that is ours is an error: the text names its own.
func ReadCommit[P CommitPartition](p P) (c Commit, ok bool, err error) {
	plain, metadata := plainParts(p)
	if tagsOf(p).Len() > 0 {
		if c.Keys, err = KeyRanges(p); err != nil {
			return Commit{}, false, err
		}
		if c.Base, err = KeyAxisBase(p); err != nil {
			return Commit{}, false, err
		}
		if c.Offsets, err = OffsetRanges(p); err != nil {
			return Commit{}, false, err
		}
	}
	c.Watermark = *plain
	if len(c.Keys) == 0 && len(c.Offsets) == 0 {
		if *metadata == nil {
			return Commit{}, false, nil
		}
		text, ours, err := ParseText(**metadata)
		if !ours || err != nil && *plain != -1 {
			return Commit{}, false, nil
		}
		if err != nil {
			return Commit{}, false, within("metadata text", err)
		}
		if c.Base != 0 {
			return Commit{}, false, within(keyAxisBase, errors.New("it is beside a text, which names its base itself"))
		}
		c.Keys, c.Base, c.Offsets = text.Keys, text.Base, text.Offsets
	}
	if err := checkPlain(*plain, len(c.Offsets)); err != nil {
		return Commit{}, false, err
	}
	return c, true, nil
}

// WriteCommit makes a partition say c with tags: it sets its plain offset, KeyRanges, KeyAxisBase and OffsetRanges, and leaves
// its metadata alone. The version of the request has to be a flexible one. It changes nothing if c is not valid.
func WriteCommit[P CommitPartition](p P, c Commit) error {
	if err := c.Validate(); err != nil {
		return err
	}
	replace(tagsOf(p), TagKeyRanges, encodeKeyRanges(c.Keys))
	replace(tagsOf(p), TagKeyAxisBase, encodeBase(c.Base))
	replace(tagsOf(p), TagOffsetRanges, encodeOffsetRanges(c.Offsets))
	plain, _ := plainParts(p)
	*plain = c.Watermark
	return nil
}

// WriteCommitText makes a partition say c with its metadata text, in any version, and removes its tags KeyRanges, KeyAxisBase
// and OffsetRanges. It changes nothing if c is not valid or has no offset ranges: a text cannot say a watermark of key ranges.
func WriteCommitText[P CommitPartition](p P, c Commit) error {
	text, err := c.Text()
	if err != nil {
		return err
	}
	replace(tagsOf(p), TagKeyRanges, nil)
	replace(tagsOf(p), TagKeyAxisBase, nil)
	replace(tagsOf(p), TagOffsetRanges, nil)
	plain, metadata := plainParts(p)
	*plain, *metadata = -1, &text
	return nil
}

// PartitionCommit is the Commit of Topics[Topic].Partitions[Partition] of a request.
type PartitionCommit struct {
	Topic, Partition int // indexes
	Commit
}

// ReadCommits returns ReadCommit's result for each partition of a request that says something, none if all are plain. It is an
// error if one partition has an error, or if they have more than MaxOffsetRanges offset ranges or say more than MaxFacts facts
// together. Errors name topic and partition.
func ReadCommits[R *kmsg.OffsetCommitRequest | *kmsg.TxnOffsetCommitRequest](req R) ([]PartitionCommit, error) {
	var r commits
	switch req := any(req).(type) {
	case *kmsg.OffsetCommitRequest:
		for ti := range req.Topics {
			t := &req.Topics[ti]
			for pi := range t.Partitions {
				c, ok, err := ReadCommit(&t.Partitions[pi])
				if err := r.add(ti, pi, c, ok, err); err != nil {
					return nil, where(t.Topic, t.TopicID, t.Partitions[pi].Partition, err)
				}
			}
		}
	case *kmsg.TxnOffsetCommitRequest:
		for ti := range req.Topics {
			t := &req.Topics[ti]
			for pi := range t.Partitions {
				c, ok, err := ReadCommit(&t.Partitions[pi])
				if err := r.add(ti, pi, c, ok, err); err != nil {
					return nil, where(t.Topic, t.TopicID, t.Partitions[pi].Partition, err)
				}
			}
		}
	}
	return r.all, nil
}

type commits struct {
	all           []PartitionCommit
	ranges, facts int
}

func (r *commits) add(topic, partition int, c Commit, ok bool, err error) error {
	if err != nil || !ok {
		return err
	}
	if r.ranges += len(c.Offsets); r.ranges > MaxOffsetRanges {
		return fmt.Errorf("with its %d offset ranges the request has more than %d", len(c.Offsets), MaxOffsetRanges)
	}
	keys, offsets := max(len(c.Keys), 1), max(len(c.Offsets), 1)
	if r.facts += keys * offsets; r.facts > MaxFacts {
		return fmt.Errorf("with its %d key ranges of %d offset ranges each the request says more than %d facts", keys, offsets, MaxFacts)
	}
	r.all = append(r.all, PartitionCommit{topic, partition, c})
	return nil
}

func where(topic string, id [16]byte, partition int32, err error) error {
	if topic == "" && id != [16]byte{} { // as Kafka prints a topic id
		return fmt.Errorf("topic id %s, partition %d: %v", base64.RawURLEncoding.EncodeToString(id[:]), partition, err)
	}
	return fmt.Errorf("topic %q, partition %d: %v", topic, partition, err)
}
