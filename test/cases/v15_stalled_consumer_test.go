package cases

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// tap is a consumer's network whose receiving side can be shut: the consumer stops reading its sockets, which stay open.
type tap struct {
	mu   sync.Mutex
	open chan struct{} // closed while data may be read
}

func newTap() *tap {
	t := &tap{open: make(chan struct{})}
	close(t.open)
	return t
}

func (t *tap) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	// What the system takes in for a client that does not read has no part in this.
	return tapped{c, t}, c.(*net.TCPConn).SetReadBuffer(16 << 10)
}

// Shut lets nothing be read until the returned function is called.
func (t *tap) Shut() (open func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = make(chan struct{})
	return sync.OnceFunc(func() { close(t.open) })
}

type tapped struct {
	net.Conn
	tap *tap
}

func (c tapped) Read(b []byte) (int, error) {
	c.tap.mu.Lock()
	open := c.tap.open
	c.tap.mu.Unlock()
	<-open
	return c.Conn.Read(b)
}

// delays notes how long records took from their production to a consumer.
type delays struct {
	mu      sync.Mutex
	longest time.Duration
	got     map[int32]int
}

func (d *delays) note(r *kgo.Record) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.longest = max(d.longest, time.Since(r.Timestamp))
	if d.got == nil {
		d.got = map[int32]int{}
	}
	d.got[r.Partition]++
}

// take returns the longest delay since the last call.
func (d *delays) take() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	longest := d.longest
	d.longest = 0
	return longest
}

func (d *delays) count(p int32) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.got[p]
}

// One of four consumers stops reading its socket while records of 8 KiB keep coming, several times the gateway's cache: the others get
// theirs as promptly as before and as a consumer of the source itself, the gateway's memory stays bounded, and the slow one misses nothing
// when it reads again (case V15).
func TestConsumerThatStopsReading(t *testing.T) {
	const size, cache, records, rate = 8 << 10, 8 << 20, 5000, 1200
	// Go's runtime is told what to keep to: else a busy machine leaves so much uncollected that it hides what is in use. The records are as much as that.
	const keepTo = 40 << 20
	enginesAlone(t, harness.GatewayConfig{
		YAML: fmt.Sprintf("limits: {max.bytes.key.range.hashing: %d}\n", cache), Env: []string{fmt.Sprint("GOMEMLIMIT=", keepTo)},
	}, func(t *testing.T, e engine) {
		t.Parallel() // mostly it waits for its load
		source, view := e.source(t, 1, 4)
		l, others, slow, gate := harness.NewLedger(), &delays{}, &delays{}, newTap()
		ctx, stop := context.WithCancel(context.Background())
		var polling sync.WaitGroup
		t.Cleanup(func() { stop(); polling.Wait() })
		for p := range int32(4) {
			into, opts := others, []kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{view: {p: kgo.NewOffset().AtStart()}}), kgo.FetchMaxBytes(1 << 20)}
			if p == 3 {
				// It waits for a big answer, so that the gateway gets stuck in the middle of writing it.
				into, opts = slow, append(opts, kgo.Dialer(gate.Dial), kgo.FetchMinBytes(4<<20), kgo.FetchMaxBytes(16<<20), kgo.FetchMaxPartitionBytes(16<<20), kgo.FetchMaxWait(3*time.Second))
			}
			c := harness.Client(t, e.gateway.Bootstrap, opts...)
			polling.Go(func() {
				for ctx.Err() == nil {
					fetches := c.PollFetches(ctx)
					fetches.EachRecord(func(r *kgo.Record) {
						into.note(r)
						l.Delivered(harness.Delivery{Member: fmt.Sprint(p), Partition: r.Partition, Offset: r.Offset, N: valueOf(t, r).N, Start: time.Now(), End: time.Now()})
					})
				}
			})
		}
		plain := &delays{} // without a view: what the machine takes
		direct := harness.Client(t, e.kafka, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{source: {0: kgo.NewOffset().AtStart()}}))
		polling.Go(func() {
			for ctx.Err() == nil {
				fetches := direct.PollFetches(ctx)
				fetches.EachRecord(plain.note)
			}
		})
		keys := keysOf(4, 100)
		load := func(n int) { // a quarter to each virtual partition
			t.Helper()
			harness.Produce(t, e.kafka, l, harness.Production{Topic: source, Records: n, Bytes: size, Rate: rate, Key: func(i int) []byte { return keys[i%len(keys)] }})
		}
		load(rate)
		l.AwaitDone(t, 10*time.Second)
		usual := max(others.take(), plain.take())
		slow.take()

		open := gate.Shut()
		t.Cleanup(open)
		had := slow.count(3)
		load(records)
		await(t, 10*time.Second, func() string {
			for p := range int32(3) {
				if got := others.count(p); got < (rate+records)/4 {
					return fmt.Sprintf("partition %d: %d of %d records", p, got, (rate+records)/4)
				}
			}
			return ""
		})
		during, machine, pid := others.take(), plain.take(), e.gateway.Process().Pid()
		peak := procNumber(t, pid, "status", "VmHWM") - procNumber(t, pid, "status", "RssFile") // without the program itself
		t.Logf("longest delay of the others %v before and %v during the stall, of the source itself %v; peak memory %d KiB; the stalled one got %d records", usual, during, machine, peak, slow.count(3)-had)
		if during > max(usual, machine)+time.Second {
			t.Errorf("the others' records took up to %v during the stall, %v before, and %v without a view", during, usual, machine)
		}
		if got := slow.count(3) - had; got > records/8 {
			t.Errorf("the stalled consumer got %d records: it was not stalled", got)
		}
		if peak<<10 > keepTo+8<<20 {
			t.Errorf("the gateway had up to %d KiB in use during the stall, with a cache of %d KiB", peak, cache>>10)
		}
		open()
		l.AwaitDone(t, 20*time.Second)
		if r := l.Check(t, harness.View(1, 4)); r.Duplicates > 0 {
			t.Errorf("%d duplicates", r.Duplicates)
		}
	})
}
