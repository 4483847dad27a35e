package gateway

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// tcpPair is the two ends of a TCP connection of this machine.
func tcpPair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

// A Fetch response without node endpoints reaches the client byte for byte, whatever the sizes of its parts, and the next one is
// found where it begins.
func TestWalkFetchPassesEveryByte(t *testing.T) {
	broker, up := tcpPair(t)
	down, client := tcpPair(t)
	c := &conn{client: down, up: up, ur: bufio.NewReaderSize(up, bufferSize)}
	go func() {
		for {
			head, err := c.ur.Peek(4)
			if err != nil || c.walkFetch(int(binary.BigEndian.Uint32(head))) != nil {
				down.Close()
				return
			}
		}
	}()
	rapid.Check(t, func(t *rapid.T) {
		// Around each size at which another way is taken.
		size := rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(bufferSize-200, bufferSize+200), rapid.IntRange(spliceMin-200, spliceMin+200),
			rapid.IntRange(bufferSize+spliceMin-200, bufferSize+spliceMin+200), rapid.IntRange(maxCollected-200, maxCollected+200), rapid.IntRange(0, 1<<20))
		var frames []byte
		for i := range rapid.IntRange(1, 3).Draw(t, "responses") {
			frames = wire.AppendResponse(frames, int32(i), drawFetchResponse(t, size))
		}
		failed := make(chan error, 1)
		go func() {
			_, err := broker.Write(frames)
			failed <- err
		}()
		got := make([]byte, len(frames))
		_ = client.SetReadDeadline(time.Now().Add(10 * time.Second))
		if n, err := io.ReadFull(client, got); err != nil {
			t.Fatalf("%d of %d bytes came: %v", n, len(frames), err)
		}
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, frames) {
			t.Fatal("the client got other bytes than the broker sent")
		}
	})
}

// drawFetchResponse makes a Fetch response of some partitions with records of the sizes drawn.
func drawFetchResponse(t *rapid.T, size *rapid.Generator[int]) *kmsg.FetchResponse {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 17
	for range rapid.IntRange(0, 2).Draw(t, "topics") {
		rt := kmsg.NewFetchResponseTopic()
		for p := range rapid.IntRange(1, 4).Draw(t, "partitions") {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition = int32(p)
			rp.RecordBatches = bytes.Repeat([]byte{byte(p + 1), 2, 3}, size.Draw(t, "bytes")/3+1)
			for range rapid.IntRange(0, 2).Draw(t, "aborted") {
				rp.AbortedTransactions = append(rp.AbortedTransactions, kmsg.NewFetchResponseTopicPartitionAbortedTransaction())
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}
