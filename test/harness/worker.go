package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// WorkerSpec says how a worker works: a process that consumes with package client in its handler mode and shares partitions by key. Zero values mean the client's
// defaults. test/worker is the program.
type WorkerSpec struct {
	Bootstrap, Group string
	Topics           []string
	Member           string // its name in the ledger, and its client id
	Instance         string // static membership: who takes its place need not wait for its session to end
	InProcess        bool   // without a gateway: Bootstrap is the cluster's
	Cooperative      bool
	ByRecord         time.Duration // share by record, with this session timeout
	Poll             bool          // with Poll and Commit in place of a handler. Attempts are not repeated then
	Concurrency      int
	Buffered         int  // records in memory
	Committed        bool // read_committed

	Session, Drain, Lease, CommitInterval time.Duration
	First, Max                            time.Duration // the backoff
	Attempts                              int
	DeadLetter                            string

	Transactional string        // the transactional id: each record is copied to Out in the transaction that commits it
	Out           string        // a topic
	Transaction   time.Duration // timeout of the transactions

	Work     time.Duration           // of each record; it ends early when the record is taken away
	Counts   time.Duration           // print an event "counts" so often in place of the attempts
	Begins   bool                    // print a line for the begin of each attempt, too
	Commits  bool                    // print an event "committed" for each commit of a partition
	Fail     map[int64]int           // the first attempts of these offsets fail; -1: all
	Later    map[int64]time.Duration // the first attempt of these offsets fails, and asks for this delay
	Kill     []int64                 // the process kills itself when it handles one of these offsets
	FailKeys string                  // keys that begin so fail for ever; empty: none
	Hang     []int64                 // the handlers of these offsets never return, whatever happens
	Hold     int64                   // from this offset on attempts do their work only when the process has been told to end; 0: none
}

// Named is s with another name.
func (s WorkerSpec) Named(member string) WorkerSpec {
	s.Member = member
	return s
}

// WorkerRun is an attempt of a record, as a worker prints it.
type WorkerRun struct {
	Member     string
	Topic      string
	Partition  int32
	Offset     int64
	Key, Value string
	Attempt    int
	Start      int64  // ns since the epoch
	End        int64  // 0: this line is about the begin
	Err        string // the attempt failed
	Written    int64  // the record's timestamp, in ms
	Event      string // not empty: no attempt, but "assigned", "revoked", "lost", "committed" or "counts"
	Ranges     string `json:",omitempty"` // of the event

	// Of the event "counts": records that are done, failures, and the bytes of the heap that are in use. Start is when the first handler began, End when the
	// last one succeeded.
	Done, Failed, Heap int64 `json:",omitempty"`
}

// Worker is a running worker.
type Worker struct {
	*Process
	read int // bytes of the output that Collect has taken
}

// StartWorker starts a worker.
func StartWorker(t testing.TB, s WorkerSpec) *Worker {
	t.Helper()
	spec, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return &Worker{Process: Start(t, s.Member, exec.Command(program(t, "worker", "./test/worker"), string(spec)))}
}

// Lines is all that the worker has printed so far.
func (w *Worker) Lines(t testing.TB) []WorkerRun {
	t.Helper()
	list, _ := w.lines(t, 0)
	return list
}

// Runs are the attempts that have ended so far.
func (w *Worker) Runs(t testing.TB) (list []WorkerRun) {
	t.Helper()
	for _, r := range w.Lines(t) {
		if r.Event == "" && r.End > 0 {
			list = append(list, r)
		}
	}
	return list
}

// LastCounts is the last event "counts"; the zero WorkerRun: there was none.
func (w *Worker) LastCounts(t testing.TB) (last WorkerRun) {
	t.Helper()
	for _, r := range w.Lines(t) {
		if r.Event == "counts" {
			last = r
		}
	}
	return last
}

// Handling counts the attempts that have begun and not ended, of a worker that prints their begins.
func (w *Worker) Handling(t testing.TB) int {
	t.Helper()
	n := 0
	for _, r := range w.Lines(t) {
		switch {
		case r.Event != "":
		case r.End == 0:
			n++
		default:
			n--
		}
	}
	return n
}

// lines reads the whole lines of the output from a byte on, and returns where they end.
func (w *Worker) lines(t testing.TB, from int) (list []WorkerRun, end int) {
	t.Helper()
	b, err := os.ReadFile(w.Out)
	if err != nil {
		t.Fatal(err)
	}
	for {
		line, _, whole := bytes.Cut(b[from:], []byte("\n"))
		if !whole {
			return list, from
		}
		from += len(line) + 1
		var r WorkerRun
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%s printed %q: %v", w.Name, line, err)
		}
		list = append(list, r)
	}
}

// Collect enters the records that the worker has handled with success since the last call into the ledger, and returns how many those were.
func (w *Worker) Collect(t testing.TB, l *Ledger) (n int) {
	t.Helper()
	var list []WorkerRun
	list, w.read = w.lines(t, w.read)
	for _, r := range list {
		if r.Event != "" || r.End == 0 || r.Err != "" {
			continue
		}
		n++
		l.Delivered(Delivery{Member: r.Member, Partition: r.Partition, Offset: r.Offset, N: number([]byte(r.Value)), Start: time.Unix(0, r.Start), End: time.Unix(0, r.End)})
	}
	return n
}

// CollectUntil collects what workers have handled until nothing is open in the ledger.
func CollectUntil(t testing.TB, limit time.Duration, l *Ledger, workers ...*Worker) {
	t.Helper()
	within := Until(limit) // the report, which costs much, is for the last look only
	Eventually(t, limit, func() error {
		for _, w := range workers {
			w.Collect(t, l)
		}
		switch n := l.Open(); {
		case n > 0 && within():
			return fmt.Errorf("%d records are not handled", n)
		case n > 0:
			return fmt.Errorf("%d records are not handled: %s", n, l.Report(nil))
		}
		return nil
	})
}
