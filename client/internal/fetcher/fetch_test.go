package fetcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/client/internal/gatewaytest"
	"github.com/tandem-kafka/tandem/keyrange"
)

// Three members with a third of the key axis of each partition get each record once: what is there, and what comes.
func TestThirds(t *testing.T) {
	t.Parallel()
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 2)
	w.Produce("orders", 3000)
	var mu sync.Mutex
	all := make(seen)
	arrived := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(all)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for _, keys := range thirds {
		f := fetching(t, w.Client, nil)
		add(t, f, Stream{Topic: "orders", Partition: 0, Keys: keys, Base: 2}, Stream{Topic: "orders", Partition: 1, Keys: keys, Base: 2})
		wg.Go(func() {
			for {
				b, err := f.Next(ctx)
				if err != nil {
					return
				}
				mu.Lock()
				all.add(t, b)
				mu.Unlock()
				for _, r := range b.Records {
					if !keys.Contains(keyrange.Position(r.Key, 2)) {
						t.Errorf("key %s is not in %v", r.Key, keys)
					}
				}
			}
		})
	}
	until(t, "all records", func() bool { return arrived() == 3000 })
	for i := range 20 { // one by one, at the end of the log
		w.ProduceRecords([]*kgo.Record{{Topic: "orders", Key: fmt.Appendf(nil, "late%d", i)}})
		start := time.Now()
		until(t, "a record at the end", func() bool { return arrived() == 3001+i })
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("a record at the end took %v", d)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	all.once(t, 3020)
}

func TestCodecs(t *testing.T) {
	t.Parallel()
	w := gatewaytest.Start(t, nil)
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		t.Run(name, func(t *testing.T) {
			w.Topic(name, 2)
			w.Produce(name, 500, kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
			for path, client := range map[string]func(...kgo.Opt) *kgo.Client{"direct": w.Direct, "gateway": w.Client} {
				f := fetching(t, client, nil)
				add(t, f, wholes(name, 2)...)
				all := make(seen)
				take(t, f, all, 500)
				nothing(t, f, 20*time.Millisecond)
				if all.once(t, 500); t.Failed() {
					t.Fatal(path)
				}
			}
			f := fetching(t, w.Client, nil)
			all := make(seen)
			for _, keys := range thirds {
				add(t, f, Stream{Topic: name, Partition: 0, Keys: keys, Base: 2}, Stream{Topic: name, Partition: 1, Keys: keys, Base: 2})
			}
			take(t, f, all, 500)
			all.once(t, 500)
		})
	}
}

// Aborted transactions are left out, and read over: also at the end of the log.
func TestReadCommitted(t *testing.T) {
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 1)
	p := w.Direct(kgo.TransactionalID("t"), kgo.DefaultProduceTopic("orders"))
	var want int
	for i, how := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit, kgo.TryAbort} {
		if err := p.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for j := range 50 {
			p.Produce(t.Context(), &kgo.Record{Key: fmt.Appendf(nil, "k%d-%d", i, j), Value: fmt.Append(nil, bool(how))}, nil)
		}
		if how == kgo.TryCommit {
			want += 50
		}
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.EndTransaction(t.Context(), how); err != nil {
			t.Fatal(err)
		}
	}
	for name, streams := range map[string][]Stream{
		"whole": wholes("orders", 1),
		"key ranges": {
			{Topic: "orders", Keys: thirds[0], Base: 1}, {Topic: "orders", Keys: thirds[1], Base: 1}, {Topic: "orders", Keys: thirds[2], Base: 1},
		},
	} {
		f := fetching(t, w.Client, func(c *Config) { c.ReadCommitted = true })
		tokens := add(t, f, streams...)
		all, at := make(seen), make(map[Token]int64)
		for ends := 0; ends < len(tokens); { // four markers and the records
			b := next(t, f)
			all.add(t, b)
			for _, r := range b.Records {
				if string(r.Value) != "true" {
					t.Fatalf("%s: the record at %d was aborted", name, r.Offset)
				}
			}
			if b.From != at[b.Token] || b.Next <= b.From {
				t.Fatalf("%s: a batch from %d to %d after %d", name, b.From, b.Next, at[b.Token])
			}
			if at[b.Token] = b.Next; b.Next == 204 {
				ends++
			}
		}
		all.once(t, want)
	}
}

