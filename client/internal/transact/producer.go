package transact

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client/internal/commits"
)

// Outcome is how a transaction ended.
type Outcome uint8

// The outcomes.
const (
	Aborted   Outcome = iota // nothing of it counts, now or later
	Committed                // all of it
	Unknown                  // one of both: see Decide
)

// ErrFenced says that another process uses the transactional id.
var ErrFenced = errors.New("another process uses the transactional id: it took over from this one")

// Client is what a Producer needs of a kgo.Client.
type Client interface {
	ProducerID(context.Context) (int64, int16, error)
	BeginTransaction() error
	Produce(context.Context, *kgo.Record, func(*kgo.Record, error))
	Flush(context.Context) error
	AbortBufferedRecords(context.Context) error
	EndTransaction(context.Context, kgo.TransactionEndTry) error
	Close()
}

// Producer is the producer of a transactional id. Its methods are called by one goroutine at a time.
type Producer struct {
	id      string
	timeout time.Duration
	open    func() (Client, error)
	log     *slog.Logger
	client  Client // nil: none, or one that is not to be trusted
	ready   bool   // client has its producer id: what went before is decided
}

// New returns a Producer. Its transactions time out on the broker after a time, which is the limit of each. open makes a client with the transactional id.
func New(id string, timeout time.Duration, log *slog.Logger, open func() (Client, error)) *Producer {
	return &Producer{id: id, timeout: timeout, open: open, log: log}
}

// abortTimeout is how long an abort may take before the client is given up instead.
const abortTimeout = 2 * time.Second

// Decide takes over the transactional id, unless it has it: any transaction that was left open is over then.
func (p *Producer) Decide(ctx context.Context) error {
	if p.ready {
		return nil
	}
	if p.client == nil {
		c, err := p.open()
		if err != nil {
			return err
		}
		p.client = c
	}
	if _, _, err := p.client.ProducerID(ctx); err != nil {
		p.discard()
		return fmt.Errorf("transactional id %q: %w", p.id, err)
	}
	p.ready = true
	return nil
}

// Do writes records and calls commit in a transaction. The records are not changed. commit is called when all records are there; with an error of it the transaction is aborted.
// Each error means that what was to be done is not, or that nobody knows: Outcome says so.
func (p *Producer) Do(ctx context.Context, records []*kgo.Record, commit func(context.Context, commits.Transaction) error) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	if err := p.Decide(ctx); err != nil {
		return Aborted, err
	}
	began, c := time.Now(), p.client
	if err := c.BeginTransaction(); err != nil {
		p.discard()
		return Aborted, p.judge(err, began)
	}
	err := p.write(ctx, c, records)
	if err == nil {
		t := commits.Transaction{ID: p.id}
		if t.Producer, t.Epoch, err = c.ProducerID(ctx); err == nil {
			err = commit(ctx, t)
		}
	}
	if err == nil {
		if err = c.EndTransaction(ctx, kgo.TryCommit); err == nil {
			return Committed, nil
		}
		if !errors.Is(err, kerr.OperationNotAttempted) && !errors.Is(err, kerr.TransactionAbortable) {
			p.discard()
			return Unknown, p.judge(err, began)
		}
	}
	if err = p.judge(err, began); !errors.Is(err, ErrFenced) { // who takes the id back would fence the one who has it
		p.abort(ctx, c)
	}
	return Aborted, err
}

// write writes records and waits until all are there.
func (p *Producer) write(ctx context.Context, c Client, records []*kgo.Record) error {
	var mu sync.Mutex
	var first error
	for _, r := range records {
		c.Produce(ctx, fresh(r), func(r *kgo.Record, err error) {
			if err == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if first == nil {
				first = fmt.Errorf("topic %s: %w", r.Topic, err)
			}
		})
	}
	err := c.Flush(ctx)
	mu.Lock()
	defer mu.Unlock()
	if first != nil {
		return first
	}
	return err
}

// fresh copies a record, since kgo writes into those that it is given.
func fresh(r *kgo.Record) *kgo.Record {
	c := *r
	c.Headers = slices.Clone(r.Headers)
	return &c
}

// abort ends a transaction that is not to count.
func (p *Producer) abort(ctx context.Context, c Client) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	err := c.AbortBufferedRecords(ctx)
	if err == nil {
		err = c.EndTransaction(ctx, kgo.TryAbort)
	}
	if err == nil {
		return
	}
	p.log.Info("a transaction is not aborted in order; another producer takes over its transactional id, which aborts it", "transactional_id", p.id, "error", err)
	p.discard()
	if err := p.Decide(ctx); err != nil {
		p.log.Warn("a transaction is left open until the next one, or until it times out", "transactional_id", p.id, "timeout", p.timeout, "error", err)
	}
}

// judge makes ErrFenced of an error if it means that.
func (p *Producer) judge(err error, began time.Time) error {
	if !errors.Is(err, kerr.ProducerFenced) && !errors.Is(err, kerr.InvalidProducerEpoch) {
		return err
	}
	// The coordinator's clock may be ahead of ours.
	if took := time.Since(began); took >= p.timeout/2 {
		return fmt.Errorf("the transaction took %v, and its timeout is %v: %w", took.Round(time.Millisecond), p.timeout, err)
	}
	p.discard()
	return fmt.Errorf("transactional id %q: %w (%w)", p.id, ErrFenced, err)
}

// discard gives the client up.
func (p *Producer) discard() {
	if p.client != nil {
		p.client.Close()
	}
	p.client, p.ready = nil, false
}

// Close ends the producer.
func (p *Producer) Close() { p.discard() }

// Lasting reports whether an error of Decide or Do would come again and again.
func Lasting(err error) bool {
	for _, e := range []error{ErrFenced, kerr.TransactionalIDAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.TopicAuthorizationFailed, kerr.MessageTooLarge, kerr.RecordListTooLarge,
		kerr.InvalidRecord, kerr.InvalidTopicException, kerr.InvalidTransactionTimeout, kerr.UnsupportedVersion, kerr.UnsupportedForMessageFormat, kerr.PolicyViolation, kerr.SaslAuthenticationFailed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
