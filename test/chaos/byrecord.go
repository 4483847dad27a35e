package chaos

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
)

// sessions are the session timeouts of members that share by record: one that ends before the group drops a member, and one that ends after that.
func sessions(seed uint64) time.Duration {
	return []time.Duration{3 * time.Second, 5 * time.Second}[seed/2%2]
}

const (
	handlers = 4                     // of a member that shares by record
	quick    = 10 * time.Millisecond // its work
	ahead    = time.Second / 2       // for so long it fetches ahead at its pace, at most
	untold   = 64                    // offsets of a partition that a gateway acquires before there are records
	// processes are gateways and members that carry one, at most: each acquires behind what the others have.
	processes = 8
)

// sharesByRecord says how a member works that shares by record. Some are slow: their work takes longer than a session, and is theirs all the same.
func (s *scene) sharesByRecord(m *member, spec *harness.WorkerSpec) {
	spec.ByRecord, spec.Concurrency, spec.Work, spec.Begins, spec.Commits, spec.Committed = s.byRecord, handlers, quick, true, true, s.aborts
	m.hands = handlers + handlers*int(ahead/quick)
	if m.slow = s.swift() >= 2 && s.random.IntN(3) == 0; m.slow {
		spec.Work, spec.Drain = s.byRecord*3/2, s.byRecord*3
		m.hands = handlers + 1
	}
	m.hands += few * untold
}

// run is a record in the hands of a handler.
type run struct {
	harness.WorkerRun
	of *member
}

func (r *run) begin() time.Time { return time.Unix(0, r.Start) }

// begun tells the runs of a member apart.
type begun struct {
	partition     int32
	offset, start int64
}

// collectRuns takes the whole lines that a member which shares by record has printed since the last call. What its handlers have ended goes to the ledger.
func (m *member) collectRuns(t testing.TB, l *harness.Ledger) {
	t.Helper()
	if m.name = m.id; m.begun == nil {
		m.begun = map[begun]*run{}
	}
	for _, text := range m.fresh(t) {
		var w harness.WorkerRun
		if err := json.Unmarshal(text, &w); err != nil {
			t.Fatalf("%s printed %q: %v", m.Name, text, err)
		}
		at := begun{w.Partition, w.Offset, w.Start}
		switch {
		case w.Event == "committed":
			m.commits = append(m.commits, commit{partition: w.Partition, began: time.Unix(0, w.Start), ended: time.Unix(0, w.End), failed: w.Err != ""})
		case w.Event != "":
			m.events = append(m.events, event{w.Event, time.Unix(0, w.Start)})
		case w.End == 0:
			m.begun[at] = &run{w, m}
			m.runs = append(m.runs, m.begun[at])
		default:
			m.begun[at].WorkerRun = w
			delete(m.begun, at)
			if w.Err == "" {
				l.Delivered(harness.Delivery{Member: m.name, Partition: w.Partition, Offset: w.Offset, N: number(w.Value), Start: time.Unix(0, w.Start), End: time.Unix(0, w.End)})
			}
		}
	}
}

// fresh reads the whole lines that the member has printed since the last call.
func (m *member) fresh(t testing.TB) (lines [][]byte) {
	t.Helper()
	f, err := os.Open(m.Out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, m.read, 1<<40))
	if err != nil {
		t.Fatal(err)
	}
	b = b[:bytes.LastIndexByte(b, '\n')+1]
	m.read += int64(len(b))
	for _, text := range bytes.Split(bytes.TrimSpace(b), []byte("\n")) {
		if len(text) > 0 {
			lines = append(lines, text)
		}
	}
	return lines
}

// silences are the times in which a member was not heard of for its session timeout, as it says itself: from when others could have what it had, to when it let go of that.
func (m *member) silences(t testing.TB, session time.Duration) (list []loss) {
	t.Helper()
	for _, found := range silence.FindAllStringSubmatch(m.Log(), -1) {
		at, err := time.Parse(time.RFC3339Nano, found[1])
		if err != nil {
			t.Fatal(err)
		}
		silent, err := time.ParseDuration(found[2])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, loss{how: "was silent", from: at.Add(session - silent), to: at})
	}
	return list
}

var silence = regexp.MustCompile(`time=(\S+) .* was not heard of for its session timeout.* silent=(\S+)`)

// outage is a time in which a gateway was dead, or a broker.
type outage struct {
	gateway  string // its bootstrap; "" for a broker, which may be anybody's
	from, to time.Time
}

// outages are those of all scenes, which share the brokers.
var outages struct {
	sync.Mutex
	list []*outage
}

// begins notes that a gateway or a broker is about to be killed. It is for good, unless back is called when it is up again.
func begins(gateway string) (back func()) {
	o := &outage{gateway: gateway, from: time.Now()}
	outages.Lock()
	defer outages.Unlock()
	outages.list = append(outages.list, o)
	return func() {
		outages.Lock()
		defer outages.Unlock()
		o.to = time.Now()
	}
}

// long are the outages that a member may have felt since a time, and that were at least so long.
func (m *member) long(since time.Time, d time.Duration) (list []outage) {
	outages.Lock()
	defer outages.Unlock()
	for _, o := range outages.list {
		if o.to.Sub(o.from) >= d && o.to.After(since) && (o.gateway == "" || m.kind != inProcess && strings.Contains(m.bootstrap, o.gateway)) {
			list = append(list, *o)
		}
	}
	return list
}
