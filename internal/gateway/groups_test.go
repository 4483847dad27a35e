package gateway

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// anyWorld is a gateway in front of kfake, or of the cluster that TANDEM_TEST_KAFKA names.
func anyWorld(t *testing.T) *world {
	t.Helper()
	bootstrap := os.Getenv("TANDEM_TEST_KAFKA")
	if bootstrap == "" {
		return newWorld(t, nil)
	}
	return newWorld(t, func(c *Config) { c.Upstream.Bootstrap = []string{bootstrap} })
}

// names are those of a topic and a group of the test's own.
func (w *world) names() (topic, group string) {
	n := fmt.Sprintf("%s-%d", strings.ReplaceAll(w.t.Name(), "/", "-"), time.Now().UnixNano())
	return "orders-" + n, "g-" + n
}

// source makes a topic for a group, both of the test's own.
func (w *world) source(partitions int32) (topic, group string) {
	w.t.Helper()
	topic, group = w.names()
	w.topic(topic, partitions)
	return topic, group
}

// sourceAndView is source with records and a view with so many virtual partitions.
func (w *world) sourceAndView(partitions int32, records, virtual int) (topic, group, view string) {
	w.t.Helper()
	topic, group = w.source(partitions)
	w.produce(topic, records)
	return topic, group, w.view(topic, virtual)
}

// direct is an admin of the cluster behind the gateway.
func (w *world) direct() *kadm.Client {
	w.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(w.gw.cfg.Upstream.Bootstrap...))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return kadm.NewClient(c)
}

// stored is what the cluster has for a group.
func (w *world) stored(group, topic string, partition int32) (int64, string) {
	w.t.Helper()
	os, err := w.direct().FetchOffsets(w.t.Context(), group)
	if err != nil {
		w.t.Fatal(err)
	}
	o, ok := os.Lookup(topic, partition)
	if !ok {
		return -1, ""
	}
	return o.At, o.Metadata
}

// wantStable looks at the source row: not below from, and not above the first
// record that is not done.
func (w *world) wantStable(group, source string, from, first, era int64) {
	w.t.Helper()
	at, text := w.stored(group, source, 0)
	if at < from || at > first || text != fmt.Sprintf("tandem:1:%d:%d", era, at) {
		w.t.Errorf("the source row is %d %q, want between %d and %d, in era %d", at, text, from, first, era)
	}
}

// wantStored waits for nothing: commits are answered when they are stored.
func (w *world) wantStored(group, topic string, partition int32, at int64, text string) {
	w.t.Helper()
	if got, meta := w.stored(group, topic, partition); got != at || !strings.HasPrefix(meta, text) {
		w.t.Errorf("%s of %s-%d is %d %q, want %d %q...", group, topic, partition, got, meta, at, text)
	}
}

// commit commits through the gateway as a tool does: without a member.
func (w *world) commit(group, topic string, offsets map[int32]int64) {
	w.t.Helper()
	offs := make(kadm.Offsets)
	for p, at := range offsets {
		offs.Add(kadm.Offset{Topic: topic, Partition: p, At: at, LeaderEpoch: -1, Metadata: fmt.Sprint("text ", p)})
	}
	if err := w.admin.CommitAllOffsets(w.t.Context(), group, offs); err != nil {
		w.t.Fatal(err)
	}
}

