package client

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/internal/gateway"
)

// way is how a transactional client reaches the cluster.
type way struct {
	name string
	opts func(w *world) []Option
}

// ways are all of them.
var ways = []way{
	{"gateway", func(*world) []Option { return []Option{ShareByKey()} }},
	{"in process", func(w *world) []Option {
		return []Option{Bootstrap(w.Fake.ListenAddrs()...), InProcess(), ShareByKey()}
	}},
	{"whole partitions, no gateway", func(w *world) []Option { return []Option{Bootstrap(w.Fake.ListenAddrs()...)} }},
}

// Indices of ways.
const (
	byGateway = iota
	inOneself
	direct
)

func eachWay(t *testing.T, run func(t *testing.T, opts func(w *world) []Option)) {
	t.Helper()
	these(t, run, byGateway, inOneself, direct)
}

func these(t *testing.T, run func(t *testing.T, opts func(w *world) []Option), list ...int) {
	t.Helper()
	if testing.Short() {
		list = list[:1] // the others take long under the race detector
	}
	for _, i := range list {
		t.Run(ways[i].name, func(t *testing.T) {
			t.Parallel() // most of the time something waits
			run(t, ways[i].opts)
		})
	}
}

// written are the values of each key in topic out, of committed transactions, in order. It waits until there are n and nothing is undecided.
func (w *world) written(n int) map[string][]string {
	w.t.Helper()
	c := w.Direct(kgo.ConsumeTopics("out"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	admin := kadm.NewClient(c)
	out, got := map[string][]string{}, 0
	w.until(fmt.Sprintf("%d records are written", n), func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		c.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			out[string(r.Key)] = append(out[string(r.Key)], string(r.Value))
			got++
		})
		if got < n {
			return false
		}
		stable, err := admin.ListCommittedOffsets(context.Background(), "out")
		end, err2 := admin.ListEndOffsets(context.Background(), "out")
		decided := err == nil && err2 == nil
		end.Each(func(o kadm.ListedOffset) {
			s, ok := stable.Lookup(o.Topic, o.Partition)
			decided = decided && ok && s.Offset == o.Offset
		})
		return decided
	})
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	c.PollFetches(ctx).EachRecord(func(r *kgo.Record) { out[string(r.Key)] = append(out[string(r.Key)], string(r.Value)) })
	return out
}

// wantWritten fails the test unless the values 0, 1, 2, ... of each key were written once and in order.
func (w *world) wantWritten(n, keys int) {
	w.t.Helper()
	for key, values := range w.written(n) {
		want := make([]string, n/keys)
		for i := range want {
			want[i] = fmt.Sprint(i)
		}
		if !slices.Equal(values, want) {
			w.t.Errorf("of key %s is written %v", key, values)
		}
	}
}

// copyOf is what the handlers of these tests write.
func copyOf(r *Record) *kgo.Record { return &kgo.Record{Topic: "out", Key: r.Key, Value: r.Value} }

func copies(_ context.Context, r *Record) error { return r.Produce(copyOf(r)) }

// newPipeline is a world with topics t and out, and n records of a number of keys in t.
func newPipeline(t *testing.T, n, keys int) *world {
	w := newWorld(t, nil)
	w.Topic("t", 2)
	w.Topic("out", 3)
	w.produce("t", n, keys)
	return w
}

