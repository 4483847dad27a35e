package gateway

import (
	"context"
	"slices"
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
	state      *acquire.State // of the topic that members fetch
	states     map[[16]byte]*acquire.State
	source     slicecache.Source
	read       int64            // the log is known up to below this position
	generation int32            // the highest that was seen
	members    map[string]int32 // that the group had when that was last asked; never changed
	asked      time.Time        // not later than that
	waiters    []*waiting
	served     time.Time // when somebody last waited
	committed  bool      // whoever came last reads what is committed
	turn       int       // who is served first
	pending    map[uint64]*grant
	decided    chan struct{}    // closed when nothing is pending any more
	planned    map[uint64]int64 // when entries were planned that are on their way
	announced  map[string]int64
	fetchers   map[string]*placeMember
	hungry     bool             // the last round had nothing for somebody
	disturbed  bool             // nothing is told until what is done was read
	behind     map[string]int64 // since when members do not come for what is kept for them
	left       int64            // when something was last left
	refused    int              // how often in a row the log did not take what was to be appended
	outbox     []acquire.Entry  // to append with the next round
	cleaned    time.Time
	cleaning   bool
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
	now, kept, free := nowMs(), false, false
	for i := range records {
		r := &records[i]
		current, won := p.take(r, now)
		p.read = r.Position + 1
		if at, ok := p.planned[r.Entry.ID]; ok && !r.Entry.Delete {
			if current {
				p.state.Heard(r.Entry.ID, at)
			}
			delete(p.planned, r.Entry.ID)
		}
		if e := &r.Entry; current && !won && e.Kind == acquire.Acquisition && e.Member == "" && p.coop.mine(e.ID) {
			p.left = now // its member was announced meanwhile: again
			p.start()
		}
		free = free || current && won && r.Entry.Member == ""
		if g := p.pending[r.Entry.ID]; g != nil && !r.Entry.Delete {
			delete(p.pending, r.Entry.ID)
			g.free()
			g.won = won && current
			if g.disturbed = g.won && p.state.Disturbed(acquire.Range{First: g.entry.First, Last: g.entry.Last}, g.read); g.won && !g.disturbed {
				p.keep(g)
				kept = true
			}
			p.disturbed = p.disturbed || g.disturbed
		}
	}
	if p.unclean = true; kept {
		p.deliver(now)
	}
	if free && len(p.waiters) > 0 {
		p.start()
	}
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
	clear(p.states)
	p.state, p.read, p.generation, p.outbox = p.stateOf(p.source.TopicID), 0, -1, nil
	clear(p.pending)
	clear(p.planned)
	clear(p.announced)
	clear(p.behind)
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
	p.served, p.committed = time.Now(), w.readCommitted
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

const (
	// cleanEvery is how often entries that nobody needs are deleted.
	cleanEvery = 100 * time.Millisecond
	// linger is for how long a place keeps what it has read when nobody waits.
	linger = time.Second
)

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
	open := p.open()
	p.clean(ctx)
	fresh := p.chunks.fresh
	p.chunks.fresh = nil
	defer func() { p.coop.memory.unpin(fresh) }()
	idle := time.Since(p.served)
	if len(open) == 0 && idle > linger {
		p.leaveAll()
	}
	if len(open) == 0 && len(p.outbox) == 0 && !p.unclean && !p.cleaning && p.left == 0 && idle > linger {
		p.running = false
		p.dropChunks()
		p.mu.Unlock()
		return 0, false
	}
	p.mu.Unlock()

	if again := p.prepare(ctx, open); again {
		return 50 * time.Millisecond, true
	}
	grants, entries, until := p.plan(open)
	if len(entries) == 0 {
		if len(open) == 0 {
			until = min(until, cleanEvery)
		}
		return until, true
	}
	p.append(ctx, grants, entries)
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(min(p.refused, 10)) * cleanEvery, true // where the log takes nothing, not at once again
}

// open are those who wait and want something. p.mu is held.
func (p *place) open() []*waiting {
	open := p.waiters[:0]
	for _, w := range p.waiters {
		if records, _ := w.wants(); records > 0 && p.isHere(w) {
			open = append(open, w)
		}
	}
	clear(p.waiters[len(open):])
	if p.waiters = open; len(open) > 0 {
		p.served = time.Now()
	}
	return slices.Clone(open)
}

// clean sees to it that what nobody needs is deleted from the log, now and then, and beside the rounds. p.mu is held.
func (p *place) clean(ctx context.Context) {
	if !p.unclean || p.cleaning || time.Since(p.cleaned) < cleanEvery {
		return
	}
	p.cleaned, p.cleaning, p.unclean = time.Now(), true, false
	p.coop.gw.wg.Go(func() {
		err := p.sweep(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.cleaning = false; err != nil {
			p.unclean = true
			p.coop.gw.log.Debug("entries of cooperative fetches stay in the log", "group", p.key.group, "cause", err)
		}
	})
}

func (p *place) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	// Not from a picture that is old: what seems to have lost may have won.
	if err := p.coop.gw.facts.log.CatchUp(ctx, p.key.group); err != nil {
		return err
	}
	p.mu.Lock()
	entries := p.state.Garbage(nowMs(), p.coop.mine)
	p.mu.Unlock()
	if len(entries) == 0 {
		return nil
	}
	return p.write(ctx, entries)
}

// write appends entries to the log.
func (p *place) write(ctx context.Context, entries []acquire.Entry) error {
	return p.coop.gw.facts.log.AppendHandouts(ctx, p.key.group, handouts(p.key, entries, p.topicID()))
}

// followed reports whether records of the place come from the fact log.
func (p *place) followed() bool {
	p.coop.mu.Lock()
	defer p.coop.mu.Unlock()
	return p.log >= 0
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
	decided := p.expect(grants, entries)
	err := p.write(ctx, entries)
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
	disturbed := false
	for _, g := range grants {
		delete(p.pending, g.entry.ID) // what wins later, the member says that it does not have
		g.free()
		disturbed = disturbed || g.disturbed
	}
	if p.refused++; err == nil {
		p.refused = 0
	} else {
		for i := range entries {
			delete(p.planned, entries[i].ID)
			switch e := &entries[i]; {
			case e.Kind == acquire.Session:
				delete(p.announced, e.Member)
			case e.Member == "" && !e.Delete:
				p.left = nowMs() // again
			}
		}
	}
	p.decided = nil
	open := slices.Clone(p.waiters)
	p.mu.Unlock()
	if !disturbed {
		return
	}
	fresh := p.refresh(ctx, open)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disturbed = false
	for _, g := range grants {
		switch {
		case g.disturbed && fresh:
			p.keep(g)
		case g.disturbed:
			p.state.Untold(g.entry.ID, acquire.Everything, g.read)
		}
	}
	p.deliver(nowMs())
}

// expect notes what is about to be written. The channel is closed when the grants are decided; nil: there are none.
func (p *place) expect(grants []*grant, entries []acquire.Entry) (decided chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := nowMs()
	for i := range entries {
		p.planned[entries[i].ID] = now
	}
	if len(grants) == 0 {
		return nil
	}
	for _, g := range grants {
		p.pending[g.entry.ID] = g
	}
	p.decided = make(chan struct{})
	return p.decided
}
