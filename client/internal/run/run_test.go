package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-kafka/tandem/client/internal/done"
	"github.com/tandem-kafka/tandem/client/internal/executor"
	"github.com/tandem-kafka/tandem/client/internal/offsets"
	"github.com/tandem-kafka/tandem/keyrange"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// record is a record of these tests.
type record struct {
	offset int64
	key    []byte
	value  []byte
}

func describe(r *record) executor.Meta {
	return executor.Meta{Offset: r.offset, Key: r.key, Size: len(r.key) + len(r.value)}
}

func (r *record) position() uint32 {
	if r.key == nil {
		return keyrange.NullPosition(r.offset)
	}
	return keyrange.Position(r.key, 1)
}

var orders = executor.TP{Topic: "orders"}

// log makes n records with keys in turn; an empty name is no key.
func log(n int, keys ...string) (list []*record) {
	for i := range n {
		r := &record{offset: int64(i)}
		if k := keys[i%len(keys)]; k != "" {
			r.key = []byte(k)
		}
		list = append(list, r)
	}
	return list
}

// host is the surroundings of a Runner: it keeps what was committed, and judges the runs.
type host struct {
	t  testing.TB
	mu sync.Mutex

	log       []*record
	watermark int64
	above     map[int64]bool // committed, above a watermark
	retries   []executor.Retry
	refuse    int // how many commits fail
	commits   int

	running  map[string]int64
	done     map[int64]int // how often
	last     map[string]int64
	failures map[int64]int // of the next runs
	work     func(ctx context.Context, r *record) error
	reports  []executor.Report
	letters  []int64
	rereads  int
}

func newHost(t testing.TB, log []*record) *host {
	return &host{t: t, log: log, above: map[int64]bool{}, running: map[string]int64{}, done: map[int64]int{}, last: map[string]int64{}, failures: map[int64]int{}}
}

var errFails = errors.New("fails")

func (h *host) handle(ctx context.Context, t *executor.Task[*record]) executor.Result {
	r := t.Record
	h.mu.Lock()
	if r.key != nil {
		if o, ok := h.running[string(r.key)]; ok {
			h.t.Errorf("%d of key %q begins while %d runs", r.offset, r.key, o)
		}
		if last, ok := h.last[string(r.key)]; ok && h.done[r.offset] == 0 && last > r.offset {
			h.t.Errorf("%d of key %q begins after %d", r.offset, r.key, last)
		}
		h.running[string(r.key)] = r.offset
	}
	fails := h.failures[r.offset] > 0
	if fails {
		h.failures[r.offset]--
	}
	h.mu.Unlock()
	var err error
	if h.work != nil {
		err = h.work(ctx, r)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.running, string(r.key))
	if fails {
		err = errFails
	}
	if err == nil {
		h.done[r.offset]++
		h.last[string(r.key)] = r.offset
	}
	return executor.Result{Err: err}
}

func (h *host) commit(_ context.Context, commits []executor.Commit) []error {
	time.Sleep(time.Millisecond)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commits++
	if h.refuse > 0 {
		h.refuse--
		return []error{errFails}
	}
	for _, c := range commits {
		ranges := append([]offsets.Range{{First: h.watermark, Last: c.Watermark - 1}}, c.Ranges...)
		for _, r := range ranges {
			for o := r.First; o <= r.Last; o++ {
				if h.done[o] == 0 && c.Keys.Contains(h.log[o].position()) {
					h.t.Errorf("%d is committed and not done: %+v", o, c)
				}
				h.above[o] = h.above[o] || o >= c.Watermark
			}
		}
		h.watermark = max(h.watermark, c.Watermark)
		h.retries = c.Retries
	}
	return nil
}

func (h *host) isCommitted(offset int64) bool { return offset < h.watermark || h.above[offset] }