// Whatever goes wrong in a transaction, each record is handled once, and what the handler wrote is there once and in order.
func TestTransactionsAreDoneAgain(t *testing.T) {
	t.Parallel()
	const n, keys = 300, 10
	refused := func(key kmsg.Key, err *kerr.Error, count int) func(w *world) {
		return func(w *world) { w.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: err, Count: count}) }
	}
	for name, disturb := range map[string]func(w *world){
		"undisturbed":             func(*world) {},
		"offsets are refused":     refused(kmsg.TxnOffsetCommit, kerr.TransactionAbortable, 3),
		"the coordinator is busy": refused(kmsg.TxnOffsetCommit, kerr.CoordinatorLoadInProgress, 3),
		"the one before goes on":  refused(kmsg.TxnOffsetCommit, kerr.ConcurrentTransactions, 3),
		"another generation":      refused(kmsg.TxnOffsetCommit, kerr.IllegalGeneration, 3),
		"the end is refused":      refused(kmsg.EndTxn, kerr.TransactionAbortable, 2),
		"the end may be or not":   refused(kmsg.EndTxn, kerr.UnknownServerError, 2),
		"the producer is unknown": refused(kmsg.EndTxn, kerr.InvalidProducerIDMapping, 1),
		"writing is not possible": refused(kmsg.Produce, kerr.InvalidTxnState, 2),
		"no producer id at first": refused(kmsg.InitProducerID, kerr.CoordinatorNotAvailable, 5),
		"before transactions v2":  func(w *world) { w.setTransactionVersion(0) },
		"refused before v2": func(w *world) {
			w.setTransactionVersion(0)
			refused(kmsg.TxnOffsetCommit, kerr.IllegalGeneration, 3)(w)
		},
		"the end is lost, then v0": func(w *world) { w.setTransactionVersion(0); refused(kmsg.EndTxn, kerr.UnknownServerError, 2)(w) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWay(t, func(t *testing.T, opts func(w *world) []Option) {
				w := newPipeline(t, n, keys)
				disturb(w)
				c := w.run(w.judge("only", copies), append(opts(w), Transactional("me"))...)
				w.wantWritten(n, keys)
				c.close()
				w.wantOnce("t", n, keys)
				if at := w.committedOffsets(); at != n {
					t.Errorf("%d offsets are committed", at)
				}
			})
		})
	}
}

// committedOffsets is the sum of what the group has committed of topic t.
func (w *world) committedOffsets() (sum int64) {
	w.t.Helper()
	offsets, err := kadm.NewClient(w.Direct()).FetchOffsets(context.Background(), "g")
	if err != nil {
		w.t.Fatal(err)
	}
	offsets.Each(func(o kadm.OffsetResponse) { sum += o.At })
	return sum
}

// setTransactionVersion sets the level of the cluster's transactions.
func (w *world) setTransactionVersion(level int16) {
	w.t.Helper()
	req := kmsg.NewPtrUpdateFeaturesRequest()
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType, u.AllowDowngrade = "transaction.version", level, 2, true
	req.FeatureUpdates = append(req.FeatureUpdates, u)
	resp, err := req.RequestWith(context.Background(), w.Direct())
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// cutter are connections that break around a request of a kind: before it arrives, or when it is answered.
type cutter struct {
	key    kmsg.Key
	before bool
	left   atomic.Int32
}

func (c *cutter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &cutConn{Conn: conn, c: c}, err
}

type cutConn struct {
	net.Conn
	c   *cutter
	mu  sync.Mutex
	cut bool
}

func (c *cutConn) Write(p []byte) (int, error) {
	if len(p) > 6 && binary.BigEndian.Uint16(p[4:]) == uint16(c.c.key) && c.c.left.Add(-1) >= 0 {
		if c.c.before {
			return 0, io.ErrClosedPipe
		}
		c.mu.Lock()
		c.cut = true
		c.mu.Unlock()
	}
	return c.Conn.Write(p)
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return 0, io.EOF
	}
	return n, err
}