// starts asks for all partitions of a topic by name, as consumers do.
func (w *world) starts(group, topic string) map[int32]int64 {
	w.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	rt := kmsg.NewOffsetFetchRequestGroupTopic()
	rt.Topic, rt.TopicID = topic, w.gw.views.Name(topic).BackingID
	for p := range w.gw.views.Name(topic).Backing {
		rt.Partitions = append(rt.Partitions, p)
	}
	g.Topics = append(g.Topics, rt)
	req.Groups = append(req.Groups, g)
	kresp, err := w.client().Request(w.t.Context(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	got := make(map[int32]int64)
	for _, g := range kresp.(*kmsg.OffsetFetchResponse).Groups {
		if g.ErrorCode != 0 || len(g.Topics) != 1 {
			w.t.Fatalf("group: %v, %d topics", kerr.ErrorForCode(g.ErrorCode), len(g.Topics))
		}
		for _, p := range g.Topics[0].Partitions {
			if p.ErrorCode != 0 {
				w.t.Fatal(kerr.ErrorForCode(p.ErrorCode))
			}
			got[p.Partition] = p.Offset
		}
	}
	return got
}

func (w *world) view(source string, partitions int) string {
	w.t.Helper()
	name := fmt.Sprintf("%s.view%d", source, partitions)
	if _, err := w.admin.ListTopics(w.t.Context(), name); err != nil {
		w.t.Fatal(err)
	}
	if w.gw.views.Name(name) == nil {
		w.t.Fatalf("no view %s", name)
	}
	return name
}

// slices says, for each virtual partition of a view of a source with one
// partition, where its records are.
func (w *world) slices(view string) map[int32][]int64 {
	w.t.Helper()
	c := w.client(kgo.ConsumeTopics(view), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	got := make(map[int32][]int64)
	ends, err := w.admin.ListEndOffsets(w.t.Context(), w.gw.views.Name(view).Source)
	if err != nil {
		w.t.Fatal(err)
	}
	o, _ := ends.Lookup(w.gw.views.Name(view).Source, 0)
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	for n := int64(0); n < o.Offset; {
		fs := c.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			w.t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) { got[r.Partition] = append(got[r.Partition], r.Offset); n++ })
	}
	return got
}

func least(m map[int32][]int64, after map[int32]int64) int64 {
	low := int64(1 << 62)
	for v, offsets := range m {
		for _, o := range offsets {
			if o >= after[v] {
				low = min(low, o)
				break
			}
		}
	}
	return low
}

// asGood reports whether a reader of a slice with these records gets from an offset on what it gets from the wanted one on: the stable offset passes what holds no record, and may so lie behind what was
// committed.
func asGood(records []int64, offset, want int64) bool {
	return offset >= want && !slices.ContainsFunc(records, func(o int64) bool { return want <= o && o < offset })
}

func TestCommitToAViewMovesTheSourceRow(t *testing.T) {
	t.Parallel()
	w := anyWorld(t)
	orders, g, view := w.sourceAndView(1, 100, 4)
	at := w.slices(view)

	w.commit(g, view, map[int32]int64{1: 50})
	w.wantStored(g, view, 1, 50, "text 1|tandem:1:0:50")
	first := least(at, map[int32]int64{1: 50})
	w.wantStable(g, orders, 0, first, 0)

	all := map[int32]int64{0: 60, 1: 70, 2: 80, 3: 90}
	w.commit(g, view, all)
	w.wantStable(g, orders, 60, least(at, all), 0)
	for v, start := range w.starts(g, view) {
		if !asGood(at[v], start, all[v]) {
			t.Errorf("%d starts at %d, want %d", v, start, all[v])
		}
	}
	os, err := w.admin.FetchOffsets(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := os.Lookup(view, 2); o.At != 80 || o.Metadata != "text 2" {
		t.Errorf("everything asked for: %d %q, want 80 and the client's own text", o.At, o.Metadata)
	}

	ends := map[int32]int64{0: 100, 1: 100, 2: 100, 3: 100}
	w.commit(g, view, ends)
	w.wantStored(g, orders, 0, 100, "tandem:1:0:100")
}

func TestMovesKeepProgress(t *testing.T) {
	t.Parallel()
	w := anyWorld(t)
	orders, g := w.source(1)
	w.produce(orders, 200)
	narrow, wide := w.view(orders, 2), w.view(orders, 8)
	at := w.slices(wide)

	w.commit(g, orders, map[int32]int64{0: 40}) // a plain consumer
	for v, start := range w.starts(g, wide) {
		if start != 40 {
			t.Errorf("after the source, %d starts at %d, want 40", v, start)
		}
	}
	w.commit(g, narrow, map[int32]int64{0: 150, 1: 60})
	for v, start := range w.starts(g, wide) {
		if want := map[int32]int64{0: 150, 1: 60}[v%2]; !asGood(at[v], start, want) {
			t.Errorf("after %s, %d starts at %d, want %d", narrow, v, start, want)
		}
	}
	first := least(map[int32][]int64{0: at[0], 1: at[1], 2: at[2], 3: at[3], 4: at[4], 5: at[5], 6: at[6], 7: at[7]},
		map[int32]int64{0: 150, 1: 60, 2: 150, 3: 60, 4: 150, 5: 60, 6: 150, 7: 60})
	w.wantStable(g, orders, 60, first, 1) // where the source would go on

	// A reset of the source while the group is down moves all slices, and what was committed before stays dead.
	offs := make(kadm.Offsets)
	offs.Add(kadm.Offset{Topic: orders, Partition: 0, At: 10, LeaderEpoch: -1})
	if err := w.direct().CommitAllOffsets(t.Context(), g, offs); err != nil {
		t.Fatal(err)
	}
	for _, view := range []string{narrow, wide} {
		for v, start := range w.starts(g, view) {
			if start != 10 {
				t.Errorf("after a reset, %s-%d starts at %d, want 10", view, v, start)
			}
		}
	}
	w.commit(g, wide, map[int32]int64{3: 100})
	for v, start := range w.starts(g, wide) {
		if want := map[bool]int64{true: 100, false: 10}[v == 3]; start < want || start > want && (v == 3 || len(at[v]) == 0) {
			t.Errorf("in the new era, %d starts at %d, want %d", v, start, want)
		}
	}
}

func TestCommitThatGoesBackIsHonouredByOtherViews(t *testing.T) {
	t.Parallel()
	w := anyWorld(t)
	orders, g := w.source(1)
	w.produce(orders, 200)
	narrow, wide := w.view(orders, 2), w.view(orders, 8)
	at := w.slices(wide)
	w.commit(g, narrow, map[int32]int64{0: 150, 1: 150})
	w.commit(g, wide, map[int32]int64{4: 20})
	got := w.starts(g, wide)
	for v, start := range got {
		if want := map[bool]int64{true: 20, false: 150}[v == 4]; !asGood(at[v], start, want) {
			t.Errorf("%d starts at %d, want %d", v, start, want)
		}
	}
	if got := w.starts(g, narrow); !asGood(at[4], got[0], 20) || got[1] != 150 {
		t.Errorf("%s starts at %v, want 20 and 150", narrow, got)
	}
	if at, _ := w.stored(g, orders, 0); at < 20 || at > 60 {
		t.Errorf("the source row is %d, want the slice's first record from 20 on", at)
	}
}

func TestTransactionalCommit(t *testing.T) {
	t.Parallel()
	w := anyWorld(t)
	orders, g, view := w.sourceAndView(1, 100, 4)
	_ = w.slices(view)
	run := func(commit kgo.TransactionEndTry) {
		t.Helper()
		s, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(w.gw.Addr()), kgo.ConsumerGroup(g), kgo.ConsumeTopics(view), kgo.TransactionalID(g),
			kgo.FetchMaxWait(100*time.Millisecond), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Begin(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for n := 0; n < 100; {
			fs := s.PollFetches(ctx)
			if err := fs.Err(); err != nil {
				t.Fatal(err)
			}
			n += fs.NumRecords()
		}
		if _, err := s.End(ctx, commit); err != nil {
			t.Fatal(err)
		}
	}
	run(kgo.TryAbort)
	if at, text := w.stored(g, orders, 0); at != -1 {
		t.Errorf("after an abort the source row is %d %q", at, text)
	}
	run(kgo.TryCommit)
	deadline := time.Now().Add(10 * time.Second)
	for at := int64(-1); at < 0 && time.Now().Before(deadline); { // the brokers write a transaction's end in their own time
		at, _ = w.stored(g, orders, 0)
	}
	w.wantStored(g, orders, 0, 100, "tandem:1:0:100")
}

func TestRefusedAdditionFailsTheRowsOfItsPartition(t *testing.T) {
	w := newWorld(t, nil)
	orders, _, view := w.sourceAndView(2, 100, 4)
	w.fake.ControlKey(8, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		req := kreq.(*kmsg.OffsetCommitRequest)
		w.fake.KeepControl()
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, rt := range req.Topics {
			t := kmsg.NewOffsetCommitResponseTopic()
			t.Topic, t.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				p := kmsg.NewOffsetCommitResponseTopicPartition()
				p.Partition = rp.Partition
				if len(rt.Partitions) == 1 && rp.Metadata != nil && strings.HasPrefix(*rp.Metadata, "tandem:") {
					p.ErrorCode = kerr.TopicAuthorizationFailed.Code
				}
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
		return resp, nil, true
	})
	offs := make(kadm.Offsets)
	offs.Add(kadm.Offset{Topic: view, Partition: 1, At: 5, LeaderEpoch: -1})
	res, err := w.admin.CommitOffsets(t.Context(), "g", offs)
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := res.Lookup(view, 1); o.Err != kerr.TopicAuthorizationFailed {
		t.Errorf("got %v, want the source row's error", o.Err)
	}
	if _, ok := res.Lookup(orders, 1); ok {
		t.Error("the answer shows the addition")
	}
}

// Two gateways write the rows of one group. What goes back through one is honoured by the source row, too, although the
// other one has read the rows before.
func TestGoingBackWithTwoGateways(t *testing.T) {
	t.Parallel()
	quick := func(c *Config) { c.Limits.RefreshRows = 300 * time.Millisecond }
	w := newWorld(t, quick)
	orders, g, view := w.sourceAndView(1, 200, 2)
	at := w.slices(view)
	cfg := w.gw.cfg
	gw, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gw.Shutdown(context.Background()) })
	other := &world{t: t, fake: w.fake, gw: gw, log: w.log}
	other.admin = kadm.NewClient(other.client())

	w.commit(g, view, map[int32]int64{0: 100, 1: 100})
	other.commit(g, view, map[int32]int64{1: 120})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // keeps on writing source rows
		defer close(stopped)
		for n := int64(120); ; n = min(n+1, 199) {
			select {
			case <-stop:
				return
			default:
				other.commit(g, view, map[int32]int64{1: n})
			}
		}
	}()
	w.commit(g, view, map[int32]int64{0: 110}) // shows this gateway that it is not alone
	time.Sleep(cfg.Limits.RefreshRows)         // its picture is old now
	w.commit(g, view, map[int32]int64{0: 111})
	w.commit(g, view, map[int32]int64{0: 30})
	close(stop)
	<-stopped
	first := least(at, map[int32]int64{0: 30, 1: 120})
	if got, text := w.stored(g, orders, 0); got > first {
		t.Errorf("the source row is %d %q, above record %d", got, text, first)
	}
	if got := other.starts(g, view); got[0] != 30 {
		t.Errorf("the slice begins at %d, want 30", got[0])
	}
}

