package facts

import (
	"slices"

	"github.com/tandem-kafka/tandem/internal/icommit/ledger"
	"github.com/tandem-kafka/tandem/internal/progress"
)

// Times, in steps of the simulation.
const (
	lease    = 20 // a picture older than this is read again before a commit
	delivery = 8  // a request that takes longer is lost
	settle   = lease + delivery + 2
	slow     = 60 // what it takes longer to append to a log whose leader is gone for a while
	rest     = 4  // steps without a commit after which a heartbeat looks at the source row
)

// gateway holds a picture per base, shared by its connections, and what it read of the fact log.
type gateway struct {
	w         *world
	id        int
	life      int // how often it was started
	pictures  map[int]*progress.Picture
	readAt    map[int]int64
	reads     map[int]int   // how many pictures were read
	signs     map[int]int64 // when another gateway was last seen to write
	unsettled map[int]int64 // pictures that commits were accepted for since the source row was last looked at, and when
	under     []*request    // commits that were planned and not yet answered
	ledger    *ledger.Ledger
	open      *ledger.Undecided
	log       *factLog // that it reads
	read      int      // up to this offset
}

func (g *gateway) start() {
	g.life++
	g.pictures, g.readAt, g.signs, g.unsettled = map[int]*progress.Picture{}, map[int]int64{}, map[int]int64{}, map[int]int64{}
	g.reads = map[int]int{}
	g.under, g.ledger, g.open, g.log, g.read = nil, newLedger(), &ledger.Undecided{}, g.w.log, 0
}

// crash is the end of a gateway by force, and a new start. What it had sent may still arrive.
func (g *gateway) crash() {
	g.w.stats.restarts++
	g.w.logf("g%d is killed and starts again", g.id)
	old := slices.Concat(g.w.members, g.w.zombies)
	g.start()
	for _, m := range old {
		if m.gw == g {
			m.reconnect()
		}
	}
}

// follow reads the log on: all there is, or some.
func (g *gateway) follow(all bool) {
	if g.log != g.w.log {
		g.log, g.read, g.ledger, g.open = g.w.log, 0, newLedger(), &ledger.Undecided{}
		g.w.logf("g%d sees another log", g.id)
	}
	n := g.log.n
	if !all && n > g.read {
		n = g.read + g.w.rng.IntN(n-g.read+1)
	}
	others := g.ledger.Others()
	g.log.replay(g.ledger, g.open, g.read, n)
	g.read = n
	if g.ledger.Others() != others {
		for base := range bases {
			g.signs[base] = g.w.now
		}
	}
}

// refresh reads the log up to its end, and then the rows.
func (g *gateway) refresh(base int) {
	g.follow(true)
	old := g.pictures[base]
	g.pictures[base] = g.w.picture(base, false)
	if old != nil && !old.Equal(g.pictures[base]) {
		g.signs[base] = g.w.now
	}
	g.readAt[base] = g.w.now
	g.reads[base]++
}

// next is what this gateway knows of empty stretches: some of the truth, anew each time.
func (g *gateway) next(base int) progress.NextRecord {
	truth := g.w.truth(base)
	return func(view int, slice int32, from int64) int64 {
		to := truth(view, slice, from)
		if g.w.quiet || g.w.chance(40) {
			return to
		}
		if g.w.chance(50) || to <= from {
			return from
		}
		return from + g.w.rng.Int64N(to-from+1)
	}
}

// locked reports whether a commit has to wait for others of this gateway.
func (g *gateway) locked(base int, alone bool) bool {
	return slices.ContainsFunc(g.under, func(r *request) bool { return r.base == base && (r.alone || alone) })
}

// answer is an OffsetFetch for individual commits: the stable offset, and what is committed above it. ours is false where the row
// is not Tandem's: then there is nothing above it.
func (w *world) answer(p *progress.Picture, l *ledger.Ledger, base int, next progress.NextRecord) (stable int64, above func(*record) bool, ours bool) {
	offset, ours := p.Source()
	if !ours || offset < 0 {
		return max(offset, 0), func(*record) bool { return false }, false // the reset policy is earliest
	}
	stable = p.Stable(offset, next)
	of := l.Committed(p, baseOf(base), whole, stable, 1_000_000)
	return stable, func(r *record) bool {
		for _, c := range of {
			for _, o := range c.Offsets {
				if o.First <= r.offset && r.offset <= o.Last && r.in(c.Keys, base) {
					return true
				}
			}
		}
		return false
	}, true
}
