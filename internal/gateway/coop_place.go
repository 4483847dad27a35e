package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/tandem-kafka/tandem/internal/acquire"
	factrecord "github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/internal/slicecache"
)

// place is a group's source partition, of which members fetch cooperatively. While
// any of them waits, one goroutine deals out what there is, in rounds: it plans
// for all who wait, appends that to the fact log as one, and gives out what
// has won there. What comes meanwhile waits for the next round.
type place struct {
	coop *coop
	key  factKey
	log  int32 // partition of the fact log; under coop.mu

	mu         sync.Mutex
	state      *acquire.State
	source     slicecache.Source
	read       int64            // the log is known up to below this position
	generation int32            // the highest that was seen
	members    map[string]int32 // that the group had when that was last asked; never changed
	asked      time.Time        // not later than that
	waiters    []*waiting
	turn       int // who is served first
	pending    map[uint64]*grant
	decided    chan struct{} // closed when nothing is pending any more
	announced  map[string]int64
	outbox     []acquire.Entry // to append with the next round
	cleaned    time.Time
	unclean    bool // there may be entries that nobody needs
	running    bool
	wake       chan struct{}
	chunks     chunks
}

// waiting is a waiter for a place.
type waiting struct {
	*waiter
	part *coopPart
}

func nowMs() int64 { return time.Now().UnixMilli() }

// apply takes in records of the fact log.
func (p *place) apply(records []factrecord.Handout) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := nowMs()
	for i := range records {
		r := &records[i]
		if !r.Entry.Delete && r.TopicID != p.source.TopicID && p.source.TopicID != [16]byte{} {
			continue // of a topic of the same name that is gone
		}
		won := p.state.Apply(r.Position, r.Entry, now)
		p.read = r.Position + 1
		if g := p.pending[r.Entry.ID]; g != nil && !r.Entry.Delete {
			delete(p.pending, r.Entry.ID)
			g.position, g.decided, g.won = r.Position, true, won
		}
	}
	p.unclean = true
	p.tell()
}

// tell wakes who waits for verdicts. p.mu is held.
func (p *place) tell() {
	if len(p.pending) == 0 && p.decided != nil {
		close(p.decided)
		p.decided = nil
	}
}

// reset forgets what the fact log said.
func (p *place) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.read, p.generation, p.outbox = acquire.New(0), 0, -1, nil
	clear(p.pending)
	clear(p.announced)
	p.tell()
}

// done takes in what is done, and that all is below a stable offset.
func (p *place) done(era int64, ranges []acquire.Range, stable int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if era != p.state.Era() {
		if era > p.state.Era() {
			p.state.Doubt() // the group was reset: it is read before anything is given out
		}
		return
	}
	now := nowMs()
	for _, r := range ranges {
		p.state.Done(r, now)
	}
	p.state.Stable(stable, now)
	p.unclean = true
	p.start()
}

// add has a waiter served.
func (p *place) add(w *waiter, part *coopPart) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outdated(w) {
		w.leave()
		return
	}
	p.waiters = append(p.waiters, &waiting{w, part})
	p.start()
}

