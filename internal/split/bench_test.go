package split

import (
	"fmt"
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
)

// Bytes are those of the uncompressed records, in batches of 100 kB. The output buffer is reused, as a cache can that knows
// its readers; BenchmarkOutput shows what leaving it to the garbage collector costs. Run with GOMAXPROCS=1.
func BenchmarkSplit(b *testing.B) {
	for _, codec := range []Codec{None, LZ4, Zstd, Snappy, Gzip} {
		for _, size := range []int{1000, 100} {
			for _, k := range []int32{16, 4, 64, 256} {
				b.Run(fmt.Sprintf("%v/%d/K=%d", codec, size, k), func(b *testing.B) {
					benchSplit(b, codec, size, 100_000, Slicing{Base: 3, K: k}, reuse())
				})
			}
			for _, members := range []int{3, 5, 100} {
				b.Run(fmt.Sprintf("%v/%d/layout=%d", codec, size, members), func(b *testing.B) {
					benchSplit(b, codec, size, 100_000, equalSets(b, members).Slicing(3), reuse())
				})
			}
			b.Run(fmt.Sprintf("%v/%d/layout=half", codec, size), func(b *testing.B) { // the other half of the axis is nobody's
				half, _ := NewLayout([]keyrange.Set{{{First: 0, Last: 1<<31 - 1}}})
				benchSplit(b, codec, size, 100_000, half.Slicing(3), reuse())
			})
		}
	}
}

func BenchmarkOutput(b *testing.B) {
	for _, batch := range []int{1000, 16_000, 100_000, 1_000_000} {
		for _, size := range []int{1000, 100} {
			b.Run(fmt.Sprintf("reuse/%d/batch=%d", size, batch), func(b *testing.B) { benchSplit(b, None, size, batch, Slicing{Base: 3, K: 16}, reuse()) })
			b.Run(fmt.Sprintf("make/%d/batch=%d", size, batch), func(b *testing.B) { benchSplit(b, None, size, batch, Slicing{Base: 3, K: 16}, Config{}) })
		}
	}
}

func BenchmarkRecompress(b *testing.B) {
	for _, codec := range []Codec{LZ4, Zstd, Snappy, Gzip} {
		b.Run(codec.String(), func(b *testing.B) {
			raw, _, _ := benchInput(None, 1000, 100_000, 100_000)
			block, err := New(Config{}).Split(raw, 0, Slicing{Base: 1, K: 1}, false, nil)
			if err != nil {
				b.Fatal(err)
			}
			r, err := NewRecompressor(codec)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if _, err := r.Recompress(block.Slices[0][0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func reuse() Config {
	var buf []byte
	return Config{Alloc: func(n int) []byte {
		if n > len(buf) {
			buf = make([]byte, n)
		}
		return buf[:n]
	}}
}
