package cases

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// scaled is what the autoscaler sees.
type scaled struct {
	Lag        int64
	Partitions map[string]struct{ End, Committed, Lag int64 }
}

// autoscale asks for a group's lag as KEDA does, with sarama's admin.
func autoscale(t *testing.T, bootstrap, group, topic string) scaled {
	t.Helper()
	cmd := exec.Command(filepath.Join(harness.Root(), "test", "clients", "client"), "go-main", "lag-sarama", "--bootstrap", bootstrap, "--group", group, "--topic", topic)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("lag-sarama: %v\n%s", err, errs.Bytes())
	}
	var s scaled
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatalf("lag-sarama printed %q: %v", out, err)
	}
	for p, v := range s.Partitions {
		if v.Lag < 0 {
			t.Errorf("%s/%s: a negative lag: %+v", topic, p, v)
		}
	}
	return s
}

// An autoscaler sums ListOffsets(latest) - OffsetFetch over a view's partitions. It gets 0 when all is done, also with slices that hold no
// record or end in the markers of transactions, committed or aborted; more than 0 while records are open; and never a negative number
// (case V18).
func TestAutoscalerSeesTheLag(t *testing.T) {
	harness.Need(t)
	harness.InstallClients(t)
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		source, view := e.source(t, 2, 16)
		group := harness.Name(t, "group")
		if s := autoscale(t, e.gateway.Bootstrap, group, view); s.Lag != 0 || len(s.Partitions) != 16 {
			t.Errorf("an empty view and a group that never was: %+v", s)
		}
		// Few keys: most virtual partitions hold nothing.
		l := harness.NewLedger()
		harness.Produce(t, e.kafka, l, harness.Production{Topic: source, Records: 60, Keys: 5, Batch: 10})
		transact(t, e, l, source, true)
		transact(t, e, l, source, false)
		open := 60 + 6
		if s := autoscale(t, e.gateway.Bootstrap, group, view); s.Lag < int64(open) {
			t.Errorf("lag %d of a group that has done nothing, with %d records: %+v", s.Lag, open, s)
		}
		c := e.consumer(group, "member", view)
		c.Committed = true
		m := harness.Consume(t, l, c)
		l.AwaitDone(t, 20*time.Second)
		m.Close()
		done := func(what string) {
			t.Helper()
			await(t, 10*time.Second, func() string {
				if s := autoscale(t, e.gateway.Bootstrap, group, view); s.Lag != 0 {
					return fmt.Sprintf("%s: %+v", what, s)
				}
				return ""
			})
		}
		done("all is done")
		// One record more, in one virtual partition: nothing else shows.
		harness.Produce(t, e.kafka, l, harness.Production{Topic: source, Records: 1, Keys: 1})
		s := autoscale(t, e.gateway.Bootstrap, group, view)
		behind := 0
		for _, p := range s.Partitions {
			if p.Lag > 0 {
				behind++
			}
		}
		if s.Lag <= 0 || behind != 1 {
			t.Errorf("one record is open and %d partitions have a lag: %+v", behind, s)
		}
		harness.Consume(t, l, c)
		l.AwaitDone(t, 20*time.Second)
		done("the last record is done")
		if r := l.Check(t, harness.View(2, 8)); r.Duplicates > 0 {
			t.Errorf("%d duplicates", r.Duplicates)
		}
	})
}

// transact writes six records of four keys in a transaction that commits or aborts; the committed ones go into the ledger.
func transact(t *testing.T, e engine, l *harness.Ledger, topic string, commit bool) {
	t.Helper()
	ctx := harness.Context(t, 20*time.Second)
	c := harness.Client(t, e.gateway.Bootstrap, kgo.TransactionalID(harness.Name(t, "transaction")))
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		key := fmt.Appendf(nil, "transacted-%v-%d", commit, i%4)
		p := harness.Produced{N: -1}
		if commit {
			p = l.Next(topic, key)
		}
		r := &kgo.Record{Topic: topic, Key: key, Value: fmt.Appendf(nil, `{"n":%d}`, p.N)}
		if err := c.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if commit {
			p.Partition, p.Offset = r.Partition, r.Offset
			l.Acked(p)
		}
	}
	if err := c.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
		t.Fatal(err)
	}
}
