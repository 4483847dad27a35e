package fetcher

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topic is what metadata said of one.
type topic struct {
	id      [16]byte // zero: the cluster has no ids
	leaders map[int32]leader
}

type leader struct{ id, epoch int32 }

func (t *topic) leader(partition int32) (id, epoch int32) {
	if t != nil {
		if l, ok := t.leaders[partition]; ok {
			return l.id, l.epoch
		}
	}
	return -1, -1
}

// ask has metadata asked for. f.mu is held.
func (f *Fetcher) ask() {
	switch {
	case f.closed:
	case !f.asking:
		f.asking = true
		f.work.Go(f.findLeaders)
	default:
		select {
		case f.look <- struct{}{}:
		default:
		}
	}
}

func (f *Fetcher) asked() (context.Context, context.CancelFunc) {
	return context.WithTimeout(f.ctx, askTimeout)
}

// findLeaders asks for metadata until each stream has a leader.
func (f *Fetcher) findLeaders() {
	for {
		f.mu.Lock()
		topics, due := f.homeless(time.Now())
		if f.closed || len(topics) == 0 && due.IsZero() {
			f.asking = false
			f.mu.Unlock()
			return
		}
		stale := f.stale
		if len(topics) > 0 {
			f.stale = [2]bool{}
		}
		f.mu.Unlock()
		wait, look := time.Until(due), f.look
		if len(topics) > 0 {
			f.findThese(topics, stale)
			wait, look = askSpacing, nil
		}
		select {
		case <-f.ctx.Done():
		case <-look:
		case <-time.After(wait):
		}
	}
}

// homeless are the topics of the streams whose leader is to be asked for now, or else when the first is to be. f.mu is held.
func (f *Fetcher) homeless(now time.Time) (topics map[string]bool, due time.Time) {
	for _, s := range f.streams {
		switch {
		case s.home != nil:
		case !now.Before(s.retryAt):
			if topics == nil {
				topics = make(map[string]bool)
			}
			topics[s.Topic] = true
		case due.IsZero() || s.retryAt.Before(due):
			due = s.retryAt
		}
	}
	return topics, due
}

func (f *Fetcher) findThese(topics map[string]bool, stale [2]bool) {
	ctx, cancel := f.asked()
	defer cancel()
	resp, err := f.metadata(ctx, topics, stale)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.learn(topics, resp)
		return
	}
	for _, s := range f.streams {
		if s.home == nil && topics[s.Topic] {
			f.fail(s, err, true)
		}
	}
}

func (f *Fetcher) metadata(ctx context.Context, topics map[string]bool, stale [2]bool) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	for name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, f.cfg.Client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err == nil && stale[1] {
		brokers := kmsg.NewPtrMetadataRequest()
		brokers.Topics = []kmsg.MetadataRequestTopic{} // none; the client learns the addresses
		_, err = brokers.RequestWith(ctx, f.cfg.Second)
	}
	return resp, err
}

// learn gives the streams without a leader to those that metadata names. f.mu is held.
func (f *Fetcher) learn(topics map[string]bool, resp *kmsg.MetadataResponse) {
	if f.closed {
		return
	}
	alive := make(map[int32]bool, len(resp.Brokers))
	for _, b := range resp.Brokers {
		alive[b.NodeID] = true
	}
	errs := make(map[string]error)
	for i := range resp.Topics {
		rt := &resp.Topics[i]
		if rt.Topic == nil {
			continue
		}
		if err := kerr.ErrorForCode(rt.ErrorCode); err != nil {
			errs[*rt.Topic] = err
			continue
		}
		t := &topic{id: rt.TopicID, leaders: make(map[int32]leader, len(rt.Partitions))}
		for j := range rt.Partitions {
			if p := &rt.Partitions[j]; alive[p.Leader] {
				t.leaders[p.Partition] = leader{p.Leader, p.LeaderEpoch}
			}
		}
		f.topics[*rt.Topic] = t
	}
	for _, s := range f.streams {
		if s.home != nil || !topics[s.Topic] {
			continue
		}
		if f.settle(s); s.home != nil {
			continue
		}
		err := errs[s.Topic]
		if err == nil {
			err = kerr.LeaderNotAvailable
		}
		f.fail(s, err, lost(err) || passing(err))
	}
	f.kickAll()
}
