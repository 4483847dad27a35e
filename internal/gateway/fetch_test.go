package gateway

import (
	"bytes"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/slicecache"
	"github.com/tandem-kafka/tandem/internal/split"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// fetchOf is a Fetch request of one partition.
func fetchOf(version int16, topic string, partition int32, offset int64, id [16]byte) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MinBytes, req.MaxBytes, req.SessionEpoch = version, 1, 1<<20, -1
	addFetch(req, topic, partition, offset, id)
	return req
}

func addFetch(req *kmsg.FetchRequest, topic string, partition int32, offset int64, id [16]byte) {
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic, ft.TopicID = topic, id
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.Partition, fp.FetchOffset, fp.PartitionMaxBytes = partition, offset, 1<<20
	ft.Partitions = append(ft.Partitions, fp)
	req.Topics = append(req.Topics, ft)
}

// viewWorld has a view "wide" of "orders" (1 partition, K = 4) with 100 records.
func viewWorld(t *testing.T) (*world, *View) {
	w := newWorld(t, nil)
	w.topic("orders", 1)
	w.produce("orders", 100)
	v, err := w.gw.views.Create(t.Context(), "wide", "orders", 4)
	if err != nil {
		t.Fatal(err)
	}
	return w, v
}

func TestFetchOfAViewInEveryVersion(t *testing.T) {
	w, v := viewWorld(t)
	conn := w.dial(0)
	versions := conn.ask(kmsg.NewPtrApiVersionsRequest()).(*kmsg.ApiVersionsResponse)
	highest := int16(0)
	for _, k := range versions.ApiKeys {
		if k.ApiKey == 1 {
			highest = k.MaxVersion
		}
	}
	for version := int16(4); version <= highest; version++ {
		for _, isolation := range []int8{0, 1} {
			req := fetchOf(version, "wide", 1, 0, v.BackingID)
			req.IsolationLevel, req.MaxWaitMillis = isolation, 2000
			r := conn.ask(req).(*kmsg.FetchResponse)
			if r.ErrorCode != 0 || len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 || r.SessionID != 0 {
				t.Fatalf("v%d: %+v", version, r)
			}
			p := r.Topics[0].Partitions[0]
			if p.ErrorCode != 0 || len(p.RecordBatches) < 100 || p.HighWatermark <= 0 || p.HighWatermark != p.LastStableOffset {
				t.Fatalf("v%d: error %d, %d bytes, high watermark %d, last stable offset %d", version, p.ErrorCode, len(p.RecordBatches), p.HighWatermark, p.LastStableOffset)
			}
			if version >= 13 && r.Topics[0].TopicID != v.BackingID || version < 13 && r.Topics[0].Topic != "wide" {
				t.Errorf("v%d: topic %q %x", version, r.Topics[0].Topic, r.Topics[0].TopicID)
			}
		}
	}
	old := conn.ask(fetchOf(3, "wide", 0, 0, [16]byte{})).(*kmsg.FetchResponse)
	if code := old.Topics[0].Partitions[0].ErrorCode; code != kerr.UnsupportedVersion.Code {
		t.Errorf("v3: error %d", code)
	}
}

// Nothing to give is zero bytes, never null, in error answers too: null kills
// kafka-python, and librdkafka and kafka-go log protocol errors.
func TestFetchNeverAnswersNullRecords(t *testing.T) {
	w, v := viewWorld(t)
	end := w.end("wide", 0)
	conn := w.dial(0)
	for _, c := range []struct {
		name      string
		partition int32
		offset    int64
		code      int16
	}{
		{"at the end", 0, end, 0},
		{"out of range", 0, 5000, kerr.OffsetOutOfRange.Code},
		{"no such partition", 99, 0, kerr.UnknownTopicOrPartition.Code},
	} {
		for _, version := range []int16{4, 11, 12, 13} {
			req := fetchOf(version, "wide", c.partition, c.offset, v.BackingID)
			r := conn.ask(req).(*kmsg.FetchResponse)
			p := r.Topics[0].Partitions[0]
			if p.ErrorCode != c.code || p.RecordBatches == nil || len(p.RecordBatches) != 0 {
				t.Errorf("%s v%d: error %d, records %v", c.name, version, p.ErrorCode, p.RecordBatches)
			}
		}
	}
}

