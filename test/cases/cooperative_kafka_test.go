package cases

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit"
	"github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// With read_committed members get what transactions have committed, in the order of the log, and nothing of what was aborted or is not decided; markers
// and what was aborted count as done with what is around them. With read_uncommitted they get all (case C4).
func TestCooperativeFetchesAndTransactions(t *testing.T) {
	t.Parallel()
	harness.Need(t)
	e := onKafka(t, harness.GatewayConfig{})
	topic := harness.Name(t, "orders")
	harness.CreateTopic(t, e.kafka, topic, 1)
	producer := harness.Client(t, e.kafka, kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic))
	ctx := harness.Context(t, time.Minute)
	produce := func(n int) {
		t.Helper()
		var records []*kgo.Record
		for range n {
			records = append(records, &kgo.Record{Value: []byte("v")})
		}
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := producer.ProduceSync(ctx, records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	end := func(how kgo.TransactionEndTry) {
		t.Helper()
		if err := producer.EndTransaction(ctx, how); err != nil {
			t.Fatal(err)
		}
	}
	produce(10) // 0-9, and a marker
	end(kgo.TryCommit)
	produce(10) // 11-20, and a marker
	end(kgo.TryAbort)
	produce(5) // 22-26, and a marker
	end(kgo.TryCommit)
	produce(3) // 28-30, not decided

	member := func(name string, committed bool) *coopMember {
		m := e.cooperate([]*wire{e.wire(t, harness.Name(t, name))}, topic, 30_000)[0]
		m.committed = committed
		return m
	}
	// all asks until offsets up to there are given, and finishes them.
	all := func(m *coopMember, end int64) (offsets []int64) {
		t.Helper()
		within, last := harness.Until(20*time.Second), int64(-1)
		for last < end && within() {
			g, err := m.ask(4, 200*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			offsets = append(offsets, g.offsets()...)
			if n := len(g.ranges); n > 0 {
				last = g.ranges[n-1].Last
				if err := m.finish(g.ranges...); err != nil {
					t.Fatal(err)
				}
			}
		}
		return offsets
	}
	m := member("committed", true)
	if got, want := all(m, 27), "[0 1 2 3 4 5 6 7 8 9 22 23 24 25 26]"; fmt.Sprint(got) != want {
		t.Errorf("with read_committed %v are given, want %s", got, want)
	}
	if g, err := m.ask(10, 300*time.Millisecond); err != nil || len(g.ranges) > 0 {
		t.Errorf("of an open transaction %s are given, %v", shown(g.ranges), err)
	}
	if got, want := all(member("uncommitted", false), 30), "[0 1 2 3 4 5 6 7 8 9 11 12 13 14 15 16 17 18 19 20 22 23 24 25 26 28 29 30]"; fmt.Sprint(got) != want {
		t.Errorf("with read_uncommitted %v are given, want %s", got, want)
	}
	end(kgo.TryCommit)
	if got := all(m, 31); fmt.Sprint(got) != "[28 29 30]" {
		t.Errorf("once it is committed %v are given", got)
	}
	m.wantProgress(topic, "32")
}

// Of a large batch that many members share each gets the part that holds its records, whether it is compressed or not.
func TestCooperativeFetchesDivideLargeBatches(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		for name, codec := range map[string]kgo.CompressionCodec{"plain": kgo.NoCompression(), "zstd": kgo.ZstdCompression()} {
			topic := harness.Name(t, name)
			harness.CreateTopic(t, e.kafka, topic, 1)
			const records, bytes = 400, 1000
			value := make([]byte, bytes)
			_, _ = rand.NewChaCha8([32]byte{}).Read(value)
			var all []*kgo.Record
			for i := range records {
				all = append(all, &kgo.Record{Topic: topic, Value: append(value[i:bytes:bytes], value[:i]...)})
			}
			producer := harness.Client(t, e.kafka, kgo.ProducerLinger(100*time.Millisecond), kgo.ProducerBatchCompression(codec))
			if err := producer.ProduceSync(harness.Context(t, 20*time.Second), all...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			group := harness.Name(t, "group")
			m := e.cooperate([]*wire{e.wire(t, group), e.wire(t, group)}, topic, 30_000)
			for turn := range 4 {
				g := m[turn%2].mustAsk(10)
				if len(g.records) != 10 || g.bytes > 12*bytes {
					t.Errorf("%s: %d records come in %d bytes", name, len(g.records), g.bytes)
				}
				for _, r := range g.records {
					if i := int(r.Offset); !slices.Equal(r.Value, all[i].Value) {
						t.Errorf("%s: offset %d is not what was produced", name, i)
					}
				}
				if err := m[turn%2].finish(g.ranges...); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// Who may not READ the group, or the topic, is told so, and given nothing; also when the right is taken away later.
func TestRightsOfCooperativeFetches(t *testing.T) {
	t.Parallel()
	k := securedKafka(t)
	topic, group := harness.Name(t, "secured"), harness.Name(t, "group")
	harness.CreateTopic(t, k.Bootstrap, topic, 1)
	gatewayRights(t, k, topic)
	individualRights(t, k)
	harness.Produce(t, k.Bootstrap, harness.NewLedger(), harness.Production{Topic: topic, Records: 20, Bytes: 50})
	g := harness.StartGateway(t, harness.GatewayConfig{Kafka: k.SASL, YAML: `
kafka:
  sasl: {mechanism: PLAIN, username: tandem, password: tandem-secret}
limits: {authorization-recheck-interval: 500ms}
`})
	e := engine{name: "kafka", gateway: g, kafka: k.Bootstrap, cluster: k}
	m := &coopMember{wire: e.wire(t, group, as("alice")), topic: topic, timeout: 30_000}
	refused := func(what string, want error) {
		t.Helper()
		harness.Eventually(t, 15*time.Second, func() error { // rights are believed for a moment
			if _, err := m.ask(0, 0); !errors.Is(err, want) {
				return fmt.Errorf("without READ on the %s a fetch is answered %v", what, err)
			}
			return nil
		})
		if g, err := m.ask(1, 0); !errors.Is(err, want) || len(g.ranges) > 0 {
			t.Errorf("without READ on the %s a fetch is given %s, %v", what, shown(g.ranges), err)
		}
	}
	allow(t, k, "alice", "group:"+group, kadm.OpDescribe)
	m.member, m.generation = "somebody", 1
	refused("group", kerr.GroupAuthorizationFailed)
	allow(t, k, "alice", "group:"+group, kadm.OpRead)
	m.member = ""
	joinAll(topic, m.wire)
	refused("topic", kerr.TopicAuthorizationFailed)
	allow(t, k, "alice", topic, kadm.OpRead)
	got := m.mustAsk(5)
	if shown(got.ranges) != "0-4#1 " {
		t.Errorf("with all rights %s are given", shown(got.ranges))
	}
	if err := m.finish(got.ranges...); err != nil {
		t.Fatal(err)
	}
	revoke(t, k, "alice", topic, kadm.OpRead)
	refused("topic", kerr.TopicAuthorizationFailed)
	allow(t, k, "alice", topic, kadm.OpRead)
	m.mustAsk(1)
	revoke(t, k, "alice", "group:"+group, kadm.OpRead)
	refused("group", kerr.GroupAuthorizationFailed)
}

// A reset by kafka-consumer-groups counts, back and ahead, whatever was handed out or done before. What was handed out in a group that is
// deleted goes from the log with its individual commits, and the group begins anew (case C6).
func TestCooperativeGroupsAreResetAndDeleted(t *testing.T) {
	t.Parallel()
	harness.Need(t)
	e := onKafka(t, harness.GatewayConfig{})
	topic, group := harness.Name(t, "orders"), harness.Name(t, "group")
	harness.CreateTopic(t, e.kafka, topic, 1)
	harness.Produce(t, e.kafka, harness.NewLedger(), harness.Production{Topic: topic, Records: 100, Bytes: 50})
	generation := func(want string, ask int32) *coopMember {
		t.Helper()
		m := e.cooperate([]*wire{e.wire(t, group)}, topic, 30_000)[0]
		if g := m.mustAsk(ask); shown(g.ranges) != want {
			t.Errorf("given are %s, want %s", shown(g.ranges), want)
		}
		return m
	}
	reset := func(to string) {
		t.Helper()
		groups(t, "--bootstrap-server", e.kafka, "--group", group, "--reset-offsets", "--topic", topic, "--execute", "--to-offset", to)
	}
	m := generation("0-29#1 ", 30)
	if err := m.finish(tandemmsg.AcquiredRange{OffsetRange: span(0, 9)}, tandemmsg.AcquiredRange{OffsetRange: span(20, 24)}); err != nil {
		t.Fatal(err)
	}
	m.leave()
	reset("5")
	m = generation("5-34#1 ", 30)
	m.leave()
	reset("60")
	m = generation("60-69#1 ", 10)
	if err := m.finish(tandemmsg.AcquiredRange{OffsetRange: span(62, 63)}); err != nil {
		t.Fatal(err)
	}
	m.leave()
	if n := handedOut(t, e, group); n == 0 {
		t.Fatal("the log has nothing that was handed out")
	}
	groups(t, "--bootstrap-server", e.gateway.Bootstrap, "--delete", "--group", group)
	if n := handedOut(t, e, group); n > 0 {
		t.Errorf("of a deleted group %d records of what was handed out stay in the log", n)
	}
	generation("0-9#1 ", 10).leave()
}

// handedOut is how many records of cooperative fetches the log has of a group that were not deleted.
func handedOut(t *testing.T, e engine, group string) int {
	t.Helper()
	ctx := harness.Context(t, 30*time.Second)
	admin := harness.AdminClient(t, e.kafka)
	listed, err := admin.ListEndOffsets(ctx, icommit.TopicName)
	if err != nil {
		t.Fatal(err)
	}
	partition := record.PartitionOf(group, int32(len(listed[icommit.TopicName])))
	end, _ := listed.Lookup(icommit.TopicName, partition)
	c := harness.Client(t, e.kafka, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{icommit.TopicName: {partition: kgo.NewOffset().AtStart()}}))
	there := map[string]bool{}
	var d record.Decoder
	for at := int64(0); at < end.Offset; {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			at = r.Offset + 1
			if !record.IsHandout(r.Key) {
				return
			}
			if h, err := d.DecodeHandout(r.Key, r.Value); err == nil && h.Group == group {
				there[string(r.Key)] = true
				if r.Value == nil {
					delete(there, string(r.Key))
				}
			}
		})
	}
	return len(there)
}

// Members of a group of the consumer protocol fetch cooperatively, too. Who is not one is told what a commit of theirs would be told.
func TestMembersOfTheConsumerProtocolFetchCooperatively(t *testing.T) {
	t.Parallel()
	harness.Need(t)
	e := onKafka(t, harness.GatewayConfig{})
	topic, group := harness.Name(t, "orders"), harness.Name(t, "group")
	harness.CreateTopic(t, e.kafka, topic, 1)
	harness.Produce(t, e.kafka, harness.NewLedger(), harness.Production{Topic: topic, Records: 60, Bytes: 50})
	a := &coopMember{wire: e.wire(t, group), topic: topic, timeout: 30_000}
	b := &coopMember{wire: e.wire(t, group), topic: topic, timeout: 30_000}
	consumeAll(topic, a.wire, b.wire)
	first, second := a.mustAsk(10), b.mustAsk(10)
	if shown(first.ranges) != "0-9#1 " || shown(second.ranges) != "10-19#1 " {
		t.Fatalf("given are %s and %s", shown(first.ranges), shown(second.ranges))
	}
	if err := b.finish(second.ranges...); err != nil {
		t.Fatal(err)
	}
	a.wantProgress(topic, "0 [00000000-ffffffff] [10-19]")
	for _, wrong := range []struct {
		epoch  int32
		member string
		want   error
	}{{a.generation - 1, a.member, kerr.StaleMemberEpoch}, {a.generation + 1, a.member, kerr.FencedMemberEpoch}, {a.generation, "somebody", kerr.UnknownMemberID}} {
		if _, err := a.askWith(tandemmsg.Cooperative{Group: group, Generation: wrong.epoch, Member: wrong.member, SessionTimeout: 30_000, MaxRecords: 1}, 0); !errors.Is(err, wrong.want) {
			t.Errorf("a fetch of member %s in epoch %d, where it is %s in %d, is answered %v", wrong.member, wrong.epoch, a.member, a.generation, err)
		}
	}
	// Who leaves gives up what it has.
	if err := a.beat(topic, -1); err != nil {
		t.Fatal(err)
	}
	consumeAll(topic, b.wire)
	if g := b.mustAsk(12); shown(g.ranges) != "0-9#2 20-21#1 " {
		t.Errorf("after the other has left %s are given", shown(g.ranges))
	}
	harness.Eventually(t, 5*time.Second, func() error {
		if _, err := a.ask(0, 0); !errors.Is(err, kerr.UnknownMemberID) {
			return fmt.Errorf("who has left is answered %v", err)
		}
		return nil
	})
}

// sharedUnderWork has two processes share a partition by record, of which a broker leads all that matters. done waits until all is done.
func sharedUnderWork(t *testing.T, e engine, broker int32) (done func()) {
	t.Helper()
	const records = 3000
	topic, group := harness.Name(t, "orders"), harness.Name(t, "group")
	harness.CreateTopic(t, e.kafka, topic, 1)
	harness.Produce(t, e.kafka, harness.NewLedger(), harness.Production{Topic: topic, Records: records, Bytes: 50})
	var workers []*harness.Worker
	for i := range 2 {
		workers = append(workers, harness.StartWorker(t, harness.WorkerSpec{Bootstrap: e.gateway.Bootstrap, Member: fmt.Sprint("worker-", i), Group: group, Topics: []string{topic}, ByRecord: 10 * time.Second, Concurrency: 8,
			Work: 20 * time.Millisecond, Session: 10 * time.Second}))
	}
	times := func() (of map[int64]int, most int) {
		of = map[int64]int{}
		for _, w := range workers {
			for _, r := range w.Runs(t) {
				of[r.Offset]++
				most = max(most, of[r.Offset])
			}
		}
		return of, most
	}
	reach := func(n int) {
		t.Helper()
		harness.Eventually(t, 2*time.Minute, func() error {
			if of, _ := times(); len(of) < n {
				return fmt.Errorf("%d of %d records are done", len(of), n)
			}
			return nil
		})
	}
	reach(100)
	moveLeader(t, e.cluster, topic, 0, broker)
	moveLeader(t, e.cluster, icommit.TopicName, offsetsPartition(group), broker)
	moveLeader(t, e.cluster, offsetsTopic, offsetsPartition(group), broker)
	return func() {
		t.Helper()
		of, _ := times()
		t.Logf("%d of %d records are done", len(of), records)
		reach(records)
		for _, w := range workers {
			if err := w.Term(30 * time.Second); err != nil {
				t.Errorf("%v", err)
			}
		}
		of, most := times()
		again := 0
		for _, n := range of {
			again += n - 1
		}
		t.Logf("%d records were done again", again)
		if again > 200 || most > 4 {
			t.Errorf("%d records were done again, one of them %d times", again, most)
		}
		rest := slices.DeleteFunc(strings.Split(e.kafka, ","), func(a string) bool { return a == strings.Split(e.kafka, ",")[broker-2] })
		await(t, 20*time.Second, func() string {
			if at := harness.CommittedOffsets(t, strings.Join(rest, ","), group, topic)[0]; at != records {
				return fmt.Sprintf("the stable offset is %d, not %d", at, records)
			}
			return ""
		})
	}
}
