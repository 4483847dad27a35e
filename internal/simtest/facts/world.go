package facts

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/tandem-kafka/tandem/internal/progress"
)

// world is one history: one group on one source partition.
type world struct {
	rng      *rand.Rand
	now      int64
	records  []*record
	end      int64
	views    []progress.View
	bases    []int             // of each view
	local    []int             // index of each view among those of its base
	byBase   [][]progress.View // the views of each base
	grown    bool              // members use both bases, in turns
	broker   *broker
	log      *factLog
	gateways []*gateway
	members  []*member
	events   []*event
	orphans  []*request // nobody waits for their answer
	zombies  []*member  // of former generations, who do not know it yet
	kind     int        // of group
	sloppy   bool       // there are clients that commit transactions though a commit in it was refused
	txns     []*txn     // whose markers are not written
	clock    int64      // counts what accept and reopened do
	calm     bool       // generations are long, and little goes wrong
	landing  int        // appends of facts to the log that are under way
	lastID   int
	double   bool // this generation reads some records twice
	mixed    bool // this generation has plain consumers among others
	quiet    bool // the end of the history: nothing goes wrong any more
	changed  bool
	discards int
	// externals counts what may have transactions' work handed out again.
	externals int
	// rows[b][g]: everything below is committed by rows of views at this grain of base b, and not handed out again from a view.
	rows    [bases][grains]int64
	before  string // the era that the source row named
	top     int64  // the highest one since somebody else than a gateway wrote the source row
	damaged int64  // until then, records for the log before may land in the one that it was replaced by
	trace   io.Writer
	stats   stats
	failure error
}

// stats counts what the histories went through, so that a test can tell that they did.
type stats struct {
	commits, facts, watermarks, acked, lost, torn, refused, starts, backs, resets, plain, expired, restarts, deleted, compacted, eras, sources, tools, grown, checked int
	txns, aborted, timeouts, sloppy, once, waits, unsettled, apart                                                                                                    int
}

func (s *stats) list() []*int {
	return []*int{&s.commits, &s.facts, &s.watermarks, &s.acked, &s.lost, &s.torn, &s.refused, &s.starts, &s.backs, &s.resets, &s.plain, &s.expired, &s.restarts, &s.deleted, &s.compacted,
		&s.eras, &s.sources, &s.tools, &s.grown, &s.checked,
		&s.txns, &s.aborted, &s.timeouts, &s.sloppy, &s.once, &s.waits, &s.unsettled, &s.apart}
}

func (s *stats) add(o stats) {
	for i, n := range o.list() {
		*s.list()[i] += *n
	}
}

// event is something on its way in the network.
type event struct {
	at int64
	do func()
}

// later has something happen in up to so many steps.
func (w *world) later(steps int, do func()) {
	if w.quiet {
		steps = 0
	}
	w.events = append(w.events, &event{w.now + int64(w.rng.IntN(steps+1)), do})
}

func newWorld(seed uint64, trace io.Writer) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 2)), trace: trace, log: newLog(0)}
	w.broker = &broker{live: map[int]bool{}, rows: map[key]progress.Row{}, written: map[key]int64{}}
	w.grown, w.calm = w.chance(20), w.chance(40)
	switch n := w.rng.IntN(100); {
	case n < 45:
		w.kind, w.sloppy = exactly, w.chance(80)
	case n < 60:
		w.kind, w.sloppy = mixed, w.chance(80)
	}
	w.byBase = make([][]progress.View, bases)
	for i := range w.rng.IntN(4) {
		b := 0
		if w.grown && w.chance(40) {
			b = 1
		}
		v := progress.View{Name: fmt.Sprint("v", i), K: int32(1) << w.rng.IntN(4)}
		w.views, w.bases, w.local = append(w.views, v), append(w.bases, b), append(w.local, len(w.byBase[b]))
		w.byBase[b] = append(w.byBase[b], v)
	}
	gateways := 1 + w.rng.IntN(3)
	if w.calm && w.chance(50) {
		gateways = 1
	}
	for i := range gateways {
		g := &gateway{w: w, id: i}
		g.start()
		w.gateways = append(w.gateways, g)
	}
	w.produce()
	w.logf("views %v of bases %v, %d gateways", w.views, w.bases, len(w.gateways))
	return w
}

// global is the view with an index among those of its base; -1 is the source.
func (w *world) global(base, local int) int {
	for v, b := range w.bases {
		if local >= 0 && b == base && w.local[v] == local {
			return v
		}
	}
	return -1
}

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

// luck is from 0 to 99, the higher the worse.
func (w *world) luck() int {
	if w.calm && w.chance(95) {
		return 5
	}
	return w.rng.IntN(100)
}

func (w *world) logf(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%4d "+format+"\n", append([]any{w.now}, args...)...)
	}
}

// fail notes the first violation.
func (w *world) fail(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf(format, args...)
		w.logf("%v", w.failure)
	}
}

// deliver moves requests and what else is on its way.
func (w *world) deliver() {
	for _, m := range slices.Concat(w.members, w.zombies) {
		m.settleRewind()
		if len(m.queue) > 0 && (w.chance(50) || w.now-m.queue[0].sent >= delivery) {
			w.handle(m, false)
		}
	}
	for range len(w.events) {
		i := w.rng.IntN(len(w.events))
		if e := w.events[i]; e.at <= w.now {
			w.events = slices.Delete(w.events, i, i+1)
			e.do()
		}
	}
	w.timeouts()
	kept := w.orphans[:0]
	for _, r := range w.orphans {
		switch {
		case w.now-r.sent >= delivery: // lost
		case w.chance(20):
			r.late = true
			w.logf("a late request of m%d arrives: %v", r.member, w.accept(r))
			if w.chance(30) {
				kept = append(kept, r) // and once more
			}
		default:
			kept = append(kept, r)
		}
	}
	w.orphans = kept
	for _, g := range w.gateways {
		if w.chance(60) {
			g.follow(w.chance(70))
		}
	}
}

// drain lets everything that is on its way arrive.
func (w *world) drain() {
	for n := 0; len(w.events) > 0 && n < 100; n++ {
		w.now += delivery
		for _, g := range w.gateways {
			g.follow(true)
		}
		for range len(w.events) {
			e := w.events[0]
			w.events = w.events[1:]
			e.do()
		}
	}
}

// step does one random thing.
func (w *world) step() error {
	w.now++
	w.deliver()
	switch n := w.rng.IntN(100); {
	case len(w.members) == 0:
		w.idle()
	case n < 90 || w.calm && n != 92 && w.chance(85):
		w.members[w.rng.IntN(len(w.members))].act()
	case n < 92 && len(w.zombies) > 0:
		w.zombies[w.rng.IntN(len(w.zombies))].act()
	case n < 97:
		w.regroup()
	case n < 98:
		w.rebalance(0, nil)
	case n < 99:
		w.gateways[w.rng.IntN(len(w.gateways))].crash()
	default:
		w.logDamage()
	}
	if w.now%8 == 0 || w.changed {
		w.check()
	}
	return w.failure
}

// idle is what can happen to a group without members.
func (w *world) idle() {
	switch n := w.rng.IntN(100); {
	case n < 45:
		w.regroup()
	case n < 60:
		w.reset()
	case n < 66:
		w.toolRow()
	case n < 76:
		w.expire()
	case n < 80:
		w.gateways[w.rng.IntN(len(w.gateways))].crash()
	case n < 83:
		w.logDamage()
	default:
		w.produce()
	}
}

// run plays one history.
func run(steps int, w *world) error {
	for range steps {
		if err := w.step(); err != nil {
			return err
		}
	}
	return w.finish()
}