// Two streams of one partition are at different places, each with its own batches.
func TestStreamsOfOnePartition(t *testing.T) {
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 1)
	w.Produce("orders", 300)
	f := fetching(t, w.Client, func(c *Config) { c.MaxWait = time.Minute })
	tokens := add(t, f, Stream{Topic: "orders", Keys: thirds[0], Base: 1}, Stream{Topic: "orders", Keys: thirds[1], Base: 1, Offset: 150}, Stream{Topic: "orders"})
	at := map[Token]int64{tokens[0]: 0, tokens[1]: 150, tokens[2]: 0}
	records := make(map[Token]int)
	end := int64(300)
	read := func() {
		for left := 3; left > 0; {
			b := next(t, f)
			if b.From != at[b.Token] {
				t.Fatalf("a batch from %d after %d", b.From, at[b.Token])
			}
			if at[b.Token] = b.Next; b.Next == end {
				left--
			}
			records[b.Token] += len(b.Records)
			for _, r := range b.Records {
				if len(b.Keys) > 0 && !b.Keys.Contains(keyrange.Position(r.Key, 1)) {
					t.Fatalf("key %s is not in %v", r.Key, b.Keys)
				}
			}
		}
	}
	read()
	if records[tokens[2]] != 300 || records[tokens[0]] < 50 || records[tokens[1]] < 25 {
		t.Errorf("records were given %v", records)
	}
	// They wait at the end together, although Kafka knows no partition twice.
	w.ProduceRecords([]*kgo.Record{{Topic: "orders", Key: []byte("k")}})
	end++
	start := time.Now()
	read()
	if d := time.Since(start); d > 2*time.Second || records[tokens[2]] != 301 {
		t.Errorf("%d records after %v", records[tokens[2]], d)
	}
}

// A partition that nobody takes is not fetched, and does not keep others.
func TestSlowConsumer(t *testing.T) {
	t.Parallel()
	w := gatewaytest.Start(t, nil)
	w.Topic("slow", 1)
	w.Topic("fast", 1)
	value := make([]byte, 1000)
	var records []*kgo.Record
	for range 3000 {
		records = append(records, &kgo.Record{Topic: "slow", Value: value}, &kgo.Record{Topic: "fast", Value: value})
	}
	w.ProduceRecords(records, kgo.ProducerBatchMaxBytes(20_000))
	for _, keys := range []keyrange.Set{nil, {{First: 0, Last: 1<<32 - 2}}} {
		f := fetching(t, w.Client, func(c *Config) { c.PartitionMaxBytes = 50_000 })
		slow := add(t, f, Stream{Topic: "slow", Keys: keys})
		until(t, "two answers that wait", func() bool { st := f.Stats(); return st.Buffered > 50_000 && st.Requests == 0 })
		n := fetches(w)
		add(t, f, Stream{Topic: "fast", Keys: keys})
		f.Pause(slow...) // Next would give its batches
		all := make(seen)
		take(t, f, all, 3000)
		all.once(t, 3000)
		if st := f.Stats(); st.Buffered > 250_000 {
			t.Errorf("%d bytes wait", st.Buffered)
		}
		if n.Load() == 0 {
			t.Error("nothing was fetched")
		}
		f.Resume(slow...)
		all = make(seen)
		take(t, f, all, 3000)
		all.once(t, 3000)
	}
}

// What waits for Next is bounded, however many streams there are.
func TestBufferedBytesAreBounded(t *testing.T) {
	t.Parallel()
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 20)
	value := make([]byte, 1000)
	var records []*kgo.Record
	for i := range 4000 {
		records = append(records, &kgo.Record{Topic: "orders", Partition: int32(i % 20), Value: value})
	}
	w.ProduceRecords(records, kgo.ProducerBatchMaxBytes(20_000), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	f := fetching(t, w.Client, func(c *Config) { c.MaxBuffered, c.PartitionMaxBytes, c.MaxBytes = 200_000, 50_000, 100_000 })
	add(t, f, wholes("orders", 20)...)
	until(t, "all that may wait", func() bool { st := f.Stats(); return st.Buffered >= 200_000 && st.Requests == 0 })
	if st := f.Stats(); st.Buffered > 200_000+4*130_000 { // two connections to each of two brokers
		t.Errorf("%d bytes wait", st.Buffered)
	}
	all := make(seen)
	take(t, f, all, 4000)
	all.once(t, 4000)
}

