package slicecache

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tandem-kafka/tandem/internal/split"
	"github.com/tandem-kafka/tandem/keyrange"
)

// Bounds of a fetch, besides what the client asks for.
const (
	// grace is how long a fetch may take beyond its max wait to see one load end: without it a client with a
	// max wait of 0 would never get anything that is not in memory.
	grace = time.Second
	// An answer is held back so long to find out whether records follow: one without records, and one with. The latter may
	// do without: its client asks again anyway.
	resolveWait     = 100 * time.Millisecond
	resolveDataWait = 5 * time.Millisecond
	// nearBytes: an end so near is reached by reading on, which is useful anyway; one farther away is searched for backward.
	nearBytes = 2 << 20
	// fillBytes and fillWait: behind the source's end, where more is known to be there, an answer waits for the next loads until it is
	// this big, or for this long. A slice has only its share of a load: without it consumers of few slices get many small answers,
	// each of which costs them and the gateway as much as a big one.
	fillBytes = 512 << 10
	fillWait  = 20 * time.Millisecond
	// crowdedBytes bounds answers while much memory lies on connections that do not read.
	crowdedBytes = 64 << 10
)

// part is a slice of a fetch.
type part struct {
	waiter
	asked  int64
	max    int
	next   int64 // after the records in data
	bytes  int
	data   [][]byte
	cut    split.Piece // the first piece if it begins below asked: data[0] is still to be trimmed
	end    int64
	known  bool
	closed bool // takes no more
	r      *reader
	keys   keyrange.Set // of a key-range fetch; nil: of a view
	base   int32
	index  bool
	lost   int // layouts that it had before this one
	// filling: it waits for a load of what is known to be there, while the answer could go.
	filling bool
	failed  error
}

// fetch is a Fetch call.
type fetch struct {
	c        *Cache
	parts    []part
	notify   chan struct{}
	deadline time.Time
	filled   time.Time // when to stop waiting for a bigger answer; zero: it does not have MinBytes yet
	wait     time.Duration
	bytes    int
	min, max int
	failed   bool
	full     bool
	lease    *Lease
	crowded  bool
}

// Fetch answers like a broker does: with what is there, or else after MinBytes came, MaxWait passed, or a slice
// failed. It answers the slices in their order. When ctx ends it answers with what it has.
func (c *Cache) Fetch(ctx context.Context, req FetchRequest) []SliceResult {
	f := &fetch{c: c, parts: make([]part, len(req.Slices)), notify: make(chan struct{}, 1), wait: req.MaxWait, lease: req.Lease}
	f.deadline = time.Now().Add(req.MaxWait)
	f.min = max(1, int(req.MinBytes))
	f.max = min(int(req.MaxBytes), c.cfg.MaxResponseBytes)
	if f.crowded = c.budget.crowded(); f.crowded {
		f.max = min(f.max, crowdedBytes)
	}
	for i := range req.Slices {
		f.open(&f.parts[i], &req.Slices[i], req.ReadCommitted)
	}
	f.gather(ctx)
	f.resolve(ctx)
	results := make([]SliceResult, len(f.parts))
	for i := range f.parts {
		results[i] = f.parts[i].result()
		if r := f.parts[i].r; r != nil {
			c.done(r)
		}
	}
	return results
}

func (f *fetch) open(p *part, q *SliceRequest, readCommitted bool) {
	p.asked, p.next, p.pos, p.max = q.Offset, q.Offset, q.Offset, int(q.MaxBytes)
	p.slice, p.notify, p.until = q.Slice, f.notify, f.deadline
	if len(q.Keys) > 0 {
		f.openKeys(p, q, readCommitted)
		return
	}
	if q.Slicing.K < 1 || q.Slicing.K > split.MaxK || q.Slicing.Base < 1 || q.Slice < 0 || q.Slice >= q.Slicing.K {
		p.failed, p.closed, f.failed = kerr.UnknownTopicOrPartition, true, true
		return
	}
	p.r = f.c.use(q.Source, readCommitted)
	p.r.p.mu.Lock()
	p.sl = p.r.sliced(q.Slicing)
	p.r.p.mu.Unlock()
}

// gather collects until the answer may go.
func (f *fetch) gather(ctx context.Context) {
	var timer *time.Timer
	searched := f.wait <= 0
	for {
		first := false // somebody has not seen a load end yet
		fills := false // somebody waits for a load that makes the answer bigger
		for i := range f.parts {
			p := &f.parts[i]
			if p.keys != nil {
				f.regain(p)
			}
			if f.collect(p) {
				first = true
			}
			fills = fills || p.filling
		}
		if f.bytes >= f.min && !fills || f.failed || f.full || ctx.Err() != nil || f.c.ctx.Err() != nil {
			break
		}
		left := time.Until(f.deadline)
		if f.bytes >= f.min {
			if left = time.Until(f.filled); left <= 0 {
				break
			}
		} else if left <= 0 {
			if left += grace; !first || left <= 0 {
				break
			}
		} else if !searched {
			// A slice that has found nothing for half the time may be empty for long: look for its end from the other side.
			if left -= f.wait / 2; left <= 0 {
				searched = true
				f.search()
				continue
			}
		}
		if timer == nil {
			timer = time.NewTimer(left)
			defer timer.Stop()
		} else {
			timer.Reset(left)
		}
		select {
		case <-f.notify:
		case <-timer.C:
		case <-ctx.Done():
		case <-f.c.ctx.Done():
		}
	}
	for i := range f.parts {
		f.parts[i].park()
	}
}

