package cases

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// case V11: two languages in one group. The Python member is killed in the middle; the Go member, with another library's offsets to start
// from, does the rest.
func TestTwoLanguagesInOneGroup(t *testing.T) {
	harness.Need(t)
	harness.InstallClients(t)
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		source, group, l := harness.Name(t, "orders"), harness.Name(t, "group"), harness.NewLedger()
		view := source + ".view16"
		harness.CreateTopic(t, e.kafka, source, 2)
		harness.WatchCommitted(t, e.kafka, group, source, l)
		python := harness.StartClient(t, "confluent-kafka", "--bootstrap", e.gateway.Bootstrap, "--topic", view, "--group", group,
			"--assignor", "range", "--work-ms", "1", "--session-ms", "2000")
		harness.Consume(t, l, harness.ConsumerConfig{Bootstrap: e.gateway.Bootstrap, Topics: []string{view}, Group: group, Member: "go",
			Work: time.Millisecond, Session: 2 * time.Second, Opts: []kgo.Opt{kgo.Balancers(kgo.RangeBalancer())}})
		awaitMembers(t, e.gateway.Bootstrap, group, view, 2, 16)
		produced := harness.ProduceInBackground(t, e.kafka, l, harness.Production{Topic: source, Records: 2000, Keys: 100, Batch: 50, Rate: 700})
		fromPython := 0
		harness.Eventually(t, 20*time.Second, func() error {
			if fromPython += python.Collect(t, l); fromPython < 300 {
				return fmt.Errorf("%d records by the Python member", fromPython)
			}
			return nil
		})
		python.Kill()
		fromPython += python.Collect(t, l)
		produced()
		l.AwaitDone(t, 20*time.Second)
		r := l.Check(t, harness.View(2, 8))
		if len(r.Members) != 2 || r.Deliveries-fromPython < 300 {
			t.Errorf("the members did not share the work: %v", r.Members)
		}
		awaitNoLag(t, e.gateway.Bootstrap, group, view, 10*time.Second)
		awaitNoLag(t, e.kafka, group, source, 10*time.Second)
	})
}

// case V11: a group that moves from the topic to a view, to twice as many virtual partitions, and back, under load. Nothing is done twice
// on the way to more virtual partitions; on the way back only what lies above the slowest slice.
func TestGroupMovesBetweenTopicAndViews(t *testing.T) {
	harness.Need(t)
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		source, group, l := harness.Name(t, "orders"), harness.Name(t, "group"), harness.NewLedger()
		harness.CreateTopic(t, e.kafka, source, 2)
		harness.WatchCommitted(t, e.kafka, group, source, l)
		produced := harness.ProduceInBackground(t, e.kafka, l, harness.Production{Topic: source, Records: 4000, Keys: 100, Batch: 20, Rate: 1000})
		above := 0 // records that the views' members have done above the slowest slice
		for i, topic := range []string{source, source + ".view8", source + ".view16", source} {
			var members []*harness.Consumer
			for m := range 2 {
				members = append(members, harness.Consume(t, l, harness.ConsumerConfig{Bootstrap: e.gateway.Bootstrap, Topics: []string{topic}, Group: group,
					Member: fmt.Sprintf("%s-%d", topic, m), Work: 500 * time.Microsecond, Handle: func(r *kgo.Record) {
						if r.Topic != topic {
							t.Errorf("a record of %s in place of %s", r.Topic, topic)
						}
					}}))
			}
			switch i {
			case 3:
				produced()
				l.AwaitDone(t, 20*time.Second)
			default:
				awaitDeliveries(t, l, 900*(i+1), 20*time.Second)
			}
			if i == 2 {
				above = comeToRest(t, e, l, group, source, topic, members)
			}
			for _, m := range members {
				m.Close()
				if errs := m.Errors(); len(errs) > 0 {
					t.Errorf("a member on %s: %v", topic, errs)
				}
			}
			if r := l.Report(nil); i < 3 && r.Duplicates > 0 {
				t.Errorf("%d records were done again after an orderly move to %s", r.Duplicates, topic)
			}
		}
		// A record is seen under the source's number and the views': Split and WrongPartition mean nothing across the moves.
		r := l.Report(nil)
		if r.Duplicates > above {
			t.Errorf("%d records were done again after the move back to the topic, %d were done above the slowest slice", r.Duplicates, above)
		}
		if r.Split = 0; r.Bad() {
			t.Errorf("ledger: %s", r)
		} else {
			t.Logf("ledger: %s", r)
		}
		awaitNoLag(t, e.kafka, group, source, 10*time.Second)
		for _, view := range []string{source + ".view8", source + ".view16"} {
			awaitNoLag(t, e.gateway.Bootstrap, group, view, 10*time.Second)
		}
	})
}

// comeToRest lets a group's members take nothing more, and waits until the group's offset on the source is the first record that is not done,
// while more come. It returns how many records are done above it.
func comeToRest(t *testing.T, e engine, l *harness.Ledger, group, source, view string, members []*harness.Consumer) (above int) {
	t.Helper()
	for _, m := range members {
		m.Client().PauseFetchTopics(view)
	}
	before, since := -1, time.Now()
	await(t, 15*time.Second, func() string {
		if n := l.Deliveries(); n != before { // of polls that began before
			before, since = n, time.Now()
		}
		if time.Since(since) < 500*time.Millisecond {
			return "the members are at work"
		}
		var first map[int32]int64
		first, above = l.FirstOpen(source)
		if at := e.committed(t, group, source); !maps.Equal(at, first) {
			var errs []error
			for _, m := range members {
				errs = append(errs, m.Errors()...)
			}
			return fmt.Sprintf("the group's offsets on the source are %v, the first records that are not done %v; errors of the members %v", at, first, errs)
		}
		return ""
	})
	return above
}
