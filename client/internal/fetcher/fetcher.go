package fetcher

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Fetcher reads streams. Its methods may be called by several goroutines at once.
type Fetcher struct {
	cfg        Config
	isolation  kgo.IsolationLevel
	decompress kgo.Decompressor
	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	work       sync.WaitGroup
	wake       chan struct{} // holds an element when Next has something to look at
	look       chan struct{} // and when findLeaders has

	mu       sync.Mutex
	closed   bool
	last     Token
	streams  map[Token]*stream
	brokers  map[int32]*broker
	topics   map[string]*topic
	ready    []*stream // with something for Next, in the order in which it came
	buffered int64     // bytes that wait for Next, of streams that are not paused
	paused   int64     // and of those that are
	round    int64     // counts requests
	stale    [2]bool   // of the clients: addresses of brokers may have changed
	asking   bool      // for metadata
	timer    *time.Timer
	timerAt  time.Time // zero: not set
}

// New returns a Fetcher without streams.
func New(cfg Config) (*Fetcher, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &Fetcher{
		cfg: cfg, isolation: kgo.ReadUncommitted(), decompress: kgo.DefaultDecompressor(), wake: make(chan struct{}, 1), look: make(chan struct{}, 1),
		streams: make(map[Token]*stream), brokers: make(map[int32]*broker), topics: make(map[string]*topic),
	}
	if cfg.ReadCommitted {
		f.isolation = kgo.ReadCommitted()
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.timer = time.AfterFunc(time.Hour, f.tick)
	f.timer.Stop()
	return f, nil
}

// Close ends the streams and the requests under way, whose connections are cut, and waits until nothing runs any more.
func (f *Fetcher) Close() {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		f.cancel()
		f.timer.Stop()
		for _, s := range f.streams {
			f.end(s)
		}
	}
	f.mu.Unlock()
	f.work.Wait()
	f.signal()
}

// Add begins streams, all in the same requests where they can be, and returns their tokens in order. It makes none if one is not valid.
func (f *Fetcher) Add(streams ...Stream) ([]Token, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	made := make([]*stream, len(streams))
	for i, of := range streams {
		s, err := newStream(f.last+Token(i)+1, of)
		if err != nil {
			return nil, err
		}
		made[i] = s
	}
	return f.begin(made)
}

func (f *Fetcher) begin(made []*stream) ([]Token, error) {
	if f.closed {
		return nil, ErrClosed
	}
	tokens := make([]Token, len(made))
	for i, s := range made {
		f.last = s.token
		f.streams[s.token], tokens[i] = s, s.token
		f.settle(s)
	}
	f.kickAll()
	return tokens, nil
}

// Remove ends streams: when it has returned, Next hands out nothing of them any more.
func (f *Fetcher) Remove(tokens ...Token) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range tokens {
		if s := f.streams[t]; s != nil {
			f.end(s)
		}
	}
	f.kickAll() // what waited for Next was in the way of others
}

// end forgets s. f.mu is held.
func (f *Fetcher) end(s *stream) {
	s.gone = true
	f.drop(s, 0)
	f.unsettle(s)
	delete(f.streams, s.token)
}

// Pause stops the fetching of streams. What was fetched is kept, and Next hands it out after Resume.
func (f *Fetcher) Pause(tokens ...Token) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range tokens {
		if s := f.streams[t]; s != nil && !s.paused {
			n := s.waiting()
			s.paused = true
			f.buffered -= n
			f.paused += n
		}
	}
	f.kickAll()
}

// Resume goes on with streams that were paused.
func (f *Fetcher) Resume(tokens ...Token) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range tokens {
		if s := f.streams[t]; s != nil && s.paused {
			n := s.waiting()
			s.paused = false
			f.buffered += n
			f.paused -= n
			f.enqueue(s)
		}
	}
	f.kickAll()
}

// Stats is what a Fetcher holds now.
type Stats struct {
	Streams  int
	Buffered int64 // bytes that wait for Next, as they were sent
	Requests int   // under way
	Homeless int   // streams whose leader is not known
}

// Stats returns what the fetcher holds.
func (f *Fetcher) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := Stats{Streams: len(f.streams), Buffered: f.buffered + f.paused}
	for _, b := range f.brokers {
		for _, l := range b.conns {
			if l.busy {
				st.Requests++
			}
		}
	}
	for _, s := range f.streams {
		if s.home == nil {
			st.Homeless++
		}
	}
	return st
}

// waiting is how many bytes of s wait for Next.
func (s *stream) waiting() (n int64) {
	for _, b := range s.slots {
		n += int64(b.Bytes)
	}
	return n
}

// put lets a Batch of s wait for Next. f.mu is held.
func (f *Fetcher) put(b *slot) {
	b.s.slots = append(b.s.slots, b)
	f.count(b.s, int64(b.Bytes))
	f.enqueue(b.s)
}

func (f *Fetcher) count(s *stream, bytes int64) {
	if s.paused {
		f.paused += bytes
	} else {
		f.buffered += bytes
	}
}

// drop forgets the slots of s from index i on. f.mu is held.
func (f *Fetcher) drop(s *stream, i int) {
	for _, b := range s.slots[i:] {
		f.count(s, -int64(b.Bytes))
		b.s = nil
		if b.Err != nil {
			s.reported = time.Time{} // nobody was told
		}
	}
	s.slots = slices.Delete(s.slots, i, len(s.slots))
}

// enqueue tells Next if s has something for it. f.mu is held.
func (f *Fetcher) enqueue(s *stream) {
	if !s.queued && s.ready() {
		s.queued = true
		f.ready = append(f.ready, s)
		f.signal()
	}
}

func (f *Fetcher) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}
