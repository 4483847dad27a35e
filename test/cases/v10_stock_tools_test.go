package cases

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// kafka-consumer-groups on a view and on its source, through the gateway and on the broker itself: one record that fails among 10,000 that
// are done shows as what it is, and a reset while the group is down moves what it names, all slices when it is the source (case V10).
func TestStockToolsOnGroups(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		const k, records, bad = 16, 10_000, 5000
		source, view := e.source(t, 1, k)
		group := harness.Name(t, "group")
		keys := keysOf(k, 20)
		alone := keys[7] // its slice has two records only: one before the one that fails, and that one
		keys = slices.DeleteFunc(keys, func(key []byte) bool { return harness.Murmur2(key)&0x7fffffff%k == 7 })
		harness.Produce(t, e.gateway.Bootstrap, harness.NewLedger(), harness.Production{Topic: source, Records: records, Key: func(i int) []byte {
			if i == bad-1 || i == bad {
				return alone
			}
			return keys[i%len(keys)]
		}})
		all := readAll(t, e.kafka, source)
		stop := consumeAllBut(t, e, group, view, bad, records)

		through := describe(t, e.gateway.Bootstrap, group)
		for p := range int32(k) {
			row, lag := through[fmt.Sprintf("%s/%d", view, p)], int64(0)
			if p == 7 {
				lag = 1
			}
			if row.lag != lag || row.end-row.current != lag {
				t.Errorf("through the gateway, virtual partition %d shows %+v, want a lag of %d", p, row, lag)
			}
		}
		want := describedRow{bad, records, records - bad}
		if row := through[source+"/0"]; row != want {
			t.Errorf("through the gateway, the source shows %+v, want %+v", row, want)
		}
		if e.real() {
			if row := describe(t, e.kafka, group)[source+"/0"]; row != want {
				t.Errorf("on the broker, the source shows %+v, want %+v", row, want)
			}
		}
		stop()

		again := func(what string, redelivered func(*kgo.Record) bool) {
			t.Helper()
			want := ledgerOf(t, slices.DeleteFunc(slices.Clone(all), func(r *kgo.Record) bool { return !redelivered(r) }))
			var members []*harness.Consumer
			for i := range 2 {
				members = append(members, harness.Consume(t, want, e.consumer(group, fmt.Sprintf("%s-%d", what, i), view)))
			}
			want.AwaitDone(t, 20*time.Second)
			await(t, 10*time.Second, func() string {
				if at := e.committed(t, group, source)[0]; at != records {
					return fmt.Sprintf("after %s all is done and the group's offset on the source is %d", what, at)
				}
				return ""
			})
			for _, m := range members {
				if errs := m.Errors(); len(errs) > 0 {
					t.Errorf("%s: %v", what, errs)
				}
				m.Close()
			}
			if r := want.Check(t, harness.View(1, k)); r.Bad() || r.Duplicates > 0 {
				t.Fatalf("after %s", what)
			}
		}
		again("the failure", func(r *kgo.Record) bool { return r.Offset == bad })
		slice := func(r *kgo.Record) int32 {
			p, _ := harness.View(1, k)(harness.Produced{Key: r.Key, Offset: r.Offset})
			return p
		}
		for _, reset := range []struct {
			what, topic string
			direct      bool
			to          []string
			redelivered func(*kgo.Record) bool
		}{
			{"a reset of the source on the broker", source, true, []string{"--to-offset", "3000"}, func(r *kgo.Record) bool { return r.Offset >= 3000 }},
			{"a reset of the source through the gateway", source, false, []string{"--to-offset", "7000"}, func(r *kgo.Record) bool { return r.Offset >= 7000 }},
			{"a reset of one virtual partition through the gateway", view + ":3", false, []string{"--to-offset", "4000"},
				func(r *kgo.Record) bool { return slice(r) == 3 && r.Offset >= 4000 }},
			{"a reset of the view through the gateway", view, false, []string{"--to-earliest"}, func(*kgo.Record) bool { return true }},
			// There the view's log is empty: whatever is asked for, the tool writes 0 (docs/operations.md).
			{"a reset of the view on the broker", view, true, []string{"--to-offset", "4000"}, func(*kgo.Record) bool { return true }},
		} {
			bootstrap := e.gateway.Bootstrap
			if reset.direct {
				if !e.real() {
					continue
				}
				bootstrap = e.kafka
			}
			groups(t, append([]string{"--bootstrap-server", bootstrap, "--group", group, "--reset-offsets", "--topic", reset.topic, "--execute"}, reset.to...)...)
			again(reset.what, reset.redelivered)
		}
	})
}

// consumeAllBut reads a view with one member that does all records but one, and commits what it did. It returns when only that one is open;
// the member stays until stop is called.
func consumeAllBut(t *testing.T, e engine, group, view string, bad int64, records int) (stop func()) {
	t.Helper()
	c := harness.Client(t, e.gateway.Bootstrap, kgo.ConsumerGroup(group), kgo.ConsumeTopics(view), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond))
	ctx := harness.Context(t, 30*time.Second)
	for open := records; open > 0; {
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d records are not delivered", open, records)
		}
		var done []*kgo.Record
		fetches.EachRecord(func(r *kgo.Record) {
			open--
			if r.Offset != bad {
				done = append(done, r)
			}
		})
		if err := c.CommitRecords(ctx, done...); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		_ = c.LeaveGroupContext(context.Background())
		c.Close()
	}
}

// describedRow is a row of kafka-consumer-groups --describe; -1 for what it shows as "-".
type describedRow struct{ current, end, lag int64 }

// describe returns the rows by "TOPIC/PARTITION".
func describe(t *testing.T, bootstrap, group string) map[string]describedRow {
	t.Helper()
	out := groups(t, "--bootstrap-server", bootstrap, "--group", group, "--describe")
	rows := map[string]describedRow{}
	var header []string
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) > 3 && fields[0] == "GROUP" {
			header = fields
		}
		if header == nil || len(fields) < len(header) || fields[0] != group {
			continue
		}
		column := func(name string) string { return fields[slices.Index(header, name)] }
		number := func(name string) int64 {
			n, err := strconv.ParseInt(column(name), 10, 64)
			if err != nil {
				return -1
			}
			return n
		}
		rows[column("TOPIC")+"/"+column("PARTITION")] = describedRow{number("CURRENT-OFFSET"), number("LOG-END-OFFSET"), number("LAG")}
	}
	if len(rows) == 0 {
		t.Fatalf("kafka-consumer-groups shows no rows:\n%s", out)
	}
	return rows
}

// groups runs kafka-consumer-groups.
func groups(t *testing.T, args ...string) string {
	t.Helper()
	out, err := harness.Tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", args...)
	if err != nil || strings.Contains(out, "Error") {
		t.Fatalf("kafka-consumer-groups %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	t.Logf("kafka-consumer-groups %s\n%s", strings.Join(args, " "), out)
	return out
}
