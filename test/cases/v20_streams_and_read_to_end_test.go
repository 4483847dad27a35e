package cases

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Kafka Streams over a view most of whose slices hold nothing, and the others ended long ago: behind them the source holds many records of
// one slice. Joins with a real topic of as many partitions give all outputs, whatever max.task.idle.ms is; a GlobalKTable of the view runs in
// seconds; a loop that reads to the end ends (case V20).
func TestStreamsAndReadToEndOnASparseView(t *testing.T) {
	harness.Need(t)
	harness.InstallClients(t)
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		const keys, tail = 6, 2000
		source, view := e.source(t, 1, 16)
		other, group := harness.Name(t, "real"), harness.Name(t, "apps")
		harness.CreateTopic(t, e.kafka, other, 16)
		key := func(i int) []byte { return fmt.Appendf(nil, "key-%d", i%keys) }
		harness.Produce(t, e.kafka, harness.NewLedger(), harness.Production{Topic: source, Records: keys, Key: key})
		harness.Produce(t, e.kafka, harness.NewLedger(), harness.Production{Topic: source, Records: tail, Batch: 100,
			Key: func(int) []byte { return []byte("busy") }})
		harness.Produce(t, e.kafka, harness.NewLedger(), harness.Production{Topic: other, Records: keys, Key: key})
		apps := []string{"join-0", "join-2000", "join--1"}
		for _, app := range apps {
			harness.CreateTopic(t, e.kafka, group+"-"+app+"-out", 1)
		}
		start := time.Now()
		p := harness.StartClient(t, "java-main", "StreamsApps", "--bootstrap", e.gateway.Bootstrap, "--topic", view, "--other", other, "--group", group,
			"--apps", "global,"+strings.Join(apps, ","))
		// Beside them, the loop that reads to the end.
		toEnd := harness.StartClient(t, "java-main", "ProducerMain", "--bootstrap", e.gateway.Bootstrap, "--topic", view, "--mode", "read-to-end,read-to-end")

		for _, app := range apps {
			pairs := map[string]bool{}
			c := harness.Client(t, e.kafka, kgo.ConsumeTopics(group+"-"+app+"-out"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			for ctx := harness.Context(t, 45*time.Second); len(pairs) < keys; {
				fetches := c.PollFetches(ctx)
				if ctx.Err() != nil {
					t.Fatalf("%s: %d of %d outputs after %v:\n%s", app, len(pairs), keys, time.Since(start), p.Output())
				}
				fetches.EachRecord(func(r *kgo.Record) { pairs[string(r.Key)] = true })
			}
			t.Logf("%s: all outputs after %v", app, time.Since(start))
		}
		table := map[string]string{}
		harness.Eventually(t, 30*time.Second, func() error {
			for s := bufio.NewScanner(strings.NewReader(p.Output())); s.Scan(); {
				var line struct{ Table map[string]string }
				if json.Unmarshal(s.Bytes(), &line) == nil && line.Table != nil {
					table = line.Table
					return nil
				}
			}
			return fmt.Errorf("the GlobalKTable does not run: %s", p.Output())
		})
		if len(table) != keys+1 {
			t.Errorf("the GlobalKTable has %d of %d keys", len(table), keys+1)
		}
		if strings.Contains(p.Output(), `"error"`) {
			t.Errorf("an application died:\n%s", p.Output())
		}
		if err := toEnd.Wait(30 * time.Second); err != nil {
			t.Errorf("the loop that reads to the end: %v", err)
		}
		ended := 0 // the first time takes as long as a JVM takes to get going beside the others
		for s := bufio.NewScanner(strings.NewReader(toEnd.Output())); s.Scan(); {
			var line struct {
				Error   string
				Records int
				Seconds float64
			}
			if err := json.Unmarshal(s.Bytes(), &line); err != nil || line.Error != "" || line.Records != keys+tail || ended > 0 && line.Seconds > 15 {
				t.Errorf("read to the end: %s %v", s.Text(), err)
			}
			ended++
		}
		if ended != 2 {
			t.Errorf("the loop ended %d times of 2", ended)
		}
		if err := p.Term(30 * time.Second); err != nil {
			t.Error(err)
		}
	})
}
