package gateway

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchKeys fetches a partition with key ranges, and returns the records' offsets and keys.
func (w *world) fetchKeys(topic string, offset int64, keys keyrange.Set, base int32) (kmsg.FetchResponseTopicPartition, []int64, []string) {
	w.t.Helper()
	return w.fetchKeysAs(func(*kmsg.FetchRequest) {}, topic, offset, keys, base)
}

// fetchKeysAs is fetchKeys with a request that is changed.
func (w *world) fetchKeysAs(change func(*kmsg.FetchRequest), topic string, offset int64, keys keyrange.Set, base int32) (kmsg.FetchResponseTopicPartition, []int64, []string) {
	w.t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MaxBytes, req.SessionEpoch = 12, 100, math.MaxInt32, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.FetchOffset, rp.PartitionMaxBytes = offset, 1<<20
	if err := tandemmsg.SetKeyRanges(&rp, keys); err != nil {
		w.t.Fatal(err)
	}
	if err := tandemmsg.SetKeyAxisBase(&rp, base); err != nil {
		w.t.Fatal(err)
	}
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	change(req)
	resp := w.dial(anyBroker).ask(req).(*kmsg.FetchResponse)
	p := resp.Topics[0].Partitions[0]
	var offsets []int64
	var names []string
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
			offsets, names = append(offsets, b.FirstOffset+int64(rec.OffsetDelta)), append(names, string(rec.Key))
		}
		raw = raw[12+int(b.Length):]
	}
	return p, offsets, names
}

// Members with a third of the key axis each get every record once, and are told how far they were looked for.
func TestFetchOfKeyRanges(t *testing.T) {
	w := ranged(t, nil)
	topic, _ := w.source(1)
	const n = 300
	w.produce(topic, n)
	third := uint32(math.MaxUint32 / 3)
	sets := []keyrange.Set{
		{{First: 0, Last: third}},
		{{First: third + 1, Last: third + 9}, {First: 2 * third, Last: math.MaxUint32}},
		{{First: third + 10, Last: 2*third - 1}},
	}
	seen := make(map[int64]int)
	for member, keys := range sets {
		at := int64(0)
		for at < n {
			p, offsets, names := w.fetchKeys(topic, at, keys, 0)
			if p.ErrorCode != 0 || p.HighWatermark != n {
				t.Fatalf("code %d, high watermark %d", p.ErrorCode, p.HighWatermark)
			}
			for i, o := range offsets {
				seen[o]++
				if position := keyrange.Position([]byte(names[i]), 1); !keys.Contains(position) || o < at {
					t.Errorf("member %d got %s at %d, position %08x", member, names[i], o, position)
				}
			}
			scanned, err := tandemmsg.ScannedOffset(&p)
			if err != nil || scanned <= at || len(offsets) > 0 && scanned <= slices.Max(offsets) {
				t.Fatalf("member %d: scanned up to %d from %d, %v", member, scanned, at, err)
			}
			at = scanned
		}
	}
	for o := range int64(n) {
		if seen[o] != 1 {
			t.Errorf("offset %d was given %d times", o, seen[o])
		}
	}
	// At the end: an empty answer after the wait, and then what comes.
	if p, offsets, _ := w.fetchKeys(topic, n, sets[0], 0); p.ErrorCode != 0 || len(offsets) > 0 {
		t.Errorf("at the end: code %d, %d records", p.ErrorCode, len(offsets))
	}
	// Another base is another axis.
	_, _, names := w.fetchKeys(topic, 0, sets[0], 7)
	for _, name := range names {
		if !sets[0].Contains(keyrange.Position([]byte(name), 7)) {
			t.Errorf("%s is not at a position of base 7 in the range", name)
		}
	}
}

func TestFetchOfKeyRangesIsRefused(t *testing.T) {
	off := false
	w := ranged(t, func(c *Config) { c.Topics = map[string]TopicConfig{"closed": {KeyRangeFetch: &off}} })
	w.topic("open", 1)
	w.topic("closed", 1)
	w.produce("open", 1)
	for topic, want := range map[string]error{"closed": kerr.PolicyViolation, "nothing": kerr.UnknownTopicOrPartition, "open": nil, "open.view2": kerr.InvalidRequest} {
		if topic == "open.view2" {
			if _, err := w.admin.Metadata(t.Context(), topic); err != nil {
				t.Fatal(err)
			}
		}
		if p, _, _ := w.fetchKeys(topic, 0, whole, 0); kerr.ErrorForCode(p.ErrorCode) != want {
			t.Errorf("%s: %v, not %v", topic, kerr.ErrorForCode(p.ErrorCode), want)
		}
	}
	if p, _, _ := w.fetchKeys("open", 99, whole, 0); p.ErrorCode != kerr.OffsetOutOfRange.Code {
		t.Errorf("beyond the end: %v", kerr.ErrorForCode(p.ErrorCode))
	}
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.SessionEpoch, req.MaxBytes = 12, -1, 1<<20
	req.UnknownTags.Set(tandemmsg.TagKeyRanges, []byte{2, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 8}) // backwards
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = "open"
	rt.Partitions = append(rt.Partitions, kmsg.NewFetchRequestTopicPartition())
	req.Topics = append(req.Topics, rt)
	resp := w.dial(anyBroker).ask(req).(*kmsg.FetchResponse)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != kerr.InvalidRequest.Code {
		t.Errorf("a range backwards: %v", kerr.ErrorForCode(code))
	}
}

// One request names key ranges of one partition, nothing of another, and a view.
func TestMixedFetchWithKeyRanges(t *testing.T) {
	w := ranged(t, nil)
	w.topic("orders", 2)
	w.produce("orders", 100)
	if _, err := w.admin.Metadata(t.Context(), "orders.view4"); err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MaxBytes, req.SessionEpoch = 12, 500, math.MaxInt32, -1
	for _, topic := range []string{"orders", "orders.view4"} {
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic = topic
		for p := range int32(2) {
			rp := kmsg.NewFetchRequestTopicPartition()
			rp.Partition, rp.PartitionMaxBytes = p, 1<<20
			if topic == "orders" && p == 0 {
				if err := tandemmsg.SetKeyRanges(&rp, keyrange.Set{keyrange.OfSlice(1, 2)}); err != nil {
					t.Fatal(err)
				}
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	// Partition 1 is served by its leader only.
	got := map[string]bool{}
	for deadline := time.Now().Add(10 * time.Second); len(got) < 4 && time.Now().Before(deadline); {
		for id := range int32(2) {
			resp := w.dial(id).ask(req).(*kmsg.FetchResponse)
			for _, rt := range resp.Topics {
				for _, p := range rt.Partitions {
					if p.ErrorCode == 0 && len(p.RecordBatches) > 0 {
						got[fmt.Sprint(rt.Topic, p.Partition)] = true
					}
				}
			}
		}
	}
	if len(got) != 4 {
		t.Errorf("only %v were served", got)
	}
}
