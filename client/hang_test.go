package client

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// hangLimit is how long a client with a drain timeout of hangDrain may take to end when nobody answers: endMargin, and what is cut off then.
const (
	hangDrain = 500 * time.Millisecond
	hangLimit = hangDrain + endMargin + 5*time.Second
)

// freezer are connections whose requests come to nobody from some time on. They do not break, and new ones can be made.
type freezer struct{ frozen atomic.Bool }

func (f *freezer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &frozenConn{conn, f}, err
}

type frozenConn struct {
	net.Conn
	f *freezer
}

func (c *frozenConn) Write(p []byte) (int, error) {
	if c.f.frozen.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// hang has all brokers answer nothing, from the next request on, of a kind if one is named, until the test ends. They do when what it returns is true.
func (w *world) hang(of ...kmsg.Key) *atomic.Bool {
	var hangs atomic.Bool
	over := make(chan struct{})
	w.t.Cleanup(func() { close(over) })
	block := func(kmsg.Request) (kmsg.Response, error, bool) {
		hangs.Store(true)
		<-over
		return nil, nil, false
	}
	for _, key := range of {
		w.Fake.ControlKey(int16(key), block)
	}
	if len(of) == 0 {
		w.Fake.Control(block)
	}
	return &hangs
}

// work has something of everything when the servers hang: records in the middle, done and not committed, failed, and given up.
type work struct {
	hangs   chan struct{} // closed when they do
	waiting atomic.Int32
	failed  atomic.Int32
}

func (w *work) handle(_ context.Context, r *Record) error {
	n, _ := strconv.Atoi(string(r.Key[1:]))
	switch n % 10 {
	case 1:
		w.failed.Add(1)
		return errors.New("not now")
	case 2:
		w.waiting.Add(1)
		<-w.hangs
		return cmp.Or(r.output(), Permanent(errors.New("never"))) // there is a dead letter to be written
	case 3:
		w.waiting.Add(1)
		<-w.hangs
	}
	return r.output()
}

// output writes a record where there are transactions.
func (r *Record) output() error {
	if err := r.Produce(copyOf(r)); err != nil && !errors.Is(err, ErrNotTransactional) {
		return err
	}
	return nil
}

// A client ends in time also when the servers that it has to tell of its work do not answer any more.
func TestClientEndsThoughNobodyAnswers(t *testing.T) {
	t.Parallel()
	never := Backoff{First: time.Hour, Max: time.Hour}
	direct := func(w *world) Option { return Bootstrap(w.Fake.ListenAddrs()...) }
	modes := map[string]func(w *world) []Option{
		"key ranges":           func(*world) []Option { return []Option{ShareByKey()} },
		"cooperative":          func(*world) []Option { return []Option{ShareByKey(), Cooperative()} },
		"by record":            func(*world) []Option { return []Option{ShareByRecord()} },
		"transactional":        func(*world) []Option { return []Option{ShareByKey(), Transactional("me")} },
		"whole partitions":     func(w *world) []Option { return []Option{direct(w), Transactional("me")} },
		"assigned":             func(*world) []Option { return []Option{Topics(), Assign(Ranges{"t": {0: nil, 1: nil}})} },
		"in process":           func(w *world) []Option { return []Option{direct(w), InProcess(), ShareByKey()} },
		"in process by record": func(w *world) []Option { return []Option{direct(w), InProcess(), ShareByRecord()} },
		"in process, transactional": func(w *world) []Option {
			return []Option{direct(w), InProcess(), ShareByKey(), Transactional("me")}
		},
	}
	for name, opts := range modes {
		for _, who := range []string{"cluster", "gateway"} {
			if who == "gateway" && (name == "whole partitions" || name[:2] == "in") {
				continue // there is none beside this process
			}
			t.Run(name+", "+who, func(t *testing.T) {
				t.Parallel() // most of the time something waits
				w := newPipeline(t, 400, 400)
				w.Topic("t.dlq", 1)
				f := &freezer{}
				job := &work{hangs: make(chan struct{})}
				ctx, cancel := context.WithCancel(t.Context())
				w.ctx = ctx
				c := w.run(job.handle, append([]Option{Concurrency(400), Retry(never, 5), DeadLetter("t.dlq"), DrainTimeout(hangDrain), KgoOpts(kgo.Dialer(f.dial))}, opts(w)...)...)
				w.until("work", func() bool { return job.waiting.Load() == 80 && job.failed.Load() == 40 })
				if who == "cluster" {
					w.hang()
				} else {
					f.frozen.Store(true)
				}
				close(job.hangs)
				began := time.Now()
				cancel()
				c.endsIn(began, hangLimit)
			})
		}
	}
}

// Nor does it wait for a group that it was about to join.
func TestClientEndsWhileItJoins(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]Option{"key ranges": {ShareByKey()}, "by record": {ShareByRecord()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPipeline(t, 1, 1)
			joins := w.hang(kmsg.JoinGroup)
			ctx, cancel := context.WithCancel(t.Context())
			w.ctx = ctx
			c := w.run(w.judge("only", nil), append(opts, DrainTimeout(hangDrain))...)
			w.until("it joins", joins.Load)
			began := time.Now()
			cancel()
			c.endsIn(began, hangLimit)
		})
	}
}