// start sees to it that the place is served. p.mu is held.
func (p *place) start() {
	if !p.running {
		p.running = true
		p.coop.gw.wg.Go(p.serve)
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// cleanEvery is how often entries that nobody needs are deleted.
const cleanEvery = 100 * time.Millisecond

// serve runs rounds while there is anything to do.
func (p *place) serve() {
	ctx := p.coop.gw.ctx
	for ctx.Err() == nil {
		until, more := p.round(ctx)
		if !more {
			return
		}
		if until == 0 {
			continue
		}
		timer := time.NewTimer(until)
		select {
		case <-p.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
	for _, w := range p.waiters {
		w.poke()
	}
}

// round serves once. It returns for how long there is nothing to do, unless the
// place is woken; more is false when the place is left.
func (p *place) round(ctx context.Context) (until time.Duration, more bool) {
	p.mu.Lock()
	open := p.waiters[:0]
	for _, w := range p.waiters {
		if records, _ := w.wants(); records > 0 {
			open = append(open, w)
		}
	}
	clear(p.waiters[len(open):])
	p.waiters = open
	clean := p.unclean && time.Since(p.cleaned) >= cleanEvery
	if len(open) == 0 && len(p.outbox) == 0 && !clean {
		if p.unclean {
			p.mu.Unlock()
			return cleanEvery, true
		}
		p.running = false
		p.chunks = chunks{}
		p.mu.Unlock()
		return 0, false
	}
	p.mu.Unlock()

	if clean {
		p.clean(ctx)
	}
	if again := p.prepare(ctx, open); again {
		return 50 * time.Millisecond, true
	}
	grants, entries, idle := p.plan(ctx, open)
	if len(entries) == 0 {
		return idle, true
	}
	p.append(ctx, grants, entries)
	return 0, true
}

// clean deletes what nobody needs from the log.
func (p *place) clean(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	p.mu.Lock()
	p.cleaned = time.Now()
	p.mu.Unlock()
	// Not from a picture that is old: what seems to have lost may have won.
	if err := p.coop.gw.facts.log.CatchUp(ctx, p.key.group); err != nil {
		return
	}
	p.mu.Lock()
	p.unclean = false
	entries := p.state.Garbage(nowMs(), p.coop.mine)
	topicID := p.source.TopicID
	p.mu.Unlock()
	if len(entries) == 0 {
		return
	}
	if err := p.coop.gw.facts.log.AppendHandouts(ctx, p.key.group, handouts(p.key, entries, topicID)); err != nil {
		p.coop.gw.log.Debug("entries of cooperative fetches stay in the log", "group", p.key.group, "cause", err)
		p.mu.Lock()
		p.unclean = true
		p.mu.Unlock()
	}
}

// followed reports whether records of the place come from the fact log.
func (p *place) followed() bool {
	p.coop.mu.Lock()
	defer p.coop.mu.Unlock()
	return p.log >= 0
}

// remains are the deletions of all that the log has of the place.
func (p *place) remains() []acquire.Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.Remains()
}

// handouts are the records of entries of a place.
func handouts(k factKey, entries []acquire.Entry, topicID [16]byte) []factrecord.Handout {
	records := make([]factrecord.Handout, len(entries))
	for i, e := range entries {
		records[i] = factrecord.Handout{Group: k.group, Topic: k.topic, Partition: k.partition, Entry: e}
		if !e.Delete {
			records[i].TopicID = topicID
		}
	}
	return records
}

// verdictTime bounds the wait for the verdict on an acquisition that was written.
const verdictTime = 5 * time.Second

// append writes entries, and gives out what has won.
func (p *place) append(ctx context.Context, grants []*grant, entries []acquire.Entry) {
	ctx, cancel := context.WithTimeout(ctx, verdictTime)
	defer cancel()
	p.mu.Lock()
	topicID := p.source.TopicID
	var decided chan struct{}
	if len(grants) > 0 {
		for _, g := range grants {
			p.pending[g.entry.ID] = g
		}
		p.decided = make(chan struct{})
		decided = p.decided
	}
	p.mu.Unlock()
	err := p.coop.gw.facts.log.AppendHandouts(ctx, p.key.group, handouts(p.key, entries, topicID))
	if err == nil && !p.followed() {
		p.coop.gw.facts.absent.forget() // the log is there now
		err = p.coop.gw.facts.log.CatchUp(ctx, p.key.group)
	}
	if err == nil && decided != nil {
		select {
		case <-decided:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		p.coop.gw.unreadable(p.key.group, err)
	}
	p.mu.Lock()
	var disturbed *grant
	for _, g := range grants {
		delete(p.pending, g.entry.ID) // what wins later, the member says that it does not have
		if g.won && p.state.Disturbed(acquire.Range{First: g.entry.First, Last: g.entry.Last}, g.read) {
			disturbed = g
		}
	}
	p.decided = nil
	p.mu.Unlock()
	fresh := disturbed == nil || p.refresh(ctx, []*waiting{{disturbed.w, disturbed.part}})
	p.mu.Lock()
	view, held := p.chunks.ends, p.coop.gw.facts.undecided(p.key)
	given := make([][]acquire.Range, len(grants))
	for i, g := range grants {
		if g.won && fresh && g.entry.Era == p.state.Era() && !g.w.late() {
			for _, r := range p.state.Undone(acquire.Range{First: g.entry.First, Last: g.entry.Last}) {
				given[i] = append(given[i], without(r, held)...)
			}
		}
	}
	p.mu.Unlock()
	for i, g := range grants {
		g.w.settle(g, given[i], view)
	}
}
