package cases

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	lower = keyrange.Set{{First: 0, Last: 1<<31 - 1}}
	upper = keyrange.Set{{First: 1 << 31, Last: 1<<32 - 1}}
)

// transacted runs a test of ranges in transactions on the embedded engine, and on Kafka with transactions of both kinds.
func transacted(t *testing.T, run func(t *testing.T, e engine, old bool)) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		for _, old := range []bool{false, true} {
			t.Run(map[bool]string{false: "v2", true: "v1"}[old], func(t *testing.T) { run(t, e, old) })
		}
	})
}

// wires are members of a group.
func (e engine) wires(t testing.TB, group string, old bool, n int) []*wire {
	t.Helper()
	var opts []kgo.Opt
	if old {
		opts = append(opts, oldTransactions())
	}
	all := make([]*wire, n)
	for i := range all {
		all[i] = e.wire(t, group, opts...)
	}
	return all
}

// wantStable checks what a new owner of key ranges is told.
func (w *wire) wantStable(topic string, keys keyrange.Set, want string) {
	w.t.Helper()
	p, err := w.tryCommitted(topic, 0, keys, true)
	got := p.String()
	if ke := (*kerr.Error)(nil); errors.As(err, &ke) {
		got = ke.Message
	}
	if got != want {
		w.t.Errorf("of %v a new owner is told %q, want %q", keys, got, want)
	}
}

// awaitStable is wantStable once the markers of a transaction have come everywhere.
func (w *wire) awaitStable(topic string, want string) {
	w.t.Helper()
	harness.Eventually(w.t, 20*time.Second, func() error {
		p, err := w.tryCommitted(topic, 0, whole, true)
		if err == nil && p.String() != want {
			err = fmt.Errorf("committed are %q, want %q", p, want)
		}
		return err
	})
}

const unstable = "UNSTABLE_OFFSET_COMMIT"

// What is done inside a transaction counts when that is committed, and not when it is aborted. Until then new owners of these key ranges wait; those
// of others do not, nor do other groups whose facts are in the same partition of the log.
func TestRangesInTransactions(t *testing.T) {
	transacted(t, func(t *testing.T, e engine, old bool) {
		topic, view := e.source(t, 1, 2)
		group := harness.Name(t, "group")
		m := e.wires(t, group, old, 2)
		joinAll(topic, m...)
		slices := []error{kerr.UnstableOffsetCommit, nil} // each is half of the keys
		if e.cluster != nil {
			m[1].leader(view, 0)
		} else {
			slices = nil // the embedded engine takes all rows of a group for undecided: those of views, too
		}
		m[1].mustCommit(topic, 0, rangesOf(upper, span(0, 1)))
		p := initProducer(m[0], group, old, time.Minute)

		p.commit(m[0], topic, 0, rangesOf(lower, span(0, 4), span(6, 7)))
		m[1].wantProgress(topic, "0 [80000000-ffffffff] [0-1]")
		m[1].wantStable(topic, lower, unstable)
		m[1].wantStable(topic, upper, "0 [80000000-ffffffff] [0-1]")
		for partition, want := range slices {
			if _, err := m[1].tryCommitted(view, int32(partition), whole, true); !errors.Is(err, want) {
				t.Errorf("partition %d of the view: %v, want %v", partition, err, want)
			}
		}
		other := e.wires(t, sameHome(group, 4), old, 1)[0]
		other.mustCommit(topic, 0, rangesOf(whole, span(3, 4)))
		other.wantStable(topic, whole, "0 [00000000-ffffffff] [3-4]")
		p.commit(m[0], topic, 0, rangesOf(lower, span(10, 11)))
		m[1].wantStable(topic, lower, unstable)
		p.end(m[0], true)
		m[1].awaitStable(topic, "2 [00000000-7fffffff] [2-4 6-7 10-11]")

		p.commit(m[0], topic, 0, rangesOf(lower, span(5, 5), span(12, 12)))
		p.end(m[0], false)
		m[1].awaitStable(topic, "2 [00000000-7fffffff] [2-4 6-7 10-11]")

		p.commit(m[0], topic, 0, rangesOf(lower, span(5, 5)))
		p.end(m[0], true)
		m[1].awaitStable(topic, "2 [00000000-7fffffff] [2-7 10-11]")
		m[1].mustCommit(topic, 0, rangesOf(upper, span(2, 20)))
		m[1].awaitStable(topic, "8 [00000000-7fffffff] [10-11] [80000000-ffffffff] [8-20]")
	})
}