// Close does not wait for a transaction by hand either, nor for records that were polled.
func TestCloseThoughNobodyAnswers(t *testing.T) {
	t.Parallel()
	w := newPipeline(t, 40, 10)
	c := w.client(append(ways[byGateway].opts(w), Transactional("me"), DrainTimeout(hangDrain))...)
	records := w.poll(c.Client, 40)
	hangs := w.hang(kmsg.EndTxn)
	result := make(chan error, 1)
	go func() { result <- c.Transact(context.Background(), records[:20], sum(records[:20])) }()
	w.until("the transaction is to end", hangs.Load)
	began := time.Now()
	c.close()
	if took := time.Since(began); took > hangLimit {
		t.Errorf("Close took %v", took)
	}
	if err := <-result; !errors.Is(err, ErrClosed) {
		t.Errorf("Transact returned %v", err)
	}
}

// endsIn fails the test unless Run returns, without an error, within a time after began.
func (r *member) endsIn(began time.Time, limit time.Duration) {
	r.t.Helper()
	select {
	case err := <-r.end:
		r.t.Logf("Run took %v", time.Since(began).Round(time.Millisecond))
		if err != nil {
			r.t.Errorf("Run returned %v", err)
		}
	case <-time.After(limit):
		r.t.Fatalf("Run has not returned after %v", limit)
	}
}

// Nor does it stay a member when its group waits for one that is gone: the others would wait for the session of both.
func TestAMemberLeavesWhileTheOthersAreWaitedFor(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]Option{"key ranges": {ShareByKey()}, "by record": {ShareByRecord()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPipeline(t, 1, 1)
			opts = append(opts, DrainTimeout(hangDrain))
			stays, f := w.run(w.judge("stays", nil), opts...), &freezer{}
			w.run(w.judge("gone", nil), append(opts, KgoOpts(kgo.Dialer(f.dial)))...)
			groups := kadm.NewClient(w.Direct())
			is := func(state string, members int) func() bool {
				return func() bool {
					d, err := groups.DescribeGroups(context.Background(), "g")
					return err == nil && d["g"].State == state && len(d["g"].Members) == members
				}
			}
			w.until("two members", is("Stable", 2))
			f.frozen.Store(true)
			w.run(w.judge("new", nil), opts...)
			w.until("the group waits for the one that is gone", is("PreparingRebalance", 3))
			stays.close()
			if !is("PreparingRebalance", 2)() {
				t.Error("who has ended is still a member, or the group does not wait any more")
			}
		})
	}
}
