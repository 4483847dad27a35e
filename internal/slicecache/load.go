package slicecache

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/tandem-kafka/tandem/internal/split"
)

// load is one read of a source from start on, by a Fetch to the cluster or, with raw, out of a raw answer in memory.
// Its fields are under partition.mu, but for those that never change.
type load struct {
	start   int64
	raw     *rawAnswer
	wait    time.Duration // > 0: a long poll at the end of the source
	until   int64         // no more is needed than up to here; 0: as much as there is
	ahead   int           // blocks between it and the last one that was asked for
	resets  int           // reader.resets when it began
	seenEnd int64         // reader.end when it began
	sent    bool          // the request is on its way
	asked   time.Time     // when it was sent
	end     int64         // the offset after what it brought, 0: not known yet
	want    []*sliced     // to split for, besides the waiters'
	waiters []*waiter
	kept    bool // its answer stays in memory for other slicings
}

// waiter is a fetch of one slice that may wait for a load.
type waiter struct {
	sl     *sliced
	slice  int32
	notify chan struct{} // of the whole fetch, capacity 1
	each   bool          // wake after each load, not only when a record came
	until  time.Time     // when the fetch wants to be answered; loads after it are not waited for
	pos    int64         // everything below is delivered or known to hold nothing
	load   *load         // what it waits for, nil: awake
	loads  int           // loads it has seen end
	err    error         // of the load
	block  *block        // what the load brought for it, where blocks are not kept
}

// job is what a load does for a slicing, or a version of a layout.
type job struct {
	sl      *sliced
	slicing split.Slicing
	version int
}

// saw says that the job looked for w's slice.
func (j *job) saw(w *waiter) bool { return j.sl == w.sl && j.version >= w.sl.slices[w.slice].since }

func (w *waiter) attach(l *load) {
	w.load = l
	l.waiters = append(l.waiters, w)
}

// detach takes w off its load.
func (w *waiter) detach() {
	if w.load == nil {
		return
	}
	for i, x := range w.load.waiters {
		if x == w {
			last := len(w.load.waiters) - 1
			w.load.waiters[i] = w.load.waiters[last]
			w.load.waiters[last] = nil
			w.load.waiters = w.load.waiters[:last]
			break
		}
	}
	w.load = nil
}

// hurried says that w wants to know of each load.
func (w *waiter) hurried() bool { return w.each || !time.Now().Before(w.until) }

// finds says that b, which saw w's slice, has a record for it.
func (w *waiter) finds(b *split.Block) bool {
	p := b.Slices[w.slice]
	return len(p) > 0 && p[len(p)-1].Last >= w.pos
}

func (w *waiter) wake(err error) {
	w.load, w.err = nil, err
	w.loads++
	select {
	case w.notify <- struct{}{}:
	default:
	}
}

// wakeAll wakes those that match.
func (l *load) wakeAll(match func(*waiter) bool) {
	rest := l.waiters[:0]
	for _, w := range l.waiters {
		if match(w) {
			w.wake(nil)
		} else {
			rest = append(rest, w)
		}
	}
	clear(l.waiters[len(rest):])
	l.waiters = rest
}

// loadAt returns the load that will bring pos for w; it starts one if there is none. patient says that the
// caller would wait at the source's end.
func (r *reader) loadAt(pos int64, w *waiter, patient bool) *load {
	if l := r.inFlight(pos); l != nil {
		l.ahead = 0
		return l
	}
	l := &load{start: pos, want: []*sliced{w.sl}}
	if w.sl.index.on {
		l.until = w.sl.slices[w.slice].gaps.after(pos)
	}
	if a := r.rawAt(pos); a != nil {
		l.raw, l.start, l.end = a, a.start, a.end
	} else if patient && r.end >= 0 && pos >= r.end {
		l.wait = r.c.cfg.PollWait
	}
	r.startLoad(l)
	return l
}

// coldSpan is the number of offsets a load is expected to bring while nothing is known.
const coldSpan = 1000

