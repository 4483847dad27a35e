// producer writes the kit's test data with franz-go and a manifest of every committed record.
//
// The value is JSON {"k":key,"seq":per-key sequence,"n":global number}, padded with "pad". A keyed record goes to partition
// toPositive(murmur2(key)) mod P, P read from the topic; a record without a key goes to partition n mod P.
// A batch on the wire holds at most --batch-records records. --codec mix rotates all five codecs from batch to batch.
// --transactional puts the records into transactions. --abort-share F then adds aborted records, F of all records written: whole aborted
// rounds of the same producer, and transactions of a second producer that are open across a committed one and interleave with it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand"
	"os"
	"strings"
	"time"

	"github.com/tandem-kafka/tandem/test/clients/go/kit"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	bootstrap     = flag.String("bootstrap", "127.0.0.1:9092", "broker list")
	topic         = flag.String("topic", "", "physical topic")
	records       = flag.Int("records", 10000, "committed records")
	keys          = flag.Int("keys", 1000, "distinct keys")
	zipf          = flag.Float64("zipf", 0, "Zipf exponent of the key choice; 0 is uniform")
	valueBytes    = flag.Int("value-bytes", 100, "length of the value")
	codecName     = flag.String("codec", "none", "none, gzip, snappy, lz4, zstd or mix")
	nullShare     = flag.Float64("null-key-share", 0, "share of records without a key")
	batchRecords  = flag.Int("batch-records", 50, "most records in a batch")
	transactional = flag.Bool("transactional", false, "write in transactions")
	abortShare    = flag.Float64("abort-share", 0, "share of aborted records among all written")
	interleaved   = flag.Bool("interleave", true, "let some aborted transactions interleave with committed ones")
	rate          = flag.Float64("rate", 0, "records a second; 0 is as fast as possible")
	seed          = flag.Int64("seed", 1, "seed of the key choice")
	base          = flag.Int("base", 0, "first global number (and first sequence number) when records are added to a topic that has some")
	manifest      = flag.String("manifest", "manifest.jsonl", "file for the committed records, appended to when --base > 0")
)

type entry struct {
	P   int32   `json:"p"`
	O   int64   `json:"o"`
	K   *string `json:"k"`
	Seq int     `json:"seq"`
	N   int     `json:"n"`
}

type value struct {
	K     *string `json:"k"`
	Seq   int     `json:"seq"`
	N     int     `json:"n"`
	Abort bool    `json:"aborted,omitempty"`
	Pad   string  `json:"pad,omitempty"`
}

func encode(v value) []byte {
	b, _ := json.Marshal(v)
	if missing := *valueBytes - len(b) - len(`,"pad":""`); missing > 0 {
		pad := make([]byte, missing)
		for i := range pad {
			pad[i] = "abcdefghijklmnop"[(i*7+v.N)&15]
		}
		v.Pad = string(pad)
		b, _ = json.Marshal(v)
	}
	return b
}