// end is the own end of a virtual partition, as ListOffsets says.
func (w *world) end(topic string, partition int32) int64 {
	w.t.Helper()
	ends, err := w.admin.ListEndOffsets(w.t.Context(), topic)
	if err != nil {
		w.t.Fatal(err)
	}
	end, ok := ends.Lookup(topic, partition)
	if !ok || end.Err != nil {
		w.t.Fatalf("end of %s/%d: %v", topic, partition, end.Err)
	}
	return end.Offset
}

func TestFetchSessionsAreNotForViews(t *testing.T) {
	w, v := viewWorld(t)
	conn := w.dial(0)
	req := fetchOf(13, "wide", 0, 0, v.BackingID)
	req.SessionID, req.SessionEpoch = 77, 3
	r := conn.ask(req).(*kmsg.FetchResponse)
	if r.ErrorCode != kerr.FetchSessionIDNotFound.Code || r.SessionID != 0 {
		t.Errorf("continuing a session: error %d, session %d", r.ErrorCode, r.SessionID)
	}
	req.SessionID, req.SessionEpoch = 0, 0
	if r := conn.ask(req).(*kmsg.FetchResponse); r.ErrorCode != 0 || r.SessionID != 0 {
		t.Errorf("opening a session: error %d, session %d", r.ErrorCode, r.SessionID)
	}
}

func TestFetchOfViewsAndOrdinaryTopics(t *testing.T) {
	w, _ := viewWorld(t)
	end := w.end("wide", 0)
	conn := w.dial(w.leader("orders", 0))
	req := fetchOf(11, "wide", 0, end, [16]byte{}) // has nothing
	addFetch(req, "orders", 0, 0, [16]byte{})
	req.MaxWaitMillis = 10_000
	start := time.Now()
	r := conn.ask(req).(*kmsg.FetchResponse)
	if len(r.Topics) != 2 || time.Since(start) > 5*time.Second {
		t.Fatalf("%d topics after %v", len(r.Topics), time.Since(start))
	}
	if p := r.Topics[1].Partitions[0]; r.Topics[1].Topic != "orders" || len(p.RecordBatches) == 0 || p.HighWatermark != 100 {
		t.Errorf("the ordinary topic: %+v", p)
	}
	req = fetchOf(11, "wide", 0, 0, [16]byte{})
	addFetch(req, "orders", 0, 100, [16]byte{}) // has nothing
	req.MaxWaitMillis = 10_000
	start = time.Now()
	r = conn.ask(req).(*kmsg.FetchResponse)
	if p := r.Topics[0].Partitions[0]; len(p.RecordBatches) == 0 || time.Since(start) > 5*time.Second {
		t.Errorf("the view: %d bytes after %v", len(p.RecordBatches), time.Since(start))
	}
}

func (w *world) leader(topic string, partition int32) int32 {
	w.t.Helper()
	meta, err := w.admin.Metadata(w.t.Context(), topic)
	if err != nil {
		w.t.Fatal(err)
	}
	return meta.Topics[topic].Partitions[partition].Leader
}

