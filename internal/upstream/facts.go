package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit"
	"github.com/tandem-kafka/tandem/internal/slicecache"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Facts reads and writes the topic of individual commits for icommit.Log. Its
// methods may be called from any goroutine.
type Facts struct {
	c          *Cluster
	reader     *Reader
	compressor factsCompressor

	mu       sync.Mutex
	closed   bool
	producer *kgo.Client // made by the first Append
}

var _ icommit.Upstream = (*Facts)(nil)

// factsBytes is what one read asks for: compressed, it may be ten times that in
// memory.
const factsBytes = 1 << 20

// Facts returns the reader and writer of the topic of individual commits; Close
// ends its connections.
func (c *Cluster) Facts() *Facts {
	return &Facts{c: c, reader: c.Reader(), compressor: newFactsCompressor()}
}

// Close cuts the connections; what is under way fails.
func (f *Facts) Close() {
	f.reader.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.producer != nil {
		f.producer.Close()
	}
}

// Topic implements icommit.Upstream.
func (f *Facts) Topic(ctx context.Context) (icommit.Topic, bool, error) {
	topics, denied, err := f.c.topics(ctx, []string{icommit.TopicName})
	if err != nil {
		return icommit.Topic{}, false, err
	}
	if len(denied) > 0 {
		return icommit.Topic{}, false, fmt.Errorf("%s: %w: give the gateway's user CREATE, READ, WRITE and DESCRIBE on it", icommit.TopicName, kerr.TopicAuthorizationFailed)
	}
	t, ok := topics[icommit.TopicName]
	if !ok {
		// The broker that was asked may be behind: then facts that are there would
		// seem not to be.
		mt := kmsg.NewMetadataRequestTopic()
		mt.Topic = kmsg.StringPtr(icommit.TopicName)
		found, err := f.c.anywhere(ctx, mt, func(t *kmsg.MetadataResponseTopic) bool {
			return t.Topic != nil && *t.Topic == icommit.TopicName && t.ErrorCode == 0
		})
		if err != nil || found == nil {
			return icommit.Topic{}, false, err
		}
		t = topicOf(found)
	}
	if t.Partitions == 0 {
		return icommit.Topic{}, false, fmt.Errorf("%s: %w", icommit.TopicName, kerr.LeaderNotAvailable)
	}
	return icommit.Topic{ID: t.ID, Partitions: t.Partitions}, true, nil
}

// Append implements icommit.Upstream. The producer is idempotent, so that its
// own retries keep the order.
func (f *Facts) Append(ctx context.Context, _ icommit.Topic, partition int32, entries []icommit.Entry) error {
	client, err := f.client()
	if err != nil {
		return err
	}
	var acks kgo.FirstErrPromise
	const most = 1024 // records that share one piece of memory
	var records []kgo.Record
	for i, e := range entries {
		if i%most == 0 {
			records = make([]kgo.Record, min(most, len(entries)-i))
		}
		r := &records[i%most]
		r.Topic, r.Partition, r.Key, r.Value = icommit.TopicName, partition, e.Key, e.Value
		client.Produce(ctx, r, acks.Promise())
	}
	err = acks.Err()
	if errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.UnknownTopicOrPartition) {
		// The topic was deleted or made anew: the producer knows the old one's id only.
		client.PurgeTopicsFromProducing(icommit.TopicName)
	}
	return err
}

// client returns the producer of facts. The cluster's own client is not used
// because it waits for topics that are not there, and to keep definitions
// from waiting behind facts.
func (f *Facts) client() (*kgo.Client, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, icommit.ErrClosed
	}
	if f.producer != nil {
		return f.producer, nil
	}
	client, err := kgo.NewClient(append(f.c.cfg.options(),
		kgo.WithCompressor(f.compressor),
		// Facts that are written twice do no harm, callers that wait beyond their
		// time do.
		kgo.AllowIdempotentProduceCancellation(),
		kgo.UnknownTopicRetries(8),
	)...)
	f.producer = client
	return client, err
}

// Fetch implements icommit.Upstream.
func (f *Facts) Fetch(ctx context.Context, t icommit.Topic, partition int32, offset int64, maxWait time.Duration) (icommit.Fetched, error) {
	got, err := f.reader.Fetch(ctx, factsOf(t, partition), offset, false, maxWait, 1, factsBytes)
	return icommit.Fetched{Raw: got.Raw, End: got.HighWatermark, Free: got.Free}, err
}

// Start implements icommit.Upstream.
func (f *Facts) Start(ctx context.Context, t icommit.Topic, partition int32) (int64, error) {
	offset, _, _, err := f.reader.ListOffset(ctx, factsOf(t, partition), -2, false)
	return offset, err
}

// End implements icommit.Upstream.
func (f *Facts) End(ctx context.Context, t icommit.Topic, partition int32) (int64, error) {
	offset, _, _, err := f.reader.ListOffset(ctx, factsOf(t, partition), -1, false)
	return offset, err
}

// EpochEnd implements icommit.Upstream.
func (f *Facts) EpochEnd(ctx context.Context, t icommit.Topic, partition, epoch int32) (endEpoch int32, end int64, err error) {
	return f.reader.EpochEnd(ctx, factsOf(t, partition), epoch)
}

func factsOf(t icommit.Topic, partition int32) slicecache.Source {
	return slicecache.Source{Topic: icommit.TopicName, TopicID: t.ID, Partition: partition}
}
