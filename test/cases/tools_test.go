package cases

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
)

// Kafka's command line tools.
const (
	consoleProducer = "org.apache.kafka.tools.ConsoleProducer"
	consoleConsumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
	consumerGroups  = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
	topicsTool      = "org.apache.kafka.tools.TopicCommand"
	getOffsets      = "org.apache.kafka.tools.GetOffsetShell"
)

// tool runs one of them with an address and returns what it printed.
func tool(t *testing.T, e engine, class, bootstrap string, args ...string) string {
	t.Helper()
	k := e.cluster
	if k == nil {
		k = new(harness.Kafka) // only the jars are needed
	}
	out, err := k.Tool(class, append([]string{"--bootstrap-server", bootstrap}, args...)...)
	if err != nil {
		t.Errorf("%s %s: %v\n%s", class, strings.Join(args, " "), err, out)
	}
	return out
}

// toolInput is tool with text on the standard input.
func toolInput(t *testing.T, input, class, bootstrap string, args ...string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(harness.Root(), "test", "kafka", "kafka-cluster"), append([]string{"tool", class, "--bootstrap-server", bootstrap}, args...)...)
	cmd.Env, cmd.Stdin = append(os.Environ(), "KAFKA_HEAP=128m", "KAFKA_TIER=1"), strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "ERROR") {
		t.Errorf("%s %s: %v\n%s", class, strings.Join(args, " "), err, out)
	}
}

// described reads the table of kafka-consumer-groups --describe: for each partition of a topic current offset, end and lag; -1 for "-".
func described(out, topic string) map[int][3]int64 {
	rows := map[int][3]int64{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != topic {
			continue
		}
		p, err := strconv.Atoi(f[2])
		if err != nil {
			continue
		}
		var row [3]int64
		for i := range row {
			// 4.x has the leader epoch only with --verbose, so that the columns are offset, end, lag.
			if row[i], err = strconv.ParseInt(f[3+i], 10, 64); err != nil {
				row[i] = -1
			}
		}
		rows[p] = row
	}
	return rows
}

// Kafka's own command line tools on the topic and on the view, through the gateway and directly on the broker: they list, read, write, show
// a group's progress and reset it, and what they say is true.
func TestKafkaTools(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		const records, virtual = 40, 4
		source, view := e.source(t, 1, virtual)
		gateway, group := e.gateway.Bootstrap, harness.Name(t, "group")
		keys := keysOf(virtual, 10)

		// kafka-console-producer, through the gateway; to the view it says no at once.
		var lines strings.Builder
		for i := range records {
			fmt.Fprintf(&lines, "%s:value-%d\n", keys[i], i)
		}
		toolInput(t, lines.String(), consoleProducer, gateway, "--topic", source, "--reader-property", "parse.key=true", "--reader-property", "key.separator=:")

		// kafka-console-consumer in a group, on the view: all records. The group's rows are its commit at the end.
		out := tool(t, e, consoleConsumer, gateway, "--topic", view, "--group", group, "--from-beginning", "--max-messages", strconv.Itoa(records), "--timeout-ms", "20000")
		if n := len(regexp.MustCompile(`(?m)^value-\d+$`).FindAllString(out, -1)); n != records {
			t.Errorf("the console consumer got %d of %d records of the view:\n%s", n, records, out)
		}
		harness.Produce(t, gateway, harness.NewLedger(), harness.Production{Topic: source, Records: 1, Key: func(int) []byte { return keys[0] }})

		t.Run("topics", func(t *testing.T) {
			t.Parallel()
			for _, at := range []string{gateway, e.kafka} {
				if list := tool(t, e, topicsTool, at, "--list"); !strings.Contains(list, source+"\n") || !strings.Contains(list, view+"\n") {
					t.Errorf("kafka-topics --list: %s", list)
				}
			}
			if d := tool(t, e, topicsTool, gateway, "--describe", "--topic", view); strings.Count(d, "Partition: ") != virtual {
				t.Errorf("kafka-topics --describe: %s", d)
			}
		})
		t.Run("offsets", func(t *testing.T) {
			t.Parallel()
			latest := tool(t, e, getOffsets, gateway, "--topic", view, "--time", "-1")
			for v := range virtual { // the last record of each is its round's
				want := records - virtual + v + 1
				if v == 0 {
					want = records + 1
				}
				if line := fmt.Sprintf("%s:%d:%d\n", view, v, want); !strings.Contains(latest, line) {
					t.Errorf("kafka-get-offsets has no %q:\n%s", line, latest)
				}
			}
		})
		t.Run("groups", func(t *testing.T) {
			t.Parallel()
			rows := described(tool(t, e, consumerGroups, gateway, "--describe", "--group", group), view)
			for v := range virtual {
				want := int64(0)
				if v == 0 {
					want = 1
				}
				if row, ok := rows[v]; !ok || row[2] != want {
					t.Errorf("through the gateway, virtual partition %d has offset, end and lag %v, want the lag %d", v, rows[v], want)
				}
			}
			// On the broker, the source's row is the truth.
			if e.real() {
				if row := described(tool(t, e, consumerGroups, e.kafka, "--describe", "--group", group), source)[0]; row != [3]int64{records, records + 1, 1} {
					t.Errorf("on the broker, the source has offset, end and lag %v", row)
				}
			}
		})
	})
}

// kafka-consumer-groups --reset-offsets while the group is down, on the source or on the view, through the gateway or directly on the
// broker: the group starts again where it was told to, in all slices.
func TestResetOffsetsTool(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		const records, virtual, to = 40, 4, 20
		keys := keysOf(virtual, 10)
		type reset struct {
			name, at string
			view     bool
			want     int // records that are delivered again
		}
		resets := []reset{
			{"source through the gateway", e.gateway.Bootstrap, false, records - to},
			{"view through the gateway", e.gateway.Bootstrap, true, records - to},
		}
		if e.real() {
			resets = append(resets, reset{"source on the broker", e.kafka, false, records - to})
		}
		for _, r := range resets {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel() // most of the time a JVM starts
				source, view := e.source(t, 1, virtual)
				group, l := harness.Name(t, "group"), harness.NewLedger()
				harness.Produce(t, e.gateway.Bootstrap, l, harness.Production{Topic: source, Records: records, Batch: 1, Key: func(i int) []byte { return keys[i] }})
				m := harness.Consume(t, l, e.consumer(group, "before", view))
				l.AwaitDone(t, 20*time.Second)
				m.Close()
				what := source + ":0"
				if r.view {
					what = view
				}
				out := tool(t, e, consumerGroups, r.at, "--reset-offsets", "--group", group, "--topic", what, "--to-offset", strconv.Itoa(to), "--execute")
				if strings.Contains(out, "Error") {
					t.Errorf("reset: %s", out)
				}
				harness.Consume(t, l, e.consumer(group, "after", view))
				awaitDeliveries(t, l, records+r.want, 20*time.Second)
				// One more in each slice, to see that nothing else comes before it.
				harness.Produce(t, e.gateway.Bootstrap, l, harness.Production{Topic: source, Records: virtual, Batch: 1, Key: func(i int) []byte { return keys[i] }})
				l.AwaitDone(t, 20*time.Second)
				report := l.Check(t, harness.View(1, virtual))
				if report.Duplicates != r.want || report.Members["after"] != r.want+virtual {
					t.Errorf("%d records were delivered again, want %d; members %v", report.Duplicates, r.want, report.Members)
				}
				awaitNoLag(t, e.kafka, group, source, 10*time.Second)
			})
		}
	})
}
