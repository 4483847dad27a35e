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
	under   int // who uses the connection
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
	told                                []acquire.Kept
	batches                             []partBatch
	pins                                []*chunk
	highWatermark, lastStable, logStart int64
}

// partBatch is a batch of which a member gets records.
type partBatch struct {
	wholeBatch
	of *chunk
}

// grant is an acquisition on its way through the log.
type grant struct {
	c     *conn // of the member
	entry acquire.Entry
	// w has room for so many records and bytes of it until it is decided; nil: it is ahead of the records.
	w              *waiter
	records, bytes int64
	read           int64 // up to where the log was known when it was planned
	won            bool
	// disturbed says that others have given out some of it since: what is done has to be read first.
	disturbed bool
}

func newWaiter(c *conn, ask tandemmsg.Cooperative, began time.Time, readCommitted bool, maxBytes int32, most int64) *waiter {
	w := &waiter{c: c, ask: ask, readCommitted: readCommitted, began: began, came: time.Now(), given: make(chan struct{}, 1), records: int64(ask.MaxRecords), bytes: int64(maxBytes)}
	if w.records < 0 {
		w.records = math.MaxInt32
	}
	if maxBytes <= 0 {
		w.bytes = 50 << 20
	}
	w.bytes = min(w.bytes, 16<<20, most)
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

// reserve takes room for a grant of so many records more; false: there is none any more. So what a member asks for is acquired once, whatever the number of partitions.
func (w *waiter) reserve(records, bytes int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.records < records {
		return false
	}
	w.records -= records
	w.bytes -= bytes
	return true
}

// free gives back the room that a grant has.
func (g *grant) free() {
	if g.w == nil {
		return
	}
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	g.w.records += g.records
	g.w.bytes += g.bytes
	g.records, g.bytes = 0, 0
}

// give tells the member of offsets in one batch that were kept for it. It returns how many, from the first on, it has been told of.
func (w *waiting) give(k acquire.Kept, b partBatch, m *chunkMemory, view chunkEnds) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.records <= 0 || w.bytes <= 0 || w.late() {
		return 0
	}
	p, r := w.part, k.Range
	r.Last = min(r.Last, r.First+w.records-1)
	if n := len(p.batches); len(b.Data) > 0 && (n == 0 || p.batches[n-1].Last != b.Last || p.batches[n-1].First != b.First) {
		if !m.pin(b.of) {
			return 0
		}
		p.batches, p.pins = append(p.batches, b), append(p.pins, b.of)
	}
	k.Range = r
	p.add(k, view)
	w.records -= r.Last - r.First + 1
	w.bytes -= b.share(r)
	w.any = true
	w.poke()
	return r.Last - r.First + 1
}

// add adds what the member is given to an answer.
func (p *coopPart) add(k acquire.Kept, view chunkEnds) {
	p.told = append(p.told, k)
	p.highWatermark, p.lastStable, p.logStart = view.highWatermark, view.lastStable, view.logStart
	if n := len(p.acquired) - 1; n >= 0 && p.acquired[n].Last+1 == k.First && p.acquired[n].Attempt == k.Attempt {
		p.acquired[n].Last = k.Last
		return
	}
	p.acquired = append(p.acquired, tandemmsg.AcquiredRange{OffsetRange: tandemmsg.OffsetRange{First: k.First, Last: k.Last}, Attempt: k.Attempt})
}

func (w *waiter) poke() {
	select {
	case w.given <- struct{}{}:
	default:
	}
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

// end says that the fetch is over: nothing is given any more.
func (w *waiter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

// wait waits until something was given, and nobody uses the connection; until the time is over, or ctx ends.
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
