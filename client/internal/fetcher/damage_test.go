package fetcher

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/client/internal/gatewaytest"
)

// Damaged batches: what comes before them is given, the error is reported, and when they are sound again nothing is missing.
func TestDamagedBatches(t *testing.T) {
	t.Parallel()
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 1)
	for range 4 {
		w.Produce("orders", 25)
	}
	for name, damage := range map[string]func(raw []byte) []byte{
		"a byte":   func(raw []byte) []byte { raw[len(raw)/2] ^= 1; return raw },
		"too long": func(raw []byte) []byte { return append(raw[:60:60], raw[:10]...) },
		"magic":    func(raw []byte) []byte { raw[16] = 9; return raw },
		"nothing but a head": func(raw []byte) []byte {
			binary.BigEndian.PutUint32(raw[8:], math.MaxUint32)
			return raw
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := fetching(t, w.Direct, func(c *Config) { c.errorEvery = shortWait })
			left := 3
			w.Fake.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				w.Fake.KeepControl()
				if left--; left == 0 {
					w.Fake.DropControl()
				}
				req := kreq.(*kmsg.FetchRequest)
				resp := req.ResponseKind().(*kmsg.FetchResponse)
				rt := kmsg.NewFetchResponseTopic()
				rt.Topic, rt.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
				rp := kmsg.NewFetchResponseTopicPartition()
				rp.HighWatermark = 100
				rp.RecordBatches = damage(batch(req.Topics[0].Partitions[0].FetchOffset))
				rt.Partitions = append(rt.Partitions, rp)
				resp.Topics = append(resp.Topics, rt)
				return resp, nil, true
			})
			add(t, f, Stream{Topic: "orders"})
			all, errs := make(seen), 0
			for len(all) < 100 {
				if b := next(t, f); b.Err != nil {
					errs++
				} else {
					all.add(t, b)
				}
			}
			if all.once(t, 100); errs != 1 {
				t.Errorf("%d errors were reported", errs)
			}
		})
	}
}

// batch is a batch that claims to have a record at offset, and some bytes.
func batch(offset int64) []byte {
	b := make([]byte, 200)
	binary.BigEndian.PutUint64(b, uint64(offset))
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	b[16] = 2
	binary.BigEndian.PutUint32(b[57:], 1)
	return b
}

func TestLastOffset(t *testing.T) {
	two := append(batch(7), batch(9)...)
	binary.BigEndian.PutUint32(two[200+23:], 4) // 9 to 13
	old := batch(30)
	old[16] = 1
	for name, c := range map[string]struct {
		raw  []byte
		want int64
	}{
		"nothing":             {nil, -1},
		"one":                 {batch(7), 7},
		"two":                 {two, 13},
		"the second cut off":  {two[:399], 7},
		"cut off":             {two[:150], -1},
		"a head":              {two[:20], -1},
		"before magic 2":      {old, 30},
		"a size below a head": {make([]byte, 100), -1},
	} {
		if got := lastOffset(c.raw); got != c.want {
			t.Errorf("%s: %d, not %d", name, got, c.want)
		}
	}
}

func FuzzLastOffset(f *testing.F) {
	f.Add(batch(7))
	f.Fuzz(func(t *testing.T, raw []byte) {
		last := lastOffset(raw)
		p := kmsg.NewFetchResponseTopicPartition()
		p.RecordBatches = raw
		got, end := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{DisableCRCValidation: true}, &p, kgo.DefaultDecompressor(), nil)
		if n := len(got.Records); got.Err == nil && n > 0 && last < 0 {
			t.Errorf("%d records in batches that are not complete, up to %d", n, end)
		}
	})
}

func TestValidation(t *testing.T) {
	f := fetching(t, func(opts ...kgo.Opt) *kgo.Client {
		c, err := kgo.NewClient(append(opts, kgo.SeedBrokers("127.0.0.1:1"))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}, nil)
	for _, s := range []Stream{
		{Partition: 1}, {Topic: "t", Partition: -1}, {Topic: "t", Offset: -2},
		{Topic: "t", Keys: append(thirds[1], thirds[0]...)}, {Topic: "t", Keys: thirds[0], Base: -1},
	} {
		if tokens, err := f.Add(Stream{Topic: "good"}, s); err == nil || len(tokens) > 0 {
			t.Errorf("%+v: no error", s)
		}
	}
	if st := f.Stats(); st.Streams != 0 {
		t.Errorf("%d streams were made", st.Streams)
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.Client = nil }, func(c *Config) { c.MaxWait = 1 }, func(c *Config) { c.MaxBytes = -1 }, func(c *Config) { c.Reset = 9 },
	} {
		cfg := f.cfg
		change(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v: no error", cfg)
		}
	}
	if _, err := New(Config{}); errors.Is(err, ErrClosed) || err == nil {
		t.Errorf("%v", err)
	}
}
