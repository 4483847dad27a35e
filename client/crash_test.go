package client

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client/internal/attempts"
	"github.com/tandem-kafka/tandem/client/internal/fetcher"
	"github.com/tandem-kafka/tandem/keyrange"
)

// kept is what is kept of the attempts of group g.
func (w *world) kept() *attempts.Store {
	w.t.Helper()
	c := w.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	f, err := fetcher.New(fetcher.Config{Client: c})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(f.Close)
	return attempts.New(c, f, "g", slog.Default())
}

// A record kills the process again and again; it is found, and the others keep their counts (case I7).
func TestAfterACrashRecordsAreCountedOneByOne(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	w.Topic("t.dlq", 1)
	w.produce("t", 50, 50)
	topic := w.topicID("t")
	store := w.kept()
	mark := attempts.MarkID{Topic: "t", Partition: 0, Session: "dead"}
	err := store.SaveMarks(t.Context(), []attempts.MarkChange{{MarkID: mark, Mark: &attempts.Mark{Keys: keyrange.Set{keyrange.Full}, Base: 1, TopicID: topic}}})
	if err != nil {
		t.Fatal(err)
	}
	// Offset 7 was counted four times: its fifth attempt is the last.
	err = store.Save(t.Context(), []attempts.Change{{ID: attempts.ID{Topic: "t", Partition: 0, Offset: 7},
		State: &attempts.State{Attempts: 5, Hash: keyrange.Murmur2([]byte("k7")), Keyed: true, TopicID: topic}}})
	if err != nil {
		t.Fatal(err)
	}
	var running atomic.Int32
	c := w.run(w.judge("a", func(_ context.Context, r *Record) error {
		if running.Add(1) > 1 {
			t.Error("two at once")
		}
		defer running.Add(-1)
		if r.Attempt != 1 || r.Offset == 7 {
			t.Errorf("attempt %d of offset %d", r.Attempt, r.Offset)
		}
		if r.Offset%10 == 0 { // it could kill the process now: its attempt is counted
			if err := store.CatchUp(t.Context()); err != nil {
				t.Error(err)
			}
			if got := store.Of("t", 0)[r.Offset].Attempts; got != 1 {
				t.Errorf("offset %d: %d attempts are kept", r.Offset, got)
			}
			if len(store.Marks("t", 0)) != 1 || len(store.Marks("t", 0)["dead"].Keys) > 0 {
				t.Errorf("marks: %v", store.Marks("t", 0))
			}
		}
		return nil
	}), Retry(Backoff{}, 5), DeadLetter("t.dlq"))
	w.until("49 records", func() bool { return w.count() >= 49 })
	if letter := w.letters("t.dlq", 1)[0]; string(letter.Key) != "k7" || header(letter, headerError) != errUnknown || header(letter, headerAttempts) != "5" {
		t.Errorf("the dead letter is of %q, because of %q", letter.Key, header(letter, headerError))
	}
	c.close()
	if err := store.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, marks := store.Of("t", 0), store.Marks("t", 0); len(left) != 0 || len(marks) != 0 {
		t.Errorf("left are %v and %v", left, marks)
	}
}
