package region

import (
	"fmt"
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
)

// An operation is one record. Run with GOMAXPROCS=1.
func BenchmarkReplay(b *testing.B) {
	for _, k := range []int32{1, 16, 256} {
		for _, order := range []string{"in order", "shuffled"} {
			b.Run(fmt.Sprintf("%d/%s", k, order), func(b *testing.B) {
				facts := open(million, k)
				if order == "shuffled" {
					facts = shuffled(facts)
				}
				var r *Region
				for i := range b.N {
					if i %= len(facts); i == 0 {
						r = New(0)
					}
					r.Replay(facts[i])
				}
			})
		}
	}
}

// BenchmarkCommit is all of a commit of so many offset ranges in one key range, with a million open ones: the stable offset in advance,
// then what to write, then that it was written, then that it was deleted.
func BenchmarkCommit(b *testing.B) {
	for _, k := range []int32{1, 16, 256} {
		for _, n := range []int{1, 100, 60_000} {
			b.Run(fmt.Sprintf("%d/%d", k, n), func(b *testing.B) {
				r := New(0)
				r.Stored(open(million, k))
				facts := make([]Fact, n)
				for i := range b.N {
					keys := keyrange.OfSlice(int32(i)%k, k)
					for at := range facts { // those that were open become one, or are there already
						facts[at] = Fact{keys, 2*int64(i/int(k)*n+at) + 2, 2*int64(i/int(k)*n+at) + 2}
					}
					stable := r.With(facts).Next(keyrange.Full, 0, nil)
					puts, deletes := r.Amend(facts, stable, 0)
					r.Stored(puts)
					r.Deleted(deletes)
					r.SetStable(stable)
				}
			})
		}
	}
}

// BenchmarkNext goes over a million ranges that two ways of cutting the key axis tell in turns.
func BenchmarkNext(b *testing.B) {
	r := New(0)
	for i := range int64(million / 2) {
		r.Replay(Fact{keyrange.Full, 4*i + 1, 4*i + 2})
		for s := range int32(2) {
			r.Replay(Fact{keyrange.OfSlice(s, 2), 4*i + 3, 4*i + 4})
		}
	}
	for b.Loop() {
		if next := r.Next(keyrange.Full, 1, nil); next != 2*million+1 {
			b.Fatal(next)
		}
	}
}

// BenchmarkCommitted answers with as much as a response takes.
func BenchmarkCommitted(b *testing.B) {
	for _, k := range []int32{1, 256} {
		r := New(0)
		r.Stored(open(million, k))
		for _, limit := range []int{1000, 60_000} {
			b.Run(fmt.Sprintf("%d/%d", k, limit), func(b *testing.B) {
				for b.Loop() {
					r.Committed(keyrange.Set{keyrange.Full}, 0, limit)
				}
			})
		}
	}
}
