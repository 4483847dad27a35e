package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit"
	"github.com/tandem-kafka/tandem/internal/icommit/ledger"
	factrecord "github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file writes facts in a client's transaction. They are appended before the
// source row is sent: whoever takes key ranges over in a later generation reads
// the log first, and finds there what belongs to any source row that Kafka has
// accepted. Where it refuses the row, deletions follow in the same transaction.

// maxTxns bounds the producers of one connection of which the gateway remembers
// what it wrote.
const maxTxns = 64

// txnOf is the transaction of a request, as far as this connection has written in it.
func (c *conn) txnOf(req *kmsg.TxnOffsetCommitRequest) *icommit.Txn {
	producer := icommit.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch}
	x := c.txns[producer.ID]
	if x == nil || x.Producer != producer || x.ID != req.TransactionalID {
		if len(c.txns) >= maxTxns || c.txns == nil {
			c.txns = make(map[int64]*icommit.Txn)
		}
		x = &icommit.Txn{ID: req.TransactionalID, Producer: producer}
		c.txns[producer.ID] = x
	}
	x.Implicit = req.Version >= 5
	return x
}

// enlist makes the fact log part of the transaction, where Kafka does not do that
// by itself, and fails the ranges otherwise. It comes before anything is read:
// once Kafka has agreed, what the producer wrote before is decided in the log.
func (c *conn) enlist(ctx context.Context, call *commitCall) {
	if call.in.Implicit {
		return
	}
	if err := c.gw.facts.log.Enlist(ctx, call.group, call.in); err != nil {
		code := c.txnCode(call, err)
		for i := range call.ranges {
			if r := &call.ranges[i]; r.code == 0 {
				r.code = code
			}
		}
	}
}

// txnTries bounds how often facts are appended because somebody else wrote for
// the same producer.
const txnTries = 4

// appendFacts appends the facts of a call in its transaction. Where that fails
// the plan goes without them.
func (c *conn) appendFacts(ctx context.Context, call *commitCall, plans []*partPlan) error {
	for try := 0; ; try++ {
		var need []factrecord.Record
		for _, p := range plans {
			added := p.facts(call)
			if p.picture == nil || len(added) == 0 {
				continue
			}
			more, err := c.gw.facts.propose(p.part.key, call.in.Producer, p.plan.Era, added)
			if err != nil {
				c.withoutFacts(call, p, c.txnCode(call, err))
				continue
			}
			p.appended = append(p.appended, more...)
			need = append(need, more...)
		}
		err := errNotOurs
		if try < txnTries {
			var held bool
			if held, err = c.appendIn(ctx, call, need); held {
				return nil
			}
		}
		switch {
		case errors.Is(err, errDone):
			return err
		case err != nil:
			code := c.txnCode(call, err)
			for _, p := range plans {
				if p.picture != nil && len(p.facts(call)) > 0 {
					c.withoutFacts(call, p, code)
				}
			}
			return nil
		}
	}
}

// errNotOurs says that others write for the same producer all the time.
var errNotOurs = errors.New("what was written for the transaction is not in the log")

// appendIn appends records in a call's transaction, which either all add or all delete. held is whether they are in
// the log: Kafka takes a batch for a repetition that has the numbers of one that another gateway wrote for the
// producer.
func (c *conn) appendIn(ctx context.Context, call *commitCall, records []factrecord.Record) (held bool, err error) {
	if len(records) == 0 {
		return true, nil
	}
	if !call.in.Implicit && c.clientLeft() {
		return false, errDone // its next transaction has the same epoch, and this would be part of it
	}
	if err := c.gw.facts.log.AppendIn(ctx, call.group, call.in, records); err != nil {
		return false, err
	}
	c.gw.facts.absent.forget()
	want := len(records)
	if records[0].Delete {
		want = 0
	}
	if held = c.gw.facts.written(call.in.Producer, records) == want; !held {
		call.in.Forget()
	}
	return held, nil
}

// withoutFacts fails the ranges of a part, and plans what else there is.
func (c *conn) withoutFacts(call *commitCall, p *partPlan, code int16) {
	p.failRanges(call, code)
	if len(p.rows) == 0 {
		p.picture = nil
		return
	}
	p.env.Facts = nil
	p.work(call)
}