// chooser draws key numbers: uniform, or Zipf with any exponent > 0.
func chooser(r *rand.Rand) func() int {
	if *zipf <= 0 {
		return func() int { return r.Intn(*keys) }
	}
	sum, cumulated := 0.0, make([]float64, *keys)
	for i := range cumulated {
		sum += 1 / math.Pow(float64(i+1), *zipf)
		cumulated[i] = sum
	}
	return func() int {
		x, lo, hi := r.Float64()*sum, 0, *keys-1
		for lo < hi {
			if mid := (lo + hi) / 2; cumulated[mid] < x {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		return lo
	}
}

func client(codec string, extra ...kgo.Opt) *kgo.Client {
	c := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	opts := append([]kgo.Opt{kgo.SeedBrokers(strings.Split(*bootstrap, ",")...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ManualFlushing(), kgo.MaxBufferedRecords(1 << 20), kgo.ProducerBatchCompression(c[codec])}, extra...)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		kit.Fatal("%v", err)
	}
	return cl
}

func main() {
	flag.Parse()
	codecs := []string{*codecName}
	if *codecName == "mix" {
		codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}
	}
	ctx := context.Background()
	var clients []*kgo.Client
	for _, c := range codecs {
		var extra []kgo.Opt
		if *transactional {
			extra = append(extra, kgo.TransactionalID(fmt.Sprintf("kit-%s-%s-%d", *topic, c, os.Getpid())))
		}
		clients = append(clients, client(c, extra...))
	}
	var aborter *kgo.Client
	if *transactional && *abortShare > 0 {
		aborter = client(codecs[0], kgo.TransactionalID(fmt.Sprintf("kit-%s-aborter-%d", *topic, os.Getpid())))
		defer aborter.Close()
	}
	partitions := countPartitions(ctx, clients[0])

	mode := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if *base > 0 {
		mode = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}
	file, err := os.OpenFile(*manifest, mode, 0o644)
	if err != nil {
		kit.Fatal("%v", err)
	}
	out := bufio.NewWriter(file)
	random := rand.New(rand.NewSource(*seed))
	choose := chooser(random)
	sequence := map[string]int{}
	start, written, aborted, n, round := time.Now(), 0, 0, *base, 0

	// next makes one record; abort marks one that must never be seen, it takes no number.
	next := func(abort bool) (*kgo.Record, entry) {
		e := entry{Seq: -1, N: -1}
		var key []byte
		name := ""
		if random.Float64() >= *nullShare {
			name = fmt.Sprintf("key-%d", choose())
			key = []byte(name)
			e.K = &name
		}
		if !abort {
			if _, ok := sequence[name]; !ok {
				sequence[name] = *base
			}
			e.N, e.Seq = n, sequence[name]
			n++
			sequence[name]++
		}
		e.P = int32(random.Intn(partitions))
		if key != nil {
			e.P = kit.Partition(key, partitions)
		} else if !abort {
			e.P = int32(e.N % partitions)
		}
		return &kgo.Record{Topic: *topic, Partition: e.P, Key: key, Value: encode(value{K: e.K, Seq: e.Seq, N: e.N, Abort: abort})}, e
	}
	// send writes at most one batch per partition and waits for it.
	send := func(c *kgo.Client, batch []*kgo.Record) {
		for _, r := range batch {
			c.Produce(ctx, r, func(_ *kgo.Record, err error) {
				if err != nil {
					kit.Fatal("produce: %v", err)
				}
			})
		}
		if err := c.Flush(ctx); err != nil {
			kit.Fatal("flush: %v", err)
		}
	}
	garbage := func(c *kgo.Client, count int) {
		var batch []*kgo.Record
		for range count {
			r, _ := next(true)
			batch = append(batch, r)
		}
		send(c, batch)
		aborted += count
	}
	begin := func(c *kgo.Client) {
		if err := c.BeginTransaction(); err != nil {
			kit.Fatal("begin: %v", err)
		}
	}
	end := func(c *kgo.Client, try kgo.TransactionEndTry) {
		if err := c.EndTransaction(ctx, try); err != nil {
			kit.Fatal("end: %v", err)
		}
	}

	type pending struct {
		r *kgo.Record
		e entry
	}
	queues := make([][]pending, partitions)
	queued := 0
	// emit sends up to one batch of every partition that has a full one (or any, when all is set).
	emit := func(all bool) {
		var batch []pending
		for p := range queues {
			if take := min(len(queues[p]), *batchRecords); take == *batchRecords || all {
				batch = append(batch, queues[p][:take]...)
				queues[p] = queues[p][take:]
			}
		}
		if len(batch) == 0 {
			return
		}
		c := clients[round%len(clients)]
		round++
		wanted := 0 // aborted records still missing for the share
		if *transactional && *abortShare > 0 {
			wanted = int(*abortShare/(1-*abortShare)*float64(written+len(batch))) - aborted
		}
		interleave := wanted > 1 && *interleaved
		if interleave {
			begin(aborter)
			garbage(aborter, wanted/4+1)
		}
		if wanted > 2 {
			begin(c)
			garbage(c, map[bool]int{true: wanted / 2, false: wanted}[interleave])
			end(c, kgo.TryAbort)
		}
		var rs []*kgo.Record
		for _, b := range batch {
			rs = append(rs, b.r)
		}
		if *transactional {
			begin(c)
			half := len(rs) / 2
			send(c, rs[:half])
			if interleave {
				garbage(aborter, max(wanted/4, 1))
			}
			send(c, rs[half:])
			end(c, kgo.TryCommit)
		} else {
			send(c, rs)
		}
		if interleave {
			end(aborter, kgo.TryAbort)
		}
		for _, b := range batch {
			b.e.O = b.r.Offset
			line, _ := json.Marshal(b.e)
			out.Write(append(line, '\n'))
		}
		out.Flush()
		written += len(batch)
		queued -= len(batch)
		if *rate > 0 {
			time.Sleep(time.Until(start.Add(time.Duration(float64(written) / *rate * float64(time.Second)))))
		}
	}
	for i := 0; i < *records; i++ {
		r, e := next(false)
		queues[e.P] = append(queues[e.P], pending{r, e})
		queued++
		if len(queues[e.P]) > *batchRecords || queued >= partitions**batchRecords {
			emit(false)
		}
	}
	for queued > 0 {
		emit(true)
	}
	for _, c := range clients {
		c.Close()
	}
	out.Flush()
	if err := file.Close(); err != nil {
		kit.Fatal("%v", err)
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{"topic": *topic, "partitions": partitions, "committed": written, "aborted": aborted,
		"batches": round, "codec": *codecName, "seconds": math.Round(time.Since(start).Seconds()*100) / 100})
}

func countPartitions(ctx context.Context, c *kgo.Client) int {
	details, err := kadm.NewClient(c).ListTopics(ctx, *topic)
	if err != nil {
		kit.Fatal("%v", err)
	}
	if err := details.Error(); err != nil || len(details[*topic].Partitions) == 0 {
		kit.Fatal("topic %q: %v", *topic, err)
	}
	return len(details[*topic].Partitions)
}
