package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/internal/embedded"
)

// The demo on a real topic with as many partitions in place of the view: what
// it measures and checks must be right there too.
func TestRunOnRealPartitions(t *testing.T) {
	engine, err := embedded.Open(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(engine.Addrs()...), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var out bytes.Buffer
	opts := Options{
		Bootstrap: engine.Addrs(), Topic: "orders", Consumers: 4, Records: 2000, Keys: 100,
		Work: 4 * time.Millisecond, Screen: Lines(&out),
		Plain: 1500 * time.Millisecond, // a line a second: however late the first consumer gets to work, there is one of it
		viewOf: func(ctx context.Context, done int) (string, error) {
			return "orders.view4", copyRest(ctx, client, "orders", "orders.view4", 4, int64(done))
		},
	}
	s, err := Run(t.Context(), opts)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	t.Logf("%+v\n%s", s, &out)
	if s.Failed() || s.Records != 2000 || s.Consumers != 4 {
		t.Errorf("%+v", s)
	}
	if uncommitted := 2 * int(commitEvery/opts.Work); s.Duplicates > uncommitted {
		t.Errorf("%d duplicates; the killed consumer had at most %d records without a commit", s.Duplicates, uncommitted)
	}
	// A busy machine makes them slower, nothing makes them faster.
	if s.PlainRate <= 0 || s.PlainRate > 250 || s.ViewRate > 1000 || s.Speedup < 1.2 {
		t.Errorf("rates %+v: a consumer does at most 250 records/s", s)
	}
	for _, want := range []string{":p0", "3 idle", "is killed", "consumer-5 works off what waited until the group noticed that consumer-1 was gone", "orders.view4"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the lines do not say %q", want)
		}
	}
	topics, err := kadm.NewClient(client).ListTopics(t.Context())
	if err != nil || len(topics.Names()) != 0 {
		t.Errorf("left behind: %v, %v", topics.Names(), err)
	}
}

// copyRest makes a topic of the records from an offset on.
func copyRest(ctx context.Context, client *kgo.Client, from, to string, partitions int32, offset int64) error {
	if _, err := kadm.NewClient(client).CreateTopic(ctx, partitions, 1, nil, to); err != nil {
		return err
	}
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, from)
	if err != nil {
		return err
	}
	end, _ := ends.Lookup(from, 0)
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{from: {0: kgo.NewOffset().At(offset)}})
	defer client.PurgeTopicsFromConsuming(from)
	for offset < end.Offset {
		var rs []*kgo.Record
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			rs = append(rs, &kgo.Record{Topic: to, Key: r.Key, Value: r.Value})
			offset = r.Offset + 1
		})
		if err := client.ProduceSync(ctx, rs...).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

func TestLedger(t *testing.T) {
	for name, c := range map[string]struct {
		script string // consumer+key+seq begins, -consumer+key+seq ends, !... is killed over it
		want   string // lost, duplicates, violations
	}{
		"in order":         {"1a0 -1a0 1a1 -1a1 2b0 -2b0", "0 0 0"},
		"lost":             {"1a0 -1a0 2b0 -2b0", "1 0 0"},
		"killed and again": {"1a0 !1a0 2a0 -2a0 2a1 -2a1 2b0 -2b0", "0 0 0"},
		"redelivered":      {"1a0 -1a0 1a1 -1a1 2a0 -2a0 2a1 -2a1 2b0 -2b0", "0 2 0"},
		"overtaken":        {"1a1 -1a1 2b0 -2b0", "1 0 1"},
		"side by side":     {"1a0 2a0 -1a0 -2a0 1a1 -1a1 1b0 -1b0", "0 1 1"},
		"foreign":          {"1a0 -1a0 1a1 -1a1 1b0 -1b0 1b1 -1b1", "-1 0 1"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			l.expect("a")
			l.expect("a")
			l.expect("b")
			for _, step := range strings.Fields(c.script) {
				kind := step[0]
				s := strings.TrimLeft(step, "-!")
				consumer, key, seq := s[:1], s[1:2], int(s[2]-'0')
				switch kind {
				case '-':
					l.end(consumer, key, seq, true)
				case '!':
					l.end(consumer, key, seq, false)
				default:
					l.begin(consumer, key, seq)
				}
			}
			lost, duplicates, violations := l.verdict()
			if got := fmt.Sprint(lost, duplicates, violations); got != c.want {
				t.Errorf("lost, duplicates, violations %s, want %s", got, c.want)
			}
		})
	}
}

func TestSummaryJSON(t *testing.T) {
	got, err := json.Marshal(Summary{})
	want := `{"consumers":0,"records":0,"plain_records_per_second":0,"view_records_per_second":0,"speedup":0,"lost":0,"duplicates":0,"order_violations":0}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

func TestMeterCountsOnlyFullWork(t *testing.T) {
	var m meter
	at := time.Unix(0, 0)
	note := func(second int, handled ...int) {
		now := at.Add(time.Duration(second) * time.Second)
		states := make([]ConsumerState, len(handled))
		for i, h := range handled {
			states[i] = ConsumerState{Name: fmt.Sprint(i), Handled: h, lastEnd: now}
			if h == 0 {
				states[i].lastEnd = time.Time{}
			}
		}
		m.note(now, states, 2, time.Second)
	}
	note(0, 5, 0)
	note(1, 15, 0) // one works
	note(2, 25, 10)
	note(3, 35, 20) // both: 20 in this second
	note(4, 45, 30) // and in this one
	if got := m.rate(); got != 20 {
		t.Errorf("%v records/s, want 20", got)
	}
}

func TestTerminalRedrawsInPlace(t *testing.T) {
	var out bytes.Buffer
	s := Terminal(&out)
	p := Picture{Topic: "orders.view2", Virtual: true, Consumers: []ConsumerState{
		{Name: "consumer-1", Partitions: []int32{0, 1}, Rate: 100}, {Name: "consumer-2"},
	}}
	s.Draw(p)
	out.Reset()
	p.Consumers[1].Killed = true
	s.Draw(p)
	if got := out.String(); !strings.HasPrefix(got, "\x1b[3A") || strings.Count(got, "\n") != 3 ||
		!strings.Contains(got, "v0,v1") || !strings.Contains(got, "killed") {
		t.Errorf("%q", got)
	}
}

func TestTerminalShowsAScreenful(t *testing.T) {
	var out bytes.Buffer
	s := Terminal(&out)
	s.Draw(Picture{Topic: "t", Consumers: make([]ConsumerState, 64)})
	if got := out.String(); strings.Count(got, "\n") != 2+maxRows || !strings.Contains(got, "and 45 more") {
		t.Errorf("%q", got)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{Consumers: 65}, {Records: 2}, {Keys: 20000}, {Work: 2 * time.Second}, {Consumers: -1}} {
		if err := o.complete(); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	for consumers, want := range map[int]int{1: 1, 2: 2, 3: 4, 8: 8, 9: 16} {
		if got := viewPartitions(consumers); got != want {
			t.Errorf("%d consumers: %d virtual partitions, want %d", consumers, got, want)
		}
	}
}
