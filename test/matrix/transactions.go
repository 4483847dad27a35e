package matrix

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
)

// ExactlyOnce runs three members of a group that reads a view, transforms and writes in transactions with its offsets; one is killed and
// replaced in the middle. Read with read_committed, the output holds each record once, and the group's offsets on the source reach its ends.
// Those may be too low after transactions that ended side by side, never too high; so there are a few more records at the end, one in each
// partition. The programs: "java" and "java-848" (KafkaConsumer and KafkaProducer, both group protocols), "confluent-kafka" (librdkafka),
// "streams" (exactly_once_v2 with a store of counts).
func ExactlyOnce(t *testing.T, g Target, program string) {
	const records, keys = 1000, 100
	source, view := g.source(t, "exactly")
	group, l := harness.Name(t, "exactly"), harness.NewLedger()
	out := group + "-out"
	args := []string{"--bootstrap", g.Gateway, "--topic", view, "--group", group, "--work-ms", "4", "--session-ms", "6000", "--out", out}
	switch program {
	case "java":
		args = append([]string{"java-main", "TransactMain"}, args...)
	case "java-848":
		args = append([]string{"java-main", "TransactMain", "--protocol", "consumer"}, args...)
		harness.ConsumerSession(t, g.Kafka, group, 6*time.Second, time.Second)
	case "confluent-kafka":
		args = append([]string{"python-main", "confluent_transact.py"}, args...)
	case "streams":
		out = group + "-eos-out"
		args = append([]string{"java-main", "StreamsApps", "--apps", "eos"}, args...)
	}
	g.output(t, out)
	harness.Produce(t, g.Kafka, l, harness.Production{Topic: source, Records: records, Keys: keys, Batch: 50})

	members := []*harness.ClientProcess{}
	for range 3 {
		members = append(members, harness.StartClient(t, args[0], args[1:]...))
	}
	killed := false
	g.follow(t, out, 120*time.Second, 500*time.Millisecond, func(all []output) bool {
		if !killed && len(all) > records/8 {
			if killed = true; len(all) > records*3/4 {
				t.Errorf("%d of %d records were through before a member could be killed: nothing is proven", len(all), records)
			}
			members[0].Kill()
			members[0] = harness.StartClient(t, args[0], args[1:]...)
		}
		return distinct(all) >= records
	})
	harness.Produce(t, g.Kafka, l, harness.Production{Topic: source, Records: int(g.Partitions), Key: func(p int) []byte { return g.keyOf(int32(p)) }})
	total := records + int(g.Partitions)
	all := g.follow(t, out, 60*time.Second, time.Second, func(all []output) bool { return distinct(all) >= total })
	checkOnce(t, all, total, program == "streams")
	for _, m := range members {
		if err := m.Term(30 * time.Second); err != nil {
			t.Error(err)
		}
	}
	stable := harness.CommittedOffsets(t, g.Kafka, group+map[bool]string{true: "-eos"}[program == "streams"], source)
	if ends := l.Ends(source); fmt.Sprint(stable) != fmt.Sprint(ends) {
		t.Errorf("the group's offsets on the source are %v, want its ends %v", stable, ends)
	}
}

// keyOf is a key of its own for a partition of the source.
func (g Target) keyOf(partition int32) []byte {
	for i := 0; ; i++ {
		key := fmt.Appendf(nil, "last-%d", i)
		if int32(harness.Murmur2(key)&0x7fffffff)%g.Partitions == partition {
			return key
		}
	}
}

// text splits "COUNT|VALUE" of the Streams application and reads the value.
func text(o output) (count string, n int64, seq int64) {
	count, value, counted := strings.Cut(o.value, "|")
	if !counted {
		count, value = "", o.value
	}
	v := struct{ N, Seq int64 }{-1, -1}
	_ = json.Unmarshal([]byte(value), &v)
	return count, v.N, v.Seq
}

func distinct(all []output) int {
	seen := map[int64]bool{}
	for _, o := range all {
		_, n, _ := text(o)
		seen[n] = true
	}
	return len(seen)
}

// checkOnce checks that the output holds each record once, each key in order, and with the right count.
func checkOnce(t *testing.T, all []output, records int, counted bool) {
	t.Helper()
	times, last := map[int64]int{}, map[string]int64{}
	wrong := func(format string, args ...any) {
		t.Helper()
		t.Errorf(format, args...)
	}
	for _, o := range all {
		count, n, seq := text(o)
		if times[n]++; times[n] == 2 {
			wrong("record %d (key %s, sequence %d) is there twice", n, o.key, seq)
		}
		if before, ok := last[o.key]; ok && seq != before+1 || !ok && seq != 0 {
			wrong("key %s: sequence %d after %d", o.key, seq, before)
		}
		last[o.key] = seq
		if counted && count != fmt.Sprint(seq+1) {
			wrong("key %s: count %s of sequence %d", o.key, count, seq)
		}
	}
	if len(times) != records {
		wrong("%d of %d records are there", len(times), records)
	}
}
