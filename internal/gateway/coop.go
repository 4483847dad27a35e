package gateway

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/tandem-kafka/tandem/internal/acquire"
	factrecord "github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/region"
	"github.com/tandem-kafka/tandem/keyrange"
)

// coop is what the gateway knows of cooperative fetches: which member of a group
// works on which offsets, kept up to date by the fact log (package acquire). All
// of it can be read again from there.
type coop struct {
	gw    *Gateway
	nonce uint64 // the upper half of the ids of what this gateway writes
	last  atomic.Uint64
	// memory is for what is read of sources.
	memory *chunkMemory

	mu     sync.Mutex
	places map[factKey]*place
}

func newCoop(g *Gateway) *coop {
	var b [8]byte
	_, _ = rand.Read(b[:4]) // it never fails
	c := &coop{gw: g, nonce: binary.BigEndian.Uint64(b[:]), places: make(map[factKey]*place)}
	c.memory = &chunkMemory{max: g.cfg.Limits.CacheBytes / chunkPart, charge: g.cache.Charge, drop: c.evicted}
	return c
}

func (c *coop) id() uint64 { return c.nonce | c.last.Add(1)&0xffffffff }

func (c *coop) mine(id uint64) bool { return id&^0xffffffff == c.nonce }

// place returns what is known of a group's source partition. log is its
// partition of the fact log, -1: not known.
func (c *coop) place(k factKey, log int32) *place {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.places[k]
	if p == nil {
		p = &place{
			coop: c, key: k, log: -1, states: make(map[[16]byte]*acquire.State), generation: -1, pending: make(map[uint64]*grant), planned: make(map[uint64]int64), announced: make(map[string]int64),
			fetchers: make(map[string]*placeMember), behind: make(map[string]int64), wake: make(chan struct{}, 1),
		}
		p.state = p.stateOf(p.source.TopicID)
		c.places[k] = p
	}
	if log >= 0 {
		p.log = log
	}
	return p
}

// known returns the place of k, nil if nobody ever fetched there cooperatively.
func (c *coop) known(k factKey) *place {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.places[k]
}

// of are the places of a group.
func (c *coop) of(group string) (of []*place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, p := range c.places {
		if k.group == group {
			of = append(of, p)
		}
	}
	return of
}

// on are the places on a partition of the fact log, by group.
func (c *coop) on(log int32) map[string][]factKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := make(map[string][]factKey)
	for k, p := range c.places {
		if p.log == log {
			of[k.group] = append(of[k.group], k)
		}
	}
	return of
}

// apply takes in records of the fact log.
func (c *coop) apply(partition int32, records []factrecord.Handout) {
	runs(records, func(r *factrecord.Handout) factKey { return factKey{r.Group, r.Topic, r.Partition} }, func(k factKey, run []factrecord.Handout) {
		c.place(k, partition).apply(run)
	})
}

// reset forgets what a partition of the fact log said.
func (c *coop) reset(partition int32) {
	c.mu.Lock()
	var of []*place
	for _, p := range c.places {
		if p.log == partition || p.log < 0 {
			p.log = -1
			of = append(of, p)
		}
	}
	c.mu.Unlock()
	for _, p := range of {
		p.reset()
	}
}

// facts takes in records of the fact log that say what is done, whatever its key.
func (c *coop) facts(k factKey, records []factrecord.Record) {
	p := c.known(k)
	if p == nil {
		return
	}
	var done []acquire.Range
	era := int64(-1)
	for i := range records {
		if r := &records[i]; !r.Delete && r.Fact.Keys == keyrange.Full && r.Era >= era {
			if r.Era > era {
				era, done = r.Era, nil
			}
			done = append(done, acquire.Range{First: r.Fact.First, Last: r.Fact.Last})
		}
	}
	if len(done) > 0 {
		p.done(era, done, 0)
	}
}

// decided has a place look again at what open transactions held.
func (c *coop) decided(k factKey) {
	if p := c.known(k); p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.start()
	}
}

// committed takes in what the cluster has accepted as done.
func (c *coop) committed(k partKey, era int64, added []region.Fact, stable int64) {
	p := c.known(k.facts())
	if p == nil {
		return
	}
	var done []acquire.Range
	for _, f := range added {
		if f.Keys == keyrange.Full {
			done = append(done, acquire.Range{First: f.First, Last: f.Last})
		}
	}
	p.done(era, done, stable)
}

// ApplyHandouts implements icommit.HandoutHandler.
func (f *facts) ApplyHandouts(partition int32, records []factrecord.Handout) {
	f.gw.coop.apply(partition, records)
}
