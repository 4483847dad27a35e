package executor

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tandem-kafka/tandem/client/internal/done"
	"github.com/tandem-kafka/tandem/client/internal/offsets"
	"github.com/tandem-kafka/tandem/keyrange"
)

var tp0 = TP{"orders", 0}

// bed is a machine on a partition, with a clock.
type bed struct {
	*Machine[*rec]
	t   *testing.T
	now int64
	at  int64 // the next offset to produce
}

func newBed(t *testing.T, cfg Config, a Assignment) *bed {
	t.Helper()
	if cfg.Handlers == 0 {
		cfg.Handlers = 4
	}
	m, err := New(cfg, (*rec).meta, func(r *rec) *rec { c := *r; c.copied = true; return &c })
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{Machine: m, t: t, now: 1000 * Second, at: a.Start}
	if a.Base == 0 {
		a.Base = 1
	}
	if err := m.Assign(tp0, a, b.now); err != nil {
		t.Fatal(err)
	}
	return b
}

// fetch brings records with these keys, one letter each; "-" is none.
func (b *bed) fetch(keys string) {
	f := Fetch[*rec]{From: b.at}
	for _, k := range keys {
		r := &rec{tp: tp0, offset: b.at}
		if k != '-' {
			r.key = []byte(string(k))
		}
		f.Records = append(f.Records, r)
		b.at++
	}
	b.Fetched(tp0, f, b.now)
}

// take takes up to n tasks one by one, and says which.
func (b *bed) take(n int) (tasks []*Task[*rec]) {
	for range n {
		tasks = b.Take(tasks, 1, b.now)
	}
	return tasks
}

func names(tasks []*Task[*rec]) string {
	var s []string
	for _, t := range tasks {
		s = append(s, fmt.Sprintf("%s%d", t.Record.key, t.Offset()))
	}
	return strings.Join(s, " ")
}

func (b *bed) finish(tasks []*Task[*rec], res Result) {
	for _, t := range tasks {
		b.Finish(t, res, b.now)
	}
}

func (b *bed) wait(d int64) Output {
	b.now += d
	b.Tick(b.now)
	return b.Output()
}

