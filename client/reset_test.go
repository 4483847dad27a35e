package client

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client/internal/executor"
	"github.com/tandem-kafka/tandem/client/internal/fetcher"
	"github.com/tandem-kafka/tandem/client/internal/run"
	"github.com/tandem-kafka/tandem/keyrange"
)

// Who gives a partition up while it is about to be begun with, at an offset that was asked for, waits until it can be found: otherwise it would be worked on for good by a member that does not have it.
func TestWhatIsAboutToBeginIsGivenUp(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	cfg, err := newConfig(w.options(Group(""), Topics(), Assign(Ranges{"t": {0: nil}})))
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(t.Context(), cfg, w.judge("a", nil))
	s.data[0] = w.Direct()
	if s.fetcher, err = fetcher.New(fetcher.Config{Client: s.data[0], Log: s.log}); err != nil {
		t.Fatal(err)
	}
	defer s.fetcher.Close()
	// The runner is busy as long as it reads what this record is.
	var once sync.Once
	busy, free := make(chan struct{}), make(chan struct{})
	rc := s.runConfig()
	rc.Describe = func(r *kgo.Record) executor.Meta {
		once.Do(func() { close(busy) })
		<-free
		return describe(r)
	}
	if s.runner, err = run.Start(t.Context(), rc); err != nil {
		t.Fatal(err)
	}
	other := tpOf("other", 0)
	if err := s.runner.Assign(other, executor.Assignment{Base: 1}); err != nil {
		t.Fatal(err)
	}
	s.work.Go(func() { s.runner.Fetched(other, executor.Fetch[*kgo.Record]{Records: []*kgo.Record{{Topic: "other"}}}) })
	<-busy

	tp, wholeAxis := tpOf("t", 0), keyrange.Set{keyrange.Full}
	s.findStart(tp, executor.Assignment{Keys: wholeAxis, Base: 1, Start: -1})
	w.until("it is about to begin", func() bool { return onStack(".Assign(") })
	var found atomic.Bool
	s.work.Go(func() {
		w.until("it is waited for", func() bool { return found.Load() || onStack(".stopReset(") })
		if found.Load() {
			t.Error("who gives it up does not wait")
		}
		close(free)
	})
	s.stopReset(tp, wholeAxis)
	found.Store(true)
	s.giveUp(t.Context(), tp, wholeAxis)
	s.work.Wait()
	if at := s.runner.Positions(tp); len(at) > 0 {
		t.Errorf("the partition is worked on: %v", at)
	}
	if _, err := s.runner.Close(t.Context(), 0); err != nil {
		t.Error(err)
	}
}

// onStack reports whether a goroutine is in a function.
func onStack(name string) bool {
	stacks := make([]byte, 1<<20)
	return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), name)
}