// When the answer to the end of a transaction is lost, the committed offsets tell whether it counts.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	const n, keys = 300, 10
	for _, key := range []kmsg.Key{kmsg.EndTxn, kmsg.TxnOffsetCommit, kmsg.Produce, kmsg.InitProducerID} {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, before %v", key.Name(), before), func(t *testing.T) {
				t.Parallel()
				these(t, func(t *testing.T, opts func(w *world) []Option) {
					w := newPipeline(t, n, keys)
					cut := &cutter{key: key, before: before}
					cut.left.Store(6)
					c := w.run(w.judge("only", copies), append(opts(w), Transactional("me"), KgoOpts(kgo.Dialer(cut.dial), kgo.RequestRetries(1)))...)
					w.wantWritten(n, keys)
					c.close()
					w.wantOnce("t", n, keys)
					if cut.left.Load() == 6 {
						t.Error("no connection was cut")
					}
				}, byGateway, direct) // in process the connections are the gateway's
			})
		}
	}
}

// A broker that does not take records for longer than the transaction timeout: the transaction is aborted meanwhile, and done again.
func TestTransactionsTimeOut(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, opts func(w *world) []Option) {
		const n, keys = 100, 10
		w := newPipeline(t, n, keys)
		held := make(chan struct{})
		var first atomic.Bool
		w.Fake.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
			if !first.Swap(true) {
				w.Fake.SleepControl(func() { <-held })
			}
			return nil, nil, false
		})
		c := w.run(w.judge("only", copies), append(opts(w), Transactional("me"), KgoOpts(kgo.TransactionTimeout(time.Second)))...)
		w.until("a transaction is stuck", first.Load)
		time.AfterFunc(3*time.Second, func() { close(held) })
		w.wantWritten(n, keys)
		c.close()
		w.wantOnce("t", n, keys)
	})
}

// A gateway that has individual commits off: partitions are whole, their offsets ordinary, and each record's output is written once.
func TestTransactionsWithoutIndividualCommits(t *testing.T) {
	t.Parallel()
	const n, keys = 300, 10
	w := newWorld(t, func(c *gateway.Config) { c.IndividualCommits, c.CooperativeFetch = false, false })
	w.Topic("t", 2)
	w.Topic("out", 3)
	w.produce("t", n, keys)
	w.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.UnknownServerError, Count: 2})
	slow := func(_ context.Context, r *Record) error { // what is done above it is not written before it
		if string(r.Key) == "k3" && string(r.Value) == "9" && r.Attempt < 3 {
			return errors.New("not yet")
		}
		return r.Produce(copyOf(r))
	}
	c := w.run(slow, ShareByKey(), Transactional("me"), Retry(Backoff{First: 50 * time.Millisecond}, 0))
	w.until("some are written", func() bool {
		offsets, err := kadm.NewClient(w.Direct()).FetchOffsets(t.Context(), "g")
		return err == nil && len(offsets["t"]) > 0
	})
	c.close()
	d := w.run(slow, ShareByKey(), Transactional("me"), Retry(Backoff{First: 50 * time.Millisecond}, 0))
	w.wantWritten(n, keys)
	d.close()
	offsets, err := kadm.NewClient(w.Direct()).FetchOffsets(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	offsets.Each(func(o kadm.OffsetResponse) { sum += o.At })
	if sum != n {
		t.Errorf("the ordinary offsets are %v", offsets)
	}
}

// Who begins with a transactional id ends the one who has it, with an error that says so, and one line in the log.
func TestFencedByAnotherProcess(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, opts func(w *world) []Option) {
		w := newPipeline(t, 100, 10)
		log := &logs{}
		c := w.run(w.judge("first", copies), append(opts(w), Transactional("me"), log.option())...)
		w.wantWritten(100, 10)
		var handled atomic.Int64
		d := w.run(func(ctx context.Context, r *Record) error { // of another group, so that both may handle a record at once
			handled.Add(1)
			return copies(ctx, r)
		}, append(opts(w), Transactional("me"), Group("another"))...)
		w.until("the other one works", func() bool { return handled.Load() >= 100 })
		w.produce("t", 10, 10)
		if err := c.result(); !errors.Is(err, ErrFenced) {
			t.Errorf("Run returned %v", err)
		}
		if said := log.text(); strings.Count(said, "no further transaction") != 1 || strings.Contains(said, "tried again") {
			t.Errorf("the log of who was fenced says %s", said)
		}
		w.until("the other one works on", func() bool { return handled.Load() >= 110 })
		d.close()
		select {
		case err := <-d.end:
			if err != nil {
				t.Errorf("the second one: %v", err)
			}
		default:
			t.Error("the second one has not ended")
		}
	})
}

