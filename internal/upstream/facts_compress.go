package upstream

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kgo"
)

// smallBatch is up to where batches stay as they are: a handful of records gains
// next to nothing, and LZ4's writer clears and fills buffers of megabytes each time
// that it is used.
const smallBatch = 2 << 10

// factsCompressor is how batches of facts are compressed. Its buffers are pooled: there
// is one for all of them.
type factsCompressor struct{ kgo.Compressor }

func newFactsCompressor() factsCompressor {
	c, err := kgo.DefaultCompressor(kgo.Lz4Compression(), kgo.NoCompression())
	if err != nil { // only for codecs that there are not
		panic(err)
	}
	return factsCompressor{c}
}

// Compress implements kgo.Compressor.
func (c factsCompressor) Compress(dst *bytes.Buffer, src []byte, flags ...kgo.CompressFlag) ([]byte, kgo.CompressionCodecType) {
	if len(src) < smallBatch {
		return src, kgo.CodecNone
	}
	return c.Compressor.Compress(dst, src, flags...)
}
