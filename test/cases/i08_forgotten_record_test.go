package cases

import (
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/client"
	"github.com/tandem-kafka/tandem/test/harness"
)

// A handler never returns for one record. The log names its key and offset, all records of other keys are done, and the stable offset stays at it.
// The process still ends, and the next one handles what is left, in order and once (case I8).
func TestHandlerThatForgetsARecord(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, e engine, s harness.WorkerSpec) {
		const records, keys, stuck = 200, 20, 7
		topic, l := e.orders(t, &s, 1), harness.NewLedger()
		s.Hang, s.Lease, s.Drain = []int64{stuck}, 300*time.Millisecond, 500*time.Millisecond
		harness.Produce(t, e.kafka, l, spread(topic, records, keys))
		harness.WatchCommitted(t, e.kafka, s.Group, topic, l)
		first := harness.StartWorker(t, s.Named("first"))
		reported := func(what string) bool {
			for line := range strings.Lines(first.Log()) {
				if strings.Contains(line, what) && strings.Contains(line, "offset=7 ") && strings.Contains(line, "key=key-7 ") {
					return true
				}
			}
			return false
		}
		await(t, 30*time.Second, func() string {
			first.Collect(t, l)
			switch {
			case l.Deliveries() != records-records/keys:
				return "other keys wait"
			case !reported("a handler runs longer than its lease"):
				return "the record is not reported"
			}
			return ""
		})
		e.awaitCommitted(t, s.Group, topic, stuck)
		if err := first.Term(10 * time.Second); err != nil {
			t.Errorf("SIGTERM: %v", err)
		}
		if log := first.Log(); !strings.Contains(log, "handlers took longer than the drain timeout") || !strings.Contains(log, "first=7 ") {
			t.Errorf("the log does not say what was left:\n%s", log)
		}
		s.Hang = nil
		second := harness.StartWorker(t, s.Named("second"))
		harness.CollectUntil(t, 20*time.Second, l, second)
		e.awaitCommitted(t, s.Group, topic, records)
		if r := l.Check(t, nil); r.Duplicates > 0 {
			t.Errorf("%d duplicates", r.Duplicates)
		}
	})
}

// Who polls forgets to commit one record: Slow names its key and offset, the others are committed, and after Close it alone comes again (case I8).
func TestPolledRecordThatIsForgotten(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, e engine, s harness.WorkerSpec) {
		const records, keys, stuck = 200, 20, 7
		topic := e.orders(t, &s, 1)
		harness.Produce(t, e.kafka, harness.NewLedger(), spread(topic, records, keys))
		poll := func(want int, done func(*client.Record) bool) *client.Client {
			opts := []client.Option{client.Bootstrap(s.Bootstrap), client.Group(s.Group), client.Topics(topic), client.ShareByKey()}
			if s.InProcess {
				opts = append(opts, client.InProcess())
			}
			c, err := client.New(opts...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close(harness.Context(t, 0)) })
			for ctx, n := harness.Context(t, 30*time.Second), 0; n < want; {
				list, err := c.Poll(ctx, 50)
				if err != nil {
					t.Fatalf("after %d records: %v", n, err)
				}
				n += len(list)
				for _, r := range list {
					if done(r) {
						if err := c.Commit(r); err != nil {
							t.Error(err)
						}
					}
				}
			}
			return c
		}
		c := poll(records, func(r *client.Record) bool { return r.Offset != stuck })
		e.awaitCommitted(t, s.Group, topic, stuck)
		if slow := c.Slow(10); len(slow) != 1 || slow[0].Offset != stuck || string(slow[0].Key) != "key-7" || !slow[0].Running {
			t.Errorf("slow are %+v", slow)
		}
		if err := c.Close(harness.Context(t, 10*time.Second)); err != nil {
			t.Error(err)
		}
		d := poll(1, func(r *client.Record) bool {
			if r.Offset != stuck {
				t.Errorf("offset %d comes again", r.Offset)
			}
			return true
		})
		e.awaitCommitted(t, s.Group, topic, records)
		if err := d.Close(harness.Context(t, 10*time.Second)); err != nil {
			t.Error(err)
		}
	})
}
