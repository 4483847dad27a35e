package cases

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tandem-kafka/tandem/test/harness"
)

// Kafka's command line tools.
const (
	consoleProducer = "org.apache.kafka.tools.ConsoleProducer"
	consoleConsumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
	topicsTool      = "org.apache.kafka.tools.TopicCommand"
	getOffsets      = "org.apache.kafka.tools.GetOffsetShell"
)

// tool runs one of them with an address and a text on its standard input, and returns what it printed, standard error included.
func tool(t *testing.T, input, class, bootstrap string, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(harness.Root(), "test", "kafka", "kafka-cluster"), append([]string{"tool", class, "--bootstrap-server", bootstrap}, args...)...)
	cmd.Env, cmd.Stdin = append(os.Environ(), "KAFKA_HEAP=128m", "KAFKA_TIER=1"), strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", class, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Kafka's own command line tools on the topic and on its view: they write to the topic and are told why not to the view, read the view in a
// group, list, describe and show its ends, and kcat's library reads it from anywhere to its end. kafka-consumer-groups is case V10.
func TestKafkaTools(t *testing.T) {
	harness.Need(t)
	harness.InstallClients(t)
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		const records, virtual = 40, 4
		source, view := e.source(t, 1, virtual)
		gateway := e.gateway.Bootstrap
		keys := keysOf(virtual, 10)
		var lines strings.Builder
		for i := range records {
			fmt.Fprintf(&lines, "%s:value-%d\n", keys[i], i)
		}
		write := func(topic string) string {
			return tool(t, lines.String(), consoleProducer, gateway, "--topic", topic, "--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
		}
		if out := write(source); strings.Contains(out, "ERROR") {
			t.Fatalf("kafka-console-producer to the source: %s", out)
		}

		var all sync.WaitGroup
		defer all.Wait()
		// The view is made by the first who asks for it: here by one of these.
		all.Go(func() {
			if out := write(view); strings.Count(out, "this topic is a view: it shows the records of another topic; produce to that one") == 0 {
				t.Errorf("kafka-console-producer to the view does not say why it cannot: %s", out)
			}
		})
		all.Go(func() {
			out := tool(t, "", consoleConsumer, gateway, "--topic", view, "--group", harness.Name(t, "group"), "--from-beginning", "--max-messages", strconv.Itoa(records), "--timeout-ms", "30000")
			if n := len(regexp.MustCompile(`(?m)^value-\d+$`).FindAllString(out, -1)); n != records {
				t.Errorf("kafka-console-consumer got %d of %d records of the view:\n%s", n, records, out)
			}
		})
		all.Go(func() {
			latest := tool(t, "", getOffsets, gateway, "--topic", view, "--time", "-1")
			for v := range virtual { // the last record of each is of the last round
				if line := fmt.Sprintf("%s:%d:%d\n", view, v, records-virtual+v+1); !strings.Contains(latest, line) {
					t.Errorf("kafka-get-offsets has no %q:\n%s", line, latest)
				}
			}
			if list := tool(t, "", topicsTool, gateway, "--list"); !strings.Contains(list, source+"\n") || !strings.Contains(list, view+"\n") {
				t.Errorf("kafka-topics --list: %s", list)
			}
			if d := tool(t, "", topicsTool, gateway, "--describe", "--topic", view); strings.Count(d, "Partition: ") != virtual {
				t.Errorf("kafka-topics --describe: %s", d)
			}
		})
		// kcat -C -e -o ...: record i has offset i, in virtual partition i mod 4, so that the last 5 offsets of each hold two records.
		for offset, want := range map[string]int{"beginning": records, "20": records - 20, "end": 0, "-5": 2 * virtual} {
			all.Go(func() { cat(t, gateway, view, offset, want, records, virtual) })
		}
	})
}

// cat reads a view of which record i has offset i and virtual partition i mod virtual, as kcat does, and wants so many records: the last ones
// of each virtual partition, in order, and then its end.
func cat(t *testing.T, bootstrap, view, offset string, want, records, virtual int) {
	cmd := exec.Command(filepath.Join(harness.Root(), "test", "clients", "client"), "python-main", "confluent_cat.py", "--bootstrap", bootstrap, "--topic", view, "--offset="+offset)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("kcat -o %s: %v\n%s%s", offset, err, errs.Bytes(), out)
		return
	}
	next := make([]int, virtual) // offset of each one's next record
	for v := range next {
		next[v] = records + v - want/virtual*virtual
	}
	got, ends := 0, 0
	for line := range bytes.Lines(out) {
		var r struct{ EOF, Partition, Offset *int }
		if err := json.Unmarshal(line, &r); err != nil || r.Offset == nil {
			t.Errorf("kcat -o %s: %q: %v", offset, line, err)
			return
		}
		if r.EOF != nil {
			ends++
			if end := records - virtual + *r.EOF + 1; *r.Offset != end {
				t.Errorf("kcat -o %s: virtual partition %d ends at %d, want %d", offset, *r.EOF, *r.Offset, end)
			}
			continue
		}
		if got++; *r.Offset != next[*r.Partition] {
			t.Errorf("kcat -o %s: offset %d of virtual partition %d in place of %d", offset, *r.Offset, *r.Partition, next[*r.Partition])
		}
		next[*r.Partition] = *r.Offset + virtual
	}
	if got != want || ends != virtual {
		t.Errorf("kcat -o %s: %d records and %d ends, want %d and %d:\n%s", offset, got, ends, want, virtual, out)
	}
}
