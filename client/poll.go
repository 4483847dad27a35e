package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandem-kafka/tandem/client/internal/offsets"
	"github.com/tandem-kafka/tandem/client/internal/run"
)

// OffsetRange is the offsets First to Last of a partition, both inclusive, 0 <= First <= Last.
type OffsetRange struct{ First, Last int64 }

// Poll returns up to max records (>= 1), and waits until there is one. The first call joins the group. Records come in the order of their
// offsets in each partition; those that the group has committed are left out. Each is to be committed, in any order, with Commit or
// CommitRanges; as long as it is not, it counts against MaxBuffered, and at that bound Poll returns nothing more. Concurrency, Order, Retry and what
// comes after them are without effect, and so is the Lease.
//
// When key ranges are taken away, the records that were polled of them may still be committed for the DrainTimeout; the group's rebalance waits so long for
// those that are not.
//
// It returns ctx's error when ctx ends, ErrClosed after Close, and as Run an error that ends the client.
func (c *Client) Poll(ctx context.Context, max int) ([]*Record, error) {
	if max < 1 {
		return nil, fmt.Errorf("client: Poll of %d records: at least 1", max)
	}
	s, err := c.polled(ctx)
	if err != nil {
		return nil, err
	}
	tasks, err := s.runner.Pull(ctx, max)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		<-c.ended
		return nil, c.endedWith()
	}
	list := make([]*Record, len(tasks))
	records := make([]Record, len(tasks))
	for i, t := range tasks {
		records[i] = Record{Record: t.Record, Attempt: int(t.Attempt())}
		list[i] = &records[i]
	}
	return list, nil
}

// polled is the session that records are polled from.
func (c *Client) polled(ctx context.Context) (*session, error) {
	c.mu.Lock()
	switch {
	case c.mode == running:
		c.mu.Unlock()
		return nil, ErrStarted
	case c.mode == idle && c.closed:
		c.mu.Unlock()
		return nil, ErrClosed
	case c.mode == idle:
		c.mode = polling
		values := context.WithoutCancel(ctx)
		s := newSession(values, c.cfg, nil)
		c.session = s
		go func() {
			defer close(c.ended)
			c.err = c.serve(values, s)
		}()
	}
	s := c.session
	c.mu.Unlock()
	select {
	case <-s.started:
		return s, nil
	case <-c.ended:
		return nil, c.endedWith()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// endedWith is why there is nothing more to poll.
func (c *Client) endedWith() error {
	if c.err != nil {
		return c.err
	}
	return ErrClosed
}

// Commit says that records are done. They are committed when MaxRangesBeforeCommit or the CommitInterval is reached, whichever is first, when their key
// ranges are taken away, and on Close; Flush does it at once and tells of errors. Neighbours are committed as one offset range, over offsets without a record of the client's keys, too. It returns ErrNotAssigned if
// some are not this client's to commit.
func (c *Client) Commit(records ...*Record) error {
	type place struct {
		topic     string
		partition int32
	}
	ranges := map[place][]OffsetRange{}
	for _, r := range records {
		at := place{r.Topic, r.Partition}
		of := ranges[at]
		if n := len(of); n > 0 && of[n-1].Last+1 == r.Offset {
			of[n-1].Last++
			continue
		}
		ranges[at] = append(of, OffsetRange{r.Offset, r.Offset})
	}
	n := 0
	for at, of := range ranges {
		n += c.settle(at.topic, at.partition, of)
	}
	if n < len(records) {
		return fmt.Errorf("%w: %d of %d records", ErrNotAssigned, len(records)-n, len(records))
	}
	return nil
}

// CommitRanges says that the records of a partition in offset ranges are done, as Commit does; of those only that were polled. It returns ErrNotAssigned if
// there is none.
func (c *Client) CommitRanges(topic string, partition int32, ranges ...OffsetRange) error {
	for _, r := range ranges {
		if r.First < 0 || r.Last < r.First {
			return fmt.Errorf("client: offset range %d-%d: 0 <= First <= Last", r.First, r.Last)
		}
	}
	if c.settle(topic, partition, ranges) == 0 && len(ranges) > 0 {
		return fmt.Errorf("%w: no record of topic %s, partition %d in %v", ErrNotAssigned, topic, partition, ranges)
	}
	return nil
}

// Flush commits at once what Commit and CommitRanges have said so far, and waits until it is durable. After an error that is not known of all of it: what may still be
// committed is tried again later. ErrNotAssigned says that key ranges were lost before; ErrClosed, that there is nothing to commit any more. With Run it commits what
// handlers have done.
func (c *Client) Flush(ctx context.Context) error {
	s := c.current()
	if s == nil || !s.ready() {
		return nil
	}
	err := s.runner.Flush(ctx)
	switch {
	case errors.Is(err, run.ErrClosed):
		return ErrClosed
	case errors.Is(err, run.ErrLost):
		return fmt.Errorf("%w: %w", ErrNotAssigned, err)
	}
	return err
}

func (c *Client) settle(topic string, partition int32, ranges []OffsetRange) int {
	s := c.current()
	if s == nil || !s.ready() || s.handler != nil {
		return 0
	}
	list := make([]offsets.Range, len(ranges))
	for i, r := range ranges {
		list[i] = offsets.Range(r)
	}
	return s.runner.Settle(tpOf(topic, partition), list)
}