// sameHome is the name of a group whose facts are in the same partition of the log as those of another.
func sameHome(group string, partitions int32) string {
	for i := 0; ; i++ {
		if other := fmt.Sprintf("%s-%d", group, i); record.PartitionOf(other, partitions) == record.PartitionOf(group, partitions) {
			return other
		}
	}
}

// Who may not commit leaves nothing behind: a producer that was fenced, one whose transaction has timed out, a member of an old generation, even if it commits its
// transaction all the same.
func TestRangesOfThoseWhoMayNotCommit(t *testing.T) {
	transacted(t, func(t *testing.T, e engine, old bool) {
		topic, _ := e.source(t, 1, 2)
		group := harness.Name(t, "group")
		m := e.wires(t, group, old, 2)
		joinAll(topic, m...)
		m[1].mustCommit(topic, 0, rangesOf(whole, span(0, 0)))

		fenced := initProducer(m[0], group, old, time.Minute)
		fenced.commit(m[0], topic, 0, rangesOf(whole, span(2, 2)))
		p := initProducer(m[0], group, old, time.Minute)
		if err := fenced.tryCommit(m[0], topic, 0, rangesOf(whole, span(3, 3))); !errors.Is(err, kerr.InvalidProducerEpoch) && !errors.Is(err, kerr.ProducerFenced) {
			t.Errorf("a fenced producer: %v", err)
		}
		m[1].awaitStable(topic, "1")

		slow := initProducer(m[0], group+"-slow", old, time.Second)
		slow.commit(m[0], topic, 0, rangesOf(whole, span(4, 4)))
		m[1].awaitStable(topic, "1") // once it has timed out
		if err := slow.tryCommit(m[0], topic, 0, rangesOf(whole, span(5, 5))); err == nil {
			t.Error("a transaction goes on that has timed out")
		}

		p.commit(m[0], topic, 0, rangesOf(whole, span(6, 6)))
		before := *m[0]
		joinAll(topic, append(e.wires(t, group, old, 1), m...)...)
		if err := p.tryCommit(&before, topic, 0, rangesOf(whole, span(8, 9))); !errors.Is(err, kerr.IllegalGeneration) {
			t.Errorf("a member of an old generation: %v", err)
		}
		p.end(m[0], true)
		m[1].awaitStable(topic, "1 [00000000-ffffffff] [6-6]")
	})
}

// One transaction may go through several gateways, and outlive them; and it may hold what several groups have done.
func TestRangesOfATransactionThroughSeveralGateways(t *testing.T) {
	t.Parallel()
	harness.Need(t)
	first := onKafka(t, harness.GatewayConfig{})
	second := onKafka(t, harness.GatewayConfig{})
	for _, old := range []bool{false, true} {
		topic, _ := first.source(t, 1, 2)
		group := harness.Name(t, "group")
		other := sameHome(group, 4)
		a, b := first.wires(t, group, old, 1)[0], second.wires(t, group, old, 1)[0]
		c := second.wires(t, other, old, 1)[0]
		p := initProducer(a, group, old, time.Minute)
		for round, commit := range []bool{true, false, true} {
			at := int64(100 * round)
			p.commit(a, topic, 0, rangesOf(whole, span(at+2, at+2)))
			p.commit(b, topic, 0, rangesOf(whole, span(at+4, at+4)))
			p.commit(c, topic, 0, rangesOf(whole, span(at+5, at+5)))
			p.commit(a, topic, 0, rangesOf(whole, span(at+6, at+6)))
			first.gateway.Kill()
			first.gateway.Start(t)
			p.commit(a, topic, 0, rangesOf(whole, span(at+8, at+8)))
			p.commit(b, topic, 0, rangesOf(whole, span(at+10, at+10)))
			p.end(b, commit)
		}
		want := "0 [00000000-ffffffff] [2-2 4-4 6-6 8-8 10-10 202-202 204-204 206-206 208-208 210-210]"
		a.awaitStable(topic, want)
		b.awaitStable(topic, want)
		c.awaitStable(topic, "0 [00000000-ffffffff] [5-5 205-205]")
	}
}

