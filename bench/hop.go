package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"time"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// plainConn is a Kafka connection that does one request at a time and nothing else.
type plainConn struct {
	net.Conn
	correlation int32
	out, in     []byte
}

func dial(addr string) (*plainConn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &plainConn{Conn: c, in: make([]byte, 64<<10)}, nil
}

// roundTrip returns the content of the answer, which is valid until the next call.
func (c *plainConn) roundTrip(req kmsg.Request) ([]byte, error) {
	c.correlation++
	id := "bench"
	c.out = wire.AppendRequest(c.out[:0], c.correlation, &id, req)
	if _, err := c.Write(c.out); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(c, c.in[:4]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(c.in))
	if n > len(c.in) {
		c.in = make([]byte, n)
	}
	if _, err := io.ReadFull(c, c.in[:n]); err != nil {
		return nil, err
	}
	if got := int32(binary.BigEndian.Uint32(c.in)); got != c.correlation {
		return nil, fmt.Errorf("answer %d to request %d", got, c.correlation)
	}
	return c.in[:n], nil
}

// hopTable compares small requests one by one: direct, gateway, direct, ...
func hopTable(b *bench) (*result, error) {
	k, err := b.broker()
	if err != nil {
		return nil, err
	}
	g, err := b.gateway()
	if err != nil {
		return nil, err
	}
	defer g.stop()
	f, err := b.forwarder()
	if err != nil {
		return nil, err
	}
	defer f.stop()
	topic := b.name("hop")
	if err := b.topic(topic, 1); err != nil {
		return nil, err
	}
	defer b.dropTopics(topic)
	r := &result{Head: []string{"request", "direct p50", "gateway p50", "hop p50", "target", "bare forwarder's hop", "direct p99", "gateway p99"}}
	for _, q := range smallRequests(topic) {
		took, err := b.hops(q.req, k.addr, g.addr, f.addr)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.name, err)
		}
		hop, bare := median(took[1])-median(took[0]), median(took[2])-median(took[0])
		us := func(v float64) string { return fmt.Sprintf("%.0f µs", v) }
		r.row(q.name, us(median(took[0])), us(median(took[1])), us(hop), verdict(hop <= 110, "≤ 110 µs"), us(bare), us(quantile(took[0], 0.99)), us(quantile(took[1], 0.99)))
	}
	r.note("One request at a time on one connection per side, the sides in turns request by request.")
	return r, nil
}

type smallRequest struct {
	name string
	req  kmsg.Request
}

func smallRequests(topic string) []smallRequest {
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Version, beat.Group, beat.MemberID = 4, "nobody", "nobody"
	meta := kmsg.NewPtrMetadataRequest()
	meta.Version = 12
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = &topic
	meta.Topics = append(meta.Topics, mt)
	list := kmsg.NewPtrListOffsetsRequest()
	list.Version, list.ReplicaID = 7, -1
	lt := kmsg.NewListOffsetsRequestTopic()
	lt.Topic = topic
	lp := kmsg.NewListOffsetsRequestTopicPartition()
	lp.Timestamp, lp.CurrentLeaderEpoch = -1, -1
	lt.Partitions = append(lt.Partitions, lp)
	list.Topics = append(list.Topics, lt)
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version, fetch.ReplicaID, fetch.SessionEpoch, fetch.MaxBytes = 12, -1, -1, 1<<20
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic = topic
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.CurrentLeaderEpoch, fp.PartitionMaxBytes = -1, 1<<20
	ft.Partitions = append(ft.Partitions, fp)
	fetch.Topics = append(fetch.Topics, ft)
	return []smallRequest{{"Heartbeat", beat}, {"Metadata of one topic", meta}, {"ListOffsets", list}, {"Fetch of nothing", fetch}, {"Produce, one record, acks 1", oneRecord(topic)}}
}

// oneRecord is a Produce request of one record with a value of 100 bytes.
func oneRecord(topic string) kmsg.Request {
	rec := kmsg.Record{Value: make([]byte, 100)}
	now := time.Now().UnixMilli()
	batch := kmsg.RecordBatch{Magic: 2, PartitionLeaderEpoch: -1, NumRecords: 1, FirstTimestamp: now, MaxTimestamp: now, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1}
	rec.Length = int32(len(rec.AppendTo(nil)) - 1) // a length of 0 takes one byte itself
	batch.Records = rec.AppendTo(nil)
	raw := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, 1, 10_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = raw
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// hops times a request at several addresses in turns, in microseconds.
func (b *bench) hops(req kmsg.Request, addrs ...string) ([][]float64, error) {
	conns := make([]*plainConn, len(addrs))
	for i, a := range addrs {
		c, err := dial(a)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		conns[i] = c
	}
	took := make([][]float64, len(addrs))
	warm, n := b.scaled(1000, 50), b.scaled(10_000, 200)
	for i := range warm + n {
		for j, c := range conns {
			start := time.Now()
			content, err := c.roundTrip(req)
			if err != nil {
				return nil, err
			}
			d := time.Since(start)
			if i == 0 {
				if err := refused(req, content); err != nil {
					return nil, err
				}
			}
			if i >= warm {
				took[j] = append(took[j], float64(d.Nanoseconds())/1e3)
			}
		}
	}
	return took, nil
}

// refused looks into the answer of a Produce request: an error would be fast.
func refused(req kmsg.Request, content []byte) error {
	resp, err := wire.DecodeResponse(req.Key(), req.GetVersion(), content)
	if err != nil {
		return err
	}
	if p, ok := resp.(*kmsg.ProduceResponse); ok {
		if code := p.Topics[0].Partitions[0].ErrorCode; code != 0 {
			return fmt.Errorf("produce: error code %d", code)
		}
	}
	return nil
}