// An empty batch is only for Java's consumer, and only where the end is unknown and far.
func TestEmptyBatchGoesToJavaOnly(t *testing.T) {
	for _, c := range []struct {
		software string
		far      bool
		want     int
	}{{javaClient, true, 61}, {javaClient, false, 0}, {"librdkafka", true, 0}, {"", true, 0}} {
		conn := &conn{gw: &Gateway{metrics: newMetrics()}, software: c.software}
		fw := newFetchWriter(11, nil)
		part := fetchPart{offset: 5}
		req := fetchOf(11, "wide", 0, 5, [16]byte{})
		conn.writePart(fw, req, &part, []slicecache.SliceResult{{End: 900, Far: c.far, Scanned: 500}})
		fw.flush()
		if got := int(be(fw.bufs[0][len(fw.bufs[0])-c.want-4:])); got != c.want {
			t.Errorf("%+v: %d bytes of records", c, got)
		}
	}
	var b kmsg.RecordBatch
	if err := b.ReadFrom(emptyBatch(5, 500)); err != nil || b.FirstOffset != 5 || b.FirstOffset+int64(b.LastOffsetDelta) != 499 || b.NumRecords != 0 {
		t.Errorf("%+v %v", b, err)
	}
}

// A Fetch answer's node endpoints change in place, in as many bytes, whatever
// the lengths of the names.
func TestRewriteEndpointsKeepsTheLength(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		resp := kmsg.NewFetchResponse()
		resp.Version = 16
		n := rapid.IntRange(0, 3).Draw(t, "brokers")
		for i := range n {
			b := kmsg.NewFetchResponseBroker()
			b.NodeID, b.Host, b.Port = int32(i), rapid.StringMatching(`[a-z.]{1,140}`).Draw(t, "host"), 9092
			resp.Brokers = append(resp.Brokers, b)
		}
		ours := rapid.StringMatching(`[a-z.]{1,140}`).Draw(t, "advertised")
		whole := resp.AppendTo(nil)
		none := kmsg.NewFetchResponse()
		none.Version = 16
		at := len(none.AppendTo(nil)) - 1
		tail := rewriteEndpoints(bytes.Clone(whole[at:]), func(id int32, _ string, _ int32) (string, int32) { return ours, 100 + id })
		if len(tail) != len(whole)-at {
			t.Fatalf("%d bytes became %d", len(whole)-at, len(tail))
		}
		var got kmsg.FetchResponse
		got.Version = 16
		if err := got.ReadFrom(append(whole[:at:at], tail...)); err != nil {
			t.Fatal(err)
		}
		for _, b := range got.Brokers {
			if b.Host != ours || b.Port != 100+b.NodeID {
				t.Fatalf("broker %d at %s:%d leaves the gateway", b.NodeID, b.Host, b.Port)
			}
		}
		same := true
		for _, b := range resp.Brokers {
			same = same && len(b.Host) == len(ours)
		}
		if same && len(got.Brokers) != n {
			t.Fatal("endpoints that fit were dropped")
		}
	})
}

func FuzzRewriteEndpoints(f *testing.F) {
	value := kbin.AppendCompactArrayLen(nil, 1)
	value = append(kbin.AppendInt32(value, 1), 2, 'h', 0, 0, 0, 9, 0, 0)
	f.Add(appendTag([]byte{1}, 0, value))
	f.Fuzz(func(t *testing.T, tail []byte) {
		n := len(tail)
		if got := rewriteEndpoints(tail, func(int32, string, int32) (string, int32) { return "gateway", 1 }); len(got) != n {
			t.Fatalf("%d bytes became %d", n, len(got))
		}
	})
}

func TestCompressionOfViews(t *testing.T) {
	t.Parallel()
	for codec := split.Gzip; codec <= split.Zstd; codec++ {
		w := newWorld(t, func(c *Config) { c.Compression = codec })
		w.topic("orders", 1)
		w.produce("orders", 400)
		c := w.client(kgo.ConsumeTopics("orders.view2"))
		smaller := false
		for n := 0; n < 400; {
			fs := c.PollFetches(t.Context())
			if err := fs.Err(); err != nil {
				t.Fatalf("%v: %v", codec, err)
			}
			n += fs.NumRecords()
			fs.EachRecord(func(r *kgo.Record) { smaller = smaller || r.Attrs.CompressionType() == uint8(codec) })
		}
		if !smaller {
			t.Errorf("%v: no batch was compressed", codec)
		}
	}
}
