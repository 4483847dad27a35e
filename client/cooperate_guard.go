package client

import (
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client/internal/executor"
	"github.com/tandem-kafka/tandem/tandemmsg"
)

// A record may kill each process that it is given to, and with it they lose what else they have in hand: all of that is given out again and again. So what is given
// out a third time is guarded (marks.go): its records are handled one at a time in this process, whatever ranges they are in, and each is counted durably before. The
// range whose turn it is has the turn until each of its guarded records is durably done, or waits for a later attempt: what was done and not committed
// would be counted again with the next death.

// turns says which of the guarded ranges is at work. It is under coop.mu; coop.guarding says whether there is one.
type turns struct {
	now     executor.TP    // zero: none is
	open    map[int64]bool // its guarded records that are neither durably done nor failed
	waiting []waitingRange
	records int // of those that wait
}

type waitingRange struct {
	own      executor.TP
	acquired tandemmsg.AcquiredRange
	records  []*kgo.Record
}

// guards reports whether a range is to be guarded. To be given out twice is no sign: members leave, or are slow for a moment.
func (c *coop) guards(r tandemmsg.AcquiredRange) bool { return r.Attempt > 2 && c.s.marks() }

// assign has the runner work on a range, or wait for its turn.
func (c *coop) assign(own executor.TP, r tandemmsg.AcquiredRange, records []*kgo.Record) {
	a := executor.Assignment{Base: 1, Start: r.First}
	c.mu.Lock()
	of := c.ranges[own]
	if of == nil {
		c.mu.Unlock()
		return
	}
	if c.guards(r) && c.turns.now != own {
		if c.turns.now != (executor.TP{}) {
			c.turns.waiting = append(c.turns.waiting, waitingRange{own, r, records})
			c.turns.records += len(records)
			c.mu.Unlock()
			return
		}
		c.turns.now = own
		c.guarding.Store(true)
	}
	c.mu.Unlock()
	if r.Attempt > 1 {
		a.Retries = c.retries(of.tp, of.id, r, records)
	}
	if c.guards(r) {
		a.Guard = c.s.cfg.guarded()
		c.mu.Lock()
		c.turns.open = c.runnable(a, records)
		c.mu.Unlock()
	}
	if err := c.s.runner.Assign(own, a); err != nil {
		c.forget(own)
		return
	}
	c.s.runner.Fetched(own, executor.Fetch[*kgo.Record]{From: r.First, To: r.Last + 1, Records: records})
	c.settle(own, func(int64) bool { return false })
}

// runnable are the guarded records that are to be run now.
func (c *coop) runnable(a executor.Assignment, records []*kgo.Record) map[int64]bool {
	open := map[int64]bool{}
	for _, r := range records[:min(len(records), a.Guard)] {
		open[r.Offset] = true
	}
	now := time.Now().UnixNano()
	for _, r := range a.Retries {
		if r.Final || r.NextAt > now || r.Attempts >= int32(c.s.cfg.attempts) {
			delete(open, r.Offset)
		}
	}
	return open
}

// settle says of which guarded records of a range nothing more is to be waited for, and passes the turn on when those were the last.
func (c *coop) settle(own executor.TP, over func(offset int64) bool) {
	if !c.guarding.Load() {
		return
	}
	c.mu.Lock()
	if c.turns.now != own {
		c.mu.Unlock()
		return
	}
	maps.DeleteFunc(c.turns.open, func(offset int64, _ bool) bool { return over(offset) })
	last := len(c.turns.open) == 0
	c.mu.Unlock()
	if last {
		c.pass(own)
	}
}

// pass ends a range's turn, if it has it, and begins the next one's.
func (c *coop) pass(own executor.TP) {
	c.mu.Lock()
	if c.turns.now != own {
		c.mu.Unlock()
		return
	}
	c.turns.now, c.turns.open = executor.TP{}, nil
	var next waitingRange
	for len(c.turns.waiting) > 0 && c.turns.now == (executor.TP{}) {
		next = c.turns.waiting[0]
		c.turns.records -= len(next.records)
		c.turns.waiting = c.turns.waiting[1:]
		if c.ranges[next.own] != nil {
			c.turns.now = next.own
		}
	}
	begin := c.turns.now != (executor.TP{})
	c.guarding.Store(begin)
	c.mu.Unlock()
	if begin {
		c.assign(next.own, next.acquired, next.records)
	}
}
