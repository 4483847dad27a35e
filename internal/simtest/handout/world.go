package handout

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/tandem-kafka/tandem/internal/acquire"
	"github.com/tandem-kafka/tandem/internal/progress"
)

// The size of a history.
const (
	records  = 48
	gateways = 3
	members  = 5
	timeout  = 1200 // ms, of sessions
	steps    = 260
)

// item is a record of the log: an entry, or offsets that are done.
type item struct {
	position int64
	entry    acquire.Entry
	done     *acquire.Range
}

// world is a history.
type world struct {
	rng  *rand.Rand
	seed uint64
	now  int64
	next int64 // position in the log
	log  []item
	late []late
	ids  uint64

	source     progress.Row // the group's committed offset
	facts      int64        // the era of the last individual commit; -1: there was none
	generation int32
	era        int64 // that was opened last
	start      int64 // where the group began, or was reset to
	done       [records]bool
	doneAt     [records]int64 // where the log ended then, if who did it was in time
	oracle     *acquire.State
	given      [records]int32 // how often the oracle saw it given out in the era
	told       [records]int32 // how often members were told of it
	there      int64          // how many records there are

	gateways [gateways]*gateway
	members  [members]*member
	names    int
	failure  string

	delivered, again int
	early            int // delivered without a look at the log
}

// late is an append that is on its way.
type late struct {
	at      int64
	entries []acquire.Entry
}

// gateway is a gateway, and what it knows.
type gateway struct {
	state     *acquire.State
	read      int64 // the log is known below this position
	own       map[uint64]bool
	waiting   map[uint64]asked // whose acquisitions are on their way
	fresh     bool             // what is done was read since the log was
	announced map[string]int64 // when it last wrote that a member is there
	planned   map[uint64]int64 // when it wrote what of own
	ahead     map[uint64]asked // acquisitions for members that are told later
	visits    map[string]int   // which visit of a member is under way here

	members    []string // that the group had when a member came last that was new here
	generation int32    // that what is done was read in
}

// asked is a fetch of a member.
type asked struct {
	m     *member
	fetch int
	visit int
	read  int64 // up to where the log was known
}

// member is a member of the group.
type member struct {
	name    string
	gateway int
	hand    map[int64]hold
	contact int64
	fetch   int
	visit   int  // which one of a gateway this is: it ends when the member goes to another
	late    bool // it once was not in time
	frozen  int64
}

type hold struct{ since int64 }

func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), seed: seed, oracle: acquire.New(0), there: records / 4, source: progress.NoRow, facts: -1, generation: 1}
	for i := range w.gateways {
		w.crash(i)
	}
	for i := range w.members {
		w.join(i)
	}
	return w
}

func (w *world) failf(format string, args ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf("at %d ms: ", w.now) + fmt.Sprintf(format, args...)
	}
}

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

func (w *world) crash(i int) {
	w.gateways[i] = &gateway{state: acquire.New(0), own: map[uint64]bool{}, waiting: map[uint64]asked{}, announced: map[string]int64{}, planned: map[uint64]int64{}, ahead: map[uint64]asked{}, visits: map[string]int{}}
}

// write notes an entry that a gateway plans now.
func (g *gateway) write(e acquire.Entry, now int64) acquire.Entry {
	g.own[e.ID], g.planned[e.ID] = true, now
	return e
}

// join replaces a member by another one, which begins with nothing.
func (w *world) join(i int) {
	w.names++
	w.members[i] = &member{name: fmt.Sprintf("m%d", w.names), gateway: w.rng.IntN(gateways), hand: map[int64]hold{}, contact: w.now}
}

// append writes entries to the log, if they do not get lost.
func (w *world) append(entries []acquire.Entry, sure bool) {
	if len(entries) == 0 {
		return
	}
	switch {
	case sure:
	case w.chance(4):
		return
	case w.chance(8):
		w.late = append(w.late, late{w.now + w.rng.Int64N(3*timeout), entries})
		return
	}
	for _, e := range entries {
		w.write(e)
	}
}

func (w *world) write(e acquire.Entry) {
	w.log = append(w.log, item{position: w.next, entry: e})
	won := w.oracle.Apply(w.next, e, w.now) && e.Era == w.oracle.Era()
	w.next++
	if !won {
		return
	}
	for r := e.First; r <= e.Last; r++ {
		if e.Member != "" {
			w.given[r]++
		}
		told := w.told[r]
		if e.Member != "" {
			told++
		}
		if w.given[r] == e.Attempt+1 && e.Attempt >= told { // the one before was not told
			w.given[r]--
		}
		if w.given[r] != e.Attempt && !w.done[r] {
			w.failf("%s: offset %d was given out %d times", e.String(), r, w.given[r])
		}
	}
}

