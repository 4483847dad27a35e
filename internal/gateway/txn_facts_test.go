package gateway

import (
	"errors"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a transaction has committed before counts in what it commits next: the source row that it leaves says all that it has done. What is said twice is in the log once.
func TestCommitsOfATransactionCountTogether(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, topic, group string, x *transaction) {
		x.ranges(group, topic, rangesOf(whole, 0, 4))
		x.ranges(group, topic, rangesOf(whole, 0, 4))
		x.ranges(group, topic, rangesOf(whole, 5, 9))
		x.end(true)
		w.wantStored(group, topic, 0, 10, "tandem:1:0:10")
		w.wantFacts(group, "[0-4]", "[5-9]")
		x.ranges(group, topic, rangesOf(whole, 20, 21))
		x.end(false)
		w.wantCommitted(group, topic, 10, "")
	})
}

// Facts whose source row Kafka refuses are taken back, so that they do not count although the client commits its transaction all the same; those that it had written before stay.
func TestRefusedFactsOfATransactionDoNotCount(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, topic, group string, x *transaction) {
		x.ranges(group, topic, rangesOf(whole, 2, 4))
		w.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.IllegalGeneration, Count: 1})
		if code := x.tryRanges(group, topic, rangesOf(whole, 2, 4, 6, 9)); code != kerr.IllegalGeneration.Code {
			t.Errorf("answered is %v", kerr.ErrorForCode(code))
		}
		w.wantFacts(group, "[2-4]", "[6-9]", "null [6-9]")
		x.end(true)
		w.wantCommitted(group, topic, 0, "[00000000-ffffffff] [2-4]")
	})
}

// The gateway ends after it has written facts, and before their source row: the client's transaction goes on through another one.
func TestATransactionOutlivesItsGateway(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, topic, group string, x *transaction) {
		x.add(group)
		w.fake.ControlKey(int16(kmsg.TxnOffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
			return nil, errors.New("gone"), true // with its connection to the cluster
		})
		r := w.dial(w.coordinator(group))
		r.send(x.request(group, topic, x.rangesRow(rangesOf(whole, 0, 4))))
		r.closed()
		w.wantFacts(group, "[0-4]")
		x.w = w.another()
		x.c = x.w.client()
		x.ranges(group, topic, rangesOf(whole, 0, 4, 7, 8))
		x.end(true)
		w.wantStored(group, topic, 0, 5, "tandem:1:0:5")
		w.wantCommitted(group, topic, 5, "[00000000-ffffffff] [7-8]")
		w.wantFacts(group, "[0-4]", "[7-8]")
	})
}

// With transactions v1 a producer's next transaction has the same epoch: what were written late, for a client that has given up, would be part of it.
func TestNothingIsWrittenForAClientThatHasLeft(t *testing.T) {
	t.Parallel()
	w := ranged(t, nil)
	topic, group := w.source(1)
	w.mustCommit(group, topic, rangesOf(whole, 0, 0))
	x := w.transactionOf(group, true)
	x.add(group)
	held, release := w.hold(kmsg.OffsetFetch, func(kmsg.Request) bool { return true })
	r := w.dial(w.coordinator(group))
	r.send(x.request(group, topic, x.rangesRow(rangesOf(whole, 5, 9))))
	<-held
	_ = r.conn.Close()
	x.end(false)
	x.ranges(group, topic, rangesOf(whole, 20, 21))
	close(release)
	w.until("the gateway is done with it", func() bool { return !w.serves(r) })
	x.end(true)
	w.wantCommitted(group, topic, 1, "[00000000-ffffffff] [20-21]")
}

// serves reports whether the gateway has not finished with a connection.
func (w *world) serves(r *raw) bool {
	w.gw.mu.Lock()
	defer w.gw.mu.Unlock()
	for c := range w.gw.conns {
		if c.client.RemoteAddr().String() == r.conn.LocalAddr().String() {
			return true
		}
	}
	return false
}

// Members whose transactions begin where the group was reset to open the same era, and do not wait for each other. Nothing of that era counts, or is in the log for good, until one of them is committed.
func TestTransactionsOpenAnEraTogether(t *testing.T) {
	t.Parallel()
	w := ranged(t, nil)
	topic, group := w.source(1)
	w.mustCommit(group, topic, rangesOf(whole, 2, 2))
	w.writeRow(group, topic, 0, 40, "")
	first, second := w.transaction(group+"-a"), w.transaction(group+"-b")
	first.ranges(group, topic, rangesOf(whole, 50, 54))
	second.ranges(group, topic, rangesOf(whole, 60, 64))
	w.wantFacts(group, "[2-2]", "[50-54]", "[60-64]")
	first.end(true)
	second.end(true)
	w.wantCommitted(group, topic, 40, "[00000000-ffffffff] [50-54 60-64]")
}