func (h *host) config(handlers int) Config[*record] {
	return Config[*record]{
		Config:   executor.Config{Handlers: handlers, MaxShed: 100_000, MaxAttempts: 3, Backoff: executor.Backoff{First: 10 * executor.Millisecond}},
		Describe: describe,
		Keep:     func(r *record) *record { return &record{r.offset, bytes.Clone(r.key), bytes.Clone(r.value)} },
		Handle:   h.handle,
		DeadLetter: func(_ context.Context, t *executor.Task[*record]) executor.Result {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.letters = append(h.letters, t.Offset())
			h.done[t.Offset()]++
			return executor.Result{}
		},
		Commit: h.commit,
		Reread: func(_ context.Context, r executor.Reread) ([]*record, int64, error) {
			time.Sleep(2 * time.Millisecond)
			h.mu.Lock()
			defer h.mu.Unlock()
			h.rereads++
			var list []*record
			for _, rec := range h.log[r.From:] {
				if r.Keys.Contains(rec.position()) {
					list = append(list, rec)
				}
			}
			return list, int64(len(h.log)), nil
		},
		Report: func(list []executor.Report) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.reports = append(h.reports, list...)
		},
	}
}

func start(t testing.TB, cfg Config[*record]) *Runner[*record] {
	t.Helper()
	r, err := Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (h *host) assign(t testing.TB, r *Runner[*record]) {
	t.Helper()
	if err := r.Assign(orders, executor.Assignment{Base: 1, Start: h.watermark, Retries: h.retries}); err != nil {
		t.Fatal(err)
	}
}

// feed fetches the log from the watermark on, as long as the partition is not paused.
func (h *host) feed(r *Runner[*record], size int) {
	for at := int(h.watermark); at < len(h.log); {
		end := min(at+size, len(h.log))
		if r.Fetched(orders, executor.Fetch[*record]{From: int64(at), Records: h.log[at:end]}) {
			for r.Paused(orders) {
				time.Sleep(time.Millisecond)
			}
		}
		at = end
	}
}

func (h *host) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.done)
}

// until polls, on the fake clock where the test has one.
func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for begin := time.Now(); !f(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func (h *host) onceEach(t testing.TB) {
	t.Helper()
	for _, r := range h.log {
		if h.done[r.offset] != 1 {
			t.Errorf("%d was done %d times", r.offset, h.done[r.offset])
		}
	}
}

func closed(t testing.TB, r *Runner[*record], limit time.Duration) []executor.Released {
	t.Helper()
	list, err := r.Close(context.Background(), limit)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestEverythingIsDoneOnceAndCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, log(5000, "a", "b", "c", "d", "e", "f", "g", "h", "i"))
		h.work = func(_ context.Context, r *record) error {
			time.Sleep(time.Duration(r.offset*7919%5) * time.Millisecond)
			return nil
		}
		h.refuse = 3
		r := start(t, h.config(5))
		h.assign(t, r)
		h.feed(r, 700)
		until(t, "all is committed", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.watermark == 5000 })
		closed(t, r, time.Second)
		h.onceEach(t)
	})
}

// With work that takes no time, batches are handed out; order and commits are as right.
func TestBatches(t *testing.T) {
	h := newHost(t, log(200_000, "a", "b", "c", "d", "", "f", "g", "h", "i"))
	r := start(t, h.config(4))
	h.assign(t, r)
	h.feed(r, 5000)
	until(t, "all is done", func() bool { return h.count() == len(h.log) })
	closed(t, r, time.Second)
	h.onceEach(t)
	if h.watermark != 200_000 {
		t.Errorf("committed up to %d", h.watermark)
	}
}

// Short runs are handed out by the hundred, longer ones one at a time.
func TestBatchSize(t *testing.T) {
	r := &Runner[*record]{runTime: batchTime}
	for _, c := range []struct {
		run      time.Duration
		min, max int
	}{{100 * time.Nanosecond, maxBatch, maxBatch}, {10 * time.Microsecond, 8, 12}, {time.Millisecond, 1, 1}, {0, maxBatch, maxBatch}} {
		for range 60 {
			r.sample(c.run)
		}
		if n := r.batchSize(); n < c.min || n > c.max {
			t.Errorf("batches of %d with runs of %v", n, c.run)
		}
	}
}

