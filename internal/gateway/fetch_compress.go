package gateway

import (
	"sync"

	"github.com/tandem-kafka/tandem/internal/split"
)

// compressors compresses what views send, where the config asks for it. It
// costs about ten times what splitting costs, for every consumer that reads.
type compressors struct {
	codec split.Codec
	pool  sync.Pool
}

func newCompressors(codec split.Codec) *compressors {
	return &compressors{codec: codec}
}

// zstdSince is the first Fetch version whose clients must read zstd (KIP-110).
const zstdSince = 10

// apply returns the batches, compressed where that makes them smaller. The
// given ones are shared and stay as they are.
func (z *compressors) apply(data [][]byte, fetchVersion int16) [][]byte {
	if z == nil || z.codec == split.None || len(data) == 0 || z.codec == split.Zstd && fetchVersion < zstdSince {
		return data
	}
	r, ok := z.pool.Get().(*split.Recompressor)
	if !ok {
		var err error
		if r, err = split.NewRecompressor(z.codec); err != nil {
			return data
		}
	}
	defer z.pool.Put(r)
	out := make([][]byte, len(data))
	for i, d := range data {
		out[i] = d
		if p, err := r.Recompress(split.Piece{Data: d}); err == nil {
			out[i] = p.Data
		}
	}
	return out
}
