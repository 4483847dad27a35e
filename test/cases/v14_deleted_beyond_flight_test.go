package cases

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// held is a consumer's work that waits in the middle of a record while it is shut.
type held struct {
	mu   sync.Mutex
	gate chan struct{}
	in   int // records that wait
	got  map[int32]map[int64]bool
}

func newHeld() *held { return &held{gate: make(chan struct{}), got: map[int32]map[int64]bool{}} }

func (h *held) handle(r *kgo.Record) {
	h.mu.Lock()
	h.in++
	h.mu.Unlock()
	<-h.gate
	h.mu.Lock()
	defer h.mu.Unlock()
	h.in--
	if h.got[r.Partition] == nil {
		h.got[r.Partition] = map[int64]bool{}
	}
	h.got[r.Partition][r.Offset] = true
}

func (h *held) waiting() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.in
}

// has says whether a record was worked on.
func (h *held) has(partition int32, offset int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.got[partition][offset]
}

// Records are deleted beyond what a group has in flight, with DeleteRecords and by retention: the consumers finish what they hold, go on at
// the first record that is left, and nobody shows a negative lag or stays behind (case V14).
func TestRecordsDeletedBeyondTheFlight(t *testing.T) {
	t.Parallel()
	harness.Need(t)
	deleting := map[string]func(t *testing.T, e engine, source string, l *harness.Ledger) int64{
		"DeleteRecords": func(t *testing.T, e engine, source string, _ *harness.Ledger) int64 {
			var to kadm.Offsets
			to.Add(kadm.Offset{Topic: source, Partition: 0, At: 700})
			resp, err := harness.Admin(t, e.kafka).DeleteRecords(harness.Context(t, 20*time.Second), to)
			if err == nil {
				err = resp.Error()
			}
			if err != nil {
				t.Fatal(err)
			}
			return 700
		},
		"retention": func(t *testing.T, e engine, source string, _ *harness.Ledger) int64 {
			alterTopic(t, e.kafka, source, "retention.ms", "1")
			a := harness.Admin(t, e.kafka)
			var start int64
			harness.Eventually(t, 30*time.Second, func() error {
				starts, err := a.ListStartOffsets(harness.Context(t, 10*time.Second), source)
				if err != nil {
					return err
				}
				if o, _ := starts.Lookup(source, 0); o.Offset >= 500 {
					start = o.Offset
					return nil
				}
				return fmt.Errorf("nothing is deleted yet: %+v", starts)
			})
			alterTopic(t, e.kafka, source, "retention.ms", "3600000")
			return start
		},
	}
	on := map[string]func(t *testing.T) engine{
		"embedded": func(t *testing.T) engine {
			return onEmbedded(t, harness.GatewayConfig{YAML: "embedded: {log.retention.check.interval.ms: 300}\n"})
		},
		"kafka": func(t *testing.T) engine { return front(t, threeBrokers(t), harness.GatewayConfig{}) },
	}
	for name, start := range on {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := start(t)
			for how, del := range deleting {
				t.Run(how, func(t *testing.T) { deletedBeyondFlight(t, e, del) })
			}
		})
	}
}

func deletedBeyondFlight(t *testing.T, e engine, del func(*testing.T, engine, string, *harness.Ledger) int64) {
	const before, after = 1000, 300
	// Small segments, so that retention has something to delete.
	source, view := e.source(t, 1, 4, "segment.bytes", "1048576", "file.delete.delay.ms", "0")
	group, l, work := harness.Name(t, "group"), harness.NewLedger(), newHeld()
	for i := range 2 {
		c := e.consumer(group, fmt.Sprintf("member-%d", i), view)
		c.Handle, c.Session = work.handle, 20*time.Second
		harness.Consume(t, l, c)
	}
	awaitMembers(t, e.gateway.Bootstrap, group, view, 2, 4)
	harness.Produce(t, e.kafka, l, harness.Production{Topic: source, Records: before, Keys: 100, Batch: 50})
	open := sync.OnceFunc(func() { close(work.gate) })
	t.Cleanup(open)
	await(t, 20*time.Second, func() string {
		if n := work.waiting(); n < 2 {
			return fmt.Sprintf("%d consumers hold a record", n)
		}
		return ""
	})
	first := del(t, e, source, l)
	if first == 0 {
		t.Fatal("nothing was deleted")
	}
	lags(t, e.gateway.Bootstrap, group, view)
	lags(t, e.kafka, group, source)
	open()
	harness.Produce(t, e.kafka, l, harness.Production{Topic: source, Records: after, Keys: 100, Batch: 50})
	where := harness.View(1, 4)
	await(t, 30*time.Second, func() string {
		for o := first; o < before+after; o++ {
			found := false
			for v := range int32(4) {
				found = found || work.has(v, o)
			}
			if !found {
				return fmt.Sprintf("offset %d was not delivered; the log begins at %d", o, first)
			}
		}
		return ""
	})
	// What was deleted may be missing, and nothing else: that was just looked at.
	r := l.Report(where)
	if r.Missing > int(first) {
		t.Errorf("%d records are missing, %d were deleted", r.Missing, first)
	}
	if r.Missing = 0; r.Bad() {
		t.Errorf("ledger: %s", r)
	}
	t.Logf("%d of %d deleted, ledger: %s", first, before, r)
	awaitNoLag(t, e.gateway.Bootstrap, group, view, 15*time.Second)
	awaitNoLag(t, e.kafka, group, source, 15*time.Second)
	if got := lags(t, e.kafka, group, source)[0]; got.committed != got.end {
		t.Errorf("the stable offset is %d at the end %d", got.committed, got.end)
	}
}

// A topic is deleted and made anew while a member works on it and dies with the old topic. The view starts afresh: the group's next member gets
// every record of the new topic from its beginning, and no offset of the old one shows (case V14).
func TestSourceDeletedAndMadeAnew(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		source, view := e.source(t, 1, 4)
		group, old, l := harness.Name(t, "group"), harness.NewLedger(), harness.NewLedger()
		harness.Produce(t, e.kafka, old, harness.Production{Topic: source, Records: 1000, Keys: 100})
		m := e.consumer(group, "old", view)
		m.Work, m.Session = 500*time.Microsecond, minSession
		member := harness.Consume(t, old, m)
		awaitDeliveries(t, old, 500, 20*time.Second)
		a := harness.AdminClient(t, e.kafka)
		ctx := harness.Context(t, time.Minute)
		if _, err := a.DeleteTopic(ctx, source); err != nil {
			t.Fatal(err)
		}
		member.Crash()
		harness.Eventually(t, 20*time.Second, func() error { // while the old one goes, its name is taken
			resp, err := a.CreateTopic(ctx, 1, -1, nil, source)
			if err == nil {
				err = resp.Err
			}
			return err
		})
		harness.Produce(t, e.kafka, l, harness.Production{Topic: source, Records: 300, Keys: 50})
		harness.Consume(t, l, e.consumer(group, "new", view))
		l.AwaitDone(t, 30*time.Second)
		l.Check(t, harness.View(1, 4))
		awaitNoLag(t, e.gateway.Bootstrap, group, view, 15*time.Second)
		awaitNoLag(t, e.kafka, group, source, 15*time.Second)
		if got := lags(t, e.kafka, group, source)[0]; got.committed != got.end {
			t.Errorf("the stable offset is %d at the end %d", got.committed, got.end)
		}
	})
}
