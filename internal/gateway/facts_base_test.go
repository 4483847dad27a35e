package gateway

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// committedFor is what an OffsetFetch of partition 0 with a base answers: "offset base ranges".
func (w *world) committedFor(group, topic string, base int32) string {
	w.t.Helper()
	req, g, rt := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewOffsetFetchRequestGroup(), kmsg.NewOffsetFetchRequestGroupTopic()
	rt.Topic, rt.Partitions = topic, []int32{0}
	if err := tandemmsg.SetKeyRanges(&rt, whole); err != nil {
		w.t.Fatal(err)
	}
	if err := tandemmsg.SetKeyAxisBase(&rt, base); err != nil {
		w.t.Fatal(err)
	}
	g.Group, g.Topics = group, append(g.Topics, rt)
	req.Groups = append(req.Groups, g)
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	resp, err := req.RequestWith(ctx, w.client(kgo.MaxVersions(versions(kmsg.OffsetFetch, 9))))
	if err != nil {
		w.t.Fatal(err)
	}
	p := &resp.Groups[0].Topics[0].Partitions[0]
	of, err := tandemmsg.CommittedRangeOffsets(p)
	if err != nil {
		w.t.Fatal(err)
	}
	answered, err := tandemmsg.KeyAxisBase(p)
	if err != nil || p.ErrorCode != 0 {
		w.t.Fatalf("code %d, %v", p.ErrorCode, err)
	}
	return fmt.Sprint(p.Offset, " ", answered, " ", of)
}

// Facts count for the base that they name, and without one for the partition count.
func TestFactsCountForTheirBase(t *testing.T) {
	w := ranged(t, nil)
	topic, group := w.source(2)
	low := keyrange.Set{keyrange.OfSlice(0, 2)}
	old := tandemmsg.Commit{Keys: low, Base: 1, Offsets: offsets(20, 29), Watermark: -1}
	w.mustCommit(group, topic, watermark(10))
	w.mustCommit(group, topic, old)
	w.mustCommit(group, topic, rangesOf(low, 40, 49))
	for base, want := range map[int32]string{
		0: "10 2 [{[00000000-7fffffff] [40-49]}]",
		2: "10 2 [{[00000000-7fffffff] [40-49]}]",
		1: "10 1 [{[00000000-7fffffff] [20-29]}]",
		4: "10 4 []",
	} {
		if got := w.committedFor(group, topic, base); got != want {
			t.Errorf("for base %d there is %q, not %q", base, got, want)
		}
	}
}

// What is done at all positions counts for every base, so for any partition count that a topic grows to, and with it the stable offset moves.
func TestFactsOfAllKeysCountForEveryBase(t *testing.T) {
	w := ranged(t, nil)
	topic, group := w.source(2)
	low, high := keyrange.Set{keyrange.OfSlice(0, 2)}, keyrange.Set{keyrange.OfSlice(1, 2)}
	w.mustCommit(group, topic, watermark(10))
	w.mustCommit(group, topic, rangesOf(nil, 20, 24)) // of the partition as a whole
	w.mustCommit(group, topic, rangesOf(low, 30, 49)) // of two that share it
	w.mustCommit(group, topic, rangesOf(high, 40, 59))
	if _, err := w.admin.UpdatePartitions(t.Context(), 4, topic); err != nil {
		t.Fatal(err)
	}
	for base, want := range map[int32]string{
		2: "10 2 [{[00000000-7fffffff] [20-24 30-49]} {[80000000-ffffffff] [20-24 40-59]}]",
		4: "10 4 [{[00000000-ffffffff] [20-24 40-49]}]",
		1: "10 1 [{[00000000-ffffffff] [20-24 40-49]}]",
	} {
		if got := w.committedFor(group, topic, base); got != want {
			t.Errorf("for base %d there is %q, not %q", base, got, want)
		}
	}
	w.mustCommit(group, topic, tandemmsg.Commit{Keys: low, Base: 4, Offsets: offsets(10, 39), Watermark: -1})
	w.mustCommit(group, topic, tandemmsg.Commit{Keys: high, Base: 4, Offsets: offsets(10, 39), Watermark: -1})
	for base, want := range map[int32]string{
		4: "50 4 []",
		2: "50 2 [{[80000000-ffffffff] [50-59]}]",
	} {
		if got := w.committedFor(group, topic, base); got != want {
			t.Errorf("after more, for base %d there is %q, not %q", base, got, want)
		}
	}
}

func TestAViewHasOneBase(t *testing.T) {
	w := ranged(t, nil)
	topic, group := w.source(1)
	view := topic + ".view2"
	if _, err := w.admin.Metadata(t.Context(), view); err != nil {
		t.Fatal(err)
	}
	for base, want := range map[int32]int16{0: 0, 1: 0, 2: kerr.InvalidRequest.Code} {
		if code := w.commitRanges(group, view, 0, tandemmsg.Commit{Keys: whole, Base: base, Offsets: offsets(20, 29), Watermark: -1}); code != want {
			t.Errorf("base %d: code %d, not %d", base, code, want)
		}
	}
	for base, want := range map[int32]string{0: "0 1 [{[00000000-7fffffff] [20-29]}]", 1: "0 1 [{[00000000-7fffffff] [20-29]}]"} {
		if got := w.committedFor(group, view, base); got != want {
			t.Errorf("for base %d there is %q, not %q", base, got, want)
		}
	}
}
