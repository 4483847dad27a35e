package gateway

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/tandem-kafka/tandem/internal/acquire"
	"github.com/tandem-kafka/tandem/tandemmsg"
)

// waiter is a member's cooperative fetch under way.
type waiter struct {
	c             *conn
	ask           tandemmsg.Cooperative
	readCommitted bool
	began         time.Time     // before Kafka was asked whether it is a member, and who else
	came          time.Time     // after
	given         chan struct{} // something was given; cap 1

	// asking is held by whoever uses the client's connection.
	asking sync.Mutex

	mu      sync.Mutex
	records int64 // that may still be given
	bytes   int64
	under   int // grants under way
	closed  bool
	any     bool
	gone    bool // nobody waits for the answer
}

// coopPart is a partition of such a fetch, and its answer.
type coopPart struct {
	topic, partition int // where in the request
	code             int16
	place            *place
	part             *groupPart
	offset           int64 // where the group begins if it has committed nothing
	has              []acquire.Range

	// Of the answer; guarded by its waiter's mu.
	acquired                            []tandemmsg.AcquiredRange
	won                                 []*grant // in its member's name, whatever of it was given
	batches                             [][]byte
	highWatermark, lastStable, logStart int64
}

// grant is an acquisition for a waiter, on its way through the log.
type grant struct {
	w        *waiter
	part     *coopPart
	entry    acquire.Entry
	read     int64 // up to where the log was known when it was planned
	position int64
	batches  [][]byte
	bytes    int64
	decided  bool
	won      bool
}

func (g *grant) size() int64 { return g.entry.Last - g.entry.First + 1 }

func newWaiter(c *conn, ask tandemmsg.Cooperative, began time.Time, readCommitted bool, maxBytes int32) *waiter {
	w := &waiter{c: c, ask: ask, readCommitted: readCommitted, began: began, came: time.Now(), given: make(chan struct{}, 1), records: int64(ask.MaxRecords), bytes: int64(maxBytes)}
	if w.records < 0 {
		w.records = math.MaxInt32
	}
	if maxBytes <= 0 {
		w.bytes = 50 << 20
	}
	w.bytes = min(w.bytes, 16<<20)
	return w
}

// wants is how many records may still be given; 0: it is over.
func (w *waiter) wants() (records, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.bytes <= 0 || w.late() {
		return 0, 0
	}
	return w.records, w.bytes
}

// late reports whether others may take its member as over.
func (w *waiter) late() bool {
	return time.Since(w.came) >= time.Duration(w.ask.SessionTimeout)*time.Millisecond
}

// reserve takes room for a grant, false where there is none any more.
func (w *waiter) reserve(g *grant) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.records < g.size() {
		return false
	}
	w.records -= g.size()
	w.bytes -= g.bytes
	w.under++
	return true
}

// settle ends a grant: with what of it the member is given.
func (w *waiter) settle(g *grant, given []acquire.Range, view chunkEnds) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.under--
	if g.won {
		g.part.won = append(g.part.won, g)
	}
	for _, r := range given {
		g.part.acquired = append(g.part.acquired, tandemmsg.AcquiredRange{OffsetRange: tandemmsg.OffsetRange{First: r.First, Last: r.Last}, Attempt: g.entry.Attempt})
	}
	if len(given) > 0 {
		g.part.addBatches(g.batches)
		g.part.highWatermark, g.part.lastStable, g.part.logStart = view.highWatermark, view.lastStable, view.logStart
		w.any = true
	} else {
		w.records += g.size()
		w.bytes += g.bytes
	}
	w.poke()
}

// leave says that nobody waits for the answer any more: it ends, and its member gets nothing by it.
func (w *waiter) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone, w.closed = true, true
	w.poke()
}

func (w *waiter) left() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone
}

// addBatches adds those that are not there yet: two grants can lie in one batch.
func (p *coopPart) addBatches(batches [][]byte) {
	for _, b := range batches {
		n := len(p.batches)
		if n > 0 && len(b) > 0 && &p.batches[n-1][0] == &b[0] {
			continue
		}
		p.batches = append(p.batches, b)
	}
}

func (w *waiter) poke() {
	select {
	case w.given <- struct{}{}:
	default:
	}
}

// wait waits until something was given, and all that is under way is decided; until the time is over, or ctx ends.
func (w *waiter) wait(ctx context.Context, until time.Time) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	over := false
	for {
		w.mu.Lock()
		if w.any || w.gone || over {
			w.closed = true
			if w.under == 0 {
				w.mu.Unlock()
				return
			}
		}
		w.mu.Unlock()
		done := ctx.Done()
		if over {
			done = nil
		}
		select {
		case <-w.given:
		case <-timer.C:
			over = true
		case <-done:
			over = true
		}
	}
}
