package cases

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Record 0 is not done, and 100,000 behind it are, committed one by one and out of order. After restarts of the gateway none of them is given
// again. Then every second one of 50,000 more is done, and gateway and broker are killed: none of these is given again either, and each of the
// others is (case I1).
func TestManyIndividualCommitsOutliveKills(t *testing.T) {
	t.Parallel()
	harness.Need(t)
	const done, holes = 100_000, 50_000
	run := func(t *testing.T, e engine, killAll func()) {
		topic := harness.Name(t, "orders")
		harness.CreateTopic(t, e.kafka, topic, 1)
		harness.Produce(t, e.kafka, harness.NewLedger(), harness.Production{Topic: topic, Records: 1 + done + holes, Keys: 1000, Bytes: 50})
		w := e.wire(t, harness.Name(t, "group"))
		const requests = 8
		start := time.Now()
		for n := range int64(requests) {
			w.mustCommit(topic, 0, rangesOf(nil, each(1+n*5%requests, done, requests)...))
		}
		t.Logf("%d individual commits in %d requests took %v", done, requests, time.Since(start))
		first := progress{0, []tandemmsg.KeyRangeOffsets{{Keys: whole[0], Offsets: []tandemmsg.OffsetRange{span(1, done)}}}}.String()
		w.wantProgress(topic, first)
		for name, restart := range map[string]func(){"SIGTERM": func() { e.gateway.Stop(t) }, "kill -9": e.gateway.Kill} {
			restart()
			e.gateway.Start(t)
			start := time.Now()
			w.wantProgress(topic, first)
			t.Logf("after %s the committed offsets were there %v after the start", name, time.Since(start))
		}
		w.mustCommit(topic, 0, rangesOf(whole, each(done+2, done+holes, 2)...))
		killAll()
		e.gateway.Start(t)
		open := w.open(topic, 0, 1, whole, 1+done+holes)
		want := []int64{0}
		for o := int64(done + 1); o < done+holes; o += 2 {
			want = append(want, o)
		}
		if !slices.Equal(open, want) {
			t.Errorf("%d records are given again after the kill, want %d: they begin with %v", len(open), len(want), open[:min(len(open), 10)])
		}
		w.mustCommit(topic, 0, rangesOf(nil, each(done+1, done+holes, 2)...))
		w.mustCommit(topic, 0, rangesOf(nil, span(0, 0)))
		w.wantProgress(topic, fmt.Sprint(1+done+holes))
	}
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		e := onEmbedded(t, harness.GatewayConfig{})
		run(t, e, e.gateway.Kill)
	})
	t.Run("kafka", func(t *testing.T) {
		t.Parallel()
		// Of its own: it is killed, and a broker may come back when its session is over.
		k := harness.StartKafka(t, harness.KafkaConfig{Properties: "broker.heartbeat.interval.ms=500\nbroker.session.timeout.ms=2000"})
		e := front(t, k, harness.GatewayConfig{})
		run(t, e, func() { e.gateway.Kill(); k.Kill(t, 1); k.Resume(t, 1) })
	})
}

// Before the limit of open ranges the log warns; at it commits that add more are held back with an error that means later, nothing that was
// committed is dropped, and those that close gaps go on (case I1).
func TestLimitOfIndividualCommits(t *testing.T) {
	const limit = 1000
	engines(t, harness.GatewayConfig{YAML: fmt.Sprintf("limits: {individual.commit.max.ranges: %d}\n", limit)}, func(t *testing.T, e engine) {
		topic := harness.Name(t, "orders")
		harness.CreateTopic(t, e.kafka, topic, 1)
		w := e.wire(t, harness.Name(t, "group"))
		once := e.wire(t, w.group, kgo.RequestRetries(0)) // the others ask again while they are held back
		warned := func() bool { return strings.Contains(e.gateway.Log(), "many individual commits") }
		commit := func(offsets ...tandemmsg.OffsetRange) error { return w.commit(topic, 0, rangesOf(nil, offsets...)) }
		if err := commit(each(2, 1400, 2)...); err != nil {
			t.Fatal(err)
		}
		if err := commit(span(1401, 1401)); err != nil || warned() {
			t.Errorf("at 70 %% of the limit: %v, warned %t", err, warned())
		}
		for _, more := range [][]tandemmsg.OffsetRange{each(1404, 1800, 2), each(1802, 2002, 2)} {
			if err := commit(more...); err != nil {
				t.Fatal(err)
			}
		}
		if !warned() {
			t.Error("the log does not warn before the limit")
		}
		before := w.committed(topic, 0, whole)
		if err := once.commit(topic, 0, rangesOf(nil, each(3000, 3010, 2)...)); !errors.Is(err, kerr.CoordinatorLoadInProgress) {
			t.Errorf("beyond the limit: %v", err)
		}
		if after := w.committed(topic, 0, whole); after.String() != before.String() || len(after.above[0].Offsets) != len(before.above[0].Offsets) {
			t.Errorf("committed were %v, and after a commit that was held back %v", before, after)
		}
		if err := commit(each(3, 999, 2)...); err != nil {
			t.Errorf("closing gaps at the limit: %v", err)
		}
		if err := commit(each(3000, 3010, 2)...); err != nil {
			t.Errorf("again below the limit: %v", err)
		}
		if at := w.committed(topic, 0, whole); at.stable != 0 || len(at.above[0].Offsets) != 1+500+6 || !at.done(0, 3010) || at.done(0, 3011) {
			t.Errorf("committed are in the end %v", at)
		}
	})
}