// A producer's transactions follow each other at once, before the markers of the one before have come everywhere. What is aborted is never taken for done, and
// what is committed is done.
func TestRangesOfOneTransactionAfterTheOther(t *testing.T) {
	transacted(t, func(t *testing.T, e engine, old bool) {
		topic, _ := e.source(t, 1, 2)
		group := harness.Name(t, "group")
		w := e.wires(t, group, old, 1)[0]
		p := initProducer(w, group, old, time.Minute)
		const rounds, size = 40, 10
		open := []int64{} // rounds that were aborted
		for round := range int64(rounds) {
			open = append(open, round)
			for _, r := range open {
				p.commit(w, topic, 0, rangesOf(whole, span(r*size, r*size+4), span(r*size+5, r*size+size-1)))
			}
			commit := round%3 != 1 && round%5 != 2 || round == rounds-1
			p.end(w, commit)
			first := (round + 1) * size // that may not be done
			if commit {
				open = open[:0]
			} else {
				first = open[0] * size
			}
			if of := w.committed(topic, 0, whole); of.stable > first || of.done(0, first) {
				t.Fatalf("%v is done although %d was aborted", of, first)
			}
		}
		w.awaitStable(topic, fmt.Sprint(rounds*size))
	})
}

// A group that is reset begins anew: what a transaction has said is done before is not what it says afterwards, so it is to be aborted.
func TestRangesOfATransactionAcrossAReset(t *testing.T) {
	transacted(t, func(t *testing.T, e engine, old bool) {
		topic, _ := e.source(t, 1, 2)
		group := harness.Name(t, "group")
		w := e.wires(t, group, old, 1)[0]
		w.mustCommit(topic, 0, rangesOf(whole, span(0, 0)))
		p := initProducer(w, group, old, time.Minute)
		p.commit(w, topic, 0, rangesOf(whole, span(2, 2)))
		reset := kadm.Offsets{}
		reset.AddOffset(topic, 0, 5, -1)
		if _, err := harness.AdminClient(t, e.gateway.Bootstrap).CommitOffsets(harness.Context(t, 20*time.Second), group, reset); err != nil {
			t.Fatal(err)
		}
		if err := p.tryCommit(w, topic, 0, rangesOf(whole, span(7, 7))); !errors.Is(err, kerr.TransactionAbortable) {
			t.Errorf("a transaction goes on across a reset: %v", err)
		}
		p.end(w, false)
		w.awaitStable(topic, "5")
		p.commit(w, topic, 0, rangesOf(whole, span(7, 7)))
		p.end(w, true)
		w.awaitStable(topic, "5 [00000000-ffffffff] [7-7]")
	})
}

// Where a group has committed nothing but a plain offset in a transaction that is open, nobody knows where its progress begins: ranges in another transaction wait for that.
func TestRangesWaitForAPlainOffsetInATransaction(t *testing.T) {
	transacted(t, func(t *testing.T, e engine, old bool) {
		topic, _ := e.source(t, 2, 4)
		group := harness.Name(t, "group")
		w := e.wires(t, group, old, 2)
		w[0].mustCommit(topic, 1, rangesOf(whole, span(0, 0))) // the embedded engine tells of transactions only in groups that it knows
		plain, p := initProducer(w[0], group+"-plain", old, time.Minute), initProducer(w[1], group, old, time.Minute)
		if old {
			if err := plain.addGroup(w[0]); err != nil {
				t.Fatal(err)
			}
		}
		req := plain.commitRequest(w[0], topic, 0, rangesOf(whole, span(0, 0)))
		row := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		row.Offset = 100
		req.Topics[0].Partitions[0] = row
		harness.Eventually(t, 20*time.Second, func() error {
			resp, err := req.RequestWith(harness.Context(t, 20*time.Second), w[0].c)
			if err == nil {
				err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
			}
			return err
		})
		if err := p.tryCommit(w[1], topic, 0, rangesOf(whole, span(105, 105))); !errors.Is(err, kerr.CoordinatorLoadInProgress) {
			t.Errorf("while the plain offset is not decided ranges are answered %v", err)
		}
		plain.end(w[0], true)
		p.commit(w[1], topic, 0, rangesOf(whole, span(105, 105)))
		p.end(w[1], true)
		w[1].awaitStable(topic, "100 [00000000-ffffffff] [105-105]")
	})
}