// After Remove nothing of a stream is given, whatever was under way, and the streams after it miss nothing.
func TestKeyRangesChange(t *testing.T) {
	t.Parallel()
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 1)
	const n = 5000
	w.Produce("orders", n, kgo.ProducerBatchMaxBytes(3000))
	f := fetching(t, w.Client, func(c *Config) { c.PartitionMaxBytes = 3000 })
	type part struct {
		keys keyrange.Set
		next int64
	}
	parts := make(map[Token]part)
	for _, keys := range thirds {
		parts[add(t, f, Stream{Topic: "orders", Keys: keys, Base: 1})[0]] = part{keys: keys}
	}
	all := make(seen)
	for turn := 0; len(all) < n; turn++ {
		b := next(t, f)
		p, ours := parts[b.Token]
		if !ours {
			t.Fatalf("a batch of a stream that was removed: %+v", b)
		}
		if b.From != p.next {
			t.Fatalf("a batch from %d after %d", b.From, p.next)
		}
		all.add(t, b)
		p.next = b.Next
		parts[b.Token] = p
		if turn%3 == 0 { // another one has it now, or a half of it
			f.Remove(b.Token)
			delete(parts, b.Token)
			keys := []keyrange.Set{p.keys}
			if r := p.keys[0]; r.Len() > 2000 {
				middle := r.First + uint32(r.Len()/2)
				keys = []keyrange.Set{{{First: r.First, Last: middle}}, append(keyrange.Set{{First: middle + 1, Last: r.Last}}, p.keys[1:]...)}
			}
			for _, k := range keys {
				parts[add(t, f, Stream{Topic: "orders", Keys: k, Base: 1, Offset: p.next})[0]] = part{k, p.next}
			}
		}
	}
	all.once(t, n)
	for token := range parts {
		f.Remove(token)
	}
	if st := f.Stats(); st.Streams != 0 || st.Buffered != 0 {
		t.Errorf("without streams there is %+v", st)
	}
}

// What is under way for a stream that was removed, or that has to begin elsewhere since data before it was damaged, is not used.
func TestAnswersThatCameTooLate(t *testing.T) {
	for name, change := range map[string]func(*Fetcher, *stream){
		"removed":   func(f *Fetcher, s *stream) { f.end(s) },
		"elsewhere": func(_ *Fetcher, s *stream) { s.turn++ },
		"in time":   func(*Fetcher, *stream) {},
	} {
		w := gatewaytest.Start(t, nil)
		f := fetching(t, w.Direct, nil)
		token := add(t, f, Stream{Topic: "nothing"})[0]
		f.mu.Lock()
		s := f.streams[token]
		r := f.request([]*stream{s}, time.Second)
		change(f, s)
		resp := kmsg.NewPtrFetchResponse()
		rt, rp := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
		rp.RecordBatches = batch(0)
		rt.Topic, rt.Partitions = "nothing", append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		slots := f.answered(r, resp)
		if used := len(slots) > 0; used != (name == "in time") || used != (len(s.slots) > 0) || s.busy {
			t.Errorf("%s: used %v, %d wait, busy %v", name, used, len(s.slots), s.busy)
		}
		f.mu.Unlock()
	}
}

func TestRead(t *testing.T) {
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 1)
	w.Produce("orders", 300)
	f := fetching(t, w.Client, func(c *Config) { c.MaxWait = time.Minute; c.Reset = ResetEarliest })
	add(t, f, Stream{Topic: "orders", Offset: 300}, Stream{Topic: "orders", Keys: thirds[1], Offset: 300}) // long polls all the time
	until(t, "the long polls", func() bool { return f.Stats().Requests > 0 })
	all := make(seen)
	for _, keys := range thirds {
		b, err := f.Read(t.Context(), Stream{Topic: "orders", Keys: keys, Base: 1})
		if err != nil || b.Next != 300 {
			t.Fatalf("%+v, %v", b, err)
		}
		all.add(t, b)
	}
	all.once(t, 300)
	if _, err := f.Read(t.Context(), Stream{Topic: "orders", Offset: 1000}); err == nil {
		t.Error("an offset out of range is no error")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := f.Read(ctx, Stream{Topic: "nothing"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("of a topic that does not exist: %v", err)
	}
	if st := f.Stats(); st.Streams != 2 {
		t.Errorf("%d streams are left", st.Streams)
	}
}

func TestClose(t *testing.T) {
	w := gatewaytest.Start(t, nil)
	w.Topic("orders", 1)
	w.Produce("orders", 10)
	f := fetching(t, w.Client, func(c *Config) { c.MaxWait = time.Minute })
	add(t, f, Stream{Topic: "orders"}, Stream{Topic: "orders", Offset: 10}, Stream{Topic: "nothing"})
	until(t, "requests", func() bool { return f.Stats().Requests > 0 })
	waiting := make(chan error, 2)
	go func() {
		_, err := f.Next(context.Background())
		for err == nil {
			_, err = f.Next(context.Background())
		}
		waiting <- err
	}()
	go func() {
		_, err := f.Read(context.Background(), Stream{Topic: "nothing"})
		waiting <- err
	}()
	start := time.Now()
	f.Close()
	f.Close()
	for range 2 {
		if err := <-waiting; !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
	}
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("it took %v", d)
	}
	if _, err := f.Add(Stream{Topic: "orders"}); !errors.Is(err, ErrClosed) {
		t.Errorf("Add: %v", err)
	}
	if _, err := f.Next(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("Next: %v", err)
	}
}
