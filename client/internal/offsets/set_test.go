package offsets

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The set against a sorted slice. Offsets come in clusters, so that lists and bitmaps and the ways between them are met.
func TestSetIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Set
		want := map[int64]bool{}
		sorted := func() []int64 {
			var all []int64
			for o := range want {
				all = append(all, o)
			}
			slices.Sort(all)
			return all
		}
		offset := rapid.Custom(func(t *rapid.T) int64 {
			return rapid.SampledFrom([]int64{0, blockSize - 150, 5 * blockSize, 1 << 40}).Draw(t, "near") + rapid.Int64Range(0, 300).Draw(t, "plus")
		})
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				o := offset.Draw(t, "offset")
				if s.Add(o) == want[o] {
					t.Fatalf("Add(%d) when in the set: %v", o, want[o])
				}
				want[o] = true
			},
			"add many": func(t *rapid.T) {
				o := offset.Draw(t, "offset")
				for i := range rapid.Int64Range(0, 200).Draw(t, "n") {
					s.Add(o + i)
					want[o+i] = true
				}
			},
			"remove": func(t *rapid.T) {
				o := offset.Draw(t, "offset")
				if s.Remove(o) != want[o] {
					t.Fatalf("Remove(%d) when in the set: %v", o, want[o])
				}
				delete(want, o)
			},
			"remove range": func(t *rapid.T) {
				a := offset.Draw(t, "first")
				b := a + rapid.SampledFrom([]int64{-1, 0, 10, 250, blockSize, 9 * blockSize, 1 << 41}).Draw(t, "length")
				s.RemoveRange(a, b)
				for o := range want {
					if a <= o && o <= b {
						delete(want, o)
					}
				}
			},
			"clone": func(t *rapid.T) {
				c := s.Clone()
				s.RemoveRange(0, 1<<62)
				s = c
			},
			"": func(t *rapid.T) {
				all := sorted()
				if s.Len() != len(all) {
					t.Fatalf("Len %d, want %d", s.Len(), len(all))
				}
				if o, ok := s.Min(); ok != (len(all) > 0) || ok && o != all[0] {
					t.Fatalf("Min %d %v, want of %v", o, ok, all)
				}
				o := offset.Draw(t, "at")
				if s.Has(o) != want[o] {
					t.Fatalf("Has(%d) = %v", o, s.Has(o))
				}
				i, found := slices.BinarySearch(all, o)
				if n, ok := s.Next(o); ok != (i < len(all)) || ok && n != all[i] {
					t.Fatalf("Next(%d) = %d %v of %v", o, n, ok, all)
				}
				if !found {
					i--
				}
				if n, ok := s.Prev(o); ok != (i >= 0) || ok && n != all[i] {
					t.Fatalf("Prev(%d) = %d %v of %v", o, n, ok, all)
				}
				for _, b := range s.blocks {
					if b.n == 0 || b.bits != nil && b.n < toList || b.bits == nil && b.n != len(b.list) {
						t.Fatalf("block %+v", b)
					}
				}
			},
		})
	})
}

// A million offsets, one of a thousand (a group with a thousand members), and one of a hundred.
func TestSetIsSmall(t *testing.T) {
	for _, step := range []int64{1, 100, 1000, 1_000_000} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var s Set
		for i := range int64(1_000_000) {
			s.Add(i * step)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if perOffset := float64(after.HeapAlloc-before.HeapAlloc) / float64(s.Len()); perOffset > 90 {
			t.Errorf("every %d: %.1f bytes an offset", step, perOffset)
		} else {
			t.Logf("every %d: %.1f bytes an offset", step, perOffset)
		}
		runtime.KeepAlive(&s)
	}
}

// What a consumer does at full speed: records come in order and are done in about the same order.
func BenchmarkAddAndRemove(b *testing.B) {
	var s Set
	window := make([]int64, 1000)
	for i := range window {
		window[i] = int64(i)
		s.Add(int64(i))
	}
	r := rand.New(rand.NewPCG(1, 2))
	next := int64(len(window))
	b.ReportAllocs()
	for b.Loop() {
		i := r.IntN(len(window))
		s.Remove(window[i])
		window[i] = next
		s.Add(next)
		next++
	}
}
