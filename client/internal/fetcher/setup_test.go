package fetcher

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/tandem-kafka/tandem/client/internal/gatewaytest"
	"github.com/tandem-kafka/tandem/keyrange"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// thirds are three parts of the key axis, one of them in two pieces.
var thirds = []keyrange.Set{
	{{First: 0, Last: math.MaxUint32 / 3}},
	{{First: math.MaxUint32/3 + 1, Last: math.MaxUint32/3 + 9}, {First: math.MaxUint32 / 3 * 2, Last: math.MaxUint32}},
	{{First: math.MaxUint32/3 + 10, Last: math.MaxUint32/3*2 - 1}},
}

// fetching is a Fetcher with two clients.
func fetching(t testing.TB, client func(...kgo.Opt) *kgo.Client, change func(*Config)) *Fetcher {
	t.Helper()
	cfg := Config{Client: client(), Second: client()}
	if change != nil {
		change(&cfg)
	}
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func add(t testing.TB, f *Fetcher, streams ...Stream) []Token {
	t.Helper()
	tokens, err := f.Add(streams...)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// next is the next batch, which has to come.
func next(t testing.TB, f *Fetcher) Batch {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	b, err := f.Next(ctx)
	if err != nil {
		t.Fatalf("%v; %+v", err, f.Stats())
	}
	return b
}

// nothing checks that there is nothing for Next for a while.
func nothing(t testing.TB, f *Fetcher, while time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), while)
	defer cancel()
	if b, err := f.Next(ctx); err == nil {
		t.Fatalf("there is something: %+v", b)
	}
}

// seen are the offsets that were given, by partition.
type seen map[string]int

func (s seen) add(t testing.TB, b Batch) (n int) {
	t.Helper()
	if b.Err != nil {
		t.Fatal(b.Err)
	}
	last := b.From - 1
	for _, r := range b.Records {
		if r.Topic != b.Topic || r.Partition != b.Partition || r.Offset <= last || r.Offset >= b.Next {
			t.Fatalf("%s %d: offset %d after %d in the batch %d to %d", r.Topic, r.Partition, r.Offset, last, b.From, b.Next)
		}
		last = r.Offset
		s[fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset)]++
		n++
	}
	return n
}

func (s seen) once(t testing.TB, n int) {
	t.Helper()
	if len(s) != n {
		t.Errorf("%d records were given, not %d", len(s), n)
	}
	for at, times := range s {
		if times != 1 {
			t.Errorf("%s was given %d times", at, times)
		}
	}
}

// take takes batches until n records are there.
func take(t testing.TB, f *Fetcher, s seen, n int) {
	t.Helper()
	for n > 0 {
		n -= s.add(t, next(t, f))
	}
}

// fetches counts the cluster's Fetch requests from clients of the tests, by their client id.
func fetches(w *gatewaytest.World) *atomic.Int64 {
	n := new(atomic.Int64)
	w.Fake.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.Fake.KeepControl()
		n.Add(1)
		return nil, nil, false
	})
	return n
}

// until polls for a condition.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

func wholes(topic string, partitions int32) (streams []Stream) {
	for p := range partitions {
		streams = append(streams, Stream{Topic: topic, Partition: p})
	}
	return streams
}
