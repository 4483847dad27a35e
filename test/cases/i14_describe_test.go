package cases

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// described is what of `tandem group describe --json` is looked at here.
type described struct {
	State   string
	Members []struct {
		ClientID string `json:"client_id"`
	}
	Partitions []struct {
		Partition int32
		Stable    int64 `json:"stable_offset"`
		LogEnd    int64 `json:"log_end"`
		Open      []struct{ First, Last int64 }
		Records   []openRecord
		Views     []struct {
			View       string
			Partitions []struct {
				Partition      int32
				Committed, End int64
				Owner          *string
			} `json:"virtual_partitions"`
		}
	}
	Notes []string
}

type openRecord struct {
	Offset   int64
	Key      *string
	Attempts int
	NextMs   int64  `json:"next_attempt_ms"`
	Error    string `json:"last_error"`
	Owner    *string
	ClientID string `json:"owner_client_id"`
	View     string
	Virtual  *int32 `json:"virtual_partition"`
}

func (r openRecord) key() string {
	if r.Key == nil {
		return ""
	}
	return *r.Key
}

func describeGroup(t *testing.T, bootstrap, group, topic string) (d described) {
	t.Helper()
	out, err := harness.Tandem(t, "group", "describe", group, "--topic", topic, "--kafka", bootstrap, "--json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &d)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return d
}

// Of 200 records two are not done, of two members: one fails again and again, one never ends. A command names them by key and offset, with attempts, cause
// and the time of the next attempt, and says which member has them, asked through a gateway and without one (case I14).
func TestCommandNamesStuckKeys(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, e engine, s harness.WorkerSpec) {
		const records, failing, hanging = 200, 7, 23
		topic := e.orders(t, &s, 1)
		s.Begins, s.First, s.Max, s.Drain = true, 50*time.Millisecond, time.Hour, 100*time.Millisecond
		s.Fail, s.Hang = map[int64]int{failing: -1}, []int64{hanging}
		workers := []*harness.Worker{harness.StartWorker(t, s.Named("worker-a")), harness.StartWorker(t, s.Named("worker-b"))}
		awaitMembers(t, e.kafka, s.Group, topic, 2, 2)
		harness.Produce(t, e.kafka, harness.NewLedger(), spread(topic, records, records))
		owners, attempts := map[int64]string{}, 0
		await(t, 30*time.Second, func() string {
			ended := 0
			for _, w := range workers {
				for _, r := range w.Lines(t) {
					switch {
					case r.Event != "":
					case r.Offset == failing || r.Offset == hanging:
						owners[r.Offset] = r.Member
						if r.Offset == failing {
							attempts = r.Attempt
						}
					case r.End > 0:
						ended++
					}
				}
			}
			if ended < records-2 || attempts < 4 || len(owners) < 2 {
				return fmt.Sprintf("%d records have ended, and %d attempts", ended, attempts)
			}
			return ""
		})
		addresses := []string{e.kafka}
		if e.gateway != nil {
			addresses = append(addresses, e.gateway.Bootstrap)
		}
		for _, at := range addresses {
			await(t, 15*time.Second, func() string { // until what is done is committed
				d := describeGroup(t, at, s.Group, topic)
				if d.State != "Stable" || len(d.Members) != 2 || len(d.Partitions) != 1 || len(d.Notes) > 0 {
					t.Fatalf("%+v", d)
				}
				p := d.Partitions[0]
				if p.Stable != failing || p.LogEnd != records || len(p.Records) != 2 || fmt.Sprint(p.Open) != fmt.Sprintf("[{%d %[1]d} {%d %[2]d}]", failing, hanging) {
					return fmt.Sprintf("%+v", p)
				}
				for i, want := range []int64{failing, hanging} {
					r := p.Records[i]
					if r.Offset != want || r.key() != fmt.Sprint("key-", want) || r.ClientID != owners[want] || r.Owner == nil || !strings.HasPrefix(*r.Owner, owners[want]) {
						t.Errorf("%+v, want offset %d of %s", r, want, owners[want])
					}
				}
				if r := p.Records[0]; r.Attempts < attempts || r.Error != "cannot be digested" || r.NextMs < time.Now().Add(-time.Minute).UnixMilli() {
					return fmt.Sprintf("after %d attempts: %+v", attempts, r)
				}
				if r := p.Records[1]; r.Attempts != 0 || r.NextMs != 0 {
					t.Errorf("%+v", r)
				}
				return ""
			})
			out, err := harness.Tandem(t, "group", "describe", s.Group, "--kafka", at)
			if err != nil || !strings.Contains(out, "key-7 ") || !strings.Contains(out, "key-23 ") || !strings.Contains(out, "cannot be digested") || !strings.Contains(out, owners[hanging]) {
				t.Errorf("%v\n%s", err, out)
			}
		}
	})
}

// A stock consumer of a view never ends with the first record of a virtual partition: the command names the record, its key, the virtual partition
// and the member, of classic groups and of those of the newer protocol (case I14).
func TestCommandNamesStuckVirtualPartitions(t *testing.T) {
	t.Parallel()
	harness.Need(t)
	e := onKafka(t, harness.GatewayConfig{})
	for _, kip848 := range []bool{false, true} {
		t.Run(fmt.Sprintf("kip848=%t", kip848), func(t *testing.T) {
			const virtual, records = 4, 80
			source, view := e.source(t, 1, virtual)
			group, l, has := harness.Name(t, "group"), harness.NewLedger(), newAssignment(virtual)
			keys := keysOf(virtual, 5)
			release := make(chan struct{})
			stuck := make(chan string, 1)
			for _, member := range []string{"member-0", "member-1"} {
				c := e.consumer(group, member, view)
				c.KIP848, c.Opts = kip848, append(append(c.Opts, kgo.ClientID(member)), has.of(member)...)
				c.Handle = func(r *kgo.Record) {
					if r.Offset == 0 {
						stuck <- member
						<-release
					}
				}
				m := harness.Consume(t, l, c)
				t.Cleanup(m.Close)
			}
			t.Cleanup(func() { close(release) })
			has.awaitEach(t, 2, virtual/2) // a rebalance would wait for the member that is stuck
			harness.Produce(t, e.kafka, l, harness.Production{Topic: source, Records: records, Key: func(i int) []byte { return keys[i%len(keys)] }})
			var owner string
			select {
			case owner = <-stuck:
			case <-harness.Context(t, 30*time.Second).Done():
				t.Fatal("nobody gets the record")
			}
			for _, at := range []string{e.gateway.Bootstrap, e.kafka} {
				await(t, 15*time.Second, func() string {
					d := describeGroup(t, at, group, view)
					if len(d.Partitions) != 1 || len(d.Partitions[0].Views) != 1 || len(d.Partitions[0].Records) == 0 {
						return fmt.Sprintf("%+v", d)
					}
					p := d.Partitions[0]
					r := p.Records[0]
					if r.Offset != 0 || r.key() != string(keys[0]) || r.Owner == nil || r.ClientID != owner || r.View != view || r.Virtual == nil || *r.Virtual != 0 {
						return fmt.Sprintf("of %s: %+v", owner, r)
					}
					for _, v := range p.Views[0].Partitions { // those of the other member are done
						if done := v.Committed == v.End; v.Owner == nil || v.Partition == 0 && done || *v.Owner != *r.Owner && !done {
							return fmt.Sprintf("%+v", v)
						}
					}
					return ""
				})
			}
			out, err := harness.Tandem(t, "group", "describe", group, "--kafka", e.gateway.Bootstrap)
			if err != nil || !strings.Contains(out, view+"-0 ") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
