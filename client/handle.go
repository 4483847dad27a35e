package client

import (
	"context"
	"fmt"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client/internal/executor"
	"github.com/tandem-kafka/tandem/client/internal/produce"
)

type task = executor.Task[*kgo.Record]

// handle runs the handler for a record.
func (s *session) handle(ctx context.Context, t *task) executor.Result {
	if s.coop == nil {
		return resultOf(s.timed(ctx, t))
	}
	own, offset, failed := t.TP(), t.Offset(), true // unless it returns
	defer func() { s.coop.handled(own, offset, failed) }()
	if s.coop.late() { // a process that was halted goes on in its handlers first: what they would begin with, others have
		<-ctx.Done() // the next fetch lets go of it
		return resultOf(ctx.Err())
	}
	err := s.timed(ctx, t)
	failed = err != nil
	return resultOf(err)
}

// timed is call, and tells the hook.
func (s *session) timed(ctx context.Context, t *task) error {
	r := &Record{Record: t.Record, Attempt: int(t.Attempt()), ctx: ctx}
	if s.txn != nil {
		r.out = &outputs{largest: s.txn.largest}
		defer r.out.bring(t)
	}
	if s.cfg.hook.Handled == nil {
		return s.call(ctx, r)
	}
	began := time.Now()
	err := s.call(ctx, r)
	s.cfg.hook.Handled(r.Topic, r.Partition, time.Since(began), err)
	return err
}

func (s *session) call(ctx context.Context, r *Record) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the handler panicked: %v", p)
			s.log.Error("the handler panicked", "topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	return s.handler(ctx, r)
}

// Headers of dead letters.
const (
	headerTopic     = "tandem.dlq.topic"
	headerPartition = "tandem.dlq.partition"
	headerOffset    = "tandem.dlq.offset"
	headerTimestamp = "tandem.dlq.timestamp"
	headerGroup     = "tandem.dlq.group"
	headerAttempts  = "tandem.dlq.attempts"
	headerError     = "tandem.dlq.error"
)

// maxError is how many bytes of an error a dead letter has.
const maxError = 4096

// errUnknown is the cause of a record whose attempts ended with their processes.
const errUnknown = "unknown: the process ended while it handled the record"

// writeDeadLetter writes the dead letter of a record that was given up.
func (s *session) writeDeadLetter(ctx context.Context, t *task) executor.Result {
	r := t.Record
	cause := errUnknown
	if err := t.Cause(); err != nil {
		cause = err.Error()
	}
	cause = cause[:min(len(cause), maxError)]
	letter := &kgo.Record{Topic: s.cfg.deadLetter, Key: r.Key, Value: r.Value}
	letter.Headers = append(letter.Headers, r.Headers...)
	for _, h := range []struct{ key, value string }{
		{headerTopic, r.Topic},
		{headerPartition, strconv.Itoa(int(r.Partition))},
		{headerOffset, strconv.FormatInt(r.Offset, 10)},
		{headerTimestamp, strconv.FormatInt(r.Timestamp.UnixMilli(), 10)},
		{headerGroup, s.cfg.group},
		{headerAttempts, strconv.Itoa(int(t.Attempt()))},
		{headerError, cause},
	} {
		letter.Headers = append(letter.Headers, kgo.RecordHeader{Key: h.key, Value: []byte(h.value)})
	}
	if s.txn != nil {
		o := &outputs{largest: s.txn.largest}
		if err := o.add([]*kgo.Record{letter}); err != nil {
			return executor.Result{Err: fmt.Errorf("dead letter to topic %s: %w", s.cfg.deadLetter, err)}
		}
		o.bring(t)
		return executor.Result{}
	}
	if err := produce.Sync(ctx, s.data[0], letter); err != nil {
		return executor.Result{Err: fmt.Errorf("dead letter to topic %s: %w", s.cfg.deadLetter, err)}
	}
	return executor.Result{}
}

// stopped ends the session after a record that was given up.
func (s *session) stopped(r executor.Report) {
	if a := s.coop.of(r.TP); a != nil {
		r.TP = a.tp
	}
	s.fail(&StoppedError{Topic: r.TP.Topic, Partition: r.TP.Partition, Offset: r.Offset, Key: r.Key, Attempts: int(r.Attempts), Err: r.Err})
	if f := s.cfg.hook.Event; f != nil {
		f(Event{Kind: Stopped, RecordInfo: infoOf(r.Info), Err: r.Err})
	}
}

// report tells the log and the hook what happened to records.
func (s *session) report(list []executor.Report) {
	for i := range list {
		r := &list[i]
		if a := s.coop.of(r.TP); a != nil {
			r.TP = a.tp
		}
		log := s.log.With("topic", r.TP.Topic, "partition", r.TP.Partition, "offset", r.Offset, "key", string(r.Key), "attempts", r.Attempts)
		switch r.Kind {
		case executor.Failed:
			if next := infoOf(r.Info).NextAt; !next.IsZero() {
				log = log.With("next", next)
			}
			log.Info("a record failed", "error", r.Err)
		case executor.DeadLettered:
			log.Warn("a record was given up; its dead letter is written", "to", s.cfg.deadLetter, "error", r.Err)
		case executor.DeadLetterFailed:
			log.Error("a dead letter cannot be written; trying again", "to", s.cfg.deadLetter, "error", r.Err)
		case executor.Skipped:
			log.Warn("a record was given up, and is skipped", "error", r.Err)
		case executor.Overdue:
			log.Warn("a handler runs longer than its lease", "since", time.Unix(0, r.Since), "lease", s.cfg.lease)
		case executor.ShedHigh:
			log.Warn("many records wait behind blocked keys; when there is no room for more, the fetch waits for them", "limit", maxShed)
		}
		if f := s.cfg.hook.Event; f != nil {
			f(Event{Kind: EventKind(r.Kind), RecordInfo: infoOf(r.Info), Err: r.Err})
		}
	}
}
