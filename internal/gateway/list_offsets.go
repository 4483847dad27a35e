package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/tandem-kafka/tandem/internal/slicecache"
	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
)

// ListOffsets, all versions, for requests that name a view; others pass as
// bytes.
//
// latest (-1) is the slice's own end: its last record + 1, after a look at
// everything up to the source's end of this moment. earliest (-2) and the
// special times of tiered storage (-4, -5) are the source's. A time, and
// max timestamp (-3), gives the slice's own record, or -1. Leader epochs are
// left out (-1), as in Fetch.

func init() {
	register(wire.ListOffsets, &api{
		decode: true,
		owns: typedOwns(func(c *conn, req *kmsg.ListOffsetsRequest) (bool, error) {
			refs := make([]topicRef, 0, 8)
			for i := range req.Topics {
				refs = append(refs, topicRef{name: req.Topics[i].Topic})
			}
			return c.namesView(refs)
		}),
		handle: typed((*conn).handleListOffsets),
	})
}

const (
	latestTimestamp       = -1
	earliestTimestamp     = -2
	maxTimestamp          = -3
	earliestLocalOffset   = -4
	latestTieredOffset    = -5
	listOffsetsConcurrent = 16
	listOffsetsWait       = 10 * time.Second
)

func (c *conn) handleListOffsets(ctx context.Context, req *kmsg.ListOffsetsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrListOffsetsResponse()
	var plain []kmsg.ListOffsetsRequestTopic
	var work errgroup.Group
	work.SetLimit(listOffsetsConcurrent)
	wctx, cancel := context.WithTimeout(ctx, listOffsetsWait)
	defer cancel()
	var starts sourceOffsets
	for _, t := range req.Topics {
		w := c.gw.views.Name(t.Topic)
		if w == nil {
			plain = append(plain, t)
			continue
		}
		code, err := c.mayReadView(w)
		if err != nil {
			return nil, err
		}
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		rt.Partitions = make([]kmsg.ListOffsetsResponseTopicPartition, len(t.Partitions))
		for i, p := range t.Partitions {
			rp := &rt.Partitions[i]
			*rp = kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition, rp.Offset, rp.Timestamp, rp.LeaderEpoch = p.Partition, -1, -1, -1
			if rp.ErrorCode = code; code != 0 {
				continue
			}
			work.Go(func() error {
				c.listOffset(wctx, w, p, req.IsolationLevel == 1, &starts, rp)
				if req.Version == 0 && rp.ErrorCode == 0 {
					rp.OldStyleOffsets = []int64{rp.Offset}
				}
				return nil
			})
		}
		resp.Topics = append(resp.Topics, rt)
	}
	_ = work.Wait()
	if len(plain) > 0 {
		ask := *req
		ask.Topics = plain
		kresp, err := c.roundTrip(ctx, &ask)
		if err != nil {
			return nil, err
		}
		r := kresp.(*kmsg.ListOffsetsResponse)
		resp.ThrottleMillis = r.ThrottleMillis
		resp.Topics = append(resp.Topics, r.Topics...)
	}
	return resp, nil
}

// sourceOffsets are answers that hold for all slices of a source partition: a
// request for a thousand virtual partitions asks the cluster once for each.
type sourceOffsets struct {
	mu    sync.Mutex
	asked map[sourceOffset]func() (int64, int64, error)
}

type sourceOffset struct {
	src       slicecache.Source
	timestamp int64
}

func (s *sourceOffsets) ask(key sourceOffset, ask func() (int64, int64, error)) (offset, ts int64, err error) {
	type answer struct {
		offset, ts int64
		err        error
	}
	s.mu.Lock()
	once, ok := s.asked[key]
	if !ok {
		get := sync.OnceValue(func() (a answer) {
			a.offset, a.ts, a.err = ask()
			return a
		})
		once = func() (int64, int64, error) { a := get(); return a.offset, a.ts, a.err }
		if s.asked == nil {
			s.asked = make(map[sourceOffset]func() (int64, int64, error))
		}
		s.asked[key] = once
	}
	s.mu.Unlock()
	return once()
}

// listOffset answers for one virtual partition.
func (c *conn) listOffset(ctx context.Context, w *View, p kmsg.ListOffsetsRequestTopicPartition, readCommitted bool, starts *sourceOffsets, rp *kmsg.ListOffsetsResponseTopicPartition) {
	src, slice, ok := w.SourceOf(p.Partition)
	if !ok {
		rp.ErrorCode = kerr.UnknownTopicOrPartition.Code
		return
	}
	var err error
	switch p.Timestamp {
	case latestTimestamp:
		rp.Offset, _, err = c.gw.cache.End(ctx, src, w.Slicing(), slice, readCommitted)
	case earliestTimestamp, earliestLocalOffset, latestTieredOffset:
		rp.Offset, rp.Timestamp, err = starts.ask(sourceOffset{src, p.Timestamp}, func() (int64, int64, error) {
			offset, ts, _, err := c.gw.reader.ListOffset(ctx, src, p.Timestamp, readCommitted)
			return offset, ts, err
		})
	default:
		if p.Timestamp < maxTimestamp {
			rp.ErrorCode = kerr.UnsupportedVersion.Code
			return
		}
		rp.Offset, rp.Timestamp, err = c.gw.cache.AtTime(ctx, src, w.Slicing(), slice, readCommitted, p.Timestamp)
	}
	if err != nil {
		rp.Offset, rp.Timestamp = -1, -1
		rp.ErrorCode = codeOf(err)
	}
}