func (b *bed) expect(what string, got, want any) {
	b.t.Helper()
	if !reflect.DeepEqual(got, want) {
		b.t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

func TestKeysThatLagBehindGoFirst(t *testing.T) {
	b := newBed(t, Config{}, Assignment{})
	b.fetch("aabacade")
	first := b.take(4)
	b.expect("first", names(first), "a0 b2 c4 d6")
	b.finish(first[:1], Result{})
	b.expect("after a0", names(b.take(9)), "a1 e7")
}

func TestOrders(t *testing.T) {
	for order, want := range map[Order]string{ByKey: "a0 b1 3 4 c5", ByPartition: "a0", Unordered: "a0 b1 a2 3 4 c5"} {
		b := newBed(t, Config{Order: order}, Assignment{})
		b.fetch("aba--c")
		b.expect(fmt.Sprint("order ", order), names(b.take(9)), want)
	}
}

func TestBackoff(t *testing.T) {
	b := newBed(t, Config{MaxAttempts: 6, Backoff: Backoff{First: Second, Max: 3 * Second}}, Assignment{})
	b.fetch("aab")
	for i, res := range []struct {
		Result
		wait int64
	}{{Result{Err: errHandler}, Second}, {Result{Err: errHandler}, 2 * Second}, {Result{Err: errHandler}, 3 * Second}, {Result{Err: errHandler, Delay: 60 * Second}, 60 * Second}} {
		tasks := b.take(1)
		b.expect("task", names(tasks), "a0")
		b.expect("attempt", tasks[0].Attempt(), int32(i+1))
		b.finish(tasks, res.Result)
		if i == 0 {
			other := b.take(2)
			b.expect("meanwhile", names(other), "b2")
			b.finish(other, Result{})
		}
		b.wait(res.wait - 1)
		b.expect("too early", names(b.take(1)), "")
		b.wait(1)
	}
	tasks := b.take(1)
	b.finish(tasks, Result{Err: errHandler, Final: true})
	tasks = b.take(1)
	b.expect("kind after a final error", tasks[0].Kind(), KindDeadLetter)
	b.finish(tasks, Result{})
	b.expect("then", names(b.take(2)), "a1")
}

func TestJitterOnlyShortens(t *testing.T) {
	b := Backoff{First: Second, Max: 1000 * Second, Jitter: 20}
	seen := map[int64]bool{}
	for o := range int64(1000) {
		d := b.after(3, mix(7, o, 3))
		if seen[d] = true; d > 4*Second || d < 4*Second*80/100 {
			t.Fatalf("waits %d", d)
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %d different waits", len(seen))
	}
	if d := b.after(1<<30, 0); d != 1000*Second {
		t.Errorf("attempt 2^30 waits %d", d)
	}
}

func TestRetriesComeBack(t *testing.T) {
	cfg := Config{MaxAttempts: 3, Backoff: Backoff{First: 10 * Second}}
	b := newBed(t, cfg, Assignment{})
	b.fetch("aab")
	b.finish(b.take(2), Result{Err: errHandler})
	commits := b.wait(Second).Commits
	want := []Retry{{Offset: 0, Attempts: 1, NextAt: 1010 * Second, Cause: "handler failed", Hash: keyrange.Murmur2([]byte("a")), Keyed: true},
		{Offset: 2, Attempts: 1, NextAt: 1010 * Second, Cause: "handler failed", Hash: keyrange.Murmur2([]byte("b")), Keyed: true}}
	b.expect("committed", commits[0].Retries, want)

	b = newBed(t, cfg, Assignment{Retries: append(want, Retry{Offset: 3, Attempts: 3, Cause: "died"}, Retry{Offset: 4, Attempts: 1, Final: true})})
	b.fetch("aabcd")
	tasks := b.take(9)
	b.expect("at once", names(tasks), "c3 d4")
	b.expect("kinds", []Kind{tasks[0].Kind(), tasks[1].Kind()}, []Kind{KindDeadLetter, KindDeadLetter})
	b.expect("cause", tasks[0].Cause().Error(), "died")
	b.expect("attempts", tasks[0].Attempt(), int32(3))
	b.finish(tasks, Result{})
	b.wait(10 * Second)
	tasks = b.take(9)
	b.expect("later", names(tasks), "a0 b2")
	b.expect("attempt", tasks[0].Attempt(), int32(2))
	b.finish(tasks, Result{})
	b.expect("left", b.Retries(tp0), []Retry(nil))
}

// Commits come with the interval, or when there are many ranges.
func TestWhenCommitsAreCut(t *testing.T) {
	b := newBed(t, Config{CommitInterval: Second, MaxRanges: 16, MaxRecords: 1 << 16, Handlers: 1000}, Assignment{})
	b.fetch(strings.Repeat("-", 100))
	tasks := b.take(100)
	b.finish(tasks[1:2], Result{})
	b.expect("NextWake", b.NextWake(), b.now+Second)
	b.expect("before the interval", len(b.wait(Second-1).Commits), 0)
	c := b.wait(1).Commits
	b.expect("at the interval", []Commit{{ID: c[0].ID, TP: tp0, Keys: keyrange.Set{keyrange.Full}, Watermark: -1, Ranges: []offsets.Range{{First: 1, Last: 1}}}}, c)
	b.CommitDone(c[0].ID, true, b.now)
	b.expect("NextWake when nothing is due", b.NextWake(), int64(0)+b.keepAt)
	for i := 3; i < 29; i += 2 {
		b.finish(tasks[i:i+1], Result{})
	}
	b.expect("with few ranges", len(b.Output().Commits), 0)
	b.finish(tasks[29:30], Result{})
	c = b.Output().Commits
	b.expect("with many ranges", len(c[0].Ranges), 14)
	b.finish(tasks[31:], Result{})
	b.expect("while one is under way", len(b.wait(5*Second).Commits), 0)
	b.CommitDone(c[0].ID, false, b.now)
	b.expect("after it failed, not at once", len(b.wait(0).Commits), 0)
	c = b.wait(Second).Commits
	b.expect("ranges", len(c[0].Ranges), 15)
	b.CommitDone(c[0].ID, true, b.now)
	b.finish(tasks[0:1], Result{})
	c = b.wait(Second).Commits
	b.expect("watermark", c[0].Watermark, int64(2))
}

// An empty stretch moves the watermark, and what OffsetFetch answered is not done again.
func TestWhatNeedsNoWork(t *testing.T) {
	b := newBed(t, Config{}, Assignment{Start: 5, Committed: []done.Committed{{Keys: keyrange.Full, Ranges: []offsets.Range{{First: 7, Last: 8}}}}})
	b.fetch("abcde")
	tasks := b.take(9)
	b.expect("tasks", names(tasks), "a5 b6 e9")
	b.finish(tasks[1:], Result{})
	c := b.wait(Second).Commits
	b.expect("ranges", c[0].Ranges, []offsets.Range{{First: 6, Last: 9}})
	b.CommitDone(c[0].ID, true, b.now)
	b.finish(tasks[:1], Result{})
	b.Fetched(tp0, Fetch[*rec]{From: 10, To: 50}, b.now)
	b.expect("watermark", b.wait(Second).Commits[0].Watermark, int64(50))
}

// One record of 50 kills the process each time, five attempts are allowed. Case I7.
func TestARecordThatKillsTheProcess(t *testing.T) {
	const poison = 17
	cfg := Config{Handlers: 50, MaxAttempts: 5}
	var committed []offsets.Range
	var retries []Retry
	watermark := int64(0)
	ran := map[int64]int{}
	letters := 0
	for life := 1; watermark < 50; life++ {
		if life > 20 {
			t.Fatal("it dies for ever")
		}
		a := Assignment{Start: watermark, Committed: []done.Committed{{Keys: keyrange.Full, Ranges: committed}}, Retries: retries}
		if life > 1 {
			a.Guard = 50 // the client knows that nobody has closed it
		}
		b := newBed(t, cfg, a)
		b.at = watermark
		b.fetch("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWX"[watermark:])
		alive := true
		for alive {
			for _, c := range b.wait(Second).Commits {
				watermark = max(watermark, c.Watermark)
				committed = append(committed, c.Ranges...)
				slices.SortFunc(committed, func(a, b offsets.Range) int { return int(a.First - b.First) })
				retries = c.Retries
				b.CommitDone(c.ID, true, b.now)
			}
			tasks := b.take(50)
			guarded := 0
			for _, task := range tasks {
				if task.Kind() == KindHandle {
					guarded++
				}
			}
			if life > 1 && guarded > 1 {
				t.Fatalf("%d guarded ones at once", guarded)
			}
			for _, task := range tasks {
				switch {
				case task.Kind() == KindDeadLetter:
					letters++
					b.expect("dead letter", task.Offset(), int64(poison))
				case task.Offset() == poison:
					ran[poison]++
					alive = false
				case life == 1: // they all begin, and die with it
				default:
					ran[task.Offset()]++
					b.expect("attempt of an innocent one", task.Attempt(), int32(1))
				}
				if alive && life > 1 {
					b.Finish(task, Result{}, b.now)
				}
			}
			alive = alive && (watermark < 50)
		}
	}
	if letters != 1 || ran[poison] != 6 { // the first death was nobody's attempt
		t.Errorf("%d dead letters after %d runs", letters, ran[poison])
	}
	for o := range int64(50) {
		if o != poison && ran[o] != 1 {
			t.Errorf("%d ran %d times", o, ran[o])
		}
	}
}

// A guarded record that waits for long does not hold up the others.
func TestGuardedRecordsThatWait(t *testing.T) {
	b := newBed(t, Config{}, Assignment{Guard: 3, Retries: []Retry{{Offset: 0, Attempts: 1, NextAt: 2000 * Second}}})
	b.fetch("aabc")
	b.expect("before anything is counted", names(b.take(9)), "")
	c := b.Output().Commits
	b.CommitDone(c[0].ID, true, b.now)
	tasks := b.take(9)
	b.expect("one guarded at a time, and nothing else", names(tasks), "b2")
	b.finish(tasks, Result{})
	b.expect("then the others", names(b.take(9)), "c3")
}

// A dead letter does not wait for guarded records that wait behind it.
func TestADeadLetterBeforeGuardedRecords(t *testing.T) {
	b := newBed(t, Config{Order: ByPartition, MaxAttempts: 1}, Assignment{Guard: 3})
	b.fetch("abc")
	b.CommitDone(b.Output().Commits[0].ID, true, b.now)
	b.finish(b.take(1), Result{Err: errHandler})
	b.expect("kind", b.take(1)[0].Kind(), KindDeadLetter)
}

// Key ranges that come and go leave nothing behind.
func TestNothingPilesUp(t *testing.T) {
	b := newBed(t, Config{Backoff: Backoff{First: 3600 * Second, Max: 3600 * Second}}, Assignment{})
	for range 1000 {
		b.fetch("abcd-")
		b.finish(b.take(5), Result{Err: errHandler})
		b.Lost(tp0, nil, b.now)
		if err := b.Assign(tp0, Assignment{Base: 1, Start: b.at}, b.now); err != nil {
			t.Fatal(err)
		}
		b.Output()
	}
	if b.Stats() != (Stats{}) || len(b.late) > 100 || len(b.slabs) > 1 || len(b.commits) > 0 || len(b.order) != 1 || b.keys.n > 0 || len(b.old)+b.fresh.n > 0 {
		t.Errorf("left: %+v, %d entries, %d slabs, %d commits, %d partitions", b.Stats(), len(b.late), len(b.slabs), len(b.commits), len(b.order))
	}
}

// An attempt that was counted and did not begin is no attempt.
func TestACountedAttemptThatDidNotBegin(t *testing.T) {
	b := newBed(t, Config{}, Assignment{Guard: 3})
	b.fetch("ab")
	c := b.Output().Commits[0]
	b.expect("counted", c.Retries, []Retry{{Offset: 0, Attempts: 1, Hash: keyrange.Murmur2([]byte("a")), Keyed: true}})
	b.CommitDone(c.ID, true, b.now)
	b.Revoke(tp0, nil, b.now, b.now)
	out := b.Output()
	b.expect("given back", out.Commits[0].Retries, []Retry(nil))
	b.CommitDone(out.Commits[0].ID, true, b.now)
	b.expect("released", b.Output().Released[0].Dropped, 2)
}

// Keys that need their shed records do not wait for ever when memory is full of others that are blocked.
func TestRereadGetsRoom(t *testing.T) {
	b := newBed(t, Config{MaxRecords: 16, MaxShed: 100, Handlers: 2, Backoff: Backoff{First: 3600 * Second}}, Assignment{})
	b.fetch("aaaaaaaaaaaaaaa")
	a := b.take(1)
	b.wait(Second)
	b.expect("shed", b.Stats().Shed, 13)
	b.fetch("bcbcbcbcbcbcbc") // fills the memory again
	b.finish(b.take(1), Result{Err: errHandler})
	b.finish(b.take(1), Result{Err: errHandler})
	b.finish(a, Result{})
	b.finish(b.take(1), Result{})
	b.expect("room", b.hasRoom(), false)
	b.expect("rereads without room", len(b.Output().Rereads), 0)
	b.paused, b.shedAt = nil, 0 // as if nothing was paused
	b.need(b.keys.get(b.parts[tp0], keyrange.Murmur2([]byte("a")), []byte("a")))
	b.parts[tp0].needy[0].needed = false
	b.need(b.parts[tp0].needy[0])
	b.expect("rereads", len(b.wait(Second).Rereads), 1)
}

// Shed records that the log has lost are done.
func TestLogStartPassesShedRecords(t *testing.T) {
	b := newBed(t, Config{MaxRecords: 16, MaxShed: 100, Handlers: 2, Backoff: Backoff{First: 3600 * Second}}, Assignment{})
	b.fetch("aaaaaaaaaaaaaaa")
	tasks := b.take(1)
	b.wait(Second)
	b.LogStart(tp0, 10, b.now)
	b.expect("shed", b.Stats().Shed, 5)
	b.finish(tasks, Result{})
	b.finish(b.take(1), Result{})
	r := b.Output().Rereads[0]
	b.expect("reread from", r.From, int64(10))
	b.LogStart(tp0, 50, b.now)
	b.RereadFailed(r.ID, b.now)
	b.expect("stats", b.Stats(), Stats{})
	c := b.wait(Second).Commits
	b.expect("watermark", c[0].Watermark, int64(50))
}

// A partition that was paused for others resumes as soon as it is empty, though not much room came.
func TestASmallPartitionResumes(t *testing.T) {
	b := newBed(t, Config{MaxRecords: 1000, Order: ByPartition}, Assignment{})
	tp1 := TP{"orders", 1}
	if err := b.Assign(tp1, Assignment{Base: 1}, b.now); err != nil {
		t.Fatal(err)
	}
	b.Fetched(tp1, Fetch[*rec]{Records: []*rec{{tp: tp1}}}, b.now)
	b.fetch(strings.Repeat("a", 998))
	b.Fetched(tp1, Fetch[*rec]{From: 1, Records: []*rec{{tp: tp1, offset: 1}, {tp: tp1, offset: 2}, {tp: tp1, offset: 3}}}, b.now)
	b.expect("paused", b.Output().Flow, []Flow{{tp0, true}, {tp1, true}})
	for range 4 {
		b.finish(b.take(1), Result{})
	}
	tasks := b.take(2)
	for len(tasks) > 0 && b.parts[tp1].records > 0 {
		b.finish(tasks[:1], Result{})
		tasks = append(tasks[1:], b.take(1)...)
	}
	b.expect("resumed", slices.Contains(b.Output().Flow, Flow{tp1, false}), true)
}

// Records that stay get memory of their own, but not while they run.
func TestRecordsThatStayAreCopied(t *testing.T) {
	b := newBed(t, Config{}, Assignment{})
	b.fetch("aab")
	tasks := b.take(1)
	b.wait(2 * Second)
	b.expect("the one that runs", tasks[0].Record.copied, false)
	b.finish(tasks, Result{Err: errHandler})
	b.wait(Second)
	for _, task := range b.take(9) {
		if !task.Record.copied {
			t.Errorf("%d was not copied", task.Offset())
		}
	}
	b.fetch("a")
	b.expect("keys", b.keys.n, 2)
}

func TestCloseReleasesEverything(t *testing.T) {
	b := newBed(t, Config{}, Assignment{Keys: keyrange.Set{keyrange.OfSlice(0, 2)}})
	if err := b.Assign(tp0, Assignment{Base: 1, Keys: keyrange.Set{keyrange.OfSlice(1, 2)}}, b.now); err != nil {
		t.Fatal(err)
	}
	ids := b.Close(b.now, b.now)
	rel := b.Output().Released
	b.expect("released", len(rel), 1)
	b.expect("id", rel[0].ID, ids[0])
	b.expect("key ranges", rel[0].Keys, keyrange.Set{keyrange.Full})
	if err := b.Assign(tp0, Assignment{Base: 1}, b.now); err == nil {
		t.Error("assigned after Close")
	}
}

func TestWhatIsRefused(t *testing.T) {
	b := newBed(t, Config{}, Assignment{Keys: keyrange.Set{keyrange.OfSlice(0, 2)}})
	for what, a := range map[string]Assignment{
		"overlap":    {Base: 1},
		"base":       {Keys: keyrange.Set{keyrange.OfSlice(1, 2)}},
		"other base": {Base: 2, Keys: keyrange.Set{keyrange.OfSlice(1, 2)}},
		"start":      {Base: 1, Start: -1, Keys: keyrange.Set{keyrange.OfSlice(1, 2)}},
		"unsorted":   {Base: 1, Keys: keyrange.Set{keyrange.OfSlice(3, 4), keyrange.OfSlice(1, 4)}},
	} {
		if err := b.Assign(tp0, a, b.now); err == nil {
			t.Errorf("assigned: %s", what)
		}
	}
	for _, cfg := range []Config{{}, {Handlers: 1, Order: 9}, {Handlers: 1, Last: 9}, {Handlers: 1, MaxRecords: -1}, {Handlers: 1, Lease: -1}, {Handlers: 1, Backoff: Backoff{First: 2, Max: 1}},
		{Handlers: 1, Backoff: Backoff{Jitter: 101}}} {
		if _, err := New(cfg, (*rec).meta, nil); err == nil {
			t.Errorf("accepted %+v", cfg)
		}
	}
}

// Before the limit of what may be shed there is a warning, and at the limit the fetch pauses.
func TestTheLimitOfShedRecords(t *testing.T) {
	b := newBed(t, Config{MaxRecords: 16, MaxShed: 100, Handlers: 2, Backoff: Backoff{First: 3600 * Second}}, Assignment{})
	var warned []Report
	for i := 0; !b.Paused(tp0) || i < 20; i++ {
		b.fetch("aaaaa")
		b.finish(b.take(1), Result{Err: errHandler})
		for _, r := range b.wait(Second).Reports {
			if r.Kind == ShedHigh {
				warned = append(warned, r)
			}
		}
		if s := b.Stats().Shed; s > 105 {
			t.Fatalf("%d shed", s)
		} else if len(warned) > 0 != (s >= 75) {
			t.Fatalf("%d warnings at %d", len(warned), s)
		}
		if i >= 20 && b.Paused(tp0) {
			break
		}
		if b.Paused(tp0) {
			b.wait(Second)
		}
	}
	if len(warned) != 1 || warned[0].Offset != 0 || string(warned[0].Key) != "a" || warned[0].Attempts != 1 {
		t.Errorf("warned %+v", warned)
	}
}
