package client

import (
	"context"
	"sync"

	"github.com/tandem-kafka/tandem/client/internal/executor"
)

// Client consumes as a member of a group, or what Assign says: with Run or with Poll, not both. Its methods may be called by several goroutines at once.
type Client struct {
	cfg *config

	mu      sync.Mutex
	mode    mode
	closed  bool
	session *session      // nil: not started
	stop    chan struct{} // closed by Close
	abort   chan struct{} // closed when Close's context ended
	ended   chan struct{} // closed when everything has ended
	err     error         // why, once ended is closed
}

type mode uint8

const (
	idle mode = iota
	running
	polling
)

// New returns a Client, or an error that says which option is wrong. It connects to nobody yet.
func New(opts ...Option) (*Client, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	return &Client{cfg: cfg, stop: make(chan struct{}), abort: make(chan struct{}), ended: make(chan struct{})}, nil
}

// begin says that the client is used in this way from now on.
func (c *Client) begin(m mode) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return ErrClosed
	case c.mode != idle:
		return ErrStarted
	}
	c.mode = m
	return nil
}

// Run calls handler for the records until ctx ends or Close is called; then it drains: nothing more begins, handlers may end within DrainTimeout, what is
// done is committed, the group is left, and Run returns nil. No goroutine is left then but handlers that ignore their contexts. A handler that panics has failed with that as its error.
// Where the gateway or the cluster does not answer, that ends 5 s after the DrainTimeout, and Run returns some seconds later at most: what is not committed by then others do again, once the group's session of this member is over.
//
// It returns an error without delay if it cannot start, and after draining if it cannot go on: a *StoppedError, or what the cluster refuses for
// good, such as the rights to the group. Errors that may pass are logged and waited out.
func (c *Client) Run(ctx context.Context, handler Handler) error {
	if err := c.begin(running); err != nil {
		return err
	}
	defer close(c.ended)
	s := newSession(ctx, c.cfg, handler)
	c.mu.Lock()
	c.session = s
	c.mu.Unlock()
	c.err = c.serve(ctx, s)
	return c.err
}

// serve runs a session until it is to end.
func (c *Client) serve(ctx context.Context, s *session) error {
	starting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.stop:
			cancel()
		case <-starting.Done():
		}
	}()
	err := s.start(starting)
	if err == nil {
		close(s.started)
		select {
		case <-ctx.Done():
		case <-c.stop:
		case err = <-s.fatal:
		}
	} else if starting.Err() != nil {
		err = nil // it was to end
	}
	draining, give := context.WithCancel(context.WithoutCancel(ctx))
	defer give()
	go func() {
		select {
		case <-c.abort:
			give()
		case <-draining.Done():
		}
	}()
	s.closing.Store(true)
	s.end(draining)
	select {
	case late := <-s.fatal:
		if err == nil {
			err = late
		}
	default:
	}
	return err
}

// Close ends Run or Poll gracefully and waits for it: see Run. When ctx ends before, handlers' contexts are cancelled, what is not committed by then is done again
// by whoever gets it, and ctx's error is returned. It may be called more than once.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.stop)
	}
	started := c.mode != idle
	c.mu.Unlock()
	if !started {
		return nil
	}
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	select {
	case <-c.abort:
	default:
		close(c.abort)
	}
	c.mu.Unlock()
	<-c.ended
	return ctx.Err()
}

func (c *Client) current() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// Assigned returns the key ranges that the client has now; with ShareByRecord all partitions, whole, which every member has.
func (c *Client) Assigned() Ranges {
	if s := c.current(); s != nil {
		return s.assigned()
	}
	return Ranges{}
}

// Stats returns what the client holds now.
func (c *Client) Stats() Stats {
	s := c.current()
	if s == nil || !s.ready() {
		return Stats{}
	}
	m, f := s.runner.Stats(), s.fetcher.Stats()
	return Stats{Records: m.Records, Ready: m.Ready, Delayed: m.Delayed, Running: m.Running, Shed: m.Shed, Bytes: m.Bytes, PausedPartitions: m.Paused, FetchedBytes: f.Buffered}
}

// Slow returns up to n records that run or wait for their next attempt: those first that do so longest.
func (c *Client) Slow(n int) (list []RecordInfo) {
	s := c.current()
	if s == nil || !s.ready() {
		return nil
	}
	for _, i := range s.runner.Slow(n) {
		list = append(list, infoOf(i))
	}
	return list
}

// tpOf names a partition.
func tpOf(topic string, partition int32) executor.TP {
	return executor.TP{Topic: topic, Partition: partition}
}
