package record

import (
	"math"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

// What Java says: String.hashCode and Utils.abs(hashCode) % 50.
func TestPartitionOfAgreesWithKafka(t *testing.T) {
	for group, want := range map[string]struct{ hash, partition int32 }{
		"":                      {0, 0},
		"group":                 {98629247, 47},
		"orders-workers":        {-435049011, 11}, // 37 if the sign bit were only masked
		"console-consumer-4711": {836489572, 22},
		"größe":                 {98762257, 7},
		"группа":                {1749938458, 8},
		"注文":                    {890271, 21},
		"😀-team":                {-1285211001, 1},
		"a😀bÿ":                  {1793340769, 19},
		"polygenelubricants":    {math.MinInt32, 0},
	} {
		if got := hashCode(group); got != want.hash {
			t.Errorf("hash of %q is %d, want %d", group, got, want.hash)
		}
		if got := PartitionOf(group, 50); got != want.partition {
			t.Errorf("%q is in partition %d, want %d", group, got, want.partition)
		}
	}
}

func TestHashCodeIsOverUTF16(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		var want int32
		for _, unit := range utf16.Encode([]rune(s)) {
			want = 31*want + int32(unit)
		}
		if got := hashCode(s); got != want {
			t.Fatalf("%q: %d, want %d", s, got, want)
		}
		partitions := rapid.Int32Min(1).Draw(t, "partitions")
		if p := PartitionOf(s, partitions); p < 0 || p >= partitions {
			t.Fatalf("%q: partition %d of %d", s, p, partitions)
		}
	})
}