// commit makes offsets done. Some of it goes to the log; what is below the stable offset does not.
func (w *world) commit(r acquire.Range, inTime bool) {
	for o := r.First; o <= r.Last; o++ {
		if !w.done[o] {
			if w.doneAt[o] = w.next; !inTime {
				w.doneAt[o] = 1 << 62
			}
		}
		w.done[o] = true
	}
	w.individually()
	w.facts = w.era
	w.oracle.Done(r, w.now)
	if w.chance(50) {
		w.log = append(w.log, item{position: w.next, done: &r, entry: acquire.Entry{Era: w.era}})
		w.next++
	}
}

// catchUp has a gateway read the log, up to a position.
func (w *world) catchUp(g *gateway, end int64) {
	for _, it := range w.log {
		if it.position < g.read || it.position >= end {
			continue
		}
		if it.done != nil {
			w.hear(g, it.entry.Era, *it.done)
			continue
		}
		won := g.state.Apply(it.position, it.entry, w.now)
		if at, ok := g.planned[it.entry.ID]; ok && !it.entry.Delete {
			g.state.Heard(it.entry.ID, at)
		}
		if of, ok := g.ahead[it.entry.ID]; ok && !it.entry.Delete {
			delete(g.ahead, it.entry.ID)
			w.keep(g, it, of, won)
			continue
		}
		of, ok := g.waiting[it.entry.ID]
		if it.entry.Kind == acquire.Acquisition && !it.entry.Delete && ok {
			delete(g.waiting, it.entry.ID)
			if won && of.fetch == of.m.fetch && w.now-of.m.contact < timeout && w.chance(95) {
				w.deliver(g, of, it)
			} else if won && w.chance(50) { // the gateway sees that its client has left
				w.takeBack(g, of, it.entry)
			}
		}
	}
	if end > g.read {
		g.read, g.fresh = end, false
	}
}

// deliver answers a member. The judge looks at who has it too.
func (w *world) deliver(g *gateway, of asked, it item) {
	m, e := of.m, it.entry
	if !slices.Contains(w.members[:], m) || m.frozen > w.now {
		return // the answer meets nobody
	}
	r := acquire.Range{First: e.First, Last: e.Last}
	if g.state.Disturbed(r, of.read) {
		w.tell(g)
	}
	for _, r := range g.state.Undone(r) {
		w.hand(m, r, it.position, e.Attempt, e.String())
	}
}

// hand gives a member offsets, which it has then.
func (w *world) hand(m *member, r acquire.Range, position int64, attempt int32, by string) {
	for o := r.First; o <= r.Last; o++ {
		for _, other := range w.members {
			if _, has := other.hand[o]; has && other != m && !other.late && w.now-other.contact <= timeout {
				w.failf("%s: offset %d is with %s, who is in time", by, o, other.name)
			}
		}
		if w.done[o] && w.doneAt[o] <= position {
			w.failf("%s: offset %d was done at %d", by, o, w.doneAt[o])
		}
		if o >= w.there {
			w.failf("%s: offset %d is not there yet", by, o)
		}
		if w.told[o]++; attempt < w.told[o] {
			w.failf("%s: offset %d was given to members %d times before", by, o, w.told[o]-1)
		}
		m.hand[o] = hold{w.now}
		w.delivered++
		if w.given[o] > 1 {
			w.again++
		}
	}
}

// compact does what Kafka's cleaner does to the log below a position. Deletions stay for a while.
func (w *world) compact() {
	if len(w.log) < 20 {
		return
	}
	end := w.rng.IntN(len(w.log))
	last := map[uint64]int64{}
	for _, it := range w.log[:end] {
		if it.done == nil {
			last[it.entry.ID] = it.position
		}
	}
	tombs := w.chance(50)
	for _, g := range w.gateways { // who is behind by more than the retention of deletions reads anew
		tombs = tombs && (g.read == 0 || g.read >= w.log[end].position)
	}
	kept := w.log[:0]
	for i, it := range w.log {
		if i < end && it.done == nil && (last[it.entry.ID] != it.position || it.entry.Delete && tombs) {
			continue
		}
		kept = append(kept, it)
	}
	w.log = kept
	w.replay()
}

// replay reads the log anew: what it says of offsets that are not done must be what the judge has seen.
func (w *world) replay() {
	if w.begins() {
		return // nothing counts
	}
	g := &gateway{state: acquire.New(0), waiting: map[uint64]asked{}}
	w.refresh(g)
	for _, m := range w.members {
		if a, b := undone(w, w.oracle.Holds(m.name)), undone(w, g.state.Holds(m.name)); !slices.Equal(a, b) {
			w.failf("%s holds %v, and after compaction %v", m.name, a, b)
		}
	}
}

func undone(w *world, ranges []acquire.Range) (offsets []int64) {
	for _, r := range ranges {
		for o := r.First; o <= r.Last; o++ {
			if !w.done[o] {
				offsets = append(offsets, o)
			}
		}
	}
	return offsets
}
