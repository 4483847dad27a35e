package fetcher

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/tandemmsg"
)

// request is a Fetch under way.
type request struct {
	*kmsg.FetchRequest
	most   int16 // version
	topics []asked
}

// asked are the streams of one topic in a request, in order.
type asked struct {
	name    string
	id      [16]byte
	streams []inFlight
}

// inFlight is a stream as it was when it was asked for.
type inFlight struct {
	*stream
	from int64
	at   int // turn
}

// MaxVersion is the most that kgo may choose.
func (r *request) MaxVersion() int16 { return r.most }

// Timeout is how long the broker may wait, in ms: kgo waits so much longer for the answer.
func (r *request) Timeout() int32 { return r.MaxWaitMillis }

// SetTimeout is there for kmsg.TimeoutRequest.
func (r *request) SetTimeout(millis int32) { r.MaxWaitMillis = millis }

// byName is the last version that names topics; the next ones have their ids.
const byName = 12

// request makes a request of streams, which are busy then. f.mu is held.
func (f *Fetcher) request(list []*stream, wait time.Duration) *request {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = int32(wait.Milliseconds())
	req.MinBytes, req.MaxBytes = f.cfg.MinBytes, f.cfg.MaxBytes
	req.SessionEpoch = -1 // no fetch session
	if f.cfg.ReadCommitted {
		req.IsolationLevel = 1
	}
	r := &request{FetchRequest: req, most: req.MaxVersion()}
	if f.cfg.Member != nil {
		_ = tandemmsg.SetFetchMember(req, f.cfg.Member()) // what is no member is not named
	}
	type name struct {
		topic string
		id    [16]byte
	}
	index := make(map[name]int, 4)
	f.round++
	for _, s := range list {
		at := name{s.Topic, s.id}
		i, ok := index[at]
		if !ok {
			i = len(r.topics)
			index[at] = i
			if s.id == ([16]byte{}) {
				r.most = byName
			}
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = s.Topic, s.id
			req.Topics = append(req.Topics, t)
			r.topics = append(r.topics, asked{name: s.Topic, id: s.id})
		}
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.CurrentLeaderEpoch = s.Partition, s.next, s.epoch
		p.PartitionMaxBytes = f.cfg.PartitionMaxBytes
		p.UnknownTags = s.tags
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
		r.topics[i].streams = append(r.topics[i].streams, inFlight{s, s.next, s.turn})
		s.busy, s.round = true, f.round
	}
	return r
}

func (f *Fetcher) client(which int) *kgo.Client {
	if which == 1 {
		return f.cfg.Second
	}
	return f.cfg.Client
}

// fetch sends a request and works on its answer.
func (f *Fetcher) fetch(b *broker, which int, r *request) {
	kresp, err := f.client(which).Broker(int(b.id)).Request(f.ctx, r)
	var slots []*slot
	f.mu.Lock()
	b.conns[which].busy = false
	switch {
	case f.closed:
	case err != nil:
		f.stale[which] = true
		f.failAll(r, err, true)
	default:
		slots = f.answered(r, kresp.(*kmsg.FetchResponse))
	}
	if len(b.streams) == 0 {
		f.forget(b)
	}
	f.kickAll()
	f.mu.Unlock()
	for _, s := range slots { // the next request is on its way
		f.decode(s)
	}
}

// forget lets go of a broker that leads nothing. f.mu is held.
func (f *Fetcher) forget(b *broker) {
	if f.brokers[b.id] == b && !b.conns[0].busy && !b.conns[1].busy {
		delete(f.brokers, b.id)
	}
}

// failAll fails the streams of a request that nothing is known of. f.mu is held.
func (f *Fetcher) failAll(r *request, err error, passes bool) {
	for _, t := range r.topics {
		for _, s := range t.streams {
			if f.landed(s) {
				f.lose(s.stream)
				f.fail(s.stream, err, passes)
			}
		}
	}
}

// landed ends the flight of s; false: what came of it is not wanted any more. f.mu is held.
func (f *Fetcher) landed(s inFlight) bool {
	s.busy = false
	return !s.gone && s.at == s.turn
}
