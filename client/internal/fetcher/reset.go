package fetcher

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// reset looks for the offset where s goes on by the reset policy. f.mu is held.
func (f *Fetcher) reset(s *stream) {
	s.busy = true
	f.work.Go(func() {
		ctx, cancel := f.asked()
		defer cancel()
		offset, err := f.offset(ctx, s.Topic, s.Partition)
		f.mu.Lock()
		defer f.mu.Unlock()
		s.busy = false
		if s.gone || f.closed {
			return
		}
		if err != nil {
			f.fail(s, err, true)
			return
		}
		f.cfg.Log.Info("an offset was out of range", "topic", s.Topic, "partition", s.Partition, "offset", s.next, "next", offset)
		s.succeed()
		b := s.batch()
		b.Next, b.Reset = offset, true
		s.next = offset
		f.put(&slot{Batch: b, s: s, decoded: true})
		f.kickAll()
	})
}

// offset asks the partition's leader for its first or last offset.
func (f *Fetcher) offset(ctx context.Context, topic string, partition int32) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	if f.cfg.ReadCommitted {
		req.IsolationLevel = 1
	}
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = partition, -2, -1
	if f.cfg.Reset == ResetLatest {
		rp.Timestamp = -1
	}
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, f.cfg.Client)
	if err != nil {
		return 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("fetcher: the offsets of %s, partition %d are missing in the answer", topic, partition)
	}
	p := &resp.Topics[0].Partitions[0]
	return p.Offset, kerr.ErrorForCode(p.ErrorCode)
}
