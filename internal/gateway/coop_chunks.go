package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tandem-kafka/tandem/internal/slicecache"
	"github.com/tandem-kafka/tandem/internal/split"
	"github.com/twmb/franz-go/pkg/kerr"
)

// wholeBatch is a batch as it passes to members. First is the offset after the
// batch before it: what lies between holds no record.
type wholeBatch = split.Whole

// chunk is a stretch of a source partition that was read.
type chunk struct {
	from, end int64
	committed bool
	batches   []wholeBatch
}

// chunkEnds are what the last read said of the partition.
type chunkEnds struct{ highWatermark, lastStable, logStart int64 }

// chunks are the stretches that were read last. The place's mu guards them.
type chunks struct {
	list    []*chunk // the most lately read last
	loading bool
	failure error // of the last read
	ends    chunkEnds
}

const (
	maxChunks  = 6
	chunkBytes = 1 << 20
	readAhead  = 2                      // chunks
	tailPoll   = 500 * time.Millisecond // length of a long poll at the end
)

// find returns the batch that holds an offset, or lies behind it.
func (c *chunks) find(offset int64, committed bool) (b wholeBatch, ok bool) {
	for _, k := range c.list {
		if k.committed != committed || offset < k.from || offset >= k.end {
			continue
		}
		i, _ := slices.BinarySearchFunc(k.batches, offset, func(b wholeBatch, at int64) int {
			if b.Last < at {
				return -1
			}
			return 1
		})
		if i < len(k.batches) {
			return k.batches[i], true
		}
	}
	return b, false
}

// behind returns where what is in memory from an offset on ends, and how many chunks that are.
func (c *chunks) behind(offset int64, committed bool) (end int64, n int) {
	for end = offset; ; n++ {
		i := slices.IndexFunc(c.list, func(k *chunk) bool { return k.committed == committed && k.from <= end && end < k.end })
		if i < 0 {
			return end, n
		}
		end = c.list[i].end
	}
}

// load has the place read from an offset on, and wakes it then. p.mu is held.
func (p *place) load(offset int64, committed bool) {
	if p.chunks.loading {
		return
	}
	p.chunks.loading = true
	src := p.source
	p.coop.gw.wg.Go(func() {
		k, ends, err := p.coop.readChunk(src, offset, committed)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.chunks.loading, p.chunks.failure = false, err
		if err == nil {
			p.chunks.ends = ends
			if k.end > k.from {
				if len(p.chunks.list) >= maxChunks {
					p.chunks.list = slices.Delete(p.chunks.list, 0, 1)
				}
				p.chunks.list = append(p.chunks.list, k)
			}
		}
		if len(p.waiters) > 0 {
			p.start()
		}
	})
}

// readChunk reads a stretch; at the end of the partition it waits for more.
func (c *coop) readChunk(src slicecache.Source, offset int64, committed bool) (*chunk, chunkEnds, error) {
	ctx := c.gw.ctx
	got, err := c.gw.reader.Fetch(ctx, src, offset, committed, tailPoll, 1, chunkBytes)
	if errors.Is(err, kerr.OffsetOutOfRange) {
		return c.outOfRange(ctx, src, offset, committed)
	}
	if err != nil {
		c.pause(ctx, err)
		return nil, chunkEnds{}, err
	}
	ends := chunkEnds{got.HighWatermark, got.LastStableOffset, got.LogStart}
	batches, ok, err := split.Batches(got.Raw, committed, got.Aborted)
	if err == nil && !ok {
		batches, err = decoded(got, offset, committed)
	}
	if err != nil {
		c.gw.log.Error("a source cannot be read", "topic", src.Topic, "partition", src.Partition, "offset", offset, "cause", err)
		c.pause(ctx, err)
		return nil, ends, kerr.CorruptMessage
	}
	k := &chunk{from: offset, end: offset, committed: committed}
	for _, b := range batches {
		if b.Last < offset {
			continue
		}
		k.batches = append(k.batches, b)
		k.end = b.Last + 1
	}
	return k, ends, nil
}

// decoded reads batches of old formats, which pass in the form that all clients read.
func decoded(got slicecache.Fetched, offset int64, committed bool) (batches []wholeBatch, err error) {
	block, err := split.New(split.Config{}).Split(got.Raw, offset, split.Slicing{Base: 1, K: 1}, committed, got.Aborted)
	if err != nil {
		return nil, err
	}
	for _, piece := range block.Slices[0] {
		batches = append(batches, wholeBatch(piece))
	}
	if block.End > offset && (len(batches) == 0 || batches[len(batches)-1].Last < block.End-1) {
		batches = append(batches, wholeBatch{First: block.End - 1, Last: block.End - 1})
	}
	return batches, nil
}

// outOfRange is a stretch without records up to where the log starts: what lay there was deleted. Beyond the end there is nothing to do yet.
func (c *coop) outOfRange(ctx context.Context, src slicecache.Source, offset int64, committed bool) (*chunk, chunkEnds, error) {
	start, _, _, err := c.gw.reader.ListOffset(ctx, src, earliestTimestamp, false)
	if err == nil && start <= offset {
		err = kerr.OffsetOutOfRange
	}
	if err != nil {
		c.pause(ctx, err)
		return nil, chunkEnds{}, err
	}
	return &chunk{from: offset, end: start, committed: committed, batches: []wholeBatch{{First: offset, Last: start - 1}}}, chunkEnds{start, start, start}, nil
}

// pause keeps reads that fail from being repeated without end.
func (c *coop) pause(ctx context.Context, _ error) {
	select {
	case <-ctx.Done():
	case <-time.After(200 * time.Millisecond):
	}
}
