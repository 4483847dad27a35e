package gateway

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
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
	place     *place
	from, end int64
	committed bool
	batches   []wholeBatch

	// Of chunkMemory, whose mu guards them.
	bytes  int64
	pins   int // answers that refer to it
	listed *list.Element
	gone   atomic.Bool // it has made way for others, or its place let go of it

	mu    sync.Mutex
	plain map[int64][]byte // batches that are divided among members, not compressed, by their last offset
}

// chunkEnds are what the last read said of the partition.
type chunkEnds struct{ highWatermark, lastStable, logStart int64 }

// chunks are the stretches that were read last. The place's mu guards them.
type chunks struct {
	list    []*chunk // the most lately read last
	loading bool
	polling bool  // a read waits at the end
	failure error // of the last read
	ends    chunkEnds
	seen    bool // ends are known
	// fresh are those that stay until the next round is over, whoever needs memory: else reads of many places would take each other's away before they are used.
	fresh []*chunk
}

const (
	maxChunks  = 6
	chunkBytes = 1 << 20
	tailBytes  = 64 << 10               // of a read that may wait at the end of the partition
	readAhead  = 2                      // chunks
	tailPoll   = 500 * time.Millisecond // length of a long poll at the end
)

// find returns the batch that holds an offset, or lies behind it.
func (c *chunks) find(offset int64, committed bool) (b wholeBatch, of *chunk, ok bool) {
	for i := len(c.list) - 1; i >= 0; i-- {
		k := c.list[i]
		if k.committed != committed || offset < k.from || offset >= k.end || k.gone.Load() {
			continue
		}
		i, _ := slices.BinarySearchFunc(k.batches, offset, func(b wholeBatch, at int64) int {
			if b.Last < at {
				return -1
			}
			return 1
		})
		if i < len(k.batches) {
			return k.batches[i], k, true
		}
	}
	return b, nil, false
}

// behind returns where what is in memory from an offset on ends, and how much that is.
func (c *chunks) behind(offset int64, committed bool) (end, bytes int64) {
	for end = offset; ; {
		i := slices.IndexFunc(c.list, func(k *chunk) bool { return k.committed == committed && k.from <= end && end < k.end && !k.gone.Load() })
		if i < 0 {
			return end, bytes
		}
		end = c.list[i].end
		bytes += c.list[i].data()
	}
}

func (k *chunk) data() (n int64) {
	for i := range k.batches {
		n += int64(len(k.batches[i].Data))
	}
	return n
}

// end is where the partition ended at the last read; false: that is not known.
func (c *chunks) end(committed bool) (int64, bool) {
	if committed && c.ends.lastStable >= 0 {
		return c.ends.lastStable, c.seen
	}
	return c.ends.highWatermark, c.seen
}

// note takes in what a read from an offset on said of the partition. One that waited for long may know less than one after it.
func (c *chunks) note(ends chunkEnds, offset int64) {
	if c.seen && ends.highWatermark >= offset {
		ends.highWatermark, ends.lastStable = max(ends.highWatermark, c.ends.highWatermark), max(ends.lastStable, c.ends.lastStable)
	}
	c.ends, c.seen = ends, true
}

// add takes in a stretch. Small ones at the end of the partition become one.
func (c *chunks) add(k *chunk, reserved int64, m *chunkMemory) {
	if k.end == k.from {
		m.add(-reserved)
		return
	}
	if n := len(c.list) - 1; n >= 0 {
		last := c.list[n]
		if last.committed == k.committed && last.end == k.from && last.end > last.from && !last.gone.Load() && last.data()+k.bytes <= chunkBytes && m.pin(last) {
			last.batches, last.end = append(last.batches, k.batches...), k.end
			c.fresh = append(c.fresh, last)
			m.grow(last, k.bytes, reserved)
			return
		}
	}
	if len(c.list) >= maxChunks {
		m.giveUp(c.list[:1])
		c.list = slices.Delete(c.list, 0, 1)
	}
	c.list = append(c.list, k)
	c.fresh = append(c.fresh, k)
	m.list(k, reserved)
}

// dropChunks lets go of what was read. p.mu is held.
func (p *place) dropChunks() {
	p.coop.memory.giveUp(p.chunks.list)
	p.chunks = chunks{loading: p.chunks.loading, polling: p.chunks.polling, fresh: p.chunks.fresh}
}

// evicted takes chunks away from their places, which memory is needed for.
func (c *coop) evicted(victims []*chunk) {
	if len(victims) == 0 {
		return
	}
	c.gw.wg.Go(func() { // whoever asked for memory may hold the lock of a place
		for _, k := range victims {
			k.place.mu.Lock()
			k.place.chunks.list = slices.DeleteFunc(k.place.chunks.list, func(o *chunk) bool { return o == k })
			k.place.mu.Unlock()
		}
	})
}