func TestCommitsToSourceAndViewAreWarnedOf(t *testing.T) {
	w := newWorld(t, nil)
	orders, g, view := w.sourceAndView(1, 20, 2)
	w.commit(g, view, map[int32]int64{0: 5})
	if strings.Contains(w.log.String(), "one input twice") {
		t.Fatal("warned of nothing")
	}
	w.commit(g, orders, map[int32]int64{0: 7})
	if !strings.Contains(w.log.String(), "one input twice") {
		t.Error("no warning")
	}
	for v, start := range w.starts(g, view) {
		if start != 7 {
			t.Errorf("%d starts at %d, want what the plain consumer committed", v, start)
		}
	}
}

// Commits that Kafka refuses, of a member whose generation is over, make the gateway read again what the group has; those of others are not refused because of it.
func TestCommitsBesideThoseThatAreRefused(t *testing.T) {
	t.Parallel()
	w := anyWorld(t)
	_, g, view := w.sourceAndView(2, 100, 4)
	request := func(offset int64, generation int32, member string, partitions ...int32) *kmsg.OffsetCommitRequest {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation, req.MemberID = g, generation, member
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID = view, w.gw.views.Name(view).BackingID
		for _, p := range partitions {
			rp := kmsg.NewOffsetCommitRequestTopicPartition()
			rp.Partition, rp.Offset = p, offset
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
		return req
	}
	var others sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for i := range int32(4) {
		c := w.client(kgo.RequestRetries(0))
		others.Go(func() {
			for ctx.Err() == nil {
				resp, err := request(50, 7, "ghost", i).RequestWith(ctx, c)
				if err == nil && resp.Topics[0].Partitions[0].ErrorCode == 0 {
					t.Error("a member that is none may commit")
				}
			}
		})
	}
	c := w.client(kgo.RequestRetries(0))
	for i := range int64(300) {
		resp, err := request(i/3, -1, "", 0, 1, 2, 3).RequestWith(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range resp.Topics[0].Partitions {
			if p.ErrorCode != 0 {
				t.Errorf("commit %d of virtual partition %d: %v", i, p.Partition, kerr.ErrorForCode(p.ErrorCode))
			}
		}
	}
	stop()
	others.Wait()
}