// A run in a batch that turns out slow holds up none of the others.
func TestASlowRunInABatchIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, log(10_000, "a", "b", "c", "d", "e", "f"))
		h.work = func(ctx context.Context, r *record) error {
			if r.offset == 6003 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		r := start(t, h.config(2))
		h.assign(t, r)
		h.feed(r, 1000)
		begin := time.Now()
		until(t, "all but the slow key is done", func() bool { return h.count() == 10_000-(10_000-6003)/6-1 })
		if d := time.Since(begin); d > 10*time.Millisecond {
			t.Errorf("took %v", d)
		}
		rel := closed(t, r, 0)
		if len(rel) != 1 || len(rel[0].Running) != 0 || h.isCommitted(6003) { // its context was cancelled, and it returned
			t.Errorf("released %+v", rel)
		}
	})
}

// What a worker has handled before a run that goes on and on is committed meanwhile, and is not said to run.
func TestASlowRunInABatchHoldsUpNoCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, log(100, ""))
		h.work = func(ctx context.Context, r *record) error {
			if r.offset == 50 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		r := start(t, h.config(1)) // the rest cannot go on
		h.assign(t, r)
		h.feed(r, 100)
		until(t, "what was before is committed", func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.isCommitted(49)
		})
		if slow := r.Slow(10); len(slow) != 1 || slow[0].Offset != 50 {
			t.Errorf("running are %+v", slow)
		}
		if rel := closed(t, r, 0); len(rel) != 1 || len(rel[0].Running) != 1 || h.isCommitted(50) {
			t.Errorf("released %+v", rel)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		for o := range int64(50) {
			if h.done[o] != 1 {
				t.Errorf("offset %d was done %d times", o, h.done[o])
			}
		}
	})
}

// One key fails for ever, and more of its records come than memory holds: the others go on, and the key's records are
// read again once it goes on.
func TestABlockedKeyBlocksOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"stuck", "a", "stuck", "b", "stuck", "c", "stuck"}
		h := newHost(t, log(20_000, names...))
		stuck := true
		h.work = func(_ context.Context, r *record) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			if stuck && string(r.key) == "stuck" {
				return errFails
			}
			return nil
		}
		cfg := h.config(3)
		cfg.MaxRecords, cfg.MaxAttempts = 500, 0
		cfg.Backoff = executor.Backoff{First: executor.Second, Max: executor.Second}
		r := start(t, cfg)
		h.assign(t, r)
		h.feed(r, 100)
		until(t, "the others are done", func() bool { return h.count() == 3*20_000/7 })
		if s := r.Stats(); s.Records > 500 || s.Shed < 10_000 {
			t.Errorf("%+v", s)
		}
		h.mu.Lock()
		stuck = false
		h.mu.Unlock()
		until(t, "all is committed", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.watermark == 20_000 })
		closed(t, r, time.Second)
		h.onceEach(t)
		if h.rereads < 10 {
			t.Errorf("%d rereads", h.rereads)
		}
	})
}

// Attempts and next attempts survive a restart, and records that wait hold up nobody.
func TestRetriesSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, log(2002, "poison", "a", "b", "c", "d"))
		for i := range 2002 {
			if i%5 != 0 {
				h.failures[int64(i)] = 0
			}
		}
		h.failures[0] = 1
		cfg := h.config(8)
		cfg.Backoff = executor.Backoff{First: 60 * executor.Second, Max: 60 * executor.Second}
		r := start(t, cfg)
		h.assign(t, r)
		failed := time.Now()
		h.feed(r, 100)
		until(t, "the others are done", func() bool { return h.count() == 2002-401 })
		closed(t, r, time.Second)
		if len(h.retries) != 1 || h.retries[0].Offset != 0 || h.retries[0].Attempts != 1 || h.retries[0].Cause != "fails" {
			t.Fatalf("retries %+v", h.retries)
		}
		var again time.Time
		h.work = func(_ context.Context, r *record) error {
			if r.offset == 0 {
				again = time.Now()
			} else if string(r.key) != "poison" {
				t.Errorf("%d again", r.offset)
			}
			return nil
		}
		r = start(t, cfg)
		if err := r.Assign(orders, executor.Assignment{Base: 1, Start: 0, Committed: h.committed(), Retries: h.retries}); err != nil {
			t.Fatal(err)
		}
		h.feed(r, 100)
		until(t, "the poison is tried again", func() bool { return h.count() == 2002 })
		if d := again.Sub(failed); d < 60*time.Second || d > 61*time.Second {
			t.Errorf("tried again after %v", d)
		}
		closed(t, r, time.Second)
		h.onceEach(t)
	})
}

func TestDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, log(30, "a", "b", "c"))
		h.failures[4], h.failures[5] = 3, 2
		refused := 0
		cfg := h.config(4)
		accept := cfg.DeadLetter
		cfg.DeadLetter = func(ctx context.Context, task *executor.Task[*record]) executor.Result {
			if !errors.Is(task.Cause(), errFails) || task.Attempt() != 3 {
				t.Errorf("dead letter after attempt %d: %v", task.Attempt(), task.Cause())
			}
			if refused++; refused < 3 {
				return executor.Result{Err: errFails}
			}
			return accept(ctx, task)
		}
		r := start(t, cfg)
		h.assign(t, r)
		h.feed(r, 30)
		until(t, "all is committed", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.watermark == 30 })
		closed(t, r, time.Second)
		h.onceEach(t)
		if !slices.Equal(h.letters, []int64{4}) {
			t.Errorf("dead letters %v", h.letters)
		}
		kinds := map[executor.ReportKind]int{}
		for _, rep := range h.reports {
			kinds[rep.Kind]++
		}
		if want := map[executor.ReportKind]int{executor.Failed: 5, executor.DeadLetterFailed: 2, executor.DeadLettered: 1}; !maps.Equal(kinds, want) {
			t.Errorf("reports %v, want %v", kinds, want)
		}
	})
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, log(1000, "a", "b", "c", "d"))
		h.failures[400] = 3
		h.work = func(context.Context, *record) error { time.Sleep(time.Millisecond); return nil }
		cfg := h.config(4)
		cfg.Last = executor.Stop
		stopped := make(chan executor.Report, 1)
		cfg.Stopped = func(rep executor.Report) { stopped <- rep }
		r := start(t, cfg)
		h.assign(t, r)
		h.feed(r, 1000)
		if rep := <-stopped; rep.Offset != 400 || !errors.Is(rep.Err, errFails) || rep.Attempts != 3 {
			t.Errorf("stopped by %+v", rep)
		}
		time.Sleep(10 * time.Millisecond)
		n := h.count()
		time.Sleep(time.Second)
		if h.count() != n || n == 999 {
			t.Errorf("%d done, then %d", n, h.count())
		}
		closed(t, r, time.Second)
		if h.isCommitted(400) {
			t.Error("what stopped it is committed")
		}
	})
}

// A range that is revoked waits for its runs, and only for them; the others go on.
func TestRevokeWaitsForRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, log(4000, "a", "b", "c", "d", "e"))
		h.work = func(context.Context, *record) error { time.Sleep(5 * time.Millisecond); return nil }
		r := start(t, h.config(5))
		h.assign(t, r)
		h.feed(r, 4000)
		time.Sleep(22 * time.Millisecond)
		low := keyrange.Set{keyrange.OfSlice(0, 2)}
		begin := time.Now()
		rel, err := r.Revoke(context.Background(), orders, low, time.Second)
		if err != nil || len(rel.Running) > 0 || rel.Uncommitted || !slices.Equal(rel.Keys, low) {
			t.Errorf("released %+v: %v", rel, err)
		}
		if d := time.Since(begin); d > 10*time.Millisecond {
			t.Errorf("took %v", d)
		}
		h.mu.Lock()
		before := maps.Clone(h.done)
		h.mu.Unlock()
		time.Sleep(100 * time.Millisecond)
		h.mu.Lock()
		for _, rec := range h.log {
			mine := low.Contains(rec.position())
			if mine && h.done[rec.offset] > before[rec.offset] {
				t.Errorf("%d ran after its range was released", rec.offset)
			}
		}
		if len(h.done) <= len(before) {
			t.Error("the others do not go on")
		}
		h.mu.Unlock()
		closed(t, r, time.Second)
	})
}

