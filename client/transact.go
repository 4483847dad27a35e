package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client/internal/commits"
	"github.com/tandem-kafka/tandem/client/internal/executor"
	"github.com/tandem-kafka/tandem/client/internal/offsets"
	"github.com/tandem-kafka/tandem/client/internal/transact"
)

// byHand is the transaction that Transact is about.
type byHand struct {
	mu      sync.Mutex              // one at a time
	records map[executor.TP][]int64 // of one that may have been committed
	out     *outputs                // of it
}

// Transact writes outputs and commits polled records in one transaction, of a client with Transactional: all of it counts, or nothing. It tries again until ctx ends. After ErrNotAssigned, when some of the records
// are not this client's to commit any more, nothing of it counts, and others are given those. After another error nobody may know: call it again with the same, and what was committed is not
// written twice. The outputs must not be changed any more. It needs a gateway that allows individual commits, or InProcess.
func (c *Client) Transact(ctx context.Context, records []*Record, output ...*kgo.Record) error {
	s := c.current()
	if s == nil || !s.ready() || s.handler != nil || s.txn == nil {
		return fmt.Errorf("client: Transact is for polled records of a client with client.Transactional: %w", ErrNotTransactional)
	}
	if !s.individual() {
		return errors.New("client: Transact needs individual commits: a Tandem gateway, or client.InProcess")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)() // Close waits for who is at it
	out := &outputs{largest: s.txn.largest}
	if err := out.add(output); err != nil {
		return err
	}
	of := map[executor.TP][]int64{}
	for _, r := range records {
		tp := tpOf(r.Topic, r.Partition)
		of[tp] = append(of[tp], r.Offset)
	}
	for _, list := range of {
		slices.Sort(list)
	}
	h := &s.txn.byHand
	h.mu.Lock()
	defer h.mu.Unlock()
	if done, err := s.txn.handled(ctx, of); done || err != nil {
		return err
	}
	for {
		// The member comes first: in a later generation the key ranges may be others'.
		as := &author{losses: s.losses.Load(), Member: s.member(), ours: func() bool { list, _ := s.claim(of, out); return list != nil }}
		entries, brought := s.claim(of, out)
		if entries == nil {
			return fmt.Errorf("%w: of %d records", ErrNotAssigned, len(records))
		}
		err := s.txn.commitWhole(ctx, as, entries, brought)
		if err == nil {
			s.settleAll(of)
			return nil
		}
		h.records, h.out = of, out // it may have been committed
		if ctx.Err() != nil || transact.Lasting(err) || s.txn.over() != nil || !pause(ctx, rejoinPause) {
			if s.ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", ErrClosed, err)
			}
			return err
		}
		if done, err := s.txn.handled(ctx, of); done || err != nil {
			return err
		}
	}
}

// claim makes the entries of a commit of polled records, and says with the first of them what is to be written; nil: not all are this client's.
func (s *session) claim(of map[executor.TP][]int64, out *outputs) (entries []commits.Entry, brought [][]executor.Outputs) {
	for tp, list := range of {
		claims, missing := s.runner.Claims(tp, list)
		if missing > 0 {
			return nil, nil
		}
		s.mu.Lock()
		base := int32(0)
		if p := s.parts[tp]; p != nil {
			base = p.base
		}
		s.mu.Unlock()
		for _, c := range claims {
			e := commits.Entry{Partition: commits.Partition{Topic: tp.Topic, Partition: tp.Partition, Keys: c.Keys, Base: base}, Watermark: -1}
			for _, r := range c.Records {
				if n := len(e.Ranges) - 1; n >= 0 && e.Ranges[n].Last+1 == r.Offset {
					e.Ranges[n].Last++
				} else {
					e.Ranges = append(e.Ranges, offsets.Range{First: r.Offset, Last: r.Offset})
				}
			}
			first := c.Records[:1]
			first[0].Data = &outputs{} // nothing
			if len(entries) == 0 {
				first[0].Data = out
			}
			entries, brought = append(entries, e), append(brought, first)
		}
	}
	return entries, brought
}

// settleAll says that polled records are done: they are committed.
func (s *session) settleAll(of map[executor.TP][]int64) {
	for tp, list := range of {
		ranges := make([]offsets.Range, len(list))
		for i, o := range list {
			ranges[i] = offsets.Range{First: o, Last: o}
		}
		s.runner.Settle(tp, ranges)
	}
}

// handled finds out whether the transaction before, if nobody knows of it, was committed, and whether it was of the same records.
func (t *transactions) handled(ctx context.Context, of map[executor.TP][]int64) (same bool, err error) {
	h := &t.byHand
	if h.out == nil {
		return false, nil
	}
	t.mu.Lock()
	err = t.settle(ctx)
	t.mu.Unlock()
	if err != nil {
		return false, err
	}
	if h.out.written {
		t.s.settleAll(h.records)
		same = maps.EqualFunc(h.records, of, slices.Equal)
	}
	h.records, h.out = nil, nil
	return same, nil
}

// commitWhole is commit for entries that are to be committed together.
func (t *transactions) commitWhole(ctx context.Context, as *author, entries []commits.Entry, brought [][]executor.Outputs) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	failed, err := t.try(ctx, as, entries, brought)
	return cmp.Or(err, errors.Join(failed...))
}

// over is why there can be no further transaction.
func (t *transactions) over() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dead
}