// settleFacts takes the facts back that the cluster has refused, in their
// transaction, should the client commit that all the same.
func (c *conn) settleFacts(ctx context.Context, call *commitCall, plans []*partPlan) error {
	var undo []factrecord.Record
	for _, p := range plans {
		switch {
		case p.picture == nil || len(p.facts(call)) == 0:
		case p.refused != 0:
			p.failRanges(call, p.refused)
			for _, r := range p.appended {
				r.TopicID, r.Delete = [16]byte{}, true
				undo = append(undo, r)
			}
		default:
			c.gw.groups.noteRanges(p.part.key)
			c.prune(p)
		}
	}
	for try := 0; ; try++ {
		held, err := c.appendIn(ctx, call, undo)
		switch {
		case held:
			return nil
		case errors.Is(err, errDone) || ended(err):
			return nil // who cannot write cannot commit
		case err != nil || try == txnTries:
			c.gw.unreadable(call.group, err)
			return errDone // the client is not to take this for an answer
		}
	}
}

// ended reports whether an error says that the transaction is over.
func ended(err error) bool {
	return errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidTxnState) || errors.Is(err, kerr.InvalidProducerIDMapping)
}

// prune deletes what decided transactions have made redundant, now and then.
func (c *conn) prune(p *partPlan) {
	k := p.part.key
	if !c.gw.facts.pruneDue(k.facts()) {
		return
	}
	env := p.env
	env.Facts = nil
	if plan := p.picture.Plan(nil, env); !plan.Opens {
		c.gw.facts.below(k, plan)
	}
}

// txnCode is the answer to a client whose facts could not be written in its
// transaction.
func (c *conn) txnCode(call *commitCall, err error) int16 {
	switch {
	case ended(err), errors.Is(err, kerr.TransactionAbortable):
		var ke *kerr.Error
		errors.As(err, &ke)
		return ke.Code
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		if c.gw.often.now("rights to a transaction", time.Minute) {
			c.log.Warn("a commit with ranges in a transaction was refused: the gateway's user may not write in it", "group", call.group, "transactional_id", call.in.ID,
				"cure", "give the gateway's user WRITE on the transactional id")
		}
		return kerr.TransactionalIDAuthorizationFailed.Code
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		c.gw.unreadable(call.group, err)
		return kerr.TopicAuthorizationFailed.Code
	case !errors.Is(err, ledger.ErrOver):
		c.gw.unreadable(call.group, err)
	}
	return kerr.CoordinatorLoadInProgress.Code
}

var _ icommit.TransactionHandler = (*facts)(nil)

// factsEnv is what counts if the facts of a call are added, and those that its
// transaction has written before.
func (c *conn) factsEnv(call *commitCall, p *partPlan) func(era int64) progress.Facts {
	if !slices.ContainsFunc(p.ranges, func(i int) bool { return call.ranges[i].code == 0 }) {
		return nil
	}
	added := p.facts(call) // none of a watermark of 0
	return func(era int64) progress.Facts {
		all := added
		if call.in != nil {
			own, _ := c.gw.facts.own(p.part.key, call.in.Producer) // of this era, or the call fails
			all = append(own, added...)
		}
		return c.gw.facts.with(p.part.key, era, all)
	}
}

// errUnsettled says that a commit has to wait for another transaction.
var errUnsettled = errors.New("another transaction decides which era the group's progress is in")

const (
	unsettledPause = 20 * time.Millisecond
	unsettledTries = 100
)

// settled is errUnsettled where a plan of a transaction has to wait. One that has
// waited long enough fails, and so does one of another era than what its transaction has written before.
func (c *conn) settled(call *commitCall, plans []*partPlan) error {
	if call.in == nil {
		return nil
	}
	for _, p := range plans {
		if p.picture == nil {
			continue
		}
		_, own := c.gw.facts.own(p.part.key, call.in.Producer)
		code := kerr.CoordinatorLoadInProgress.Code
		switch {
		case own >= 0 && own != p.plan.Era:
			code = call.abort
		case own >= 0 || !p.plan.Unsettled:
			continue
		case !call.impatient:
			return errUnsettled
		}
		call.fail(p, code)
		p.picture = nil
	}
	return nil
}