// What a failed attempt wrote is forgotten, and a dead letter is in the transaction.
func TestFailedAttemptsWriteNothing(t *testing.T) {
	eachWay(t, func(t *testing.T, opts func(w *world) []Option) {
		w := newPipeline(t, 20, 10)
		var late *Record
		c := w.run(func(_ context.Context, r *Record) error {
			if err := r.Produce(copyOf(r)); err != nil {
				return err
			}
			if r.Attempt < 2 || string(r.Key) == "k3" {
				return errors.New("not yet")
			}
			if string(r.Key) == "k4" {
				late = r
			}
			return nil
		}, append(opts(w), Transactional("me"), Retry(Backoff{First: time.Millisecond}, 3), DeadLetter("out"))...)
		for key, values := range w.written(20) {
			if !slices.Equal(values, []string{"0", "1"}) {
				t.Errorf("of key %s is written %v", key, values)
			}
		}
		c.close()
		if err := late.Produce(copyOf(late)); !errors.Is(err, ErrNotTransactional) {
			t.Errorf("Produce after the handler: %v", err)
		}
	})
}

func TestProduceRefuses(t *testing.T) {
	w := newPipeline(t, 1, 1)
	errs := make(chan error, 3)
	c := w.run(func(_ context.Context, r *Record) error {
		errs <- r.Produce(&kgo.Record{Topic: "out", Value: make([]byte, 2_000_000)})
		errs <- r.Produce(&kgo.Record{Value: []byte("nowhere")})
		return nil
	}, Transactional("me"))
	if err := <-errs; !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("a large record: %v", err)
	}
	if err := <-errs; !errors.Is(err, kerr.InvalidTopicException) {
		t.Errorf("a record without a topic: %v", err)
	}
	c.close()
	w.produce("t", 1, 1)
	d := w.run(func(_ context.Context, r *Record) error {
		errs <- copies(context.Background(), r)
		return nil
	})
	if err := <-errs; !errors.Is(err, ErrNotTransactional) {
		t.Errorf("Produce without Transactional: %v", err)
	}
	d.close()
	for name, opts := range map[string][]Option{
		"no id":    {Bootstrap("h:1"), Group("g"), Topics("t"), Transactional("")},
		"no group": {Bootstrap("h:1"), Assign(Ranges{"t": {0: nil}}), Transactional("me")},
	} {
		if _, err := New(opts...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Members that share by record write what they have made of each record once, too; there is no order.
func TestTransactionsByRecord(t *testing.T) {
	t.Parallel()
	const n, keys = 300, 10
	for name, fault := range map[string]*kfake.Fault{
		"undisturbed":         nil,
		"offsets are refused": {Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.TransactionAbortable, Count: 3},
		"the end is unknown":  {Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.UnknownServerError, Count: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			these(t, func(t *testing.T, opts func(w *world) []Option) {
				w := newPipeline(t, n, keys)
				if fault != nil {
					w.Fake.Fault(*fault)
				}
				way := opts(w)
				way = append(way[:len(way)-1], ShareByRecord()) // in place of ShareByKey
				c := w.run(copies, append(way, Transactional("first"))...)
				d := w.run(copies, append(way, Transactional("second"))...)
				for key, values := range w.written(n) {
					slices.SortFunc(values, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
					for i, v := range values {
						if v != fmt.Sprint(i) || len(values) != n/keys {
							t.Fatalf("of key %s is written %v", key, values)
						}
					}
				}
				c.close()
				d.close()
			}, byGateway, inOneself)
		})
	}
}
