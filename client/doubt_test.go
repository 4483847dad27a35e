package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var errReset = errors.New("the connection is reset")

// trouble stands between a member and its coordinator.
type trouble struct {
	w    *world
	id   string       // of the member
	hb   func() error // answers its heartbeats: a *kerr.Error, or another that resets the connection
	shut atomic.Bool  // it may not join
	asks atomic.Int32 // how often it wanted to
}

// trouble has a member's heartbeats answered by hb from now on, until it wants to join; that it may once open is called.
func (w *world) trouble(m *member, hb func() error) *trouble {
	w.t.Helper()
	tr := &trouble{w: w, hb: hb}
	w.until("the member has an id", func() bool {
		if s := m.current(); s != nil && s.joinedBy.Load() != nil {
			tr.id, _ = s.joinedBy.Load().GroupMetadata()
		}
		return tr.id != ""
	})
	tr.shut.Store(true)
	w.Fake.ControlKey(int16(kmsg.Heartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
		w.Fake.KeepControl()
		r := req.(*kmsg.HeartbeatRequest)
		if r.MemberID != tr.id || !tr.shut.Load() {
			return nil, nil, false
		}
		var ke *kerr.Error
		err := tr.hb()
		if !errors.As(err, &ke) {
			return nil, err, err != nil
		}
		resp := r.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = ke.Code
		return resp, nil, true
	})
	w.Fake.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
		w.Fake.KeepControl()
		r := req.(*kmsg.JoinGroupRequest)
		if r.MemberID != tr.id || !tr.shut.Load() {
			return nil, nil, false
		}
		tr.asks.Add(1)
		resp := r.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code
		return resp, nil, true
	})
	return tr
}

func (tr *trouble) open() { tr.shut.Store(false) }

// asked waits until the member has wanted to join n more times.
func (tr *trouble) asked(n int32) {
	tr.w.t.Helper()
	from := tr.asks.Load()
	tr.w.until("it wants to join", func() bool { return tr.asks.Load() >= from+n })
}

func always(err error) func() error { return func() error { return err } }

// held is work whose handlers wait to be let go, some at a time.
type held struct {
	w         *world
	begun     atomic.Int32
	cancelled atomic.Int32
	pass      chan struct{} // an element lets one go; closed: all
}

func newHeld(w *world) *held { return &held{w: w, pass: make(chan struct{}, 10_000)} }

func (h *held) handle(ctx context.Context, _ *Record) error {
	h.begun.Add(1)
	select {
	case <-h.pass:
		return nil
	case <-ctx.Done():
		h.cancelled.Add(1)
		return ctx.Err()
	}
}

// let lets n handlers go, and waits until they have ended.
func (h *held) let(n int) {
	h.w.t.Helper()
	before := h.w.count()
	for range n {
		h.pass <- struct{}{}
	}
	h.w.until("they have ended", func() bool { return h.w.count() >= before+n })
}

// impatient gives up requests that broke at once, as a client does when it has tried for long.
var impatient = KgoOpts(kgo.RetryTimeout(time.Nanosecond))

