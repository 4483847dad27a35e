package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit"
	factrecord "github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// ranged is a gateway with individual commits on.
func ranged(t *testing.T, change func(*Config)) *world {
	return newWorld(t, func(c *Config) {
		c.IndividualCommits, c.KeyRangeFetch = true, true
		if change != nil {
			change(c)
		}
	})
}

// another is one more gateway in front of the same cluster.
func (w *world) another() *world {
	w.t.Helper()
	return ranged(w.t, func(c *Config) {
		c.Upstream.Bootstrap, c.CooperativeFetch = w.gw.cfg.Upstream.Bootstrap, w.gw.cfg.CooperativeFetch
	})
}

func versions(key kmsg.Key, version int16) *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(int16(key), version)
	return v
}

func offsets(firstLast ...int64) (of []tandemmsg.OffsetRange) {
	for i := 0; i < len(firstLast); i += 2 {
		of = append(of, tandemmsg.OffsetRange{First: firstLast[i], Last: firstLast[i+1]})
	}
	return of
}

var whole = keyrange.Set{keyrange.Full}

// commitRanges commits one partition with additions, without a member, and returns the code.
func (w *world) commitRanges(group, topic string, partition int32, c tandemmsg.Commit) int16 {
	w.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Partition = partition
	if err := tandemmsg.WriteCommit(&rp, c); err != nil {
		w.t.Fatal(err)
	}
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return w.sendCommit(req)
}

func (w *world) sendCommit(req *kmsg.OffsetCommitRequest) int16 {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	resp, err := req.RequestWith(ctx, w.client(kgo.MaxVersions(versions(kmsg.OffsetCommit, 9)), kgo.RequestRetries(1)))
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.Topics[0].Partitions[0].ErrorCode
}

// watermark says that below an offset all is done.
func watermark(offset int64) tandemmsg.Commit {
	return tandemmsg.Commit{Keys: whole, Watermark: offset}
}

func rangesOf(keys keyrange.Set, firstLast ...int64) tandemmsg.Commit {
	return tandemmsg.Commit{Keys: keys, Offsets: offsets(firstLast...), Watermark: -1}
}

func (w *world) mustCommit(group, topic string, c tandemmsg.Commit) {
	w.t.Helper()
	if code := w.commitRanges(group, topic, 0, c); code != 0 {
		w.t.Fatalf("committing %+v: %v", c, kerr.ErrorForCode(code))
	}
}

// committed is the answer to an OffsetFetch of partition 0 with key ranges.
func (w *world) committed(group, topic string, keys keyrange.Set) (int64, string, int16) {
	w.t.Helper()
	return w.fetchCommitted(group, topic, keys, false)
}

// fetchCommitted is committed; with stable only what no open transaction can change is wanted.
func (w *world) fetchCommitted(group, topic string, keys keyrange.Set, stable bool) (int64, string, int16) {
	w.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = stable
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	rt := kmsg.NewOffsetFetchRequestGroupTopic()
	rt.Topic, rt.Partitions = topic, []int32{0}
	if err := tandemmsg.SetKeyRanges(&rt, keys); err != nil {
		w.t.Fatal(err)
	}
	g.Topics = append(g.Topics, rt)
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
	var text []string
	for _, c := range of {
		text = append(text, fmt.Sprint(c.Keys, c.Offsets))
	}
	return p.Offset, strings.Join(text, " "), p.ErrorCode
}

func (w *world) wantCommitted(group, topic string, offset int64, above string) {
	w.t.Helper()
	if got, of, code := w.committed(group, topic, whole); got != offset || of != above || code != 0 {
		w.t.Errorf("committed are %d and %q (code %d), not %d and %q", got, of, code, offset, above)
	}
}

// factLog reads all records of the fact log: "[45-47]", or "null [45-47]" for a deletion.
func (w *world) factLog(group string) (records []string) {
	w.t.Helper()
	for _, r := range w.factRecords(group) {
		text := fmt.Sprintf("[%d-%d]", r.Fact.First, r.Fact.Last)
		if r.Fact.Keys != keyrange.Full {
			text = r.Fact.Keys.String() + text
		}
		if r.Delete {
			text = "null " + text
		}
		records = append(records, text)
	}
	return records
}

