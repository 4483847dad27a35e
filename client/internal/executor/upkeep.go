package executor

// keepAfter is how long a record is in memory before its memory becomes its own; keepBytes is how many bytes of that are
// copied at a time, since workers wait meanwhile.
const (
	keepAfter = Second
	keepBytes = 4 << 20
	keepPause = 5 * Millisecond
)

// keepOld copies the records that stay long, so that they hold nobody else's memory. Handed ones are in use.
func (m *Machine[R]) keepOld(now int64) {
	left := int64(keepBytes)
	m.each(func(t *Task[R]) {
		if left <= 0 || t.kept || t.state == handed || t.arrived > now-keepAfter {
			return
		}
		t.Record, t.kept = m.own(t.Record), true
		left -= int64(t.size)
		if k := t.key; k != nil && k != k.p.all {
			k.name = m.describe(t.Record).Key
		}
	})
	switch {
	case left <= 0:
		m.keepAt = now + keepPause
	case m.records > 0:
		m.keepAt = now + keepAfter
	default:
		m.keepAt = 0
	}
}

// checkLeases reports the runs that are past their lease.
func (m *Machine[R]) checkLeases(now int64) {
	m.leaseAt = 0
	for _, t := range m.running {
		if t.lease <= now {
			m.report(Overdue, t, nil)
			t.lease = now + m.cfg.Lease
		}
		if m.leaseAt == 0 || t.lease < m.leaseAt {
			m.leaseAt = t.lease
		}
	}
}

// Extend moves the end of a handed task's lease to until. An earlier end changes nothing.
func (m *Machine[R]) Extend(t *Task[R], until int64) { t.lease = max(t.lease, until) }