// A member whose coordinator is out of reach, or answers with errors, and that is in the group as before when it joins again: what is done stays done and is
// committed, what runs goes on, and nothing begins in between.
func TestWhoIsStillInTheGroupLosesNothing(t *testing.T) {
	for name, hb := range map[string]error{"reset": errReset, "error": kerr.UnknownServerError, "generation": kerr.IllegalGeneration} {
		for _, cooperative := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, cooperative=%t", name, cooperative), func(t *testing.T) {
				w := newWorld(t, nil)
				w.Topic("t", 1)
				w.produce("t", 200, 40)
				h := newHeld(w)
				var said logs
				opts := []Option{ShareByKey(), Concurrency(8), CommitInterval(time.Hour), impatient, said.option(), OnLost(func(context.Context, Ranges) { t.Error("it loses key ranges") })}
				if cooperative {
					opts = append(opts, Cooperative())
				}
				c := w.run(w.judge("a", h.handle), opts...)
				h.let(50)
				w.until("all handlers have begun", func() bool { return h.begun.Load() == 58 })
				tr := w.trouble(c, always(hb))
				tr.asked(1)
				h.let(8) // what ran goes on
				tr.asked(5)
				if n := h.begun.Load(); n != 58 {
					t.Errorf("%d handlers began in doubt", n-58)
				}
				tr.open()
				w.until("it goes on", func() bool { return h.begun.Load() == 66 })
				close(h.pass)
				w.until("200 records", func() bool { return w.count() >= 200 })
				if err := c.Flush(context.Background()); err != nil {
					t.Errorf("Flush: %v", err)
				}
				c.close()
				d := w.run(w.judge("b", nil))
				w.produce("t", 1, 1)
				w.until("one more", func() bool { return w.count() >= 201 })
				d.close()
				if n := w.count(); n != 201 || h.cancelled.Load() > 0 {
					t.Errorf("%d records handled, not 201; %d handlers were cancelled", n, h.cancelled.Load())
				}
				if said.has("do not know") || said.has("are lost") {
					t.Error("the log says that something is lost")
				}
			})
		}
	}
}

// Poll and Commit, where the coordinator resets the connection.
func TestPolledRecordsOutliveADoubt(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.produce("t", 20, 20)
	c := w.client(ShareByKey(), impatient, CommitInterval(time.Hour), OnLost(func(context.Context, Ranges) { t.Error("it loses key ranges") }))
	records := w.poll(c.Client, 20)
	if err := c.Commit(records[:5]...); err != nil {
		t.Fatal(err)
	}
	tr := w.trouble(c, always(errReset))
	tr.asked(2)
	if err := c.Commit(records[5:10]...); err != nil {
		t.Error(err)
	}
	tr.open()
	w.produce("t", 1, 1)
	if got := w.poll(c.Client, 1)[0].Offset; got != 20 {
		t.Errorf("polled %d, not 20", got)
	}
	if err := c.Commit(records[10:15]...); err != nil {
		t.Error(err)
	}
	c.close()
	d := w.client(ShareByKey())
	if got, want := fmt.Sprint(offsetsOf(w.poll(d.Client, 6))), "[15 16 17 18 19 20]"; got != want {
		t.Errorf("polled again %s, not %s", got, want)
	}
}

// A member that the coordinator does not know any more has lost what it has: its handlers are told, and what is done is not committed.
func TestWhoIsOutHasLostAll(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.produce("t", 100, 20)
	h := newHeld(w)
	var lost atomic.Uint64
	c := w.run(w.judge("a", h.handle), ShareByKey(), Concurrency(4), CommitInterval(time.Hour), OnLost(func(_ context.Context, r Ranges) { lost.Add(r["t"][0].Len()) }))
	h.let(10)
	w.until("four run", func() bool { return h.begun.Load() == 14 })
	tr := w.trouble(c, always(kerr.UnknownMemberID))
	w.until("all is lost", func() bool { return lost.Load() == 1<<32 && h.cancelled.Load() == 4 })
	tr.open()
	close(h.pass)
	w.until("all again", func() bool { return w.count() >= 110 })
	c.close()
}