func (w *world) factRecords(group string) (records []factrecord.Record) {
	w.t.Helper()
	direct := w.direct()
	ends, err := direct.ListEndOffsets(w.t.Context(), icommit.TopicName)
	if err != nil {
		w.t.Fatal(err)
	}
	n := int64(0)
	for _, of := range ends {
		for _, end := range of {
			n += end.Offset
		}
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(w.gw.cfg.Upstream.Bootstrap...), kgo.ConsumeTopics(icommit.TopicName), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	var d factrecord.Decoder
	for read := int64(0); read < n; {
		for _, r := range c.PollFetches(w.t.Context()).Records() {
			if read++; r.Attrs.IsControl() {
				continue
			}
			fact, err := d.Decode(r.Key, r.Value)
			if err != nil {
				w.t.Fatal(err)
			}
			if fact.Group == group {
				records = append(records, fact)
			}
		}
	}
	return records
}

func (w *world) wantFacts(group string, want ...string) {
	w.t.Helper()
	var got []string
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) { // deletions follow the answer
		if got = w.factLog(group); slices.Equal(got, want) {
			return
		}
	}
	w.t.Fatalf("the fact log has\n%q, not\n%q", got, want)
}

// The proposal's own example, record for record: stored are [45-47] and [50-50], stable is 42, which we count as 43. The first
// commit left the mark of its era, [0-42], and the last one that of what it deleted, [0-50] (package ledger).
func TestGapAmending(t *testing.T) {
	w := ranged(t, nil)
	topic, group := w.source(1)
	w.mustCommit(group, topic, watermark(43))
	w.wantStored(group, topic, 0, 43, "tandem:1:0:43")
	w.mustCommit(group, topic, rangesOf(whole, 45, 47, 50, 50))
	w.wantFacts(group, "[0-42]", "[45-47]", "[50-50]")
	w.wantCommitted(group, topic, 43, "[00000000-ffffffff] [45-47 50-50]")
	w.mustCommit(group, topic, rangesOf(whole, 48, 49))
	w.wantFacts(group, "[0-42]", "[45-47]", "[50-50]", "[45-50]", "null [45-47]", "null [50-50]")
	w.wantCommitted(group, topic, 43, "[00000000-ffffffff] [45-50]")
	w.mustCommit(group, topic, rangesOf(whole, 43, 44))
	w.wantStored(group, topic, 0, 51, "tandem:1:0:51")
	w.wantFacts(group, "[0-42]", "[45-47]", "[50-50]", "[45-50]", "null [45-47]", "null [50-50]", "[0-50]", "null [45-50]", "null [0-42]")
	w.wantCommitted(group, topic, 51, "")
}

// The stable offset is the lowest over all key ranges, whoever committed them and through whichever gateway.
func TestKeyRangesOfSeveralMembersAndGateways(t *testing.T) {
	t.Parallel()
	w := ranged(t, nil)
	topic, group := w.source(1)
	other := w.another()
	low, high := keyrange.Set{{First: 0, Last: 1<<31 - 1}}, keyrange.Set{{First: 1 << 31, Last: 1<<32 - 1}}
	w.mustCommit(group, topic, tandemmsg.Commit{Keys: low, Watermark: 100})
	w.wantStored(group, topic, 0, 0, "tandem:1:0:0")
	other.mustCommit(group, topic, tandemmsg.Commit{Keys: high, Watermark: 60})
	w.wantStored(group, topic, 0, 60, "tandem:1:0:60")
	w.wantCommitted(group, topic, 60, "[00000000-7fffffff] [60-99]")
	w.mustCommit(group, topic, rangesOf(high, 70, 79))
	other.wantCommitted(group, topic, 60, "[00000000-7fffffff] [60-99] [80000000-ffffffff] [70-79]")
	if _, of, _ := other.committed(group, topic, high); of != "[80000000-ffffffff] [70-79]" {
		t.Errorf("of the upper half %q is committed", of)
	}
	other.mustCommit(group, topic, rangesOf(high, 60, 69))
	other.wantCommitted(group, topic, 80, "[00000000-7fffffff] [80-99]")
}

