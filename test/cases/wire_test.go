package cases

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// wire speaks Kafka's protocol with Tandem's additions, request by request.
type wire struct {
	t     testing.TB
	c     *kgo.Client
	group string
	// Where there are no members: generation -1.
	generation int32
	member     string
	session    int32 // ms, of the group: for so long it may be silent
}

// whole is the whole key axis.
var whole = keyrange.Set{keyrange.Full}

// wire makes a client for a group, with the versions that name topics.
func (e engine) wire(t testing.TB, group string, opts ...kgo.Opt) *wire {
	t.Helper()
	c := harness.Client(t, e.gateway.Bootstrap, append([]kgo.Opt{kgo.MaxVersions(wireVersions()), kgo.MetadataMinAge(100 * time.Millisecond), kgo.RetryTimeout(20 * time.Second)}, opts...)...)
	return &wire{t: t, c: c, group: group, generation: -1, session: 10_000}
}

// wireVersions are the highest that name topics.
func wireVersions() *kversion.Versions {
	v := kversion.Stable()
	for key, version := range map[kmsg.Key]int16{kmsg.OffsetCommit: 9, kmsg.OffsetFetch: 9, kmsg.Fetch: 12, kmsg.TxnOffsetCommit: 5, kmsg.EndTxn: 5} {
		v.SetMaxKeyVersion(int16(key), version)
	}
	return v
}

func rangesOf(keys keyrange.Set, offsets ...tandemmsg.OffsetRange) tandemmsg.Commit {
	return tandemmsg.Commit{Keys: keys, Offsets: offsets, Watermark: -1}
}

func span(first, last int64) tandemmsg.OffsetRange {
	return tandemmsg.OffsetRange{First: first, Last: last}
}

// each are the offsets from first on, in steps, up to last: an offset range for each.
func each(first, last, step int64) (all []tandemmsg.OffsetRange) {
	for o := first; o <= last; o += step {
		all = append(all, span(o, o))
	}
	return all
}