// load has the place read from an offset on, and serves it then. What may wait at the end, such as the first read, which tells where that is, is small, and
// holds nothing while there is nothing. p.mu is held.
func (p *place) load(offset int64, committed bool) {
	flag, tail := &p.chunks.loading, false
	end, known := p.chunks.end(committed)
	switch {
	case !known:
		tail = true
	case offset >= end:
		offset, flag, tail = end, &p.chunks.polling, true // behind the end there is nothing to read yet
	}
	if *flag {
		return
	}
	*flag = true
	src := p.source
	p.coop.gw.wg.Go(func() {
		k, ends, bytes, err := p.coop.readChunk(p, src, offset, tail, committed)
		p.mu.Lock()
		defer p.mu.Unlock()
		*flag, p.chunks.failure = false, err
		switch {
		case err != nil:
		case p.source != src || !p.running: // nobody drops it
			p.coop.memory.add(-bytes)
		default:
			p.chunks.note(ends, offset)
			p.chunks.add(k, bytes, p.coop.memory)
			p.readOn(committed)
			p.deliver(nowMs())
		}
		if len(p.waiters) > 0 {
			p.start()
		}
	})
}

// readOn reads what comes next, while what is in memory is given out. p.mu is held.
func (p *place) readOn(committed bool) {
	if len(p.waiters) == 0 && time.Since(p.served) > linger {
		return
	}
	if first, ok := p.firstKept(); ok {
		if _, _, found := p.chunks.find(first, committed); !found {
			p.load(first, committed)
		}
	}
	if end, bytes := p.chunks.behind(p.state.Marker(), committed); bytes < readAhead*chunkBytes && (bytes == 0 || p.coop.memory.spare() >= chunkBytes) {
		p.load(end, committed)
	}
}

// readChunk reads a stretch, for which it reserves bytes; at the end of the partition, where it waits for more, not before that is there. After an error nothing is reserved.
func (c *coop) readChunk(p *place, src slicecache.Source, offset int64, tail, committed bool) (k *chunk, ends chunkEnds, reserved int64, err error) {
	ctx := c.gw.ctx
	bytes := int64(tailBytes)
	if !tail {
		bytes = min(chunkBytes, max(c.memory.max/2, tailBytes))
		reserved = bytes
		if err := c.memory.reserve(ctx, reserved); err != nil {
			return nil, ends, 0, err
		}
	}
	k, ends, err = c.fetchChunk(ctx, src, offset, int32(bytes), committed)
	if err != nil {
		c.memory.add(-reserved)
		c.pause(ctx)
		return nil, ends, 0, err
	}
	if tail {
		reserved = k.bytes
		c.memory.add(reserved)
	}
	k.place, k.committed = p, committed
	return k, ends, reserved, nil
}

func (c *coop) fetchChunk(ctx context.Context, src slicecache.Source, offset int64, bytes int32, committed bool) (*chunk, chunkEnds, error) {
	got, err := c.gw.reader.Fetch(ctx, src, offset, committed, tailPoll, 1, bytes)
	if errors.Is(err, kerr.OffsetOutOfRange) {
		return c.outOfRange(ctx, src, offset, committed)
	}
	if err != nil {
		return nil, chunkEnds{}, err
	}
	ends := chunkEnds{got.HighWatermark, got.LastStableOffset, got.LogStart}
	batches, ok, err := split.Batches(got.Raw, committed, got.Aborted)
	size := int64(cap(got.Raw))
	if err == nil && !ok {
		batches, err = decoded(got, offset, committed)
		size = 0
		for i := range batches {
			size += int64(len(batches[i].Data))
		}
	}
	if err != nil {
		c.gw.log.Error("a source cannot be read", "topic", src.Topic, "partition", src.Partition, "offset", offset, "cause", err)
		return nil, ends, kerr.CorruptMessage
	}
	k := &chunk{from: offset, end: offset}
	for _, b := range batches {
		if b.Last < offset {
			continue
		}
		k.batches = append(k.batches, b)
		k.end = b.Last + 1
	}
	if k.end > k.from {
		k.bytes = size
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

// outOfRange is a stretch without records up to where the log starts: what lay there was deleted. Beyond the end there is nothing yet.
func (c *coop) outOfRange(ctx context.Context, src slicecache.Source, offset int64, committed bool) (*chunk, chunkEnds, error) {
	start, _, _, err := c.gw.reader.ListOffset(ctx, src, earliestTimestamp, false)
	if err != nil {
		return nil, chunkEnds{}, err
	}
	if start > offset {
		return &chunk{from: offset, end: start, batches: []wholeBatch{{First: offset, Last: start - 1}}}, chunkEnds{start, start, start}, nil
	}
	end, _, _, err := c.gw.reader.ListOffset(ctx, src, latestTimestamp, committed)
	if err == nil && end >= offset {
		err = kerr.OffsetOutOfRange // it has grown meanwhile
	}
	return &chunk{from: offset, end: offset}, chunkEnds{end, end, start}, err
}

// pause keeps reads that fail from being repeated without end.
func (c *coop) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(200 * time.Millisecond):
	}
}
