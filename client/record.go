package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client/internal/executor"
	"github.com/tandem-kafka/tandem/client/internal/run"
)

// Record is a record to be handled: Topic, Partition, Offset, Key, Value, Headers and Timestamp are those of kgo.Record. Key, value
// and headers must not be changed.
type Record struct {
	*kgo.Record
	// Attempt is the number of this attempt, from 1. Attempts of earlier processes count as far as they were stored.
	Attempt int

	ctx context.Context
	out *outputs // nil: there is no transaction
}

// ExtendLease moves the end of the handler's lease to d from now, where that is later. It reports false if the handler's run is
// over, or the record came from Poll.
func (r *Record) ExtendLease(d time.Duration) bool {
	return r.ctx != nil && run.Extend(r.ctx, d)
}

// Handler handles a record; nil: it is done. ctx is cancelled when the record is taken from this process and DrainTimeout is over. The
// record is not to be used after the handler has returned.
type Handler func(ctx context.Context, r *Record) error

// RetryAfter says that a record failed with err, and is to be attempted again after d, in place of the backoff. The attempt counts.
func RetryAfter(err error, d time.Duration) error { return &retryAfter{err, d} }

type retryAfter struct {
	err   error
	delay time.Duration
}

func (e *retryAfter) Error() string { return e.err.Error() }
func (e *retryAfter) Unwrap() error { return e.err }

// Permanent says that a record failed with err, and that further attempts are of no use.
func Permanent(err error) error { return &permanent{err} }

type permanent struct{ err error }

func (e *permanent) Error() string { return e.err.Error() }
func (e *permanent) Unwrap() error { return e.err }

// resultOf is what a handler's error means.
func resultOf(err error) (res executor.Result) {
	if err == nil {
		return res
	}
	res.Err = err
	var later *retryAfter
	if errors.As(err, &later) {
		res.Delay = int64(max(later.delay, 1))
	}
	var last *permanent
	res.Final = errors.As(err, &last)
	return res
}

// perRecord is about what a record takes beside its bytes.
const perRecord = 200

func describe(r *kgo.Record) executor.Meta {
	size := len(r.Key) + len(r.Value) + perRecord
	for i := range r.Headers {
		size += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return executor.Meta{Offset: r.Offset, Key: r.Key, Size: size}
}

// keep copies a record, which shares its memory with all that came with it.
func keep(r *kgo.Record) *kgo.Record {
	c := *r
	c.Key, c.Value, c.Headers = slices.Clone(r.Key), slices.Clone(r.Value), slices.Clone(r.Headers)
	for i := range c.Headers {
		c.Headers[i].Value = slices.Clone(c.Headers[i].Value)
	}
	return &c
}
