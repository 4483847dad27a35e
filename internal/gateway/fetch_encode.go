package gateway

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"net"

	"github.com/tandem-kafka/tandem/internal/slicecache"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// javaClient is how Java's consumer names itself in ApiVersions: the only one
// that is sent an empty batch, and only where a slice's own end is unknown and
// far: its position, and what it commits, would otherwise lie above that end.
const javaClient = "apache-kafka-java"

// Pieces smaller than this are copied together. On plain TCP all others leave in one writev, where a vector costs less than a copy; elsewhere each
// is a write of its own.
const (
	copyBelowTCP = 1 << 10
	copyBelow    = 8 << 10
)

// fetchWriter encodes a Fetch response around records that stay where they are
// in the shared reader's memory. kmsg would need them in one piece.
type fetchWriter struct {
	version  int16
	flexible bool
	bufs     net.Buffers
	buf      []byte
	start    int // where in buf the part that is not in bufs yet begins
	size     int
	copies   int // pieces below this size are copied
}

func newFetchWriter(version int16, to net.Conn) *fetchWriter {
	w := &fetchWriter{version: version, flexible: version >= 12, buf: make([]byte, 0, 1024), copies: copyBelow}
	if _, ok := to.(*net.TCPConn); ok {
		w.copies = copyBelowTCP
	}
	return w
}

// grow makes room for n bytes without moving what is written: the small pieces of an answer are up to all of it.
func (w *fetchWriter) grow(n int) {
	if cap(w.buf)-len(w.buf) < n {
		w.flush()
		w.buf, w.start = make([]byte, 0, n+1024), 0
	}
}

func (w *fetchWriter) records(data [][]byte) {
	n, copied := 0, 0
	for _, d := range data {
		n += len(d)
		if len(d) < w.copies {
			copied += len(d)
		}
	}
	if w.flexible {
		w.buf = kbin.AppendUvarint(w.buf, uint32(n+1))
	} else {
		w.buf = kbin.AppendInt32(w.buf, int32(n))
	}
	w.grow(copied)
	for _, d := range data {
		if len(d) < w.copies {
			w.buf = append(w.buf, d...)
			continue
		}
		w.flush()
		w.bufs = append(w.bufs, d)
		w.size += len(d)
	}
}

// flush ends the piece of buf that is being written.
func (w *fetchWriter) flush() {
	if len(w.buf) > w.start {
		w.bufs = append(w.bufs, w.buf[w.start:len(w.buf):len(w.buf)])
		w.size += len(w.buf) - w.start
	}
	w.start = len(w.buf)
}

func (w *fetchWriter) arrayLen(n int) {
	if w.flexible {
		w.buf = kbin.AppendUvarint(w.buf, uint32(n+1))
	} else {
		w.buf = kbin.AppendInt32(w.buf, int32(n))
	}
}

func (w *fetchWriter) tags() {
	if w.flexible {
		w.buf = append(w.buf, 0)
	}
}

// scanned is the tags of a partition: ScannedOffset, if there is one.
func (w *fetchWriter) scanned(offset int64) {
	var p kmsg.FetchResponseTopicPartition
	if offset < 0 || tandemmsg.SetScannedOffset(&p, offset) != nil {
		w.tags()
		return
	}
	w.buf = kbin.AppendUvarint(w.buf, uint32(p.UnknownTags.Len()))
	w.buf = p.UnknownTags.AppendEach(w.buf)
}

// writeFetch sends the answer to a request that names views. plain is the
// broker's answer for its ordinary topics, or nil.
func (c *conn) writeFetch(req *kmsg.FetchRequest, parts []fetchPart, results []slicecache.SliceResult, plain *kmsg.FetchResponse) error {
	w := newFetchWriter(req.Version, c.client)
	w.buf = append(w.buf, 0, 0, 0, 0)
	w.buf = kbin.AppendInt32(w.buf, c.answering)
	w.tags()
	throttle := int32(0)
	if plain != nil {
		throttle = plain.ThrottleMillis
	}
	if w.version >= 1 {
		w.buf = kbin.AppendInt32(w.buf, throttle)
	}
	if w.version >= 7 {
		w.buf = kbin.AppendInt16(w.buf, 0)
		w.buf = kbin.AppendInt32(w.buf, 0)
	}
	topics := 0
	last := -1
	for i := range parts {
		if parts[i].topic != last {
			topics, last = topics+1, parts[i].topic
		}
	}
	if plain != nil {
		topics += len(plain.Topics)
	}
	w.arrayLen(topics)
	for i := 0; i < len(parts); {
		n := i
		for n < len(parts) && parts[n].topic == parts[i].topic {
			n++
		}
		t := &req.Topics[parts[i].topic]
		w.topic(t.Topic, t.TopicID, n-i)
		for ; i < n; i++ {
			c.writePart(w, req, &parts[i], results)
		}
		w.tags()
	}
	if plain != nil {
		w.plain(plain)
	}
	w.tags()
	w.flush()
	head := w.bufs[0]
	binary.BigEndian.PutUint32(head, uint32(w.size-4))
	c.toClient(w.size)
	_, err := w.bufs.WriteTo(c.client) // writev on plain TCP, one write after the other with TLS
	return err
}

