package fetcher

import (
	"context"
)

// Next waits for something that was fetched, or an error of a stream, and returns it. Batches of one stream come in order,
// streams take turns. It returns ErrClosed after Close, and the error of ctx when that ends.
//
// A stream may be removed while its batch is on the way from Next to who works on it: who may not work on it then compares
// Batch.Token with the tokens it has, under the lock under which it calls Remove.
func (f *Fetcher) Next(ctx context.Context) (Batch, error) {
	for {
		f.mu.Lock()
		b, ok := f.take()
		closed := f.closed
		if len(f.ready) > 0 || closed {
			f.signal() // for others who wait
		}
		f.mu.Unlock()
		switch {
		case closed:
			return Batch{}, ErrClosed
		case ok:
			return b, nil
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return Batch{}, ctx.Err()
		}
	}
}

// take takes the first batch that is ready. f.mu is held.
func (f *Fetcher) take() (Batch, bool) {
	for len(f.ready) > 0 {
		s := f.ready[0]
		f.ready[0] = nil
		f.ready = f.ready[1:]
		s.queued = false
		if !s.ready() {
			continue
		}
		b := s.slots[0]
		full := len(s.slots) >= ahead || f.buffered >= f.cfg.MaxBuffered
		copy(s.slots, s.slots[1:])
		s.slots[len(s.slots)-1] = nil
		s.slots = s.slots[:len(s.slots)-1]
		f.count(s, -int64(b.Bytes))
		f.enqueue(s)
		if full {
			f.kickAll()
		}
		return b.Batch, true
	}
	f.ready = nil
	return Batch{}, false
}

// Read fetches once: the records of a stream from its Offset on, as many as come with one answer, which may be none. It does
// not wait for records to be written, except that it may wait for MaxWait at the end of the log. Errors that pass by themselves are tried again until
// ctx ends; those that do not are as in Batch.Err, also OFFSET_OUT_OF_RANGE.
func (f *Fetcher) Read(ctx context.Context, of Stream) (Batch, error) {
	answer := make(chan Batch, 1)
	f.mu.Lock()
	s, err := newStream(f.last+1, of)
	if err == nil {
		s.once = answer
		_, err = f.begin([]*stream{s})
	}
	f.mu.Unlock()
	if err != nil {
		return Batch{}, err
	}
	select {
	case b := <-answer:
		return b, b.Err
	case <-ctx.Done():
		f.Remove(s.token)
		return Batch{}, ctx.Err()
	case <-f.ctx.Done():
		return Batch{}, ErrClosed
	}
}

// answer gives Read what it waits for. f.mu is held.
func (f *Fetcher) answer(s *stream, b Batch) {
	b.Token, b.Stream, b.From = s.token, s.Stream, s.Offset
	if b.Err != nil {
		b.Next = s.Offset
	}
	s.once <- b // has room: this happens once
	f.end(s)
}
