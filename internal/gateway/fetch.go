package gateway

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/tandem-kafka/tandem/internal/slicecache"
	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Fetch, v4 to the highest that kmsg knows, for requests that name a view, or
// key ranges (see fetch_keys.go), or is cooperative (fetch_coop.go); others pass as bytes in all versions.
//
// A request with a view has no fetch session: its answer has session id 0, and
// one that continues a session gets FETCH_SESSION_ID_NOT_FOUND, upon which
// clients send a full request. Views are served from the shared reader, to
// connections whose principal may READ the view and its source. Ordinary topics
// of the same request go upstream without a session, in short waits, so that
// neither part holds up the other for long. Batches carry no leader epoch, and
// the request's is not looked at: the backing topic's epochs say nothing about
// the source. Before v4 clients cannot read batches of magic 2: such a request
// gets UNSUPPORTED_VERSION for its views.

func init() {
	register(wire.Fetch, &api{
		decode: true,
		owns:   typedOwns(fetchOwns),
		handle: typed((*conn).handleFetch),
	})
}

func fetchOwns(c *conn, req *kmsg.FetchRequest) (bool, error) {
	refs := make([]topicRef, 0, 8)
	for i := range req.Topics {
		refs = append(refs, topicRef{name: req.Topics[i].Topic, id: req.Topics[i].TopicID})
	}
	owned, err := c.namesView(refs)
	return owned || err == nil && (namesKeys(req) || namesGroup(req)), err
}

// mixedWait is how long each part of a mixed request waits for its turn.
const mixedWait = 20 * time.Millisecond

// fetchPart is one partition of a view in a request, and its answer.
type fetchPart struct {
	topic, partition int // where in the request
	slice            int // where in the slice requests, -1 where there is an error
	code             int16
	offset           int64
	keys             bool // an ordinary topic's, of key ranges
}

func (c *conn) handleFetch(ctx context.Context, req *kmsg.FetchRequest) (kmsg.Response, error) {
	if namesGroup(req) {
		return c.handleCooperative(ctx, req)
	}
	resp := kmsg.NewPtrFetchResponse()
	if req.SessionEpoch > 0 {
		resp.ErrorCode = kerr.FetchSessionIDNotFound.Code
		return resp, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(c.gw.drainCtx, cancel)
	defer stop()

	var lease slicecache.Lease
	defer lease.Release()
	parts, slices, plain, err := c.planFetch(req)
	if err != nil {
		return nil, err
	}
	wait := min(time.Duration(max(req.MaxWaitMillis, 0))*time.Millisecond, longestPoll)
	for i := range parts {
		if parts[i].code != 0 {
			wait = 0 // as a broker: an error is answered at once
		}
	}
	sreq := slicecache.FetchRequest{Slices: slices, ReadCommitted: req.IsolationLevel == 1, MaxWait: wait, MinBytes: req.MinBytes, MaxBytes: req.MaxBytes, Lease: &lease}
	if req.Version < 3 || req.MaxBytes <= 0 {
		sreq.MaxBytes = math.MaxInt32
	}
	var results []slicecache.SliceResult
	var plainResp *kmsg.FetchResponse
	if len(plain) == 0 {
		results = c.gw.cache.Fetch(ctx, sreq)
	} else if results, plainResp, err = c.fetchMixed(ctx, req, plain, sreq); err != nil {
		return nil, err
	}
	if plainResp != nil && plainResp.ErrorCode != 0 {
		resp.ErrorCode, resp.ThrottleMillis = plainResp.ErrorCode, plainResp.ThrottleMillis
		return resp, nil
	}
	return nil, c.writeFetch(req, parts, results, plainResp)
}

// planFetch divides a request into slices of views and the rest.
func (c *conn) planFetch(req *kmsg.FetchRequest) (parts []fetchPart, slices []slicecache.SliceRequest, plain []kmsg.FetchRequestTopic, err error) {
	for ti := range req.Topics {
		t := &req.Topics[ti]
		w := c.gw.views.Topic(t.Topic, t.TopicID)
		if w == nil {
			rest, err := c.planKeys(req, ti, &parts, &slices)
			if err != nil {
				return nil, nil, nil, err
			}
			if len(rest) > 0 {
				t := *t
				t.Partitions = rest
				plain = append(plain, t)
			}
			continue
		}
		code, err := c.mayReadView(w)
		switch {
		case err != nil:
			return nil, nil, nil, err
		case code != 0:
		case req.Version < 4:
			code = kerr.UnsupportedVersion.Code
		default:
			c.gw.isolations.note(c.isolationKey(w.Name), req.IsolationLevel == 1)
		}
		for pi := range t.Partitions {
			p := &t.Partitions[pi]
			part := fetchPart{topic: ti, partition: pi, slice: -1, code: code, offset: p.FetchOffset}
			src, slice, ok := w.SourceOf(p.Partition)
			switch {
			case code != 0:
			case req.Version >= 12 && p.UnknownTags.Len() > 0 && len(keysOf(req, p).keys) > 0:
				part.code = kerr.InvalidRequest.Code // a virtual partition is a key range already
			case !ok:
				part.code = kerr.UnknownTopicOrPartition.Code
			default:
				part.slice = len(slices)
				slices = append(slices, slicecache.SliceRequest{Source: src, Slicing: w.Slicing(), Slice: slice, Offset: p.FetchOffset, MaxBytes: p.PartitionMaxBytes})
			}
			parts = append(parts, part)
		}
	}
	return parts, slices, plain, nil
}

// fetchMixed serves a request that names views and ordinary topics: the first
// part that has something ends the wait of both.
func (c *conn) fetchMixed(ctx context.Context, req *kmsg.FetchRequest, plain []kmsg.FetchRequestTopic, sreq slicecache.FetchRequest) ([]slicecache.SliceResult, *kmsg.FetchResponse, error) {
	views := make(chan []slicecache.SliceResult, 1)
	viewCtx, enough := context.WithCancel(ctx)
	defer enough()
	go func() { views <- c.gw.cache.Fetch(viewCtx, sreq) }()
	deadline := time.Now().Add(sreq.MaxWait)
	ask := *req
	ask.Topics, ask.ForgottenTopics, ask.SessionID, ask.SessionEpoch = plain, nil, 0, -1
	var results []slicecache.SliceResult
	for {
		left := time.Until(deadline)
		if results != nil {
			left = 0
		}
		ask.MaxWaitMillis = int32(max(0, min(left, mixedWait)).Milliseconds())
		kresp, err := c.roundTrip(c.ctx, &ask)
		if err != nil {
			enough()
			<-views
			return nil, nil, err
		}
		resp := kresp.(*kmsg.FetchResponse)
		if results == nil {
			select {
			case results = <-views:
			default:
			}
		}
		if results != nil || ready(resp) || left <= 0 || ctx.Err() != nil {
			if results == nil {
				enough() // what there is by now is still handed out
				results = <-views
			}
			return results, resp, nil
		}
	}
}

// ready reports whether a broker's answer has data or an error in it.
func ready(r *kmsg.FetchResponse) bool {
	if r.ErrorCode != 0 {
		return true
	}
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			if p := &r.Topics[i].Partitions[j]; p.ErrorCode != 0 || len(p.RecordBatches) > 0 {
				return true
			}
		}
	}
	return false
}

// codeOf is the Kafka error code of an error of the shared reader.
func codeOf(err error) int16 {
	var ke *kerr.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ke):
		return ke.Code
	}
	return kerr.NotLeaderForPartition.Code // retriable: the client looks again
}