// What the facts say holds until somebody moves the group with plain Kafka: then nothing of it is left.
func TestPlainCommitsAndResetsEndTheEra(t *testing.T) {
	t.Parallel()
	w := ranged(t, nil)
	topic, group := w.source(1)
	w.mustCommit(group, topic, rangesOf(whole, 10, 19))
	w.wantCommitted(group, topic, 0, "[00000000-ffffffff] [10-19]")
	for n, at := range []int64{5, 12, 0} {
		w.commit(group, topic, map[int32]int64{0: at}) // as kafka-consumer-groups --reset-offsets does
		w.wantCommitted(group, topic, at, "")
		w.mustCommit(group, topic, rangesOf(whole, at+1, at+1))
		w.wantStored(group, topic, 0, at, fmt.Sprintf("tandem:1:%d:%d", n+1, at))
		w.wantCommitted(group, topic, at, fmt.Sprintf("[00000000-ffffffff] [%d-%d]", at+1, at+1))
	}
	live := map[string]bool{}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		clear(live)
		for _, r := range w.factLog(group) {
			if gone, is := strings.CutPrefix(r, "null "); is {
				delete(live, gone)
			} else {
				live[r] = true
			}
		}
		if len(live) == 1 {
			break
		}
	}
	if !live["[1-1]"] || len(live) != 1 {
		t.Errorf("the log holds %v, of eras that are over as well", live)
	}
}

func TestRangesAsText(t *testing.T) {
	w := ranged(t, nil)
	topic, group := w.source(1)
	commit := func(offset int64, text string) int16 {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation = group, -1
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic = topic
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Offset, rp.Metadata = offset, &text
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		return w.sendCommit(req)
	}
	if code := commit(-1, "ranges=0-9,20-29"); code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
	w.wantCommitted(group, topic, 10, "[00000000-ffffffff] [20-29]")
	for _, bad := range []string{"ranges=30-39,20-29", "ranges=20-29,25-30", "ranges=9-8", "ranges=x", "ranges=-1-5"} {
		if code := commit(-1, bad); code != kerr.InvalidRequest.Code {
			t.Errorf("%q: %v", bad, kerr.ErrorForCode(code))
		}
	}
	if code := commit(30, "ranges=40-49"); code != kerr.InvalidRequest.Code {
		t.Errorf("a plain offset with ranges: %v", kerr.ErrorForCode(code))
	}
	w.wantCommitted(group, topic, 10, "[00000000-ffffffff] [20-29]")
}

// A commit of a generation that is over, or without rights, writes neither the stable offset nor facts.
func TestRefusedRangesWriteNothing(t *testing.T) {
	w := ranged(t, nil)
	topic, group := w.source(1)
	w.mustCommit(group, topic, watermark(5))
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.MemberID = group, 7, "nobody"
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	if err := tandemmsg.WriteCommit(&rp, rangesOf(whole, 5, 9, 20, 29)); err != nil {
		t.Fatal(err)
	}
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	if code := w.sendCommit(req); code == 0 {
		t.Fatal("a commit by nobody was taken")
	}
	w.wantStored(group, topic, 0, 5, "tandem:1:0:5")
	w.wantCommitted(group, topic, 5, "")
	if code := w.commitRanges(group, topic, 7, rangesOf(whole, 1, 2)); code != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("partition 7 of 1: %v", kerr.ErrorForCode(code))
	}
	off := ranged(t, func(c *Config) { c.Upstream.Bootstrap, c.IndividualCommits = w.gw.cfg.Upstream.Bootstrap, false })
	if code := off.commitRanges(group, topic, 0, rangesOf(whole, 5, 9)); code != kerr.InvalidRequest.Code {
		t.Errorf("switched off: %v", kerr.ErrorForCode(code))
	}
	w.wantCommitted(group, topic, 5, "")
}

