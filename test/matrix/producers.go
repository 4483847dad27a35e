package matrix

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// producer is a program of the kit and the modes it knows.
type producer struct {
	name  string
	args  []string
	modes []string
	other bool // its default partitioner is not Kafka's
}

var all3 = []string{"plain", "idempotent", "transactional"}

var producers = []producer{
	{"java", []string{"java-main", "ProducerMain", "--group", "none"}, all3, false},
	{"franz-go", []string{"go-main", "produce", "--library", "franz-go"}, all3, false},
	{"sarama", []string{"go-main", "produce", "--library", "sarama"}, all3, true},
	{"kafka-go", []string{"go-main", "produce", "--library", "kafka-go"}, []string{"plain"}, false},
	{"confluent-kafka", []string{"python-main", "confluent_producer.py"}, all3, false},
	{"kafkajs", []string{"node-main", "kafkajs_producer.js"}, all3, false},
}

type outcome struct {
	Mode    string
	Records int
	Error   string
	Seconds float64
}

func (g Target) run(t *testing.T, topic string, p producer, more ...string) map[string]outcome {
	t.Helper()
	args := append(append([]string{}, p.args[1:]...), "--bootstrap", g.Gateway, "--topic", topic)
	c := harness.StartClient(t, p.args[0], append(args, more...)...)
	if err := c.Wait(90 * time.Second); err != nil {
		t.Errorf("%s: %v", p.name, err)
	}
	out := map[string]outcome{}
	for d := json.NewDecoder(strings.NewReader(c.Output())); d.More(); {
		var o outcome
		if err := d.Decode(&o); err != nil {
			t.Fatalf("%s: %v in %s", p.name, err, c.Output())
		}
		out[o.Mode] = o
	}
	return out
}

// Producers runs the producers of all libraries: plain, idempotent and transactional. Every record arrives once, in the order of its key,
// where the default partitioner puts it.
func Producers(t *testing.T, g Target) {
	const records = 100
	for _, p := range producers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			topic := harness.Name(t, "produced")
			harness.CreateTopic(t, g.Kafka, topic, 4)
			for mode, o := range g.run(t, topic, p, "--mode", strings.Join(p.modes, ","), "--records", fmt.Sprint(records)) {
				if o.Error != "" || o.Records != records {
					t.Errorf("%s: %d records, error %q", mode, o.Records, o.Error)
				}
			}
			next := map[string]int{}
			total := 0
			c := harness.Client(t, g.Kafka, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
			ctx := harness.Context(t, 20*time.Second)
			for want := records * len(p.modes); total < want && ctx.Err() == nil; {
				c.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
					var v struct {
						From string
						I    int
					}
					_ = json.Unmarshal(r.Value, &v)
					total++
					id := v.From + string(r.Key)
					if n, ok := next[id]; ok && v.I != n {
						t.Errorf("%s: %d in place of %d", id, v.I, n)
					}
					next[id] = v.I + 10
					if want := int32(harness.Murmur2(r.Key)&0x7fffffff) % 4; !p.other && r.Partition != want {
						t.Errorf("%s is in partition %d, want %d", r.Key, r.Partition, want)
					}
				})
			}
			if total != records*len(p.modes) || len(next) != 10*len(p.modes) {
				t.Errorf("%d records of %d keys and modes arrived, want %d", total, len(next), records*len(p.modes))
			}
		})
	}
}

// ProduceToView checks that the producers of all libraries are refused at once, and readably, when they write to a view.
func ProduceToView(t *testing.T, g Target) {
	source, view := g.source(t, "protected")
	if g.direct() {
		t.Skip("a real topic accepts records")
	}
	g.open(t, view) // kafka-go does not ask for topics to be created
	for _, p := range producers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for mode, o := range g.run(t, view, p, "--mode", strings.Join(p.modes, ","), "--records", "1") {
				text := strings.ToLower(strings.NewReplacer("_", "", " ", "").Replace(o.Error))
				if o.Error == "" || !strings.Contains(text, "policy") {
					t.Errorf("%s: error %q does not name the policy", mode, o.Error)
				}
				if o.Seconds > 20 { // a producer that was not refused at once goes on for 30 s or more
					t.Errorf("%s: refused after %.1f s only", mode, o.Seconds)
				}
				t.Logf("%s: %s (%.1f s)", mode, o.Error, o.Seconds)
			}
		})
	}
	t.Cleanup(func() {
		ends, err := harness.AdminClient(t, g.Kafka).ListEndOffsets(harness.Context(t, 10*time.Second), source)
		if err != nil {
			t.Fatal(err)
		}
		for p, o := range ends[source] {
			if o.Offset != 0 {
				t.Errorf("source partition %d has records up to %d", p, o.Offset)
			}
		}
	})
}

// ReadToEnd checks that a loop over a view that ends when each position has reached the end offset of its beginning does end, with all
// records: on a view with records in few virtual partitions, and on an empty one.
func ReadToEnd(t *testing.T, g Target) {
	java := producers[0]
	for _, records := range []int{0, 7} {
		source, view := g.source(t, "read-to-end")
		harness.Produce(t, g.Kafka, harness.NewLedger(), harness.Production{Topic: source, Records: records, Keys: 3})
		for _, isolation := range []string{"read_uncommitted", "read_committed"} {
			o := g.run(t, view, java, "--mode", "read-to-end", "--isolation", isolation)["read-to-end"]
			if o.Error != "" || o.Records != records {
				t.Errorf("%s: %d of %d records, error %q", isolation, o.Records, records, o.Error)
			}
			if o.Seconds > 20 {
				t.Errorf("%s: ended after %.1f s only", isolation, o.Seconds)
			}
		}
	}
}