// What a member of a cooperative fetch has done in a transaction is given to nobody until that is decided: then it is done, or goes to others before anything new.
func TestAcquiredRangesInTransactions(t *testing.T) {
	transacted(t, func(t *testing.T, e engine, old bool) {
		topic, _ := e.source(t, 1, 2)
		harness.Produce(t, e.kafka, harness.NewLedger(), harness.Production{Topic: topic, Records: 60, Keys: 10, Bytes: 50})
		group := harness.Name(t, "group")
		m := e.cooperate(e.wires(t, group, old, 2), topic, 30_000)
		p := initProducer(m[0].wire, group, old, time.Minute)
		give := func(to *coopMember, records int32, want string) {
			t.Helper()
			if g := to.mustAsk(records); shown(g.ranges) != want {
				t.Errorf("given %s, want %s", shown(g.ranges), want)
			}
		}
		give(m[0], 10, "0-9#1 ")
		p.commit(m[0].wire, topic, 0, rangesOf(nil, span(0, 3), span(6, 9)))
		if _, err := m[0].askWith(tandemmsg.Cooperative{Group: group, Generation: m[0].generation, Member: m[0].member}, 0); err != nil { // it gives back what it has
			t.Fatal(err)
		}
		m[0].hand = nil
		give(m[1], 10, "4-5#2 10-17#1 ")
		p.end(m[0].wire, false)
		m[0].awaitStable(topic, "0")
		give(m[1], 10, "0-3#2 6-9#2 18-19#1 ")
		p.commit(m[1].wire, topic, 0, rangesOf(nil, span(0, 19)))
		m[1].hand = nil
		give(m[1], 10, "20-29#1 ")
		p.end(m[1].wire, true)
		m[0].awaitStable(topic, "20")
		give(m[0], 10, "30-39#1 ")
	})
}

// The gateway's own user writes in the transaction, and so needs the right to.
func TestRightsToWriteInTransactions(t *testing.T) {
	t.Parallel()
	k := securedKafka(t)
	topic := harness.Name(t, "orders")
	harness.CreateTopic(t, k.Bootstrap, topic, 1)
	gatewayRights(t, k, topic)
	individualRights(t, k)
	allow(t, k, "tandem", "group:tandem", kadm.OpDescribe)
	allow(t, k, "alice", topic, kadm.OpRead)
	e := engine{kafka: k.Bootstrap, gateway: harness.StartGateway(t, harness.GatewayConfig{Kafka: k.SASL, YAML: `
kafka:
  sasl: {mechanism: PLAIN, username: tandem, password: tandem-secret}
`})}
	for _, old := range []bool{false, true} {
		group := fmt.Sprint(topic, "-", old)
		allow(t, k, "alice", "group:"+group, kadm.OpRead)
		allow(t, k, "alice", "txn:"+group, kadm.OpWrite)
		opts := []kgo.Opt{as("alice")}
		if old {
			opts = append(opts, oldTransactions())
		}
		w := e.wire(t, group, opts...)
		p := initProducer(w, group, old, time.Minute)
		p.refused(w, topic, 0, rangesOf(whole, span(3, 4)), kerr.TransactionalIDAuthorizationFailed) // the gateway's user may not write in it
		allow(t, k, "tandem", "txn:"+group, kadm.OpWrite)
		p.commit(w, topic, 0, rangesOf(whole, span(3, 4)))
		p.end(w, true)
		w.awaitStable(topic, "0 [00000000-ffffffff] [3-4]")
	}
	harness.Eventually(t, 10*time.Second, func() error {
		if log := e.gateway.Log(); !strings.Contains(log, "may not write in it") || !strings.Contains(log, "WRITE on the transactional id") {
			return errors.New("the log does not say which right is missing")
		}
		return nil
	})
}
