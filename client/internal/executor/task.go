package executor

// Kind says what a worker does with a Task.
type Kind uint8

// The kinds of tasks.
const (
	KindHandle     Kind = iota // run the handler
	KindDeadLetter             // write the dead letter
)

type state uint8

const (
	free      state = iota
	queued          // behind others of its key, or about to be armed
	ready           // may start
	delayed         // until nextAt
	uncounted       // guarded, until it may be counted
	storing         // guarded, until its count is durable
	behind          // until the holding's guarded tasks have run
	parked          // it stopped the machine
	handed          // to a worker
)

// Task is a record in memory. Between Take and Finish or GiveBack the worker may read it without the machine's lock.
type Task[R any] struct {
	// Record is the record.
	Record R
	// Host belongs to the one who runs the task, from Take on; it is nil then.
	Host any

	hold     *holding[R]
	key      *key[R] // nil: no order
	next     *Task[R]
	offset   int64
	seq      int64 // order of arrival; unique
	cause    error
	arrived  int64
	started  int64
	lease    int64 // end of it
	nextAt   int64
	attempts int32
	tries    int32 // of the dead letter
	size     int32
	slot     int32 // in Machine.running
	state    state
	kind     Kind
	final    bool
	counted  bool // guarded: the attempt to come is among attempts
	guarded  bool
	gates    bool // guarded, and others of the holding wait for its run
	kept     bool // its memory is its own

	outputs    any // of Bring
	outputSize int64
}

// TP is the partition.
func (t *Task[R]) TP() TP { return t.hold.p.tp }

// Offset is the record's offset.
func (t *Task[R]) Offset() int64 { return t.offset }

// Kind says what to do.
func (t *Task[R]) Kind() Kind { return t.kind }

// Attempt is the number of this attempt, from 1; of the last one for a dead letter.
func (t *Task[R]) Attempt() int32 {
	if t.counted || t.kind == KindDeadLetter {
		return max(t.attempts, 1)
	}
	return t.attempts + 1
}

// Cause is the error of the last attempt, for a dead letter; nil if it is not known: the process had ended.
func (t *Task[R]) Cause() error { return t.cause }

// slabSize is how many tasks are allocated together.
const slabSize = 128

func (m *Machine[R]) alloc() *Task[R] {
	t := m.spare
	if t == nil {
		slab := make([]Task[R], slabSize)
		for i := range slab[1:] {
			slab[i].next = &slab[i+1]
		}
		m.slabs = append(m.slabs, slab)
		t = &slab[0]
	}
	m.spare = t.next
	t.next = nil
	return t
}

// release takes t out of memory. Nothing may point to it but entries that its seq makes void.
func (m *Machine[R]) release(t *Task[R]) {
	p := t.hold.p
	t.hold.tasks--
	switch t.state {
	case ready:
		m.ready--
	case delayed:
		m.delayed--
	}
	m.records--
	m.bytes -= int64(t.size)
	p.records--
	p.bytes -= int64(t.size)
	*t = Task[R]{next: m.spare}
	m.spare = t
	if p.paused && (p.records == 0 || m.used() <= m.lookBelow) {
		m.look = true
	}
}

// each calls f for every task in memory, in no order that means something, but always in the same.
func (m *Machine[R]) each(f func(t *Task[R])) {
	for _, slab := range m.slabs {
		for i := range slab {
			if t := &slab[i]; t.state != free {
				f(t)
			}
		}
	}
}

func (m *Machine[R]) info(t *Task[R]) Info {
	i := Info{TP: t.hold.p.tp, Offset: t.offset, Key: m.describe(t.Record).Key, Attempts: t.attempts, Running: t.state == handed, Since: t.arrived, NextAt: t.nextAt}
	if i.Running {
		i.Since = t.started
		if t.counted {
			i.Attempts--
		}
	}
	if t.cause != nil {
		i.Cause = t.cause.Error()
	}
	return i
}

func (m *Machine[R]) report(kind ReportKind, t *Task[R], err error) {
	m.out.Reports = append(m.out.Reports, Report{Kind: kind, Info: m.info(t), Err: err})
}
