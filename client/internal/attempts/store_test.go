package attempts

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/client/internal/fetcher"
	"github.com/tandem-kafka/tandem/keyrange"
)

func newStore(t *testing.T, cluster *kfake.Cluster) *Store {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	f, err := fetcher.New(fetcher.Config{Client: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return New(c, f, "g", slog.Default())
}

// A write waits no longer than its context, also where a broker has it and does not answer; what is saved next is what the topic has in the end.
func TestSaveThatNobodyAnswers(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	s := newStore(t, cluster)
	save := func(ctx context.Context, offset int64, state *State) error {
		return s.Save(ctx, []Change{{ID: ID{Topic: "t", Offset: offset}, State: state}})
	}
	mark := MarkID{Topic: "t", Session: "me"}
	first := State{Attempts: 1, TopicID: "x"}
	for _, offset := range []int64{1, 2, 3} {
		if err := save(t.Context(), offset, &first); err != nil {
			t.Fatal(err)
		}
	}
	over, asked := make(chan struct{}), make(chan struct{})
	var once sync.Once
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		once.Do(func() { close(asked) })
		<-over
		return nil, nil, false
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- save(ctx, 1, &State{Attempts: 2, TopicID: "x"}) }()
	<-asked
	cancel()
	select {
	case err := <-result:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Save returned %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Save waits beyond its context")
	}
	for what, save := range map[string]func(context.Context) error{
		"an end":  func(ctx context.Context) error { return save(ctx, 2, nil) },
		"a state": func(ctx context.Context) error { return save(ctx, 4, &first) },
		"a mark": func(ctx context.Context) error {
			return s.SaveMarks(ctx, []MarkChange{{mark, &Mark{Keys: keyrange.Set{keyrange.Full}, Base: 1, TopicID: "x"}}})
		},
	} {
		brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := save(brief); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: saved with %v", what, err)
		}
		cancel()
	}
	if of, marks := s.Of("t", 0), s.Marks("t", 0); len(of) != 4 || len(marks) != 1 {
		t.Errorf("what may be in the topic is forgotten: there are %v and %v", of, marks)
	}
	close(over)
	// Each of these undoes what came late.
	for offset, state := range map[int64]*State{1: &first, 2: &first, 4: nil} {
		if err := save(t.Context(), offset, state); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SaveMarks(t.Context(), []MarkChange{{MarkID: mark}}); err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]*Store{"who wrote": s, "who reads": newStore(t, cluster)} {
		if err := of.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := of.Of("t", 0)
		if len(got) != 3 || got[1] != first || got[2] != first || got[3] != first || len(of.Marks("t", 0)) != 0 {
			t.Errorf("%s has %v and %v", name, got, of.Marks("t", 0))
		}
	}
}