// Who requires stable offsets waits for what an open transaction can change: the key ranges that it has facts of, and all of them where it has a plain offset.
func TestStableOffsetsWaitForTransactions(t *testing.T) {
	t.Parallel()
	w := ranged(t, nil)
	topic, group := w.source(1)
	low, high := keyrange.Set{keyrange.OfSlice(0, 2)}, keyrange.Set{keyrange.OfSlice(1, 2)}
	want := func(when, topic string, keys keyrange.Set, want int16) {
		t.Helper()
		if _, of, code := w.fetchCommitted(group, topic, keys, true); code != want {
			t.Errorf("%s, of %v of %s: %q, %v, want %v", when, keys, topic, of, kerr.ErrorForCode(code), kerr.ErrorForCode(want))
		}
	}
	w.mustCommit(group, topic, rangesOf(whole, 0, 0))
	x := w.transaction(group)
	x.ranges(group, topic, rangesOf(low, 3, 4))
	want("open facts", topic, low, kerr.UnstableOffsetCommit.Code)
	want("open facts", topic, high, 0)
	view := w.view(topic, 2) // from here on kfake takes its rows for undecided, too
	want("open facts", view, low, kerr.UnstableOffsetCommit.Code)
	w.wantCommitted(group, topic, 1, "")
	x.end(true)
	want("decided facts", topic, low, 0)
	want("decided facts", view, low, 0)
	w.wantCommitted(group, topic, 1, "[00000000-7fffffff] [3-4]")
	x.commit(group, topic, 0, 20)
	want("an open offset", topic, low, kerr.UnstableOffsetCommit.Code)
	want("an open offset", topic, high, kerr.UnstableOffsetCommit.Code)
	x.end(false)
	want("an aborted offset", topic, high, 0)
	w.wantCommitted(group, topic, 1, "[00000000-7fffffff] [3-4]")
}

// Where a group begins, or goes on, is not known while a plain offset is not decided: ranges in another transaction are answered when it is.
func TestRangesWaitForAPlainOffsetThatIsNotDecided(t *testing.T) {
	t.Parallel()
	w := ranged(t, nil)
	topic, group := w.source(2)
	if code := w.commitRanges(group, topic, 1, rangesOf(whole, 0, 0)); code != 0 { // kfake tells of transactions only in groups that it knows
		t.Fatal(kerr.ErrorForCode(code))
	}
	plain, x := w.transaction(group+"-plain"), w.transaction(group)
	plain.commit(group, topic, 0, 100)
	asked := w.fake.Fault(observe(kmsg.OffsetFetch))
	answered := make(chan int16)
	go func() { answered <- x.tryRanges(group, topic, rangesOf(whole, 105, 105)) }()
	w.until("it has looked twice", func() bool { return asked.Hits() >= 4 })
	select {
	case code := <-answered:
		t.Errorf("answered before: %v", kerr.ErrorForCode(code))
	default:
	}
	plain.end(true)
	if code := <-answered; code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
	x.end(true)
	w.wantCommitted(group, topic, 100, "[00000000-ffffffff] [105-105]")
}

// Facts of an era that a reset has ended would be dead: a transaction that has some is to be aborted.
func TestATransactionDoesNotGoOnAcrossAReset(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, topic, group string, x *transaction) {
		w.mustCommit(group, topic, rangesOf(whole, 0, 0))
		x.ranges(group, topic, rangesOf(whole, 2, 2))
		w.writeRow(group, topic, 0, 5, "")
		if code := x.tryRanges(group, topic, rangesOf(whole, 7, 7)); code != kerr.TransactionAbortable.Code {
			t.Errorf("it goes on: %v", kerr.ErrorForCode(code))
		}
		x.end(false)
		x.ranges(group, topic, rangesOf(whole, 7, 7))
		x.end(true)
		w.wantCommitted(group, topic, 5, "[00000000-ffffffff] [7-7]")
	})
}

// A group is deleted while a transaction is open that has facts of it. They do not count when it is committed, in a group made anew, whoever has followed the log.
func TestOpenFactsOfAGroupThatIsDeleted(t *testing.T) {
	t.Parallel()
	w := ranged(t, nil)
	topic, group := w.source(1)
	w.mustCommit(group, topic, rangesOf(whole, 0, 0))
	x := w.transaction(group)
	x.ranges(group, topic, rangesOf(whole, 5, 9))
	if resp, err := kadm.NewClient(w.client()).DeleteGroup(t.Context(), group); err != nil || resp.Err != nil {
		t.Fatal(err, resp.Err)
	}
	x.end(true)
	fresh := w.another()
	for _, gw := range []*world{w, fresh} {
		gw.wantCommitted(group, topic, 1, "")
	}
}

// A renewal of source rows finds one that a plain consumer has written, while a member's transaction opens an era there: facts are in the log, and their source row is on its
// way. It leaves the row alone, and so the era.
func TestRenewalBesideATransactionThatOpensAnEra(t *testing.T) {
	t.Parallel()
	w := ranged(t, func(c *Config) { c.Limits.RenewRows = time.Millisecond })
	topic, group, view := w.sourceAndView(2, 100, 4)
	w.mustCommit("another group", topic, rangesOf(whole, 0, 0)) // the log is there
	w.writeRow(group, topic, 0, 40, "")
	id, generation, _ := w.member(group, topic)
	viewCommit := func(at int64) int16 { return w.commitRows(group, view, id, generation, row(1, at))[0] }
	if code := viewCommit(5); code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
	x := w.transaction(group)
	x.member, x.generation = id, generation
	primary, arrive := w.hold(kmsg.TxnOffsetCommit, func(kmsg.Request) bool { return true })
	renewal, write := w.hold(kmsg.OffsetCommit, func(req kmsg.Request) bool {
		for _, t := range req.(*kmsg.OffsetCommitRequest).Topics {
			for _, p := range t.Partitions {
				if t.Topic == topic && p.Partition == 0 {
					return true
				}
			}
		}
		return false
	})
	committed, renewed := make(chan int16, 1), make(chan int16, 1)
	go func() { committed <- x.tryRanges(group, topic, rangesOf(whole, 50, 54)) }()
	<-primary
	go func() { renewed <- viewCommit(6) }()
	select {
	case code := <-renewed:
		renewed <- code
	case <-renewal:
	}
	close(arrive)
	if code := <-committed; code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
	x.end(true)
	close(write)
	if code := <-renewed; code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
	w.wantCommitted(group, topic, 40, "[00000000-ffffffff] [50-54]")
}