// While a member doubts, its group drops it, and another one gets its keys and works off what there is. The first has lost all as soon as it
// learns that, and begins with nothing of what it had in memory.
func TestNothingBeginsThatAnotherHas(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.produce("t", 100, 20)
	h := newHeld(w)
	var lost atomic.Uint64
	session := KgoOpts(kgo.SessionTimeout(500 * time.Millisecond))
	c := w.run(w.judge("a", h.handle), ShareByKey(), Concurrency(4), CommitInterval(time.Hour), impatient, session,
		OnLost(func(_ context.Context, r Ranges) { lost.Add(r["t"][0].Len()) }))
	h.let(10)
	w.until("four run", func() bool { return h.begun.Load() == 14 })
	tr := w.trouble(c, always(errReset))
	tr.asked(1)
	h.let(4)
	d := w.run(w.judge("b", nil), ShareByKey(), session)
	w.until("the other has done all", func() bool { return w.count() >= 114 })
	if err := d.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := h.begun.Load(); n != 14 || lost.Load() != 0 {
		t.Errorf("%d handlers began in doubt; %x positions are lost", n-14, lost.Load())
	}
	tr.open()
	w.until("both share", func() bool { return len(c.Assigned()) > 0 && len(d.Assigned()) > 0 && lost.Load() == 1<<32 })
	w.produce("t", 20, 20)
	close(h.pass)
	w.until("twenty more", func() bool { return w.count() >= 134 })
	c.close()
	d.close()
	if n := w.count(); n != 134 {
		t.Errorf("%d records handled, not 134", n)
	}
}

// Closing while in doubt commits what is done, where the coordinator lets it.
func TestCloseInDoubt(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.produce("t", 20, 20)
	h := newHeld(w)
	c := w.run(w.judge("a", h.handle), ShareByKey(), Concurrency(4), CommitInterval(time.Hour), impatient)
	h.let(10)
	w.until("four run", func() bool { return h.begun.Load() == 14 })
	tr := w.trouble(c, always(kerr.UnknownServerError))
	tr.asked(1)
	close(h.pass)
	c.close()
	n := w.count()
	d := w.run(w.judge("b", nil))
	w.until("20 records", func() bool { return w.count() >= 20 })
	d.close()
	if n < 14 {
		t.Errorf("%d of 14 had ended", n)
	}
	w.wantOnce("t", 20, 20)
}

// A commit may wait for brokers that are down. The member is heard of meanwhile.
func TestACommitThatTakesLongHoldsUpNoHeartbeat(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.produce("t", 10, 10)
	var committing atomic.Bool
	var beats atomic.Int32
	enough := make(chan struct{})
	w.Fake.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.Fake.SleepControl(func() {
			committing.Store(true)
			select {
			case <-enough:
			case <-time.After(10 * time.Second):
				t.Error("no heartbeats while a commit takes long")
			}
		})
		return nil, nil, false
	})
	w.Fake.ControlKey(int16(kmsg.Heartbeat), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.Fake.KeepControl()
		if committing.Load() && beats.Add(1) == 10 {
			close(enough)
		}
		return nil, nil, false
	})
	c := w.run(w.judge("a", nil), ShareByKey())
	w.until("ten heartbeats", func() bool { return beats.Load() >= 10 })
	w.until("10 records", func() bool { return w.count() >= 10 })
	c.close()
	w.wantOnce("t", 10, 10)
}

// refreshes counts how often clients were made to ask for the brokers.
type refreshes struct{ n atomic.Int32 }

func (*refreshes) Level() kgo.LogLevel { return kgo.LogLevelInfo }

func (r *refreshes) Log(_ kgo.LogLevel, msg string, values ...any) {
	if strings.Contains(fmt.Sprint(msg, values), "ForceMetadataRefresh") {
		r.n.Add(1)
	}
}

// Where the coordinator is now is asked as soon as a connection of the member has broken.
func TestABrokenConnectionHasTheBrokersLookedFor(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	var asked refreshes
	c := w.run(w.judge("a", nil), ShareByKey(), KgoOpts(kgo.WithLogger(&asked)))
	w.until("it is assigned", func() bool { return len(c.Assigned()) > 0 })
	before := asked.n.Load()
	w.Fake.ControlKey(int16(kmsg.Heartbeat), func(kmsg.Request) (kmsg.Response, error, bool) {
		return nil, errReset, true // once
	})
	w.until("it asks", func() bool { return asked.n.Load() > before })
	c.close()
}