func (w *fetchWriter) topic(name string, id [16]byte, partitions int) {
	switch {
	case w.version >= 13:
		w.buf = append(w.buf, id[:]...)
	case w.flexible:
		w.buf = kbin.AppendCompactString(w.buf, name)
	default:
		w.buf = kbin.AppendString(w.buf, name)
	}
	w.arrayLen(partitions)
}

// part is one partition's head and tail; records come in between.
type partHead struct {
	partition               int32
	code                    int16
	highWatermark, logStart int64
	lastStable              int64
	preferred               int32
	aborted                 []kmsg.FetchResponseTopicPartitionAbortedTransaction
	abortedNull             bool
}

func (w *fetchWriter) head(p partHead) {
	w.buf = kbin.AppendInt32(w.buf, p.partition)
	w.buf = kbin.AppendInt16(w.buf, p.code)
	w.buf = kbin.AppendInt64(w.buf, p.highWatermark)
	if w.version >= 4 {
		w.buf = kbin.AppendInt64(w.buf, p.lastStable)
	}
	if w.version >= 5 {
		w.buf = kbin.AppendInt64(w.buf, p.logStart)
	}
	if w.version >= 4 {
		w.abortedTransactions(p)
	}
	if w.version >= 11 {
		w.buf = kbin.AppendInt32(w.buf, p.preferred)
	}
}

func (w *fetchWriter) abortedTransactions(p partHead) {
	if p.abortedNull {
		if w.flexible {
			w.buf = append(w.buf, 0)
		} else {
			w.buf = kbin.AppendInt32(w.buf, -1)
		}
		return
	}
	w.arrayLen(len(p.aborted))
	for _, a := range p.aborted {
		w.buf = kbin.AppendInt64(w.buf, a.ProducerID)
		w.buf = kbin.AppendInt64(w.buf, a.FirstOffset)
		w.tags()
	}
}

// writePart writes one virtual partition. It has zero bytes of records where
// there is nothing, never null: several clients cannot read null.
func (c *conn) writePart(w *fetchWriter, req *kmsg.FetchRequest, part *fetchPart, results []slicecache.SliceResult) {
	head := partHead{
		partition: req.Topics[part.topic].Partitions[part.partition].Partition,
		code:      part.code, highWatermark: -1, lastStable: -1, logStart: -1, preferred: -1,
		abortedNull: req.IsolationLevel == 0,
	}
	var data [][]byte
	if part.slice >= 0 && part.slice < len(results) {
		r := &results[part.slice]
		head.code = codeOf(r.Err)
		head.logStart = r.LogStart
		if r.Err == nil {
			head.highWatermark, head.lastStable = r.End, r.End
			data = c.gw.compressors.apply(r.Data, req.Version)
			if len(data) == 0 && r.Far && r.Scanned > part.offset && c.software == javaClient {
				data = [][]byte{emptyBatch(part.offset, r.Scanned)}
			}
		}
	}
	scanned := int64(-1)
	if part.keys && part.slice >= 0 && part.slice < len(results) && head.code == 0 {
		r := &results[part.slice]
		head.highWatermark, head.lastStable, scanned = max(r.HighWatermark, r.Scanned), max(r.LastStableOffset, r.Scanned), r.Scanned
	}
	w.head(head)
	w.records(data)
	w.scanned(scanned)
	for _, d := range data {
		c.gw.metrics.viewBytes.Add(float64(len(d)))
	}
}

// plain re-encodes the ordinary topics of a mixed request.
func (w *fetchWriter) plain(resp *kmsg.FetchResponse) {
	for i := range resp.Topics {
		t := &resp.Topics[i]
		w.topic(t.Topic, t.TopicID, len(t.Partitions))
		for j := range t.Partitions {
			p := &t.Partitions[j]
			w.head(partHead{
				partition: p.Partition, code: p.ErrorCode, highWatermark: p.HighWatermark, lastStable: p.LastStableOffset, logStart: p.LogStartOffset,
				preferred: p.PreferredReadReplica, aborted: p.AbortedTransactions, abortedNull: p.AbortedTransactions == nil,
			})
			w.records([][]byte{p.RecordBatches})
			w.tags() // a leader change is left out: the client asks for metadata
		}
		w.tags()
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// emptyBatch is a batch without records that covers the offsets [from, to): it
// moves a Java consumer's position over what holds no record for it.
func emptyBatch(from, to int64) []byte {
	const length = 61
	b := make([]byte, length)
	be := binary.BigEndian
	be.PutUint64(b[0:], uint64(from))
	be.PutUint32(b[8:], length-12)
	be.PutUint32(b[12:], math.MaxUint32) // leader epoch -1
	b[16] = 2
	be.PutUint32(b[23:], uint32(min(to-1-from, math.MaxInt32)))
	be.PutUint64(b[27:], math.MaxUint64) // no timestamps
	be.PutUint64(b[35:], math.MaxUint64)
	be.PutUint64(b[43:], math.MaxUint64) // no producer
	be.PutUint16(b[51:], math.MaxUint16)
	be.PutUint32(b[53:], math.MaxUint32)
	be.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b
}
