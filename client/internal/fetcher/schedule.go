package fetcher

import (
	"slices"
	"time"
)

// broker is one that leads partitions of streams. Fetcher.mu guards it.
type broker struct {
	id      int32
	streams []*stream // in the order in which they are asked for
	conns   [2]connTo // by client
}

// connTo is a connection to a broker, which takes one request at a time.
type connTo struct {
	busy bool
	ends time.Time // when the broker answers at the latest, if nothing comes
}

// settle gives s to the broker that leads its partition, or has metadata asked for. f.mu is held.
func (f *Fetcher) settle(s *stream) {
	t := f.topics[s.Topic]
	leader, epoch := t.leader(s.Partition)
	if leader < 0 {
		f.ask()
		return
	}
	b := f.brokers[leader]
	if b == nil {
		b = &broker{id: leader}
		f.brokers[leader] = b
	}
	b.streams = append(b.streams, s)
	s.home, s.epoch, s.id = b, epoch, t.id
}

// unsettle takes s from its broker. f.mu is held.
func (f *Fetcher) unsettle(s *stream) {
	b := s.home
	if b == nil {
		return
	}
	s.home = nil
	b.streams = slices.DeleteFunc(b.streams, func(o *stream) bool { return o == s })
	if len(b.streams) == 0 && !b.conns[0].busy && !b.conns[1].busy {
		delete(f.brokers, b.id)
	}
}

// lose is unsettle for a stream whose leader is wrong or cannot be reached: metadata is asked for. f.mu is held.
func (f *Fetcher) lose(s *stream) {
	delete(f.topics, s.Topic)
	f.unsettle(s)
	f.ask()
}

func (f *Fetcher) kickAll() {
	for _, b := range f.brokers {
		f.kick(b)
	}
}

// kick sends what can be sent to b. f.mu is held.
func (f *Fetcher) kick(b *broker) {
	if f.closed || b.conns[0].busy && (b.conns[1].busy || f.cfg.Second == nil) || f.buffered >= f.cfg.MaxBuffered {
		return
	}
	now := time.Now()
	list, left := f.pick(b, now)
	if len(list) == 0 {
		return
	}
	which, wait := 0, f.cfg.MaxWait
	if first, second := &b.conns[0], &b.conns[1]; first.busy {
		rest := first.ends.Sub(now)
		if -grace <= rest && rest <= grace {
			f.armAt(first.ends.Add(grace + time.Millisecond)) // if its answer is late
			return
		}
		which, wait = 1, min(wait, shortWait)
		if rest > 0 {
			wait = min(wait, max(rest-grace, time.Millisecond)) // to be back when it ends
		}
	} else if second.busy || left && f.cfg.Second == nil {
		wait = min(wait, shortWait) // so that those of the second come along the next time
	}
	r := f.request(list, wait)
	b.conns[which] = connTo{busy: true, ends: now.Add(wait)}
	// Who was asked for comes last the next time, and of those together the first: a response may be too small for all.
	b.streams = slices.DeleteFunc(b.streams, func(s *stream) bool { return s.round == f.round })
	b.streams = append(append(b.streams, list[1:]...), list[0])
	f.work.Go(func() { f.fetch(b, which, r) })
}

// pick returns the streams that may be in a request to b now; left says that others may come while it is under way. A
// partition is in a request more than once only with key ranges: a Kafka broker does not allow it.
func (f *Fetcher) pick(b *broker, now time.Time) (list []*stream, left bool) {
	list = make([]*stream, 0, len(b.streams))
	for _, s := range b.streams {
		ok, at := s.fetchable(now)
		if !at.IsZero() {
			f.armAt(at)
		}
		if left = left || !ok; ok {
			list = append(list, s)
		}
	}
	if len(list) < 2 {
		return list, left
	}
	type tp struct {
		topic     string
		partition int32
	}
	whole := make(map[tp]bool, len(list)) // of the partitions in the request: the whole one
	kept := list[:0]
	for _, s := range list {
		at := tp{s.Topic, s.Partition}
		if before, twice := whole[at]; twice && (before || s.whole) {
			left = true
			continue
		}
		whole[at] = s.whole
		kept = append(kept, s)
	}
	return kept, left
}

// armAt has the streams looked at again at t. f.mu is held.
func (f *Fetcher) armAt(t time.Time) {
	if !f.closed && (f.timerAt.IsZero() || t.Before(f.timerAt)) {
		f.timerAt = t
		f.timer.Reset(max(time.Until(t), 0))
	}
}

func (f *Fetcher) tick() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.timerAt = time.Time{}
	f.kickAll()
}
