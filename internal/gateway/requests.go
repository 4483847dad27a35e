package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/tandem-kafka/tandem/internal/wire"
	"golang.org/x/sync/semaphore"
)

// Requests that the gateway decodes are small: thousands of partitions fit into
// 64 KiB. Larger ones share a bound, so that a thousand connections cannot make
// the gateway hold a thousand large ones at a time, and they must arrive soon.
// Requests that pass as bytes need none of this.

const (
	// maxDecoded bounds a request that the gateway decodes.
	maxDecoded = 8 << 20
	// smallRequest is what every connection may hold without asking.
	smallRequest = 64 << 10
	// decodedRequests bounds all larger ones, counted as decoded.
	decodedRequests = 256 << 20
	// decodeFactor is how much larger a request can get by decoding: two bytes
	// can be a topic.
	decodeFactor = 32
	// keptFactor is what an ordinary one is counted as while it is worked on.
	keptFactor = 3
	// arrivalTime bounds how long a large one may take to arrive.
	arrivalTime = 30 * time.Second
)

// requestMemory bounds the large requests of all connections.
type requestMemory struct{ sem *semaphore.Weighted }

func newRequestMemory() requestMemory {
	return requestMemory{semaphore.NewWeighted(decodedRequests)}
}

// content consumes the frame whose header was peeked, for decoding. What it
// holds of requestMemory is given back by releaseContent.
func (c *conn) content(size int) ([]byte, error) {
	if size > maxDecoded {
		return nil, fmt.Errorf("%w: %d bytes, at most %d for a request that the gateway decodes", wire.ErrFrameSize, size, maxDecoded)
	}
	if size > smallRequest {
		n := int64(size) * decodeFactor
		if err := c.gw.requestMemory.sem.Acquire(c.ctx, n); err != nil {
			return nil, errDone
		}
		c.held = n
		c.expectWithin(arrivalTime)
	}
	if _, err := c.cr.Discard(4); err != nil {
		return nil, err
	}
	return wire.ReadContent(c.cr, size)
}

// decoded gives back what is only needed for decoding.
func (c *conn) decoded(size int) {
	if kept := int64(size) * keptFactor; c.held > kept {
		c.gw.requestMemory.sem.Release(c.held - kept)
		c.held = kept
	}
}

// releaseContent gives back what the last request held.
func (c *conn) releaseContent() {
	if c.held > 0 {
		c.gw.requestMemory.sem.Release(c.held)
		c.held = 0
	}
}

// within runs a handler's work, and ends the connection when it takes longer
// than a connection may be idle: meanwhile nobody would notice that its client
// has left.
func (c *conn) within(ctx context.Context, work func(context.Context) error) error {
	idle := c.gw.cfg.Limits.Idle
	if idle <= 0 {
		return work(ctx)
	}
	guard := time.AfterFunc(idle, func() {
		c.log.Warn("closing a client connection", "cause", "a request was not answered", "waited", idle, "cure", "see whether the broker answers and the client reads")
		c.close()
	})
	defer guard.Stop()
	return work(ctx)
}
