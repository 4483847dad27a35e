package cases

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Offsets that hold no record hold nothing back: in a compacted topic, and with aborted transactions and markers at the log's end, the
// group's offset on the source reaches that end (case V8; with members that share by record case C4).
func TestStableOffsetPassesGaps(t *testing.T) {
	kinds(t, harness.GatewayConfig{}, func(t *testing.T, e engine, of kind) {
		t.Run("aborted", func(t *testing.T) { aborted(t, e, of) })
		t.Run("compacted", func(t *testing.T) { compacted(t, e, of) }) // the last: it may start the gateway again
	}, recordSharers)
}

func compacted(t *testing.T, e engine, of kind) {
	const keys, records = 50, 2000
	source, view := e.source(t, 1, 8, "cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.01", "segment.ms", "100", "delete.retention.ms", "100")
	written := harness.NewLedger() // for the numbers only
	produce := func(n int) {
		harness.Produce(t, e.gateway.Bootstrap, written, harness.Production{Topic: source, Records: n, Keys: keys, Batch: 100})
	}
	produce(records)
	if !e.real() { // it compacts when it starts
		produce(100)
		e.gateway.Stop(t)
		e.gateway.Start(t)
	}
	await(t, 30*time.Second, func() string {
		if e.real() {
			produce(1) // begins the next segment, for the last one is not compacted
		}
		if n := len(readAll(t, e.kafka, source)); n > records/4 {
			return fmt.Sprintf("%d of %d records are left after compaction", n, records)
		}
		return ""
	})
	alterTopic(t, e.kafka, source, "min.compaction.lag.ms", "3600000")
	left := readAll(t, e.kafka, source)
	await(t, 20*time.Second, func() string { // a pass that has begun ends
		time.Sleep(300 * time.Millisecond)
		before := len(left)
		if left = readAll(t, e.kafka, source); len(left) != before {
			return "compaction goes on"
		}
		return ""
	})
	reachesEnd(t, e, of, source, view, left, false)
}

func aborted(t *testing.T, e engine, of kind) {
	const rounds, records = 12, 100
	source, view := e.source(t, 1, 8)
	keys := keysOf(8, 5)
	seqs := map[string]int{}
	n := 0
	ctx := harness.Context(t, 30*time.Second)
	c := harness.Client(t, e.gateway.Bootstrap, kgo.TransactionalID(source), kgo.DefaultProduceTopic(source))
	for round := range rounds {
		if err := c.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for range records {
			key := string(keys[n*7%len(keys)])
			v, _ := json.Marshal(map[string]any{"k": key, "seq": seqs[key], "n": n})
			seqs[key]++
			n++
			c.Produce(ctx, &kgo.Record{Key: []byte(key), Value: v}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Errorf("produce: %v", err)
				}
			})
		}
		if err := c.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if err := c.EndTransaction(ctx, round%2 == 0); err != nil { // the last one is aborted
			t.Fatal(err)
		}
	}
	c.Close()
	decided := readAll(t, e.kafka, source, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	all := readAll(t, e.kafka, source)
	if len(decided) != rounds/2*records || len(all) != rounds*records {
		t.Fatalf("the topic has %d records, %d of them committed", len(all), len(decided))
	}
	t.Run("read_committed", func(t *testing.T) {
		reachesEnd(t, e, of, source, view, decided, true)
	})
	t.Run("read_uncommitted", func(t *testing.T) { reachesEnd(t, e, of, source, view, all, false) })
}

// reachesEnd lets a group read a view and wants it to get these records and its offset on the source to reach the end of the log.
func reachesEnd(t *testing.T, e engine, of kind, source, view string, records []*kgo.Record, committed bool) {
	t.Helper()
	l, group := of.ledger(ledgerOf(t, records)), harness.Name(t, "group")
	harness.WatchCommitted(t, e.kafka, group, source, l)
	for i := range 3 {
		c := e.consumer(group, fmt.Sprintf("member-%d", i), of.reads(source, view))
		c.Committed = committed
		of.start(t, l, c, nil)
	}
	l.AwaitDone(t, 20*time.Second)
	end := logEnd(t, e.kafka, source)
	await(t, 10*time.Second, func() string {
		if at := e.committed(t, group, source)[0]; at != end {
			return fmt.Sprintf("the group's offset on the source is %d of %d", at, end)
		}
		return ""
	})
	if r := l.Check(t, of.where(1, 8)); r.Duplicates > 0 {
		t.Errorf("%d duplicates", r.Duplicates)
	}
}

// logEnd is the end of partition 0, markers and all.
func logEnd(t *testing.T, kafka, topic string) int64 {
	t.Helper()
	ends, err := harness.Admin(t, kafka).ListEndOffsets(harness.Context(t, 10*time.Second), topic)
	if err != nil {
		t.Fatal(err)
	}
	end, ok := ends.Lookup(topic, 0)
	if !ok || end.Err != nil {
		t.Fatalf("end of %s: %v", topic, end.Err)
	}
	return end.Offset
}
