package fetcher

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
)

// Token names a stream. Tokens are never used again.
type Token uint64

// Stream is what is to be read.
type Stream struct {
	Topic     string
	Partition int32
	Keys      keyrange.Set // at most tandemmsg.MaxKeyRanges; none or all of the key axis: the whole partition. It must not change
	Base      int32        // of the positions of Keys, >= 1; 0: the topic's partition count at that moment
	Offset    int64        // of the first record, >= 0
}

// Batch is what one fetch of a stream brought, or what is wrong with it.
type Batch struct {
	Token Token
	Stream
	// From is the offset that was fetched; Stream.Offset is where the stream began.
	From int64
	// Next is where the stream goes on: all of its records from From to below Next are in Records.
	Next    int64
	Records []*kgo.Record // in the order of their offsets. There may be none: then the stream has no record from From to below Next
	Bytes   int           // as they were sent

	HighWatermark, LastStableOffset, LogStart int64 // of the partition. LogStart may be -1: not known

	// Reset: From was out of range, and the stream goes on at Next, by the reset policy. That may be before From.
	Reset bool
	// Err says what is wrong; then there are no Records and Next is From. The stream is tried again every few seconds until it is
	// removed, and the error reported every 10 s. Errors that pass by themselves, such as a leader that moved, are reported if
	// they last for 5 s. It is ErrKeyRanges, what kgo's decoder says, or a *kerr.Error, of these in particular OFFSET_OUT_OF_RANGE with
	// ResetNone, POLICY_VIOLATION if the topic does not allow key ranges, and TOPIC_AUTHORIZATION_FAILED.
	Err error
}

// stream is a Stream that is being read. Fetcher.mu guards it.
type stream struct {
	Stream
	token Token
	whole bool
	tags  kmsg.Tags    // of its partition in a request
	once  chan<- Batch // of Read: takes the first answer

	home   *broker  // the leader's; nil: not known
	epoch  int32    // the leader's, -1: not known
	id     [16]byte // of the topic, zero: not known
	next   int64    // to be fetched
	round  int64    // of the last request that it was in
	turn   int      // changes when next does not follow from what was fetched before
	busy   bool     // in a request, or looking for its offset
	paused bool
	gone   bool
	queued bool    // in Fetcher.ready
	slots  []*slot // what waits for Next, in order

	trouble
}

// trouble is what is known of a stream that fails.
type trouble struct {
	fails    int
	since    time.Time // of the first failure in a row
	reported time.Time
	retryAt  time.Time
}

// slot is a Batch that waits for Next. Until it is decoded it holds its place.
type slot struct {
	Batch
	s       *stream
	raw     kmsg.FetchResponseTopicPartition
	decoded bool
	end     int64 // the offset after the last batch
}

func newStream(token Token, of Stream) (*stream, error) {
	s := &stream{Stream: of, token: token, next: of.Offset, epoch: -1}
	s.whole = len(of.Keys) == 0 || of.Keys.Covers(keyrange.Full)
	if of.Topic == "" || of.Partition < 0 || of.Offset < 0 {
		return nil, fmt.Errorf("fetcher: topic %q, partition %d, offset %d", of.Topic, of.Partition, of.Offset)
	}
	if s.whole {
		return s, nil
	}
	p := kmsg.NewFetchRequestTopicPartition()
	err := tandemmsg.SetKeyRanges(&p, of.Keys)
	if err == nil {
		err = tandemmsg.SetKeyAxisBase(&p, of.Base)
	}
	if err != nil {
		return nil, fmt.Errorf("fetcher: topic %q, partition %d: %w", of.Topic, of.Partition, err)
	}
	s.tags = p.UnknownTags
	return s, nil
}

// fetchable reports whether s may be in a request now. Where time alone will make it so, it says when.
func (s *stream) fetchable(now time.Time) (bool, time.Time) {
	switch {
	case s.gone || s.paused || s.busy || len(s.slots) >= ahead:
		return false, time.Time{}
	case now.Before(s.retryAt):
		return false, s.retryAt
	}
	return true, time.Time{}
}

// ready reports whether there is something for Next.
func (s *stream) ready() bool {
	return !s.gone && !s.paused && len(s.slots) > 0 && s.slots[0].decoded
}

// failing reports whether an error waits for Next.
func (s *stream) failing() bool {
	for _, b := range s.slots {
		if b.Err != nil {
			return true
		}
	}
	return false
}

// batch begins a Batch of s.
func (s *stream) batch() Batch {
	return Batch{Token: s.token, Stream: s.Stream, From: s.next, Next: s.next, HighWatermark: -1, LastStableOffset: -1, LogStart: -1}
}
