package matrix

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
)

// Streams runs Kafka Streams applications on a view, all in one JVM: a stateless one with the Streams group protocol, an aggregation, a
// GlobalKTable of the view, and inner joins of a sparse view with a real topic of as many partitions for three settings of
// max.task.idle.ms. Their outputs have to be complete, and the GlobalKTable has to run.
func Streams(t *testing.T, g Target) {
	const records, keys, others = 1200, 60, 200
	source, view := g.source(t, "streams")
	group, l := harness.Name(t, "apps"), harness.NewLedger()
	harness.Produce(t, g.Kafka, l, harness.Production{Topic: source, Records: records, Keys: keys, Batch: 100})

	// The sparse view: few keys, so that most of its virtual partitions hold nothing, and all its records are older than the other topic's.
	few := harness.NewLedger()
	sparseSource, sparse := g.source(t, "sparse")
	harness.Produce(t, g.Kafka, few, harness.Production{Topic: sparseSource, Records: 50, Keys: 5, Batch: 10})
	other := harness.Name(t, "real")
	harness.CreateTopic(t, g.Kafka, other, Views)
	harness.Produce(t, g.Kafka, harness.NewLedger(), harness.Production{Topic: other, Records: others, Batch: 50,
		Key: func(i int) []byte { return fmt.Appendf(nil, "key-%d", i) }}) // one record for each key

	joins := []string{"join-0", "join-2000", "join--1"}
	kinds := []string{"copy-group", "count", "global"}
	if g.NoStreams {
		kinds[0] = "copy"
	}
	for _, app := range append([]string{kinds[0], "count"}, joins...) {
		g.output(t, group+"-"+app+"-out")
	}
	start := time.Now()
	apps := harness.StartClient(t, "java-main", "StreamsApps", "--bootstrap", g.Gateway, "--topic", view, "--group", group, "--apps", strings.Join(kinds, ","))
	joined := harness.StartClient(t, "java-main", "StreamsApps", "--bootstrap", g.Gateway, "--topic", sparse, "--other", other, "--group", group, "--apps", strings.Join(joins, ","))

	table := awaitTable(t, apps)
	t.Logf("the GlobalKTable ran after %v", time.Since(start))
	if len(table) != keys {
		t.Errorf("the GlobalKTable has %d of %d keys", len(table), keys)
	}
	copies := g.follow(t, group+"-"+kinds[0]+"-out", 60*time.Second, time.Second, func(all []output) bool { return len(all) >= records })
	if len(copies) != records {
		t.Errorf("%s gave %d of %d records", kinds[0], len(copies), records)
	}
	checkCounts(t, g.follow(t, group+"-count-out", 60*time.Second, time.Second, func(all []output) bool { return len(all) >= records }), records, keys)
	for _, app := range joins {
		pairs := map[output]int{}
		for _, o := range g.follow(t, group+"-"+app+"-out", 60*time.Second, time.Second, func(all []output) bool { return len(all) >= 50 }) {
			pairs[o]++
		}
		if len(pairs) != 50 {
			t.Errorf("%s: %d of 50 pairs", app, len(pairs))
		}
	}
	for _, p := range []*harness.ClientProcess{apps, joined} {
		if strings.Contains(p.Output(), `"error"`) {
			t.Errorf("an application died:\n%s", p.Output())
		}
		if err := p.Term(30 * time.Second); err != nil {
			t.Error(err)
		}
	}
}

// awaitTable waits for the GlobalKTable's line.
func awaitTable(t *testing.T, p *harness.ClientProcess) (table map[string]string) {
	t.Helper()
	harness.Eventually(t, 90*time.Second, func() error { // one that is wrong about a view's end never runs
		for s := bufio.NewScanner(strings.NewReader(p.Output())); s.Scan(); {
			var line struct{ Table map[string]string }
			if json.Unmarshal(s.Bytes(), &line) == nil && line.Table != nil {
				table = line.Table
				return nil
			}
		}
		return fmt.Errorf("no GlobalKTable yet: %s", p.Output())
	})
	return table
}

// checkCounts checks that the counts of each key rise by one, and that they sum up to all records.
func checkCounts(t *testing.T, all []output, records, keys int) {
	t.Helper()
	last, sum := map[string]int{}, 0
	for _, o := range all {
		n, err := strconv.Atoi(o.value)
		if err != nil || n != last[o.key]+1 {
			t.Errorf("count of %q: %q after %d", o.key, o.value, last[o.key])
		}
		last[o.key] = n
	}
	for _, n := range last {
		sum += n
	}
	if sum != records || len(last) != keys {
		t.Errorf("the counts of %d keys sum up to %d, want %d keys and %d", len(last), sum, keys, records)
	}
}
