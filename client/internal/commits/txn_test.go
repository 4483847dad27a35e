package commits

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/client/internal/gatewaytest"
)

// open begins a transaction: with a record, since kgo ends none without.
func open(t *testing.T, w *gatewaytest.World) (*kgo.Client, Transaction) {
	t.Helper()
	p := w.Direct(kgo.TransactionalID("me"))
	if err := p.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := p.ProduceSync(soon(t), &kgo.Record{Topic: "orders"}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	id, epoch, err := p.ProducerID(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	return p, Transaction{ID: "me", Producer: id, Epoch: epoch}
}

// Commits in a transaction count if and only if it is committed.
func TestCommitsInATransaction(t *testing.T) {
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 1)
	p := Entry{Partition: Partition{Topic: "orders", Plain: true}, Watermark: 42}
	for name, c := range map[string]*Commits{"direct": guarded(t, w.Direct), "gateway": guarded(t, w.Client)} {
		setRow(t, w, "orders", 1)
		for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
			producer, txn := open(t, w)
			if errs := c.CommitIn(soon(t), txn, NoMember, []Entry{p}); errs != nil {
				t.Fatal(name, errs)
			}
			if at := row(t, w, "orders"); at != 1 {
				t.Errorf("%s: the cluster has %d while the transaction is open", name, at)
			}
			if err := producer.EndTransaction(soon(t), end); err != nil {
				t.Fatal(err)
			}
			want := int64(1)
			if end {
				want = 42
			}
			list, err := c.Fetch(soon(t), []Partition{p.Partition})
			if err != nil || list[0].Offset != want {
				t.Errorf("%s, committed %v: %+v, %v", name, end, list, err)
			}
			producer.Close()
		}
	}
}

// The error of a transaction says what to do about it.
func TestErrorsInATransaction(t *testing.T) {
	for err, class := range map[*kerr.Error]Class{
		kerr.ConcurrentTransactions: Done, kerr.CoordinatorLoadInProgress: Done, kerr.IllegalGeneration: Fenced, kerr.InvalidProducerEpoch: Fatal, kerr.TransactionalIDAuthorizationFailed: Fatal,
	} {
		w := gatewaytest.Start(t, nil)
		w.Topic("orders", 1)
		_, txn := open(t, w)
		w.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: err, Count: 2})
		errs := guarded(t, w.Client).CommitIn(soon(t), txn, NoMember, []Entry{{Partition: Partition{Topic: "orders", Plain: true}, Watermark: 1}})
		if errs == nil {
			errs = []error{nil}
		}
		if got := Classify(errs[0]); got != class || got != Done && !errors.Is(errs[0], err) {
			t.Errorf("%v: %v, class %d", err, errs[0], got)
		}
	}
}

// Whom nobody told of individual commits gets none, in a transaction either.
func TestNoAdditionsInATransactionPastTheGateway(t *testing.T) {
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 1)
	_, txn := open(t, w)
	errs := guarded(t, w.Direct).CommitIn(soon(t), txn, NoMember, []Entry{entry("orders", halves[0], 10)})
	if len(errs) != 1 || !errors.Is(errs[0], ErrUnsupported) {
		t.Errorf("%v", errs)
	}
}
