package slicecache

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/tandem-kafka/tandem/internal/split"
)

// Cache serves slices of source partitions. Its methods may be called from any number of goroutines.
type Cache struct {
	cfg       Config
	up        Upstream
	budget    *budget
	layouts   *budget // counts the layouts of all partitions, which budget counts as well
	splitters sync.Pool
	splitting chan struct{} // one token per split that may run at a time
	metrics   Metrics

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu         sync.Mutex
	closed     bool
	partitions map[Source]*partition
}

// maxBlockBytes bounds the records of one block, so that a well compressed answer does not become one huge block.
const maxBlockBytes = 8 << 20

// New makes a Cache that reads from up. Close it.
func New(up Upstream, cfg Config) *Cache {
	c := &Cache{cfg: cfg.withDefaults(), up: up, partitions: map[Source]*partition{}}
	c.splitting = make(chan struct{}, runtime.GOMAXPROCS(0))
	c.budget = newBudget(c.cfg.MaxBytes)
	c.layouts = newBudget(c.cfg.MaxBytes / layoutsPart)
	c.budget.evicted = func(n int) { c.metrics.Evictions.Add(int64(n)) }
	c.splitters.New = func() any { return split.New(split.Config{MaxBlockBytes: maxBlockBytes}) }
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.wg.Go(c.janitor)
	return c
}

// Close ends all loads and waits for them. Fetches that wait are answered with what they have, or NOT_LEADER_OR_FOLLOWER.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
}

// Metrics returns the counters of this cache.
func (c *Cache) Metrics() *Metrics { return &c.metrics }

// Usage returns the memory held now.
func (c *Cache) Usage() Usage {
	u := c.budget.usage()
	c.mu.Lock()
	u.Partitions = len(c.partitions)
	c.mu.Unlock()
	return u
}

// use returns the reader of a source partition, made if need be. Call done when finished with it.
func (c *Cache) use(src Source, readCommitted bool) *reader {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.partitions[src]
	if p == nil {
		p = newPartition(c, src)
		c.partitions[src] = p
	}
	p.users++
	if readCommitted {
		return p.committed
	}
	return p.uncommitted
}

func (c *Cache) done(r *reader) {
	c.mu.Lock()
	r.p.users--
	r.p.used = time.Now()
	c.mu.Unlock()
}

// start runs f as a goroutine of the cache, unless the cache is closed.
func (c *Cache) start(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.wg.Go(f)
	return true
}

// janitor forgets partitions that nobody has read for a while.
func (c *Cache) janitor() {
	t := time.NewTicker(c.cfg.IdleAfter / 4)
	defer t.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case now := <-t.C:
			c.forgetIdle(now)
		}
	}
}

func (c *Cache) forgetIdle(now time.Time) {
	var idle []*partition
	c.mu.Lock()
	for src, p := range c.partitions {
		if p.users == 0 && now.Sub(p.used) >= c.cfg.IdleAfter {
			delete(c.partitions, src)
			idle = append(idle, p)
		}
	}
	c.mu.Unlock()
	for _, p := range idle {
		p.mu.Lock()
		for len(p.layouts) > 0 {
			p.evict(p.layouts[0])
		}
		p.committed.reset()
		p.uncommitted.reset()
		p.mu.Unlock()
	}
}

// split runs one Split on a pooled splitter, when its turn comes.
func (c *Cache) split(raw []byte, from int64, s split.Slicing, readCommitted bool, aborted []split.Aborted) (*split.Block, error) {
	c.splitting <- struct{}{}
	defer func() { <-c.splitting }()
	sp := c.splitters.Get().(*split.Splitter)
	defer c.splitters.Put(sp)
	b, err := sp.Split(raw, from, s, readCommitted, aborted)
	if err == nil {
		c.metrics.Blocks.Add(1)
	}
	return b, err
}
