package peers

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestWorkIsTheSameEachTime(t *testing.T) {
	w := Work{Records: 10_000, Keys: 200, Zipf: 1, Takes: 10 * time.Millisecond, Bytes: 100}
	tasks := w.Tasks()
	if !slices.Equal(tasks, w.Tasks()) {
		t.Error("two calls give different tasks")
	}
	count := make([]int, w.Keys)
	for i, task := range tasks {
		if int(task.Index) != i || int(task.Seq) != count[task.Key] || task.Takes != w.Takes {
			t.Fatalf("task %d is %+v, the %dth of its key", i, task, count[task.Key])
		}
		count[task.Key]++
	}
	if n := count[0]; n < 1600 || n > 1800 { // 1/H(200) is 17 %
		t.Errorf("the hottest key has %d of 10,000 records", n)
	}
	w.Without = true
	if alone := w.Tasks(); len(alone) != len(tasks)-count[0] || slices.ContainsFunc(alone, func(t Task) bool { return t.Key == 0 }) {
		t.Errorf("%d tasks are left without the %d of key 0 of %d", len(alone), count[0], len(tasks))
	}
	stuck := Work{Records: 1000, Keys: 10, Takes: time.Millisecond, Uniform: true, Stuck: time.Second}
	var sum time.Duration
	for _, task := range stuck.Tasks() {
		if (task.Takes == time.Second) != (task.Key == 0) || task.Key > 0 && task.Takes > 2*time.Millisecond {
			t.Fatalf("%+v", task)
		}
		if task.Key > 0 {
			sum += task.Takes
		}
	}
	if mean := sum / 900; mean < 900*time.Microsecond || mean > 1100*time.Microsecond {
		t.Errorf("a record takes %v on average", mean)
	}
	for _, task := range tasks[:10] {
		if got, err := decodeTask(task.encode(100)); err != nil || got != task {
			t.Errorf("%+v became %+v, %v", task, got, err)
		}
	}
	if _, err := decodeTask([]byte("short")); err == nil {
		t.Error("a short value is a task")
	}
}

func TestJournalIsReadWhileItIsWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "journal")
	in, err := os.OpenFile(file, os.O_RDONLY|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	r := reader{in: in}
	var got []Entry
	read := func() {
		t.Helper()
		if err := r.read(func(e Entry) error { got = append(got, e); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	j, err := newJournal(file)
	if err != nil {
		t.Fatal(err)
	}
	at := time.UnixMicro(1_700_000_000_123_456)
	const n = 10_000
	for i := range uint32(n) {
		j.add(Task{Index: i, Key: i % 7, Seq: i / 7}, at, at.Add(time.Duration(i)*time.Microsecond))
		if i%100 == 0 {
			read()
		}
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	read()
	if len(got) != n {
		t.Fatalf("%d of %d entries were read", len(got), n)
	}
	slices.SortFunc(got, func(a, b Entry) int { return int(a.Index) - int(b.Index) })
	for i, e := range got {
		if int(e.Index) != i || int(e.Key) != i%7 || int(e.Seq) != i/7 || !e.Start.Equal(at) || e.End.Sub(at) != time.Duration(i)*time.Microsecond {
			t.Fatalf("entry %d is %+v", i, e)
		}
	}
	// An entry that is written in two parts is one.
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	got = nil
	for _, part := range [][]byte{make([]byte, entryBytes-1), make([]byte, 1)} {
		if len(got) > 0 {
			t.Error("half an entry was read")
		}
		if _, err := out.Write(part); err != nil {
			t.Fatal(err)
		}
		read()
	}
	if len(got) != 1 {
		t.Errorf("%d entries of one", len(got))
	}
}

// outcomeOf makes an outcome of tasks of the keys, of which each that is in times ran from when to when, in ms.
func outcomeOf(w Work, keys []uint32, times map[int][2]int) *Outcome {
	tr := trial{w: w}
	seq := map[uint32]uint32{}
	for i, k := range keys {
		tr.tasks = append(tr.tasks, Task{Index: uint32(i), Key: k, Seq: seq[k]})
		seq[k]++
	}
	o := tr.outcome()
	o.Begin = time.UnixMilli(1_000_000)
	for i, at := range times {
		ms := func(n int) time.Time { return o.Begin.Add(time.Duration(n) * time.Millisecond) }
		if err := o.add(Entry{Task: tr.tasks[i], Start: ms(at[0]), End: ms(at[1]), Process: at[0] / 1000}); err != nil {
			panic(err)
		}
	}
	return o
}

func TestOutcome(t *testing.T) {
	w := Work{Keys: 3, Rate: 100, Stuck: time.Second}
	o := outcomeOf(w, []uint32{0, 1, 1, 2, 1}, map[int][2]int{1: {10, 20}, 2: {15, 30}, 3: {30, 70}, 4: {2000, 2020}})
	if n := o.AtOnce(); n != 2 { // what begins when another ends is not beside it
		t.Errorf("%d records at once, want 2", n)
	}
	if n := o.Overtaken(); n != 1 { // 2 began before 1 had ended
		t.Errorf("%d records overtook others, want 1", n)
	}
	if !o.over() {
		t.Error("a run waits for the key that is stuck")
	}
	if got := o.PerSecond(func(e *Entry) bool { return e.Index < 4 }); got != 40 { // two after the first, in 50 ms
		t.Errorf("%v records/s, want 40", got)
	}
	if got := o.Latency(1, 10*time.Millisecond, func(e *Entry) bool { return e.Index < 4 }); got != 40*time.Millisecond { // the last was due after 30 ms
		t.Errorf("latency %v, want 40ms", got)
	}
	if got := o.Latency(1, 0, Everything); got < time.Hour {
		t.Errorf("what is not done took %v", got)
	}
	if waits := o.Moved(); len(waits) != 1 || waits[0] != 1960*time.Millisecond { // due after 40 ms, begun after 2 s
		t.Errorf("moved %v, want one that waited 1.96s", waits)
	}
	if err := o.add(*o.of(Everything)[0]); err != nil || o.Duplicates() != 1 || o.Done() != 4 {
		t.Errorf("%v: %d twice, %d done, want 1 and 4", err, o.Duplicates(), o.Done())
	}
	if err := o.add(Entry{Task: Task{Index: 1, Key: 2}}); err == nil {
		t.Error("an entry of another key was taken")
	}
	// A record that began although an earlier one of its key was never done.
	if n := outcomeOf(w, []uint32{1, 1}, map[int][2]int{1: {0, 1}}).Overtaken(); n != 1 {
		t.Errorf("%d overtook, want 1", n)
	}
}

func TestSleepIsNotShort(t *testing.T) {
	var s sleeper
	for _, d := range []time.Duration{-1, 0, 50 * time.Microsecond, 3 * time.Millisecond} {
		start := time.Now()
		if err := s.sleep(d); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < d {
			t.Errorf("slept %v of %v", took, d)
		}
	}
}
