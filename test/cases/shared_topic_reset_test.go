package cases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/client"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Members of the Go client commit individually above a record that fails; then they stop, and kafka-consumer-groups resets the group's offsets: back, forward,
// between what was committed individually, and to the very offset that is committed. Members that start after it do what lies above the reset, once, and nothing else: what was
// committed individually before counts no more. So it is after a rewind through a view of the topic, where at least its virtual partition is done again, and nothing is lost: what was
// committed individually of the others comes again, too, before the stable offset passes it. A group that is deleted begins anew (case V10).
func TestMembersThatShareBeginWhereAResetSays(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		const records, keys, virtual = 2000, 40, 4
		topic, view := e.source(t, 1, virtual)
		group := harness.Name(t, "group")
		harness.Produce(t, e.kafka, harness.NewLedger(), harness.Production{Topic: topic, Records: records, Key: func(i int) []byte { return fmt.Appendf(nil, "key-%d", i%keys) }})
		all := readAll(t, e.kafka, topic)
		const bad = 500 // and what is behind it of its key
		badKey := string(all[bad].Key)
		failing := func(_ context.Context, r *client.Record) error {
			if r.Offset >= bad && string(r.Key) == badKey {
				return errors.New("not now")
			}
			return nil
		}
		run := duo{e, t, group, topic, all, []client.Option{client.ShareByKey()}}.run
		// fill begins anew, and leaves individual commits above the record that fails.
		fill := func(what string) {
			t.Helper()
			start := kadm.Offsets{}
			start.AddOffset(topic, 0, 0, -1)
			if err := harness.AdminClient(t, e.gateway.Bootstrap).CommitAllOffsets(harness.Context(t, 10*time.Second), group, start); err != nil {
				t.Fatal(err)
			}
			run("before "+what, failing, func(r *kgo.Record) bool { return r.Offset < bad || string(r.Key) != badKey })
			if at := e.committed(t, group, topic)[0]; at != bad {
				t.Fatalf("before %s the stable offset is %d", what, at)
			}
		}
		fine := func(context.Context, *client.Record) error { return nil }
		for _, reset := range []struct {
			what   string
			to     int64
			direct bool // on the broker, past the gateway
		}{
			{"a reset back", 100, false},
			{"a reset back on the broker", 100, true},
			{"a reset forward", 1200, false},
			{"a reset forward on the broker", 1200, true},
			{"a reset to where it is", bad, false},
			{"a reset to where it is on the broker", bad, true},
			{"a reset to the start", 0, true},
		} {
			bootstrap := e.gateway.Bootstrap
			if reset.direct {
				bootstrap = e.kafka
			}
			fill(reset.what)
			groups(t, "--bootstrap-server", bootstrap, "--group", group, "--reset-offsets", "--topic", topic, "--execute", "--to-offset", strconv.FormatInt(reset.to, 10))
			l := run(reset.what, fine, func(r *kgo.Record) bool { return r.Offset >= reset.to })
			if r := l.Check(t, nil); r.Duplicates > 0 {
				t.Errorf("after %s: %s", reset.what, r)
			}
			e.awaitAllDone(t, group, topic, records)
		}

		fill("a rewind")
		const to = 300
		rewind(t, e, group, view, 1, to)
		again := func(r *kgo.Record) bool { // of the virtual partition, and what nobody has done
			v, _ := harness.View(1, virtual)(harness.Produced{Key: r.Key, Offset: r.Offset})
			return v == 1 && r.Offset >= to || r.Offset >= bad && string(r.Key) == badKey
		}
		run("a rewind", func(_ context.Context, r *client.Record) error {
			if !again(r.Record) {
				return errors.New("not now")
			}
			return nil
		}, again)
		// What was committed individually of other keys does not count any more, and is not done again yet.
		open := bad + int64(slices.IndexFunc(all[bad:], func(r *kgo.Record) bool { return !again(r) }))
		if at := e.committed(t, group, topic)[0]; at < to || at > open {
			t.Fatalf("after a rewind offset %d is to be done again, but the stable offset is %d", open, at)
		}
		run("the rest of a rewind", func(_ context.Context, r *client.Record) error {
			if again(r.Record) {
				t.Errorf("offset %d was done after the rewind, and comes again", r.Offset)
			}
			return nil
		}, func(r *kgo.Record) bool { return r.Offset >= bad && !again(r) })
		e.awaitAllDone(t, group, topic, records)

		fill("a deletion")
		groups(t, "--bootstrap-server", e.gateway.Bootstrap, "--delete", "--group", group)
		if !strings.Contains(e.gateway.Log(), "deleted the individual commits of a group that is gone") {
			t.Error("the individual commits of a deleted group stay")
		}
		run("a deletion", fine, func(*kgo.Record) bool { return true }).Check(t, nil)
		e.awaitAllDone(t, group, topic, records)
	})
}

// awaitAllDone waits until the stable offset is at the end.
func (e engine) awaitAllDone(t *testing.T, group, topic string, end int64) {
	t.Helper()
	await(t, 15*time.Second, func() string {
		if at := e.committed(t, group, topic)[0]; at != end {
			return fmt.Sprintf("the stable offset is %d, not %d", at, end)
		}
		return ""
	})
}

// rewind has a member on a view commit a lower offset of a virtual partition, as a consumer does that sought back.
func rewind(t *testing.T, e engine, group, view string, v int32, to int64) {
	t.Helper()
	assigned := make(chan struct{}, 1)
	c := harness.Client(t, e.gateway.Bootstrap, kgo.ConsumerGroup(group), kgo.ConsumeTopics(view), kgo.DisableAutoCommit(), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { assigned <- struct{}{} }))
	<-assigned
	ctx := harness.Context(t, 20*time.Second)
	var failure error
	c.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{view: {v: {Epoch: -1, Offset: to}}}, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if failure = err; err == nil {
			failure = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
		}
	})
	if failure != nil {
		t.Fatal(failure)
	}
	_ = c.LeaveGroupContext(ctx)
	c.Close()
}