// park takes a part off what it waits for.
func (p *part) park() {
	if p.sl == nil {
		return
	}
	p.sl.r.p.mu.Lock()
	p.detach()
	p.sl.r.p.mu.Unlock()
}

// collect takes what is in memory for p and makes p wait for the load that brings the rest. It says whether p waits
// for the first load that it sees, which should not take long.
func (f *fetch) collect(p *part) (first bool) {
	if p.closed {
		return false
	}
	sl, r := p.sl, p.r
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if p.load != nil {
		return p.loads == 0 && p.load.wait == 0
	}
	p.filling, p.each = false, false
	given := p.block
	p.block = nil
	if p.err != nil {
		p.fail(f, p.err)
		return false
	}
	for !p.closed {
		pos := p.jump()
		if p.asked < r.p.logStart && pos < r.p.logStart {
			// What lay between is gone. If it is known that none of it was the slice's, the position is as good as any:
			// with a reset to the latest offset a client would lose what comes meanwhile.
			p.fail(f, kerr.OffsetOutOfRange)
			return false
		}
		b := sl.find(p.slice, pos)
		if b == nil {
			if b = given.at(pos); b == nil {
				return f.await(p)
			}
		}
		f.c.metrics.Hits.Add(1)
		f.take(p, b)
		if !b.served {
			b.served = true
			r.readAhead(sl, p.slice, b.End, 1)
		}
	}
	return false
}

// fail ends p with an error. If p has records already, they are given first; the error comes up again.
func (p *part) fail(f *fetch, err error) {
	p.closed = true
	if p.bytes == 0 {
		p.failed, f.failed = err, true
	}
}

// jump moves p over what is known to hold no record of its slice, to the source's end at most: there all slices wait
// together, also those that know that the records above an open transaction are not theirs.
func (p *part) jump() int64 {
	r := p.sl.r
	if r.end < 0 {
		return p.pos
	}
	n := p.sl.jump(p.slice, p.pos)
	if p.pos <= r.end && n > r.end {
		n = r.end
	}
	p.pos = n
	return n
}

// await makes p wait for the load at its position, or only starts that load when the fetch is to be answered already.
func (f *fetch) await(p *part) (first bool) {
	r := p.sl.r
	if f.bytes >= f.min || f.full {
		if p.pos < r.end {
			l := r.loadAt(p.pos, &p.waiter, false)
			if f.mayFill(p) {
				p.filling, p.each = true, true // it must not be carried on to the source's end
				p.attach(l)
			}
		}
		return false
	}
	if p.loads == 0 {
		f.c.metrics.Waits.Add(1)
	}
	// After its first load a fetch that may not wait is answered.
	patient := time.Until(f.deadline) > 0
	if !patient && p.loads > 0 {
		return false
	}
	l := r.loadAt(p.pos, &p.waiter, patient)
	p.attach(l)
	return p.loads == 0 && l.wait == 0
}

// mayFill says that the answer, which could go, is small enough to wait for p's next load.
func (f *fetch) mayFill(p *part) bool {
	if f.full || f.bytes >= fillBytes || f.bytes >= f.max/2 || p.bytes >= p.max/2 || f.wait <= 0 {
		return false
	}
	now := time.Now()
	if f.filled.IsZero() {
		f.filled = now.Add(fillWait)
		if f.filled.After(f.deadline) {
			f.filled = f.deadline
		}
	}
	return now.Before(f.filled)
}

// take hands out what b has for p.
func (f *fetch) take(p *part, b *block) {
	before, taken := len(p.data), 0
	pieces := b.Slices[p.slice]
	for _, piece := range pieces[b.from(p.slice, p.pos):] {
		n := len(piece.Data)
		// The first piece of an answer is given whatever its size, and the first of a slice whatever the slice's bound.
		if f.bytes > 0 && (f.bytes+n > f.max || p.bytes > 0 && p.bytes+n > p.max) {
			p.closed = true
			f.full = f.full || f.bytes+n > f.max
			break
		}
		if piece.First < p.asked {
			p.cut = piece
		}
		if p.data == nil {
			p.data = make([][]byte, 0, len(pieces))
		}
		p.data = append(p.data, piece.Data)
		p.bytes += n
		f.bytes += n
		p.pos, p.next = piece.Last+1, piece.Last+1
		taken += n
	}
	if !p.closed {
		p.pos = max(p.pos, b.End)
	}
	if taken == 0 || f.lease == nil {
		f.c.budget.use(&b.entry)
		return
	}
	if !f.c.budget.pin(&b.entry, f.lease, taken, f.crowded) {
		copied := make([]byte, 0, taken)
		for i, d := range p.data[before:] {
			copied = append(copied, d...)
			p.data[before+i] = copied[len(copied)-len(d):]
		}
		if before == 0 && p.cut.Data != nil {
			p.cut.Data = p.data[0]
		}
	}
}
