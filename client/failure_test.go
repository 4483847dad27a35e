package client

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var errPoison = errors.New("cannot be digested")

// letters reads n records of a topic.
func (w *world) letters(topic string, n int) (list []*kgo.Record) {
	w.t.Helper()
	c := w.Direct(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for len(list) < n && ctx.Err() == nil {
		list = append(list, c.PollFetches(ctx).Records()...)
	}
	if len(list) != n {
		w.t.Fatalf("%d records in %s, not %d", len(list), topic, n)
	}
	return list
}

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

func TestAPoisonRecordBlocksItsKeyOnlyAndBecomesADeadLetter(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.Topic("t.dlq", 1)
	w.produce("t", 200, 10) // k3's fifth record is the poison
	var attempts atomic.Int32
	release := make(chan struct{})
	c := w.run(w.judge("a", func(_ context.Context, r *Record) error {
		if string(r.Key) != "k3" || string(r.Value) != "4" {
			return nil
		}
		attempts.Add(1)
		if r.Attempt != int(attempts.Load()) {
			t.Errorf("attempt %d counts as %d", attempts.Load(), r.Attempt)
		}
		select {
		case <-release:
			return errPoison
		default:
			return RetryAfter(errPoison, time.Millisecond)
		}
	}), Retry(Backoff{First: time.Hour, Max: time.Hour}, 1_000_000), DeadLetter("t.dlq"), ShareByKey())
	w.until("the others", func() bool { return w.count() >= 184 }) // 180 of other keys, 4 before the poison
	w.until("retries", func() bool { return attempts.Load() > 5 })
	c.close()

	// Another process, with a limit.
	before := int(attempts.Load())
	attempts.Store(0)
	d := w.run(w.judge("b", func(_ context.Context, r *Record) error {
		if string(r.Key) == "k3" && string(r.Value) == "4" {
			attempts.Add(1)
			return errPoison
		}
		return nil
	}), Retry(Backoff{First: time.Millisecond, Max: time.Millisecond}, before+3), DeadLetter("t.dlq"), ShareByKey())
	w.until("all others", func() bool { return w.count() >= 199 })
	d.close()
	letter := w.letters("t.dlq", 1)[0]
	if attempts.Load() != 3 {
		t.Errorf("the second process made %d attempts, not the 3 that were left", attempts.Load())
	}
	if string(letter.Key) != "k3" || string(letter.Value) != "4" {
		t.Errorf("the dead letter is %q: %q", letter.Key, letter.Value)
	}
	for key, want := range map[string]string{"topic": "t", "partition": "0", "offset": "43", "group": "g", "error": errPoison.Error(), "attempts": fmt.Sprint(before + 3)} {
		if got := header(letter, "tandem.dlq."+key); got != want {
			t.Errorf("its header %s is %q, not %q", key, got, want)
		}
	}
	if got := header(letter, "tandem.dlq.timestamp"); got == "" {
		t.Error("it has no timestamp")
	}
	for _, k := range []string{"k2", "k3", "k4"} {
		if n := len(w.done["t/"+k]); k == "k3" && n != 19 || k != "k3" && n != 20 {
			t.Errorf("%s: %d", k, n)
		}
	}
}

func TestStopOnFailureSaysWhichRecord(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.produce("t", 10, 10)
	c := w.run(w.judge("a", func(_ context.Context, r *Record) error {
		if string(r.Key) == "k7" {
			return Permanent(errPoison)
		}
		return nil
	}), StopOnFailure())
	err := c.result()
	var stopped *StoppedError
	if !errors.As(err, &stopped) || stopped.Offset != 7 || string(stopped.Key) != "k7" || stopped.Attempts != 1 || !errors.Is(err, errPoison) {
		t.Errorf("Run returned %v", err)
	}
}

func TestSkippedAndPanickingRecords(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.produce("t", 100, 10)
	var events atomic.Int32
	c := w.run(w.judge("a", func(_ context.Context, r *Record) error {
		if string(r.Value) == "3" {
			return errPoison
		}
		return nil
	}), Retry(Backoff{First: time.Millisecond, Max: time.Millisecond}, 2), Skip(), Metrics(Hook{Event: func(e Event) {
		if e.Kind == Skipped && e.Attempts == 2 {
			events.Add(1)
		}
	}}))
	w.until("90 records", func() bool { return w.count() >= 90 })
	w.until("10 events", func() bool { return events.Load() == 10 })
	c.close()
	d := w.run(func(context.Context, *Record) error { t.Error("a skipped record comes again"); return nil })
	w.produce("t", 0, 1)
	w.until("it is assigned", func() bool { return len(d.Assigned()) > 0 })
	time.Sleep(50 * time.Millisecond) // nothing is to come
}
