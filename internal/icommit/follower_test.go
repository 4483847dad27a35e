package icommit

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestLogCutShort(t *testing.T) {
	u := newFake()
	l, h := newLog(t, u)
	u.add(1, 10, 11, 12)
	u.add(1, 13)
	sees(t, l, h, 0, 10, 11, 12, 13)
	u.change(func() { u.cut(3) })
	sees(t, l, h, 1, 10, 11, 12)
}

// The leader says so in ListOffsets before a Fetch shows it.
func TestLogCutShortInALongPoll(t *testing.T) {
	u := newFake()
	l, h := newLog(t, u)
	l.cfg.Wait = time.Hour
	u.add(1, 10, 11, 12)
	u.add(1, 13)
	sees(t, l, h, 0, 10, 11, 12, 13)
	u.mu.Lock()
	u.cut(3) // and the long poll does not notice
	u.mu.Unlock()
	sees(t, l, h, 1, 10, 11, 12)
}

// What CatchUp waits for then never comes.
func TestLogCutShortAfterItsEndWasAsked(t *testing.T) {
	u := newFake()
	l, h := newLog(t, u)
	u.add(1, 10, 11, 12)
	u.add(1, 13)
	sees(t, l, h, 0, 10, 11, 12, 13)
	u.change(func() {
		u.fetch = func(int64) error { return kerr.NotLeaderForPartition }
		u.ended = func() {
			u.cut(3)
			u.fetch, u.ended = nil, nil
		}
	})
	u.add(1, 14)
	sees(t, l, h, 1, 10, 11, 12)
}

// It was cut while nobody looked, and is longer by now than it was: only the leader epochs tell.
func TestLogCutShortAndGrownAgain(t *testing.T) {
	u := newFake()
	l, h := newLog(t, u)
	u.add(1, 10, 11, 12)
	u.add(1, 13)
	sees(t, l, h, 0, 10, 11, 12, 13)
	u.change(func() { u.fetch = func(int64) error { return kerr.NotLeaderForPartition } })
	u.mu.Lock()
	u.cut(3)
	u.mu.Unlock()
	u.add(4, 20)
	u.add(4, 21, 22)
	u.change(func() { u.fetch = nil })
	sees(t, l, h, 1, 10, 11, 12, 20, 21, 22)
}

func TestLeaderEpochsThatChangeAreNoReason(t *testing.T) {
	u := newFake()
	l, h := newLog(t, u)
	u.add(1, 10)
	sees(t, l, h, 0, 10)
	u.add(3, 11)
	sees(t, l, h, 0, 10, 11)
	u.change(func() { u.epochs = map[int32]int64{} }) // the leader does not know
	u.add(4, 12)
	sees(t, l, h, 0, 10, 11, 12)
}

// The last records were removed by compaction.
func TestLogThatEndsInNothing(t *testing.T) {
	u := newFake()
	l, h := newLog(t, u)
	u.add(1, 10)
	u.change(func() { u.stable = 5 })
	sees(t, l, h, 0, 10)
	u.change(func() { u.stable = 9 })
	sees(t, l, h, 0, 10)
	u.add(1, 11)
	sees(t, l, h, 0, 10, 11)
}

// A broker that does not give at once what is there must not make the follower leave it out.
func TestRecordsThatTheBrokerGivesLate(t *testing.T) {
	u := newFake()
	l, h := newLog(t, u)
	l.cfg.gap = time.Minute
	u.add(1, 10)
	u.change(func() { u.stable = 2 }) // 11 is there, but not given
	done := make(chan error)
	go func() { done <- l.CatchUp(t.Context(), "g") }()
	for calls := 0; calls < 10; time.Sleep(time.Millisecond) {
		u.mu.Lock()
		calls = u.calls
		u.mu.Unlock()
	}
	select {
	case <-done:
		t.Fatalf("caught up without it, with %v", h)
	default:
	}
	u.change(func() { u.stable = 1 })
	u.add(1, 11)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	sees(t, l, h, 0, 10, 11)
}

func TestDamagedBatches(t *testing.T) {
	for name, damage := range map[string]func(raw []byte){
		"a record":             func(raw []byte) { raw[len(raw)-1] ^= 1 },
		"codec":                func(raw []byte) { raw[22] = 7 },
		"last offset too far":  func(raw []byte) { raw[23] = 0x7f },
		"last offset too near": func(raw []byte) { raw[23] = 0xff },
		"magic":                func(raw []byte) { raw[16] = 9 },
	} {
		t.Run(name, func(t *testing.T) {
			u := newFake()
			l, h := newLog(t, u)
			u.add(1, 10)
			u.add(1, 11, 12)
			u.add(1, 13)
			damage(u.batches[1].raw)
			sees(t, l, h, 0, 10, 13)
			if n := l.Metrics().Batches.Load(); n != 1 {
				t.Errorf("%d batches skipped", n)
			}
			u.add(1, 14)
			sees(t, l, h, 0, 10, 13, 14)
		})
	}
}

// Nothing follows that would say where the damaged batch ends.
func TestDamagedBatchAtTheEnd(t *testing.T) {
	u := newFake()
	l, h := newLog(t, u)
	u.add(1, 10)
	u.add(1, 11, 12)
	u.batches[1].raw[23] = 0x7f
	sees(t, l, h, 0, 10)
	u.add(1, 13)
	sees(t, l, h, 0, 10, 13)
}