// Facts and the rows of views of one group count together.
func TestFactsAndViewsCountTogether(t *testing.T) {
	w := ranged(t, nil)
	topic, group := w.source(1)
	w.produce(topic, 100)
	view := topic + ".view2"
	if _, err := w.admin.Metadata(t.Context(), view); err != nil {
		t.Fatal(err)
	}
	w.mustCommit(group, topic, rangesOf(keyrange.Set{keyrange.OfSlice(1, 2)}, 0, 49))
	w.commit(group, view, map[int32]int64{0: 80})
	w.wantStable(group, topic, 50, 50+40, 0)
	at, of, _ := w.committed(group, topic, whole)
	if at < 50 || !strings.Contains(of, "[00000000-7fffffff]") || !strings.Contains(of, "79]") {
		t.Errorf("committed are %d and %q", at, of)
	}
	// Of the view, the slice that facts are about begins behind them.
	got, err := w.admin.FetchOffsets(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := got.Lookup(view, 1); o.At < 50 || o.At > 60 {
		t.Errorf("the upper slice begins at %d, not behind 49", o.At)
	}
	// And a commit of a virtual partition with ranges is one of its slice.
	if code := w.commitRanges(group, view, 0, rangesOf(nil, 90, 94)); code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
	if _, of, _ := w.committed(group, topic, keyrange.Set{keyrange.OfSlice(0, 2)}); !strings.Contains(of, "90-94") {
		t.Errorf("of the lower half %q is committed", of)
	}
	// A consumer of the view is told so, too, and nothing of the other slice.
	if at, of, code := w.committed(group, view, whole); at != 80 || of != "[00000000-7fffffff] [90-94]" || code != 0 {
		t.Errorf("of the lower slice %d and %q are committed, code %d", at, of, code)
	}
	if _, of, _ := w.committed(group, view, keyrange.Set{keyrange.OfSlice(1, 2)}); of != "" {
		t.Errorf("of the lower slice and the upper half %q is committed", of)
	}
}

// At the limit a group that only adds is held back, one that closes gaps is not, and nothing is lost.
func TestLimitOfRanges(t *testing.T) {
	t.Parallel()
	w := ranged(t, func(c *Config) { c.Limits.IndividualRanges = 4 })
	topic, group := w.source(1)
	w.mustCommit(group, topic, rangesOf(whole, 10, 10, 12, 12, 14, 14, 16, 16))
	if code := w.commitRanges(group, topic, 0, rangesOf(whole, 18, 18)); code != kerr.CoordinatorLoadInProgress.Code {
		t.Errorf("a fifth range: %v", kerr.ErrorForCode(code))
	}
	w.wantCommitted(group, topic, 0, "[00000000-ffffffff] [10-10 12-12 14-14 16-16]")
	if !strings.Contains(w.log.String(), "many individual commits") {
		t.Error("the log does not warn")
	}
	w.mustCommit(group, topic, rangesOf(whole, 11, 11))
	w.mustCommit(group, topic, rangesOf(whole, 0, 9))
	w.mustCommit(group, topic, rangesOf(whole, 18, 18))
	w.wantCommitted(group, topic, 13, "[00000000-ffffffff] [14-14 16-16 18-18]")
}

// A consumer of a view seeks back behind what is committed individually: it gets those records again.
func TestGoingBackBehindFacts(t *testing.T) {
	w := ranged(t, func(c *Config) { c.Limits.RefreshRows = 200 * time.Millisecond })
	topic, group := w.source(1)
	w.produce(topic, 100)
	view := topic + ".view2"
	if _, err := w.admin.Metadata(t.Context(), view); err != nil {
		t.Fatal(err)
	}
	w.mustCommit(group, topic, rangesOf(whole, 10, 39))
	w.commit(group, view, map[int32]int64{0: 80, 1: 80})
	w.commit(group, view, map[int32]int64{0: 20})
	got, err := w.admin.FetchOffsets(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := got.Lookup(view, 0); o.At != 20 {
		t.Errorf("the slice begins at %d, not 20", o.At)
	}
	if at, _, _ := w.committed(group, topic, whole); at > 21 {
		t.Errorf("the stable offset is %d, above what is to be done again", at)
	}
}
