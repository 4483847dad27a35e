package cases

import (
	"bufio"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The programs of examples/ do what their READMEs say, on Kafka.
func TestExamples(t *testing.T) {
	t.Parallel()
	harness.Need(t)
	harness.InstallClients(t)
	for name, run := range map[string]func(*testing.T, engine){"cooperative-worker": cooperativeWorker, "transactional-worker": transactionalWorker, "python-view": pythonView, "streams": streamsPastPartitions} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, onKafka(t, harness.GatewayConfig{}))
		})
	}
}

// lines are what programs have printed.
func lines(programs ...*harness.Process) (all []string) {
	for _, p := range programs {
		for s := bufio.NewScanner(strings.NewReader(p.Output())); s.Scan(); {
			all = append(all, s.Text())
		}
	}
	return all
}

// produceAll writes records where Kafka's default partitioner puts them.
func produceAll(t *testing.T, e engine, records ...*kgo.Record) {
	t.Helper()
	if err := harness.Client(t, e.kafka).ProduceSync(harness.Context(t, 20*time.Second), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// Three workers share one partition; one is told to end and another takes its place. Everybody is welcomed once, and what is no sign-up is a dead letter.
func cooperativeWorker(t *testing.T, e engine) {
	const signups = 600
	topic, group := harness.Name(t, "signups"), harness.Name(t, "welcome")
	harness.CreateTopic(t, e.kafka, topic, 1)
	harness.CreateTopic(t, e.kafka, topic+".failed", 1)
	var records []*kgo.Record
	for i := range signups {
		records = append(records, &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, `{"Name":"N%d","Mail":"n%d@example.com"}`, i, i)})
	}
	produceAll(t, e, append(records, &kgo.Record{Topic: topic, Value: []byte("no sign-up")})...)
	var workers []*harness.Process
	start := func() {
		workers = append(workers, harness.StartProgram(t, "cooperative-worker", "./examples/cooperative-worker", "-bootstrap", e.gateway.Bootstrap, "-topic", topic, "-group", group))
	}
	for range 3 {
		start()
	}
	await(t, 30*time.Second, func() string {
		if n := len(lines(workers[0])); n < 10 {
			return fmt.Sprintf("the first has welcomed %d", n)
		}
		return ""
	})
	if err := workers[0].Term(20 * time.Second); err != nil {
		t.Errorf("SIGTERM: %v", err)
	}
	start()
	e.awaitAllDone(t, group, topic, signups+1)
	all := lines(workers...)
	for i := range signups {
		prefix := fmt.Sprintf("welcome N%d <n%d@example.com>, attempt ", i, i)
		if n := len(slices.DeleteFunc(slices.Clone(all), func(line string) bool { return !strings.HasPrefix(line, prefix) })); n != 1 {
			t.Errorf("N%d was welcomed %d times", i, n)
		}
	}
	for i, w := range workers[:3] {
		if len(lines(w)) == 0 {
			t.Errorf("worker %d had nothing to do", i)
		}
	}
	if letters := readAll(t, e.kafka, topic+".failed"); len(letters) != 1 || string(letters[0].Value) != "no sign-up" {
		t.Errorf("dead letters %v", letters)
	}
}