// inFlight returns a load that probably brings pos. If it does not, its waiters start their own afterwards: waiting for one load
// costs little, reading the same bytes twice for every slice that begins at a slightly other offset costs more.
func (r *reader) inFlight(pos int64) *load {
	for _, l := range r.loads {
		switch {
		case l.start == pos:
			return l
		case l.start > pos || l.wait > 0:
		case l.end > 0:
			if pos < l.end {
				return l
			}
		case pos < l.start+r.span || r.span == 0 && pos < l.start+coldSpan:
			return l
		}
	}
	return nil
}

func (r *reader) startLoad(l *load) {
	l.resets, l.seenEnd = r.resets, r.end
	r.loads = append(r.loads, l)
	if r.c.start(func() { r.run(l) }) {
		return
	}
	// Closing. Nobody may wait for what never comes; fetches look at the cache's context too.
	r.endLoad(l)
}

func (r *reader) endLoad(l *load) {
	for i, x := range r.loads {
		if x == l {
			r.loads = append(r.loads[:i], r.loads[i+1:]...)
			return
		}
	}
}

// readAhead sees to it that the blocks from pos on are loaded before they are asked for, for slice or if it is -1 for any.
func (r *reader) readAhead(sl *sliced, slice int32, pos int64, ahead int) {
	if sl.index.on || sl.gone() {
		return
	}
	for ; ahead <= r.c.cfg.ReadAhead && pos < r.end; ahead++ {
		if b := sl.find(slice, pos); b != nil {
			pos = b.End
			continue
		}
		if l := r.inFlight(pos); l != nil {
			l.ahead = min(l.ahead, ahead)
			return
		}
		if r.rawAt(pos) != nil {
			return
		}
		r.startLoad(&load{start: pos, ahead: ahead, want: []*sliced{sl}})
		return
	}
}

// loadBytes is the max bytes of the next Fetch. Brokers cut the last batch of an answer off anywhere, and what was cut
// is read again: so ask for many batches at once, or, when batches are big, for exactly one (a broker always gives the
// first batch whole).
func (r *reader) loadBytes() int32 {
	base := float64(r.c.cfg.LoadBytes)
	const batches = 25 // half a batch lost of so many
	switch b := r.perBatch * batches; {
	case b <= base:
		return int32(base)
	case b <= 4*base:
		return int32(b)
	}
	return 1
}

// run does loads one after the other while somebody waits for them.
func (r *reader) run(l *load) {
	for l != nil {
		l = r.step(l)
	}
}

// step does one load and returns the next, if waiters moved on to it.
func (r *reader) step(l *load) *load {
	f, release, err := r.fetch(l)
	defer release()
	if err != nil {
		if err != errNotNeeded {
			r.failed(l, err)
		}
		return nil
	}
	end, batches := walk(f.Raw)
	r.p.mu.Lock()
	if l.raw == nil {
		asked := l.asked
		if l.wait > 0 {
			asked = time.Now() // the broker looked until now
		}
		r.answered(f, l.seenEnd, asked)
		r.loaded += int64(len(f.Raw))
		if batches > 0 {
			r.learn(l.start, end, len(f.Raw), batches)
		}
	}
	if l.resets != r.resets {
		// It may hold records that are no longer in the log.
		r.endLoad(l)
		for _, w := range l.waiters {
			w.wake(nil)
		}
		l.waiters = nil
		r.p.mu.Unlock()
		return nil
	}
	l.end = end
	if batches == 0 {
		return r.nothing(l, len(f.Raw))
	}
	for _, w := range l.waiters {
		l.wants(w.sl)
	}
	jobs := make([]job, len(l.want))
	for i, sl := range l.want {
		jobs[i].sl = sl
	}
	if l.raw == nil {
		r.readAhead(l.want[0], -1, end, l.ahead+1)
	}
	r.p.mu.Unlock()

	for i := range jobs {
		if err := r.split(l, &jobs[i], f); err != nil {
			r.failed(l, err)
			return nil
		}
	}
	next := r.finish(l, f, end, jobs)
	if f.Free != nil && !l.kept {
		f.Free()
	}
	return next
}

