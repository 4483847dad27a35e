package executor

import (
	"github.com/tandem-kafka/tandem/client/internal/done"
	"github.com/tandem-kafka/tandem/keyrange"
)

// Machine is one process's handler mode. R is the type of its records.
type Machine[R any] struct {
	cfg      Config
	describe func(R) Meta
	own      func(R) R // keep of New
	keep     int       // how many records a key keeps when others are shed, and gets when they are read again
	now      int64     // of the last event

	parts  map[TP]*partition[R]
	order  []*partition[R] // of parts, so that a history does not depend on the map
	keys   table[R]
	slabs  [][]Task[R]
	spare  *Task[R]
	seq    int64
	ids    int64
	closed bool
	halted bool // by Stop
	waits  bool // by Suspend

	fresh   ring[R] // ready, in order
	old     heap[R] // ready, sent back by something
	ready   int
	late    heap[R] // delayed
	delayed int     // tasks; late may have void entries
	running []*Task[R]

	records int
	bytes   int64
	shed    int             // offsets
	warned  bool            // of shed
	needy   []*partition[R] // with keys to be read again

	paused    []*partition[R]
	lookBelow int64 // use of memory below which paused partitions are looked at
	look      bool
	shedAt    int64 // 0: nothing waits for memory
	keepAt    int64 // 0: nothing to look at
	leaseAt   int64 // 0: no lease to look at

	commits  map[int64]*sent[R]
	commitAt int64 // 0: nothing to commit
	lastCut  int64
	draining []*holding[R]
	live     []*holding[R] // scratch of Fetched
	told     []*partition[R]
	out      Output
	cancels  []*Task[R]
}

// partition is a partition of which the process has or had key ranges. It stays while records of it are in memory, so that
// a key that comes back meets its run that has not ended.
type partition[R any] struct {
	tp       TP
	base     int32
	salt     uint32
	holdings []*holding[R]
	all      *key[R] // ByPartition

	records int // in memory
	bytes   int64
	orphans int // handed out, and their holding is gone
	paused  bool
	told    bool // that it is paused
	telling bool

	shed     int
	listed   bool      // in Machine.needy
	needy    []*key[R] // shed, and soon without records
	reading  []*key[R] // in the Reread under way
	reread   int64     // its id; 0: none is
	rereadAt int64     // not before
	from     int64     // of the Reread under way
}

// holding is a set of key ranges of a partition that were assigned together.
type holding[R any] struct {
	p      *partition[R]
	keys   keyrange.Set // never changed in place
	full   bool         // keys is the whole axis
	stage  stage
	track  *done.Tracker
	filter *done.Filter
	tasks  int      // in memory
	handed int      // of them
	top    int64    // the highest offset whose run was a success
	sent   *sent[R] // the commit under way

	retries    map[int64]Retry
	retryList  []Retry // of retries, nil: to be made
	retryFresh bool    // not committed as they are

	guard     int        // how many of the records to come are guarded
	gates     int        // guarded tasks that others wait for
	uncounted []*Task[R] // guarded ones that wait for their turn
	counting  *Task[R]   // guarded: from its count on until its run ended
	store     bool       // its count is to be committed
	flushes   []*flush   // that wait for what is not in sent
	behind    []*Task[R]
	outputs   []Outputs // of what is done and not committed, in the order in which the runs ended
	brought   int64     // bytes of those since the last cut

	// While leaving:
	revokes   []*revocation
	deadline  int64
	until     int64 // what lies below it is still done, see catchUp
	failed    int64 // the lowest offset whose attempt failed meanwhile, if that is below until
	tries     int   // failed commits
	cancelled bool
	dropped   int // tasks that were not done
}

type stage uint8

const (
	active stage = iota
	leaving
	gone
)

// New makes a Machine. describe is called often and must be quick. keep, if not nil, returns a copy of a record that shares
// no memory with others: it is called for records that stay long, which otherwise hold the memory of all that were
// fetched with them.
func New[R any](cfg Config, describe func(R) Meta, keep func(R) R) (*Machine[R], error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Machine[R]{cfg: cfg, describe: describe, own: keep, keep: max(1, cfg.MaxRecords/64), parts: map[TP]*partition[R]{}, commits: map[int64]*sent[R]{}}, nil
}

// Config is the machine's configuration, with defaults.
func (m *Machine[R]) Config() Config { return m.cfg }

// Output returns what is to be done since the last call.
func (m *Machine[R]) Output() Output {
	m.settleFlow()
	m.askReread()
	out := m.out
	m.out = Output{}
	for _, p := range m.told {
		if p.telling = false; p.paused != p.told {
			p.told = p.paused
			out.Flow = append(out.Flow, Flow{p.tp, p.paused})
		}
	}
	m.told = m.told[:0]
	return out
}

// Cancelled returns the handed tasks whose records are not this process's any more, since the last call. It is to be called
// after each event: the tasks are valid until the next.
func (m *Machine[R]) Cancelled() []*Task[R] {
	c := m.cancels
	m.cancels = nil
	return c
}

// Pending reports whether Output has something, or Tick would.
func (m *Machine[R]) Pending() bool {
	o := &m.out
	return len(m.told) > 0 || m.look || m.wantsReread() || len(o.Commits)+len(o.Released)+len(o.Flushed)+len(o.Reports)+len(o.Rereads) > 0 || o.Stopped != nil
}

// Tick does what is due by now: next attempts, commits, time limits.
func (m *Machine[R]) Tick(now int64) {
	m.now = now
	m.promote(now)
	for i := 0; i < len(m.draining); {
		h := m.draining[i]
		m.drain(h, now)
		if h.stage == leaving {
			i++
		}
	}
	if m.commitAt != 0 && m.commitAt <= now {
		m.cutAll(now)
	}
	if m.leaseAt != 0 && m.leaseAt <= now {
		m.checkLeases(now)
	}
	if m.keepAt != 0 && m.keepAt <= now {
		m.keepOld(now)
	}
	if m.shedAt != 0 && m.shedAt <= now {
		m.relieve(now)
	}
	m.look = m.look || len(m.paused) > 0
}

// NextWake is when Tick is to be called; 0: not before another event.
func (m *Machine[R]) NextWake() int64 {
	at := m.commitAt
	sooner := func(t int64) {
		if t != 0 && (at == 0 || t < at) {
			at = t
		}
	}
	sooner(m.leaseAt)
	sooner(m.keepAt)
	sooner(m.shedAt)
	if len(m.late) > 0 {
		sooner(max(m.late[0].at, 1))
	}
	for _, h := range m.draining {
		if h.deadline > m.now {
			sooner(h.deadline)
		}
	}
	for _, p := range m.needy {
		if p.reread == 0 && p.rereadAt > m.now {
			sooner(p.rereadAt)
		}
	}
	return at
}

// reap forgets a partition that nothing is left of.
func (m *Machine[R]) reap(p *partition[R]) {
	if len(p.holdings) > 0 {
		return
	}
	m.resume(p)
	if p.records > 0 {
		return
	}
	if p.all != nil {
		p.all = nil
	}
	delete(m.parts, p.tp)
	for i, q := range m.order {
		if q == p {
			m.order = append(m.order[:i], m.order[i+1:]...)
			return
		}
	}
}
