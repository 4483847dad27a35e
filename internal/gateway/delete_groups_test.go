package gateway

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit/ledger"
	factrecord "github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// left are the facts of a group that the log has, by topic and partition.
func (w *world) left(group string) map[string]int {
	w.t.Helper()
	there := map[factrecord.Record]bool{}
	for _, r := range w.factRecords(group) {
		key := r
		key.TopicID, key.Delete = [16]byte{}, false
		if delete(there, key); !r.Delete {
			there[key] = true
		}
	}
	n := map[string]int{}
	for r := range there {
		n[fmt.Sprintf("%s/%d", r.Topic, r.Partition)]++
	}
	return n
}

func (w *world) wantLeft(group string, want map[string]int) {
	w.t.Helper()
	w.until(fmt.Sprintf("the fact log has %v of %s", want, group), func() bool { return fmt.Sprint(w.left(group)) == fmt.Sprint(want) })
}

// A group that is deleted takes what it has committed individually with it, but for a record that keeps its era. One made anew under the name
// begins with nothing, and loses nothing, through this gateway and another.
func TestDeletedGroupsTakeTheirFactsWithThem(t *testing.T) {
	w := ranged(t, nil)
	other := w.another()
	topic, group := w.source(2)
	admin := kadm.NewClient(w.client())
	ctx := t.Context()
	of := func(p int32) string { return fmt.Sprintf("%s/%d", topic, p) }

	w.mustCommit(group, topic, rangesOf(whole, 5, 6, 8, 9, 12, 12))
	other.mustCommit(group, topic, rangesOf(whole, 20, 21))
	if code := w.commitRanges(group, topic, 1, rangesOf(whole, 3, 3, 7, 7)); code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
	// A group with a member stays, and so do its facts.
	c, err := kgo.NewClient(kgo.SeedBrokers(w.gw.Addr()), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())
	if err != nil {
		t.Fatal(err)
	}
	for id := ""; id == ""; id, _ = c.GroupMetadata() {
		time.Sleep(10 * time.Millisecond)
	}
	if resp, err := admin.DeleteGroup(ctx, group); err == nil && resp.Err == nil {
		t.Error("a group with a member was deleted")
	}
	_ = c.LeaveGroupContext(ctx)
	c.Close()
	if n := w.left(group); n[of(0)] < 4 || n[of(1)] < 2 {
		t.Errorf("a refused deletion left %v", n)
	}

	// Offsets of one partition.
	var set kadm.TopicsSet
	set.Add(topic, 1)
	if _, err := admin.DeleteOffsets(ctx, group, set); err != nil {
		t.Fatal(err)
	}
	if n := w.left(group); n[of(0)] < 4 || n[of(1)] != 1 {
		t.Errorf("the deletion of the offsets of partition 1 left %v", n)
	}

	// The group.
	if resp, err := admin.DeleteGroup(ctx, group); err != nil || resp.Err != nil {
		t.Fatal(err, resp.Err)
	}
	w.wantLeft(group, map[string]int{of(0): 1, of(1): 1})
	other.mustCommit(group, topic, rangesOf(whole, 8, 9))
	w.mustCommit(group, topic, rangesOf(whole, 30, 30))
	for _, gw := range []*world{w, other} {
		gw.wantCommitted(group, topic, 0, "[00000000-ffffffff] [8-9 30-30]")
	}
}

// What a group had that is gone without the gateway's help is found, in the end the last record too; groups that are there keep all.
func TestSweepOfFacts(t *testing.T) {
	w := ranged(t, func(c *Config) { c.Limits.SweepFacts = time.Second })
	topic, group := w.names()
	stays := group + "-stays"
	w.topic(topic, 1)
	for _, g := range []string{group, stays} {
		w.mustCommit(g, topic, rangesOf(whole, 5, 6, 8, 9))
	}
	if resp, err := w.direct().DeleteGroup(context.Background(), group); err != nil || resp.Err != nil {
		t.Fatal(err, resp.Err)
	}
	w.wantLeft(group, map[string]int{})
	w.wantLeft(stays, map[string]int{topic + "/0": 2})
	if s := w.gw.facts.state(factKey{group, topic, 0}); s != nil {
		s.mu.Lock()
		gone := s.ledger.Remains(1<<40, ledger.MaxDeletes, true)
		s.mu.Unlock()
		if len(gone) > 0 {
			t.Errorf("the gateway still knows %v", gone)
		}
	}
	w.wantCommitted(stays, topic, 0, "[00000000-ffffffff] [5-6 8-9]")
	w.mustCommit(group, topic, rangesOf(whole, 7, 7))
	w.wantCommitted(group, topic, 0, "[00000000-ffffffff] [7-7]")
}