// Three workers share the 16 virtual partitions of a topic with two. Each key is with one of them, in order, in its virtual partition.
func pythonView(t *testing.T, e engine) {
	const records, keys, virtual = 600, 60, 16
	source, view := e.source(t, 2, virtual)
	group := harness.Name(t, "billing")
	var workers []*harness.Process
	for range 3 {
		p := harness.StartClient(t, "python-main", "../../../examples/python-view/worker.py", e.gateway.Bootstrap, view, group)
		workers = append(workers, p.Process)
	}
	awaitMembers(t, e.gateway.Bootstrap, group, view, 3, virtual)
	await(t, 20*time.Second, func() string {
		for i, w := range workers {
			if !strings.Contains(w.Log(), "has [") {
				return fmt.Sprintf("worker %d has no partitions", i)
			}
		}
		return ""
	})
	var orders []*kgo.Record
	for i := range records {
		orders = append(orders, &kgo.Record{Topic: source, Key: fmt.Appendf(nil, "c%d", i%keys), Value: fmt.Appendf(nil, "%d", i/keys)})
	}
	produceAll(t, e, orders...)
	awaitNoLag(t, e.kafka, group, source, 30*time.Second)
	owner, next := map[string]string{}, map[string]int{}
	for i, w := range workers {
		mine := lines(w)
		if len(mine) == 0 {
			t.Errorf("worker %d had nothing to do", i)
		}
		for _, line := range mine {
			var pid, key, of string
			var value, offset int
			if _, err := fmt.Sscanf(line, "%s bills %s %d of %s at %d", &pid, &key, &value, &of, &offset); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if want := fmt.Sprintf("%s[%d]", view, int32(harness.Murmur2([]byte(key))&0x7fffffff)%virtual); of != want {
				t.Errorf("%q: not of %s", line, want)
			}
			if owner[key] == "" {
				owner[key] = pid
			}
			if owner[key] != pid || value != next[key] {
				t.Errorf("%q: the key is with %s, and %d is next", line, owner[key], next[key])
			}
			next[key] = value + 1
		}
		if err := w.Term(20 * time.Second); err != nil {
			t.Errorf("SIGTERM: %v", err)
		}
	}
	if len(next) != keys {
		t.Errorf("%d of %d keys", len(next), keys)
	}
	for key, n := range next {
		if n != records/keys {
			t.Errorf("%s was billed %d times of %d", key, n, records/keys)
		}
	}
}

// Eight tasks share a topic with one partition. The totals are exact, and go on where they were with an empty state folder.
func streamsPastPartitions(t *testing.T, e engine) {
	const orders, customers, virtual = 400, 20, 8
	source, view := e.source(t, 1, virtual)
	names, totals := harness.Name(t, "customers"), harness.Name(t, "totals")
	harness.CreateTopic(t, e.kafka, names, virtual)
	harness.CreateTopic(t, e.kafka, totals, 1)
	key := func(i int) []byte { return fmt.Appendf(nil, "c%d", i%customers) }
	var records []*kgo.Record
	for i := range customers {
		records = append(records, &kgo.Record{Topic: names, Key: key(i), Value: fmt.Appendf(nil, "Name %d", i)})
	}
	produceAll(t, e, records...)
	application := harness.Name(t, "order-totals")
	want := map[string]int{}
	for range 2 {
		records = nil
		for i := range orders {
			records = append(records, &kgo.Record{Topic: source, Key: key(i * 7), Value: fmt.Append(nil, i)})
			want[string(key(i*7))] += i
		}
		produceAll(t, e, records...)
		app := harness.StartClient(t, "java-main", filepath.Join(harness.Root(), "examples", "streams", "OrderTotals.java"), e.gateway.Bootstrap, view, names, totals, application, t.TempDir())
		await(t, time.Minute, func() string {
			if !app.Running() {
				t.Fatal("the application ended")
			}
			last := map[string]string{}
			for _, r := range readAll(t, e.kafka, totals, kgo.FetchIsolationLevel(kgo.ReadCommitted())) {
				last[string(r.Key)] = string(r.Value)
			}
			for i := range customers {
				k := string(key(i))
				if text := fmt.Sprintf("Name %d: %d", i, want[k]); last[k] != text {
					return fmt.Sprintf("%s has %q, not %q", k, last[k], text)
				}
			}
			return ""
		})
		if out := app.Output(); !strings.Contains(out, fmt.Sprintf("%d tasks on 4 threads", virtual)) {
			t.Errorf("it printed %q", out)
		}
		if err := app.Term(30 * time.Second); err != nil {
			t.Errorf("SIGTERM: %v", err)
		}
	}
}