func (w *wire) commitRequest(topic string, partition int32, c tandemmsg.Commit) *kmsg.OffsetCommitRequest {
	w.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.MemberID = w.group, w.generation, w.member
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Partition = partition
	if err := tandemmsg.WriteCommit(&rp, c); err != nil {
		w.t.Fatal(err)
	}
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// commit returns the error of an individual commit.
func (w *wire) commit(topic string, partition int32, c tandemmsg.Commit) error {
	w.t.Helper()
	resp, err := w.commitRequest(topic, partition, c).RequestWith(harness.Context(w.t, 30*time.Second), w.c)
	if err != nil {
		w.t.Fatal(err)
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

func (w *wire) mustCommit(topic string, partition int32, c tandemmsg.Commit) {
	w.t.Helper()
	if err := w.commit(topic, partition, c); err != nil {
		w.t.Fatalf("commit of %d offset ranges of %s/%d: %v", len(c.Offsets), topic, partition, err)
	}
}

// progress is what a group has committed of a partition.
type progress struct {
	stable int64 // the plain offset
	above  []tandemmsg.KeyRangeOffsets
}

// committed asks for what is committed of key ranges.
func (w *wire) committed(topic string, partition int32, keys keyrange.Set) progress {
	w.t.Helper()
	p, err := w.tryCommitted(topic, partition, keys, false)
	if err != nil {
		w.t.Fatalf("offset of %s on %s/%d: %v", w.group, topic, partition, err)
	}
	return p
}

// tryCommitted is committed, where the partition may have an error: with stable only what no open transaction can change is wanted.
func (w *wire) tryCommitted(topic string, partition int32, keys keyrange.Set, stable bool) (progress, error) {
	w.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = stable
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = w.group
	rt := kmsg.NewOffsetFetchRequestGroupTopic()
	rt.Topic, rt.Partitions = topic, []int32{partition}
	if err := tandemmsg.SetKeyRanges(&rt, keys); err != nil {
		w.t.Fatal(err)
	}
	g.Topics = append(g.Topics, rt)
	req.Groups = append(req.Groups, g)
	resp, err := req.RequestWith(harness.Context(w.t, 30*time.Second), w.c)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.Groups[0].ErrorCode); err != nil {
		w.t.Fatal(err)
	}
	p := &resp.Groups[0].Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return progress{}, err
	}
	above, err := tandemmsg.CommittedRangeOffsets(p)
	if err != nil {
		w.t.Fatal(err)
	}
	return progress{p.Offset, above}, nil
}

func (p progress) String() string {
	var s strings.Builder
	fmt.Fprint(&s, p.stable)
	for _, c := range p.above {
		fmt.Fprint(&s, " ", c.Keys, c.Offsets[:min(len(c.Offsets), 10)])
		if n := len(c.Offsets) - 10; n > 0 {
			fmt.Fprintf(&s, " and %d more", n)
		}
	}
	return s.String()
}

// done says whether a record is committed.
func (p progress) done(position uint32, offset int64) bool {
	if offset < p.stable {
		return true
	}
	for _, c := range p.above {
		if c.Keys.Contains(position) {
			if _, ok := slices.BinarySearchFunc(c.Offsets, offset, func(o tandemmsg.OffsetRange, at int64) int {
				switch {
				case o.Last < at:
					return -1
				case o.First > at:
					return 1
				}
				return 0
			}); ok {
				return true
			}
		}
	}
	return false
}

// wantProgress fails the test where something else is committed of the whole key axis of partition 0.
func (w *wire) wantProgress(topic, want string) {
	w.t.Helper()
	if got := w.committed(topic, 0, whole).String(); got != want {
		w.t.Errorf("committed are %q, want %q", got, want)
	}
}

func fetchRequest(t testing.TB, topic string, partition int32, from int64, keys keyrange.Set, wait time.Duration) *kmsg.FetchRequest {
	t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = int32(wait.Milliseconds()), 1, math.MaxInt32, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = partition, from, 4<<20
	if err := tandemmsg.SetKeyRanges(&rp, keys); err != nil {
		t.Fatal(err)
	}
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// leader is the broker that a partition is fetched from.
func (w *wire) leader(topic string, partition int32) *kgo.Broker {
	w.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	var id int32
	harness.Eventually(w.t, 20*time.Second, func() error {
		resp, err := req.RequestWith(harness.Context(w.t, 20*time.Second), w.c)
		if err != nil {
			return err
		}
		for _, p := range resp.Topics[0].Partitions {
			if p.Partition == partition && p.ErrorCode == 0 {
				id = p.Leader
				return nil
			}
		}
		return fmt.Errorf("%s/%d has no leader", topic, partition)
	})
	return w.c.Broker(int(id))
}

// fetch returns records of key ranges, and the offset up to which the partition was looked through for them.
func (w *wire) fetch(from *kgo.Broker, topic string, partition int32, offset int64, keys keyrange.Set) (records []kgo.Record, scanned int64) {
	w.t.Helper()
	kresp, err := from.RetriableRequest(harness.Context(w.t, 30*time.Second), fetchRequest(w.t, topic, partition, offset, keys, 100*time.Millisecond))
	if err != nil {
		w.t.Fatal(err)
	}
	p := &kresp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		w.t.Fatalf("fetch of %s/%d from %d: %v", topic, partition, offset, err)
	}
	if scanned, err = tandemmsg.ScannedOffset(p); err != nil {
		w.t.Fatal(err)
	}
	for raw := p.RecordBatches; len(raw) > 0; {
		var b kmsg.RecordBatch
		if err := b.ReadFrom(raw); err != nil {
			w.t.Fatal(err)
		}
		r := kbin.Reader{Src: b.Records}
		for range b.NumRecords {
			n := int(r.Varint())
			var rec kmsg.Record
			if err := rec.ReadFrom(append(kbin.AppendVarint(nil, int32(n)), r.Span(n)...)); err != nil {
				w.t.Fatal(err)
			}
			records = append(records, kgo.Record{Topic: topic, Partition: partition, Offset: b.FirstOffset + int64(rec.OffsetDelta), Key: rec.Key, Value: rec.Value})
		}
		raw = raw[12+int(b.Length):]
	}
	return records, scanned
}

// open starts where a consumer of these key ranges would, and returns the offsets of what it would be given up to end: the records that
// are not committed. base is the partition count of the topic.
func (w *wire) open(topic string, partition, base int32, keys keyrange.Set, end int64) (offsets []int64) {
	w.t.Helper()
	from, of := w.leader(topic, partition), w.committed(topic, partition, keys)
	for at := max(of.stable, 0); at < end; {
		records, scanned := w.fetch(from, topic, partition, at, keys)
		for _, r := range records {
			if !of.done(keyrange.Position(r.Key, base), r.Offset) {
				offsets = append(offsets, r.Offset)
			}
		}
		if scanned <= at && len(records) > 0 {
			w.t.Fatalf("looked through up to %d from %d", scanned, at)
		}
		at = max(at, scanned)
	}
	return offsets
}