func (l *load) wants(sl *sliced) {
	for _, x := range l.want {
		if x == sl {
			return
		}
	}
	l.want = append(l.want, sl)
}

// fetch gets the bytes of a load. A long poll reserves nothing, or partitions without traffic would use up the budget.
func (r *reader) fetch(l *load) (f Fetched, release func(), err error) {
	release = func() {}
	c := r.c
	if l.raw != nil {
		return Fetched{Raw: l.raw.bytes, Aborted: l.raw.aborted}, release, nil
	}
	r.p.mu.Lock()
	size, delay := r.loadBytes(), time.Until(r.retryAt)
	if need := r.perOffset * float64(l.until-l.start); need > 0 && need < float64(size) {
		size = max(1, int32(need)) // where that is too little, the broker gives one batch
	}
	need := int64(max(float64(size), r.perBatch)) * 2
	// Nobody waits for what is read ahead: it does without when memory is short.
	optional := l.ahead > 0
	r.p.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-c.ctx.Done():
		}
	}
	if l.wait == 0 {
		if !optional || !c.budget.tryReserve(need) {
			if optional && r.giveUp(l) {
				return f, release, errNotNeeded
			}
			if err := c.budget.reserve(c.ctx, need); err != nil {
				return f, release, err
			}
		}
		release = func() { c.budget.release(need) }
	}
	c.metrics.Loads.Add(1)
	r.p.mu.Lock()
	l.asked, l.sent = time.Now(), true
	l.seenEnd, l.resets = r.end, r.resets
	r.p.mu.Unlock()
	ctx, cancel := context.WithTimeout(c.ctx, l.patience())
	defer cancel()
	f, err = c.up.Fetch(ctx, r.p.src, l.start, r.readCommitted, l.wait, 1, size)
	c.metrics.BytesLoaded.Add(int64(len(f.Raw)))
	return f, release, err
}

// A broker that gives no answer is given up after these times: what a read may take, and by how much a long poll may exceed
// its wait. Without them a connection to a dead host would keep everybody waiting until the system notices.
const (
	readTimeout = 30 * time.Second // Kafka's request.timeout.ms
	pollTimeout = 5 * time.Second
)

func (l *load) patience() time.Duration {
	if l.wait > 0 {
		return l.wait + pollTimeout
	}
	return readTimeout
}

var errNotNeeded = errors.New("not needed")

// giveUp ends a load before it began, unless somebody waits for it by now.
func (r *reader) giveUp(l *load) bool {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if l.ahead == 0 || len(l.waiters) > 0 {
		return false
	}
	r.endLoad(l)
	return true
}

// learn adapts the size of loads to the log. bytes of a batch cut off are part of neither average.
func (r *reader) learn(start, end int64, bytes, batches int) {
	avg := func(v *float64, x float64) {
		if *v == 0 {
			*v = x
		}
		*v += (x - *v) / 4
	}
	avg(&r.perBatch, float64(bytes)/float64(batches))
	if end > start {
		avg(&r.perOffset, float64(bytes)/float64(end-start))
		r.span = end - start
	}
}

// walk goes over the headers of the complete batches of raw: the offset after the last one, and their number.
func walk(raw []byte) (end int64, batches int) {
	for len(raw) >= 17 {
		size := int64(int32(binary.BigEndian.Uint32(raw[8:]))) + 12
		if size < 17 || size > int64(len(raw)) {
			break
		}
		end = int64(binary.BigEndian.Uint64(raw)) + 1
		if raw[16] >= 2 && size >= 27 {
			end += int64(int32(binary.BigEndian.Uint32(raw[23:])))
		}
		raw = raw[size:]
		batches++
	}
	return end, batches
}
