package region

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/keyrange"
)

const million = 1_000_000

// open are n facts, every second offset of k slices, in the order that Amend gives them.
func open(n int, k int32) []Fact {
	facts := make([]Fact, 0, n)
	for s := range k {
		keys := keyrange.OfSlice(int32(bits.Reverse32(uint32(s))>>(32-bits.Len32(uint32(k-1)))), k)
		for i := range n / int(k) {
			facts = append(facts, Fact{keys, int64(2*i + 1), int64(2*i + 1)})
		}
	}
	return facts
}

func shuffled(facts []Fact) []Fact {
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(facts), func(i, j int) { facts[i], facts[j] = facts[j], facts[i] })
	return facts
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A million open offset ranges, with all that is known of their records, stay below 64 MiB, and 60,000 more are no matter of
// a million times 60,000.
func TestMillionOpenRangesInBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second for each")
	}
	for _, k := range []int32{1, 16, 256} {
		for _, order := range []string{"in order", "shuffled"} {
			t.Run(fmt.Sprintf("%d key ranges, %s", k, order), func(t *testing.T) {
				facts := open(million, k)
				if order == "shuffled" {
					facts = shuffled(facts)
				}
				before := heap()
				r := New(0)
				began := time.Now()
				for _, f := range facts {
					r.Replay(f)
				}
				replayed := time.Since(began)
				used, size := heap()-before, r.Size()
				if size.Records != len(facts) || used > 64<<20 || size.Bytes > used*11/10+1<<20 || size.Bytes < used*9/10-1<<20 {
					t.Errorf("%d records take %d bytes, about %d", size.Records, used, size.Bytes)
				}
				more := make([]Fact, 60_000) // each ends a hole
				for i := range more {
					f := facts[i*len(facts)/len(more)]
					more[i] = Fact{f.Keys, f.First + 1, f.First + 1}
				}
				began = time.Now()
				puts, deletes := r.Amend(more, 0, 0)
				amended := time.Since(began)
				began = time.Now()
				r.Stored(puts)
				r.Deleted(deletes)
				stored := time.Since(began)
				if len(deletes) < len(more) || r.Size().Records != len(facts)+len(puts)-len(deletes) {
					t.Errorf("%d puts, %d deletes, %d records", len(puts), len(deletes), r.Size().Records)
				}
				if all := amended + stored; all > 10*time.Second { // by far
					t.Errorf("60,000 facts took %v", all)
				}
				t.Logf("%.1f MiB; replay of %d %v; 60,000 more: amend %v, stored and deleted %v", float64(used)/(1<<20), len(facts), replayed, amended, stored)
				runtime.KeepAlive(r)
			})
		}
	}
}
