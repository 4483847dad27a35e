package cases

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A Fetch of the same client waits for records, of key ranges or of the whole partition: individual commits are answered meanwhile, and the
// Fetch gets the next record (case I3).
func TestCommitsBesideALongPoll(t *testing.T) {
	enginesAlone(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		for name, keys := range map[string]keyrange.Set{"key ranges": whole, "whole partition": nil} {
			t.Run(name, func(t *testing.T) {
				topic := harness.Name(t, "orders")
				harness.CreateTopic(t, e.kafka, topic, 1)
				w := e.wire(t, harness.Name(t, "group"))
				from := w.leader(topic, 0)
				w.mustCommit(topic, 0, rangesOf(whole, span(1, 1))) // the coordinator is there, and the topic of facts
				type answer struct {
					resp kmsg.Response
					err  error
				}
				fetched := make(chan answer, 1)
				ctx := harness.Context(t, time.Minute)
				go func() {
					resp, err := from.Request(ctx, fetchRequest(t, topic, 0, 0, keys, 30*time.Second))
					fetched <- answer{resp, err}
				}()
				const commits = 100
				var took []time.Duration
				for n := range int64(commits) {
					start := time.Now()
					w.mustCommit(topic, 0, rangesOf(whole, span(10+2*n, 10+2*n)))
					took = append(took, time.Since(start))
				}
				slices.Sort(took)
				t.Logf("%d commits beside a long poll: median %v, the slowest %v", commits, took[commits/2], took[commits-1])
				if took[commits*9/10] > 250*time.Millisecond {
					t.Errorf("a tenth of the commits took more than %v", took[commits*9/10])
				}
				select {
				case a := <-fetched:
					t.Fatalf("the long poll ended before there was a record: %v, %v", a.resp, a.err)
				default:
				}
				harness.Produce(t, e.kafka, harness.NewLedger(), harness.Production{Topic: topic, Records: 1, Keys: 1})
				select {
				case a := <-fetched:
					if a.err != nil || len(a.resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches) == 0 {
						t.Errorf("the long poll ended without the record: %+v, %v", a.resp, a.err)
					}
				case <-time.After(10 * time.Second):
					t.Error("the long poll is not answered with the record")
				}
			})
		}
	})
}

// Connections break after a commit was sent and before it was answered, and the commit is repeated on another: it counts once, whether the first
// one arrived or not, and the group's progress is not begun anew (case I3).
func TestCommitRepeatedAfterACut(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		topic := harness.Name(t, "orders")
		harness.CreateTopic(t, e.kafka, topic, 1)
		w := e.wire(t, harness.Name(t, "group"))
		w.mustCommit(topic, 0, tandemmsg.Commit{Keys: whole, Watermark: 10})
		coordinator := w.coordinator()
		const rounds = 40
		for n := range int64(rounds) {
			commit := rangesOf(whole, span(100+3*n, 101+3*n))
			req := w.commitRequest(topic, 0, commit)
			req.Version = 8
			sendAndCut(t, coordinator, req, time.Duration(n%8)*time.Millisecond)
			w.mustCommit(topic, 0, commit)
			if n%2 == 0 {
				w.mustCommit(topic, 0, commit) // its answer was lost
			}
		}
		var want []tandemmsg.OffsetRange
		for n := range int64(rounds) {
			want = append(want, span(100+3*n, 101+3*n))
		}
		if got := w.committed(topic, 0, whole); got.stable != 10 || len(got.above) != 1 || !slices.Equal(got.above[0].Offsets, want) {
			t.Errorf("committed are %v, want %v above 10", got, want)
		}
		// What fills the gaps leaves nothing behind: no second copy of anything stays above.
		for n := range int64(rounds) {
			want = append(want, span(102+3*n, 102+3*n))
		}
		w.mustCommit(topic, 0, rangesOf(whole, span(10, 99)))
		w.mustCommit(topic, 0, rangesOf(whole, want[rounds:]...))
		w.wantProgress(topic, "220")
		if text := w.text(e, topic); e.real() && !strings.HasPrefix(text, "tandem:1:0:") {
			t.Errorf("the group's text is %q: another era", text)
		}
	})
}

// coordinator is the address of the group's coordinator.
func (w *wire) coordinator() (address string) {
	w.t.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = w.group, []string{w.group}
	harness.Eventually(w.t, 20*time.Second, func() error {
		resp, err := req.RequestWith(harness.Context(w.t, 20*time.Second), w.c)
		if err != nil {
			return err
		}
		c := resp.Coordinators[0]
		address = net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
		return nil
	})
	return address
}

// text is that of the group's offset on partition 0, on the cluster itself.
func (w *wire) text(e engine, topic string) string {
	w.t.Helper()
	rows, err := harness.AdminClient(w.t, e.kafka).FetchOffsets(harness.Context(w.t, 20*time.Second), w.group)
	if err != nil {
		w.t.Fatal(err)
	}
	row, _ := rows.Lookup(topic, 0)
	return row.Metadata
}

// sendAndCut sends a request on a connection of its own and breaks it after a while, without reading the answer.
func sendAndCut(t *testing.T, address string, req kmsg.Request, after time.Duration) {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(harness.Context(t, 10*time.Second), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	b := kmsg.NewRequestFormatter(kmsg.FormatterClientID("cut")).AppendRequest(nil, req, 1)
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
	time.Sleep(after) // the case itself: at any moment of the request's way
	_ = c.(*net.TCPConn).SetLinger(0)
}