// A range goes and comes back a thousand times while a handler runs for 5 s. Case I4.
func TestARangeThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, log(20, "a", "b", "c", "d"))
		h.work = func(_ context.Context, r *record) error { // it does not look at its context
			if r.offset == 0 {
				time.Sleep(5 * time.Second)
			}
			return nil
		}
		r := start(t, h.config(3))
		h.assign(t, r)
		h.feed(r, 20)
		for range 1000 {
			time.Sleep(time.Millisecond)
			if rel, err := r.Revoke(context.Background(), orders, nil, 0); err != nil || len(rel.Running) > 1 {
				t.Fatalf("%+v, %v", rel, err)
			}
			if err := r.Assign(orders, executor.Assignment{Base: 1, Start: h.watermark, Committed: h.committed()}); err != nil {
				t.Fatal(err)
			}
			h.feed(r, 20)
		}
		until(t, "all is done", func() bool { return h.count() == 20 && r.Stats().Running == 0 })
		closed(t, r, time.Second)
		if h.watermark != 20 {
			t.Errorf("committed up to %d", h.watermark)
		}
		for o, n := range h.done {
			if n != 1 && o != 0 {
				t.Errorf("%d was done %d times", o, n)
			}
		}
	})
}

func (h *host) committed() []done.Committed {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := done.Committed{Keys: keyrange.Full}
	for _, o := range slices.Sorted(maps.Keys(h.above)) {
		if n := len(c.Ranges); n > 0 && o <= c.Ranges[n-1].Last+1 {
			c.Ranges[n-1].Last = o
		} else {
			c.Ranges = append(c.Ranges, offsets.Range{First: o, Last: o})
		}
	}
	return []done.Committed{c}
}

// A handler that runs past its lease is reported, again and again, unless it extends it. Other keys go on.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, log(40, "a", "b", "c", "d"))
		h.work = func(ctx context.Context, r *record) error {
			switch r.offset {
			case 1:
				time.Sleep(25 * time.Second)
			case 2:
				for range 3 {
					if !Extend(ctx, 10*time.Second) {
						t.Error("no lease to extend")
					}
					time.Sleep(9 * time.Second)
				}
			}
			return nil
		}
		cfg := h.config(4)
		cfg.Lease = 10 * executor.Second
		r := start(t, cfg)
		h.assign(t, r)
		h.feed(r, 40)
		until(t, "all is done", func() bool { return h.count() == 40 })
		closed(t, r, time.Second)
		var overdue []string
		for _, rep := range h.reports {
			overdue = append(overdue, fmt.Sprintf("%v %d %s %v", rep.Kind == executor.Overdue, rep.Offset, rep.Key, rep.Running))
		}
		if !slices.Equal(overdue, []string{"true 1 b true", "true 1 b true"}) {
			t.Errorf("reports %v", overdue)
		}
	})
}

// Handlers that end their goroutine cost an attempt, and no worker.
func TestGoexit(t *testing.T) {
	h := newHost(t, log(100, ""))
	cfg := h.config(2)
	var mu sync.Mutex
	n := 0
	cfg.Handle = func(ctx context.Context, task *executor.Task[*record]) executor.Result {
		mu.Lock()
		n++
		exit := n%3 == 0
		mu.Unlock()
		if exit {
			runtime.Goexit()
		}
		return h.handle(ctx, task)
	}
	cfg.Backoff = executor.Backoff{First: 1, Max: 1}
	cfg.MaxAttempts = 0
	r := start(t, cfg)
	h.assign(t, r)
	h.feed(r, 100)
	until(t, "all is done", func() bool { return h.count() == 100 })
	closed(t, r, time.Second)
	h.onceEach(t)
}
