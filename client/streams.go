package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client/internal/executor"
	"github.com/tandem-kafka/tandem/client/internal/fetcher"
	"github.com/tandem-kafka/tandem/keyrange"
)

// part is a partition that the client reads. session.mu guards it.
type part struct {
	base     int32
	id       string // of the topic
	marked   keyrange.Set
	keyed    bool // key ranges of it may be fetched
	streams  map[fetcher.Token]keyrange.Set
	paused   bool
	logStart int64
	resets   []*reset
}

func (s *session) part(tp executor.TP) *part {
	p := s.parts[tp]
	if p == nil {
		p = &part{streams: map[fetcher.Token]keyrange.Set{}}
		s.parts[tp] = p
	}
	return p
}

// settle makes the streams of a partition fit what the client has of it: one for each holding.
func (s *session) settle(tp executor.TP) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.part(tp)
	wanted := s.runner.Positions(tp)
	for token, keys := range p.streams {
		i := slices.IndexFunc(wanted, func(w executor.Position) bool { return slices.Equal(w.Keys, keys) })
		if i >= 0 {
			wanted = slices.Delete(wanted, i, i+1)
			continue
		}
		s.fetcher.Remove(token)
		delete(p.streams, token)
	}
	for _, w := range wanted {
		s.begin(tp, p, w)
	}
	if len(p.streams) == 0 && len(p.resets) == 0 {
		delete(s.parts, tp)
	}
}

// begin begins a stream. s.mu is held.
func (s *session) begin(tp executor.TP, p *part, at executor.Position) {
	tokens, err := s.fetcher.Add(fetcher.Stream{Topic: tp.Topic, Partition: tp.Partition, Keys: at.Keys, Base: p.base, Offset: at.Next})
	if err != nil {
		if !errors.Is(err, fetcher.ErrClosed) {
			s.fail(fmt.Errorf("client: %w", err))
		}
		return
	}
	p.streams[tokens[0]] = at.Keys
	if p.paused {
		s.fetcher.Pause(tokens...)
	}
}

// flow pauses and resumes partitions.
func (s *session) flow(list []executor.Flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range list {
		if s.coop != nil { // it asks for what there is room for
			continue
		}
		p := s.parts[f.TP]
		if p == nil {
			if !f.Paused {
				continue
			}
			p = s.part(f.TP)
		}
		p.paused = f.Paused
		tokens := slices.Collect(maps.Keys(p.streams))
		if f.Paused {
			s.fetcher.Pause(tokens...)
		} else {
			s.fetcher.Resume(tokens...)
		}
	}
}

// fetch takes in what is fetched until the session ends.
func (s *session) fetch() {
	for {
		b, err := s.fetcher.Next(s.ctx)
		if err != nil {
			return
		}
		s.fetched(tpOf(b.Topic, b.Partition), &b)
	}
}

func (s *session) fetched(tp executor.TP, b *fetcher.Batch) {
	s.mu.Lock()
	p := s.parts[tp]
	if p == nil {
		s.mu.Unlock()
		return
	}
	keys, ok := p.streams[b.Token]
	start := ok && b.LogStart > p.logStart
	if start {
		p.logStart = b.LogStart
	}
	s.mu.Unlock()
	switch {
	case !ok:
		return
	case b.Err != nil:
		s.fetchFailed(tp, b.Err)
		return
	case b.Reset && b.Next < b.From:
		s.rewind(tp, keys, b.Next)
		return
	}
	if start || b.Reset && s.cfg.reset == Earliest {
		s.runner.LogStart(tp, max(b.LogStart, b.Next*int64(btoi(b.Reset))))
	}
	s.runner.Fetched(tp, executor.Fetch[*kgo.Record]{From: b.From, To: b.Next, Keys: keys, Records: b.Records})
	if f := s.cfg.hook.Fetched; f != nil {
		lag := int64(-1)
		if b.HighWatermark >= 0 {
			lag = max(0, b.HighWatermark-b.Next)
		}
		f(tp.Topic, tp.Partition, len(b.Records), b.Bytes, lag)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// fetchFailed is told of an error that lasts.
func (s *session) fetchFailed(tp executor.TP, err error) {
	if errors.Is(err, kerr.OffsetOutOfRange) { // only with NoReset
		s.fail(fmt.Errorf("client: topic %s, partition %d: %w, and ResetOffset is NoReset", tp.Topic, tp.Partition, err))
		return
	}
	s.log.Error("a partition cannot be read; trying again", "topic", tp.Topic, "partition", tp.Partition, "error", err)
}

// reread reads records again that were left behind blocked keys.
func (s *session) reread(ctx context.Context, r executor.Reread) ([]*kgo.Record, int64, error) {
	s.mu.Lock()
	of := fetcher.Stream{Topic: r.TP.Topic, Partition: r.TP.Partition, Offset: r.From}
	if p := s.parts[r.TP]; p != nil && p.keyed {
		of.Keys, of.Base = r.Keys, p.base
	}
	s.mu.Unlock()
	b, err := s.fetcher.Read(ctx, of)
	return b.Records, b.Next, err
}

// assigned is what the client has now.
func (s *session) assigned() Ranges {
	ranges := Ranges{}
	switch {
	case !s.ready():
		return ranges
	case s.coop != nil:
		return s.coop.assigned()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for tp, p := range s.parts {
		var all keyrange.Set
		for _, keys := range p.streams {
			all = keyrange.AppendUnion(nil, all, keys)
		}
		if len(all) == 0 {
			continue
		}
		if ranges[tp.Topic] == nil {
			ranges[tp.Topic] = map[int32]keyrange.Set{}
		}
		ranges[tp.Topic][tp.Partition] = all
	}
	return ranges
}
