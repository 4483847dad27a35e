package keyrange

import (
	"math/bits"
	"testing"

	"pgregory.net/rapid"
)

// The vectors of Kafka's UtilsTest.testMurmur2.
func TestMurmur2AgreesWithKafka(t *testing.T) {
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(Murmur2([]byte(key))); got != want {
			t.Errorf("Murmur2(%q) = %d, want %d", key, got, want)
		}
	}
}

func TestHashIsNotNegative(t *testing.T) {
	if got := Hash([]byte("21")); got != uint32(0x7fffffff&-973932308) {
		t.Errorf("Hash = %d", got)
	}
}

// Under the default partitioner of a topic with base*K partitions a key goes to hash mod base*K. A slice has to be that.
func TestSliceOfAKeyIsWhatAWiderTopicWouldGiveIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOf(rapid.Byte()).Draw(t, "key")
		base := rapid.Int32Range(1, 1000).Draw(t, "base")
		k := int32(1) << rapid.IntRange(0, 16).Draw(t, "log2 K")
		p := int32(Hash(key) % uint32(base))
		v := int32(uint64(Hash(key)) % uint64(int64(base)*int64(k)))
		if s := SliceOf(Position(key, base), k); p+base*s != v {
			t.Fatalf("partition %d, slice %d, but hash mod %d is %d", p, s, base*k, v)
		}
	})
}

func TestSlicesTileTheAxis(t *testing.T) {
	for _, k := range []int32{1, 2, 4, 256} {
		var all []Range
		for s := range k {
			r := OfSlice(s, k)
			for _, position := range []uint32{r.First, r.Last, r.First + uint32(r.Len()/2)} {
				if got := SliceOf(position, k); got != s {
					t.Errorf("K=%d: position %08x of slice %d is in %d", k, position, s, got)
				}
			}
			if k < 256 {
				a, b := OfSlice(s, 2*k), OfSlice(s+k, 2*k)
				if a.First != r.First || a.Last+1 != b.First || b.Last != r.Last {
					t.Errorf("K=%d: slice %d %v does not split in %v and %v", k, s, r, a, b)
				}
			}
			all = append(all, r)
		}
		if s := Normalize(all); len(s) != 1 || s[0] != Full {
			t.Errorf("K=%d: slices make %v", k, s)
		}
	}
}

func TestNullPositionTakesTheLow32Bits(t *testing.T) {
	if got, want := NullPosition(7<<32|5), bits.Reverse32(5); got != want {
		t.Errorf("NullPosition = %08x, want %08x", got, want)
	}
}

func TestHashingDoesNotAllocate(t *testing.T) {
	key := []byte("customer-4711")
	if n := testing.AllocsPerRun(100, func() { Position(key, 3) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPosition(b *testing.B) {
	key := []byte("customer-4711")
	for b.Loop() {
		Position(key, 3)
	}
}
