package split

import (
	"fmt"
	"testing"
)

// One core, uncompressed bytes. The output buffers are reused, as a cache that knows its readers does; alloc=make leaves them to
// the garbage collector.
func BenchmarkSplit(b *testing.B) {
	for _, codec := range []Codec{None, LZ4, Zstd, Snappy, Gzip} {
		for _, size := range []int{1000, 100} {
			for _, k := range []int32{16, 4, 64, 256} {
				b.Run(fmt.Sprintf("%v/%d/K=%d", codec, size, k), func(b *testing.B) {
					benchSplit(b, codec, size, 100_000, k, reuse())
				})
			}
		}
	}
}

func BenchmarkAlloc(b *testing.B) {
	for _, batch := range []int{16_000, 100_000, 1_000_000} {
		for _, size := range []int{1000, 100} {
			b.Run(fmt.Sprintf("make/%d/batch=%d", size, batch), func(b *testing.B) { benchSplit(b, None, size, batch, 16, Config{}) })
			b.Run(fmt.Sprintf("reuse/%d/batch=%d", size, batch), func(b *testing.B) { benchSplit(b, None, size, batch, 16, reuse()) })
		}
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