// An answer may begin before the offset asked for, with the batch that holds it.
func TestRecordsAreHandedOverOnce(t *testing.T) {
	u := newFake()
	l, h := newLog(t, u)
	u.start = 2
	u.add(1, 10, 11, 12, 13)
	sees(t, l, h, 1, 12, 13) // from offset 0 on it is out of range
}

func TestEndThatIsNotKnownForAWhile(t *testing.T) {
	u := newFake()
	l, h := newLog(t, u)
	u.add(1, 10)
	fails := 3
	u.end = func() error {
		if fails--; fails >= 0 {
			return kerr.OffsetNotAvailable
		}
		return nil
	}
	sees(t, l, h, 0, 10)
	u.change(func() { u.end = func() error { return kerr.TopicAuthorizationFailed } })
	if err := l.CatchUp(t.Context(), "g"); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("%v", err)
	}
}

func TestTopicMadeAnewInALongPoll(t *testing.T) {
	u := newFake()
	l, h := newLog(t, u)
	l.cfg.Wait = time.Hour
	u.add(1, 10)
	sees(t, l, h, 0, 10)
	u.mu.Lock()
	u.topic.ID[0]++
	u.cut(0)
	u.mu.Unlock()
	u.add(1, 20)
	sees(t, l, h, 1, 20)
}

func TestTopicMadeAnewWhileSomebodyWaits(t *testing.T) {
	u := newFake()
	l, h := newLog(t, u)
	u.add(1, 10)
	u.fetch = func(int64) error { return kerr.NotLeaderForPartition }
	u.ended = func() {
		u.topic.ID[0]++
		u.batches, u.stable, u.fetch, u.ended = nil, 0, nil, nil
	}
	sees(t, l, h, 1)
}

// What is at work for the old topic comes to its end before anything of the new one is handed over.
func TestOneFollowerAtATime(t *testing.T) {
	u := newFake()
	l, h := newLog(t, u)
	in, out := make(chan struct{}), make(chan struct{})
	h.apply = func() { in <- struct{}{}; <-out }
	u.add(1, 10)
	done := make(chan error)
	catchUp := func() { done <- l.CatchUp(t.Context(), "g") }
	go catchUp()
	<-in
	u.change(func() { u.topic.ID[0]++; u.cut(0) })
	u.add(1, 20)
	go catchUp()
	select {
	case <-in:
		t.Error("the new topic's records come while the old one's are being applied")
	case <-time.After(50 * time.Millisecond):
	}
	out <- struct{}{}
	<-in
	out <- struct{}{}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := h.String(); got != "[20]" || h.resets != 1 {
		t.Errorf("%s after %d resets", got, h.resets)
	}
}

// Each caller's answer was asked for after it came: what was there at its call is in it.
func TestRoundsAreFresh(t *testing.T) {
	var r rounds[int]
	started := make(chan struct{})
	answers := make(chan int)
	start := func(do func()) bool { go do(); return true }
	ask := func() (int, error) { started <- struct{}{}; return <-answers, nil }
	got := make(chan int, 4)
	call := func() {
		v, err := r.do(t.Context(), start, ask)
		if err != nil {
			t.Error(err)
		}
		got <- v
	}
	go call()
	<-started
	for range 3 { // while the first is under way
		go call()
	}
	for waiting := false; !waiting; {
		r.mu.Lock()
		waiting = r.next != nil
		r.mu.Unlock()
	}
	answers <- 1
	if v := <-got; v != 1 {
		t.Errorf("first: %d", v)
	}
	<-started
	asked := 2
	for n := 0; n < 3; {
		select {
		case answers <- asked:
		case <-started: // a caller that came after the second had begun
			asked++
		case v := <-got:
			if n++; v == 1 {
				t.Error("a later caller got the first answer")
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var idle, closed rounds[int]
	hold := make(chan struct{})
	if _, err := idle.do(ctx, start, func() (int, error) { <-hold; return 0, nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	close(hold)
	if _, err := closed.do(t.Context(), func(func()) bool { return false }, ask); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(append(inTransaction(rawBatch(0, 1, []int64{1}), 5, false), markerBatch(1, 5, true)...), int64(0), int64(2))
	f.Add(rawBatch(0, 1, []int64{1, 2, 3}), int64(0), int64(3))
	f.Add(append(rawBatch(5, 1, []int64{1, 2}), rawBatch(7, 2, []int64{3})...), int64(6), int64(8))
	f.Add([]byte{}, int64(0), int64(1))
	f.Fuzz(func(t *testing.T, raw []byte, position, stable int64) {
		if position < 0 || position > stable || stable == math.MaxInt64 {
			return
		}
		h := &told{}
		l := New(newFake(), h, Config{})
		defer l.Close()
		fl := &follower{l: l, topic: Topic{Partitions: 1}}
		next, err := (<-l.readers).read(fl, Fetched{Raw: raw, End: stable}, position)
		if err == nil && next <= position {
			t.Fatalf("%d after %d", next, position)
		}
		if err != nil && (next != position || h.all != nil) {
			t.Fatalf("%d, %v after %v", next, h.all, err)
		}
		epochs(raw)
	})
}
