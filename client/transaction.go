package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client/internal/commits"
	"github.com/tandem-kafka/tandem/client/internal/executor"
	"github.com/tandem-kafka/tandem/client/internal/transact"
)

// transactions are those of a session: what handlers have brought is written in the same one as the commit which says that their records are done.
type transactions struct {
	s        *session
	producer *transact.Producer
	timeout  time.Duration
	largest  int // bytes of a record, that is

	mu    sync.Mutex // one at a time
	doubt []doubt    // the last one, if it is not known whether it was committed
	dead  error      // there can be no further one

	byHand byHand
}

// doubt is a part of a transaction of which it is not known whether it was committed.
type doubt struct {
	part    commits.Partition
	outputs []executor.Outputs
}

const (
	// transactionTimeout is after how long brokers abort a transaction whose process has died; so long others wait for its key ranges. KgoOpts changes it.
	transactionTimeout = 10 * time.Second
	// metadataPause is how soon after a failed write the leader is looked for again.
	metadataPause = 100 * time.Millisecond
	// offsetsPatience is how long a transaction stays open for offsets that cannot be committed at the moment.
	offsetsPatience = 2 * time.Second
)

// startTransactions takes over the transactional id: what an earlier process left open is aborted, and it is fenced.
func (s *session) startTransactions(ctx context.Context, opts []kgo.Opt) error {
	opts = append([]kgo.Opt{kgo.TransactionTimeout(transactionTimeout), kgo.MetadataMinAge(metadataPause)}, dataOpts(opts, false)...)
	opts = append(opts, kgo.TransactionalID(*s.cfg.transactional))
	open := func() (transact.Client, error) { return kgo.NewClient(opts...) }
	probe, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	t := &transactions{s: s}
	t.timeout, _ = probe.OptValue(kgo.TransactionTimeout).(time.Duration)
	largest, _ := probe.OptValue(kgo.ProducerBatchMaxBytes).(int32)
	t.largest = int(largest)
	probe.Close()
	t.producer = transact.New(*s.cfg.transactional, t.timeout, s.log, open)
	s.txn = t
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		if err = t.producer.Decide(ctx); err == nil {
			return nil
		}
		if ctx.Err() != nil || transact.Lasting(err) {
			return fmt.Errorf("client: %w", err)
		}
		s.log.Warn("the transactional id cannot be taken over yet; trying again", "error", err)
		pause(ctx, wait)
	}
}

// commitLimit bounds a commit, with what is tried again.
func (s *session) commitLimit() time.Duration {
	if s.txn != nil {
		return max(commitTimeout, s.txn.timeout)
	}
	return commitTimeout
}

// commitOnce commits entries, with what their records brought: entry at[i] is about list[i], -1: none is.
func (s *session) commitOnce(ctx context.Context, as *author, list []executor.Commit, entries []commits.Entry, at []int) []error {
	if s.txn == nil {
		return s.commits.CommitUntil(ctx, as.Member, entries)
	}
	brought := make([][]executor.Outputs, len(entries))
	for i := range list {
		if n := at[i]; n >= 0 {
			brought[n] = append(brought[n], list[i].Outputs...)
		}
	}
	return s.txn.commit(ctx, as, entries, brought)
}

// commit commits entries in a transaction with what was brought for each. An entry that is refused on its own does not hold up the others.
func (t *transactions) commit(ctx context.Context, as *author, entries []commits.Entry, brought [][]executor.Outputs) []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	errs := make([]error, len(entries))
	open := make([]int, len(entries))
	for i := range open {
		open[i] = i
	}
	for len(open) > 0 {
		some := make([]commits.Entry, len(open))
		with := make([][]executor.Outputs, len(open))
		for i, n := range open {
			some[i], with[i] = entries[n], brought[n]
		}
		failed, err := t.try(ctx, as, some, with)
		var rest []int
		for i, n := range open {
			switch {
			case failed != nil && failed[i] != nil:
				errs[n] = failed[i]
			case err != nil:
				errs[n] = err
				rest = append(rest, n)
			}
		}
		if err == nil || len(rest) == len(open) || t.dead != nil || ctx.Err() != nil || between(failed) {
			break
		}
		for _, n := range rest {
			errs[n] = nil
		}
		open = rest
	}
	return anyOf(errs)
}

