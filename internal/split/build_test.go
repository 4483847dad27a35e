package split

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand"
	"runtime"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// testRecord is a record as the tests write and read it.
type testRecord struct {
	Offset, Timestamp int64
	Key, Value        []byte
}

// testBatch is a batch to write.
type testBatch struct {
	base, last   int64 // last: offset of the last record before compaction
	baseTime     int64
	maxTime      int64
	producerID   int64
	attributes   int16 // codec included
	records      []testRecord
	compressWith func(Codec, []byte) []byte // nil: pack
}

func (b testBatch) encode() []byte {
	var recs []byte
	for _, r := range b.records {
		recs = appendRecord(recs, r.Timestamp-b.baseTime, r.Offset-b.base, r.Key, r.Value)
	}
	compress := b.compressWith
	if compress == nil {
		compress = pack
	}
	return encodeRaw(b, compress(Codec(b.attributes&attrCodec), recs))
}

// encodeRaw puts a header before records that are ready to send.
func encodeRaw(b testBatch, recs []byte) []byte {
	be := binary.BigEndian
	out := be.AppendUint64(nil, uint64(b.base))
	out = be.AppendUint32(out, uint32(49+len(recs)))
	out = be.AppendUint32(out, 7) // leader epoch
	out = append(out, 2)
	body := be.AppendUint16(nil, uint16(b.attributes))
	body = be.AppendUint32(body, uint32(b.last-b.base))
	body = be.AppendUint64(body, uint64(b.baseTime))
	body = be.AppendUint64(body, uint64(b.maxTime))
	body = be.AppendUint64(body, uint64(b.producerID))
	body = be.AppendUint16(body, 3)
	body = be.AppendUint32(body, 11)
	body = be.AppendUint32(body, uint32(len(b.records)))
	body = append(body, recs...)
	out = be.AppendUint32(out, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	return append(out, body...)
}

// pack compresses as Kafka's Java clients do.
func pack(c Codec, src []byte) []byte {
	var buf bytes.Buffer
	switch c {
	case Gzip:
		w := gzip.NewWriter(&buf)
		w.Write(src)
		w.Close()
	case Snappy: // xerial framing, blocks of 32 KiB
		buf.Write(xerialMagic)
		buf.Write([]byte{0, 0, 0, 1, 0, 0, 0, 1})
		for len(src) > 0 {
			n := min(len(src), 32<<10)
			block := s2.EncodeSnappy(nil, src[:n])
			buf.Write(binary.BigEndian.AppendUint32(nil, uint32(len(block))))
			buf.Write(block)
			src = src[n:]
		}
	case LZ4:
		w := lz4.NewWriter(&buf)
		w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ConcurrencyOption(1))
		w.Write(src)
		w.Close()
	case Zstd:
		w, _ := zstd.NewWriter(&buf, zstd.WithEncoderConcurrency(1))
		w.Write(src)
		w.Close()
	default:
		return src
	}
	return buf.Bytes()
}

// words makes values that compress about as JSON events do (zstd 4:1, lz4 2.3:1).
func words(rng *rand.Rand, n int) []byte {
	vocabulary := []string{`"customer":`, `"amount":`, `"currency":"EUR",`, `"status":"shipped",`, `"items":[`, `"sku":"`,
		`"price":`, `"created":"2026-01-`, `"city":"Rotterdam",`, `},{`}
	var b []byte
	for len(b) < n {
		if rng.Intn(3) == 0 {
			b = binary.AppendUvarint(b, rng.Uint64()>>20)
		} else {
			b = append(b, vocabulary[rng.Intn(len(vocabulary))]...)
		}
	}
	return b[:n]
}

// benchInput is about total bytes of uncompressed records of the size given, in batches of batchBytes.
func benchInput(codec Codec, recordSize, batchBytes, total int) (raw []byte, uncompressed, records int) {
	rng := rand.New(rand.NewSource(1))
	values := words(rng, 1<<20)
	var offset int64
	for uncompressed < total {
		b := testBatch{base: offset, baseTime: 1e12, maxTime: 1e12 + 100, producerID: -1, attributes: int16(codec)}
		for n := 0; n < batchBytes; n += recordSize {
			key := binary.AppendVarint([]byte("customer-"), int64(rng.Intn(100000)))
			at := rng.Intn(len(values) - recordSize)
			b.records = append(b.records, testRecord{offset, 1e12 + int64(rng.Intn(100)), key, values[at : at+recordSize-len(key)-8]})
			offset++
			uncompressed += recordSize
			records++
		}
		b.last = offset - 1
		raw = append(raw, b.encode()...)
	}
	return raw, uncompressed, records
}

func benchSplit(b *testing.B, codec Codec, recordSize, batchBytes int, sl Slicing, cfg Config) {
	raw, uncompressed, records := benchInput(codec, recordSize, batchBytes, 2<<20)
	s := New(cfg)
	b.SetBytes(int64(uncompressed))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		block, err := s.Split(raw, 0, sl, false, nil)
		if err != nil || block.Used != len(raw) {
			b.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(b.N)/float64(records), "allocs/record")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(records), "ns/record")
}