// anyOf is nil if there is no error.
func anyOf(errs []error) []error {
	for _, err := range errs {
		if err != nil {
			return errs
		}
	}
	return nil
}

// try commits entries in one transaction. failed are the errors of entries that were refused, err is why none of them is committed.
func (t *transactions) try(ctx context.Context, as *author, entries []commits.Entry, brought [][]executor.Outputs) (failed []error, err error) {
	if err := t.settle(ctx); err != nil {
		return nil, err
	}
	records := toWrite(brought)
	if len(records) == 0 {
		return t.s.commits.CommitUntil(ctx, as.Member, entries), nil
	}
	outcome, err := t.producer.Do(ctx, records, func(ctx context.Context, txn commits.Transaction) error {
		failed = t.offsets(ctx, txn, as, entries)
		return errors.Join(failed...)
	})
	switch outcome {
	case transact.Committed:
		return nil, nil
	case transact.Unknown:
		t.s.log.Warn("it is not known whether a transaction was committed; the committed offsets will tell", "error", err)
		for i, e := range entries {
			t.doubt = append(t.doubt, doubt{e.Partition, brought[i]})
		}
	}
	t.refused(err)
	if outcome == transact.Unknown && t.settle(ctx) == nil && len(toWrite(brought)) == 0 {
		return nil, nil
	}
	return failed, err
}

// close ends the producer, once nobody uses it: the session has ended, and with it what they wait for.
func (t *transactions) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.producer.Close()
}

// refused ends the session after an error that would come again and again.
func (t *transactions) refused(err error) {
	switch {
	case errors.Is(err, kerr.InvalidRequest):
		t.dead = fmt.Errorf("client: the gateway refuses individual commits in a transaction; it may be too old: %w", err)
	case transact.Lasting(err):
		t.dead = fmt.Errorf("client: %w", err)
	default:
		return
	}
	t.s.log.Error("there can be no further transaction: the client ends", "error", t.dead)
	t.s.fail(t.dead)
}

// offsets commits entries in an open transaction.
func (t *transactions) offsets(ctx context.Context, txn commits.Transaction, as *author, entries []commits.Entry) []error {
	ctx, cancel := context.WithTimeout(ctx, offsetsPatience)
	defer cancel()
	errs := t.s.commits.CommitIn(ctx, txn, as.Member, entries)
	for t.s.again(ctx, errs, as) {
		errs = t.s.commits.CommitIn(ctx, txn, as.Member, entries)
	}
	return errs
}

// settle finds out what became of a transaction, if that is not known.
func (t *transactions) settle(ctx context.Context) error {
	if t.dead != nil {
		return t.dead
	}
	if len(t.doubt) == 0 {
		return nil
	}
	if err := t.producer.Decide(ctx); err != nil {
		t.refused(err)
		return err
	}
	for _, d := range t.doubt {
		list, err := t.s.committed(ctx, []commits.Partition{d.part})
		if err == nil {
			err = list[0].Err
		}
		if err != nil {
			return err
		}
		for _, o := range d.outputs {
			if b := o.Data.(*outputs); list[0].Has(o.Position, o.Offset) {
				b.written = true
			}
		}
	}
	t.doubt = nil
	return nil
}

// toWrite are the records that are not written yet.
func toWrite(brought [][]executor.Outputs) (list []*kgo.Record) {
	for _, of := range brought {
		for _, o := range of {
			if b := o.Data.(*outputs); !b.written {
				list = append(list, b.records...)
			}
		}
	}
	return list
}
