package executor

import "slices"

// Ready is how many tasks a worker could get now.
func (m *Machine[R]) Ready() int {
	if m.halted || m.waits {
		return 0
	}
	return m.ready
}

// Suspend says that nothing is to begin until it is said otherwise. What runs may end, and what is done is committed.
func (m *Machine[R]) Suspend(waits bool) { m.waits = waits }

// Take hands up to n tasks to a worker, and returns them appended to dst. They are to be run in this order, and a run that
// fails is to be the last: the rest is given back first. Several records of a key are handed out together only when n
// allows it, so n is 1 unless runs are short.
func (m *Machine[R]) Take(dst []*Task[R], n int, now int64) []*Task[R] {
	m.now = now
	m.promote(now)
	if m.halted || m.waits {
		return dst
	}
	for n > 0 {
		t := m.popReady()
		if t == nil {
			break
		}
		dst = append(dst, t)
		m.hand(t, now)
		n--
		for k := t.key; k != nil && n > 0; n-- {
			next := k.head
			if next == nil || next.attempts > 0 || next.nextAt > 0 || next.final || next.guarded || next.hold.gates > 0 {
				break
			}
			dst = append(dst, next)
			m.hand(next, now)
		}
	}
	return dst
}

func (m *Machine[R]) hand(t *Task[R], now int64) {
	t.state, t.started = handed, now
	t.slot = int32(len(m.running))
	m.running = append(m.running, t)
	t.hold.handed++
	if k := t.key; k != nil {
		k.popFront()
		k.handed++
		k.armed = false
	}
	if m.cfg.Lease > 0 {
		t.lease = now + m.cfg.Lease
		if m.leaseAt == 0 {
			m.leaseAt = t.lease
		}
	}
}

// unhand takes t back from its worker.
func (m *Machine[R]) unhand(t *Task[R]) {
	last := len(m.running) - 1
	if moved := m.running[last]; moved != t {
		m.running[t.slot] = moved
		moved.slot = t.slot
	}
	m.running[last] = nil
	if len(m.cancels) > 0 {
		m.cancels = slices.DeleteFunc(m.cancels, func(c *Task[R]) bool { return c == t })
	}
	m.running = m.running[:last]
	t.Host, t.outputs, t.outputSize = nil, nil, 0
	t.state = queued
	if t.hold.handed--; t.hold.stage == gone {
		t.hold.p.orphans--
	}
	if t.key != nil {
		t.key.handed--
	}
}

// GiveBack takes back tasks that one Take handed out together and that were not begun, in the order of that Take, before
// Finish is told of the run before them.
func (m *Machine[R]) GiveBack(tasks []*Task[R], now int64) {
	m.now = now
	for i := len(tasks) - 1; i >= 0; i-- {
		t := tasks[i]
		h, k := t.hold, t.key
		m.unhand(t)
		switch {
		case h.drops(t):
			m.discard(t)
		case k == nil:
			m.rearm(t, now)
		default:
			k.pushFront(t)
		}
		if k != nil && (i == 0 || tasks[i-1].key != k) {
			m.advance(k, now)
		}
		m.leftOne(h, now)
	}
}

// Finish says how the run of a task ended.
func (m *Machine[R]) Finish(t *Task[R], res Result, now int64) {
	m.now = now
	h, k := t.hold, t.key
	data, size := t.outputs, t.outputSize
	m.unhand(t)
	if h.counting == t {
		h.counting = nil
	}
	switch {
	case h.stage == gone:
		m.release(t)
	case res.Err != nil:
		m.fail(t, res, now)
	default:
		if t.kind == KindDeadLetter {
			m.report(DeadLettered, t, t.cause)
		}
		m.hold(t, data, size)
		m.done(t, now)
	}
	if k != nil {
		m.advance(k, now)
	}
	m.nextGuarded(h, now)
	m.leftOne(h, now)
}

// leftOne goes on with what waits for a holding's handed tasks.
func (m *Machine[R]) leftOne(h *holding[R], now int64) {
	switch h.stage {
	case leaving:
		m.drain(h, now)
	case gone:
		if h.handed == 0 {
			m.reap(h.p)
		}
	}
}

// done ends a record: nothing is left to do for it.
func (m *Machine[R]) done(t *Task[R], now int64) {
	h, k := t.hold, t.key
	h.track.Done(t.offset)
	h.top = max(h.top, t.offset)
	h.forgetRetry(t.offset)
	m.ungate(t, now)
	m.release(t)
	m.commitSoon(now)
	if h.sent == nil && (h.track.Reached(m.cfg.MaxRanges) || m.heavy(h)) {
		m.cut(h, now)
	}
	if k != nil && k.shed != nil && k.waiting <= m.lowWater() {
		m.need(k)
	}
}

// advance arms the head of k, and lets k go when nothing is left of it. k may be no key any more afterwards.
func (m *Machine[R]) advance(k *key[R], now int64) {
	for k.handed == 0 && !k.armed && k.head != nil {
		t := k.head
		if k.armed = true; m.arm(t, now) {
			return
		}
		k.popFront()
		k.armed = false
		m.done(t, now)
	}
	if k.head != nil || k.handed > 0 {
		return
	}
	if k.shed != nil {
		m.need(k)
	} else if k != k.p.all && !k.single {
		m.keys.remove(k)
	}
}

// rearm arms t, which was armed for something that has come, or has no key.
func (m *Machine[R]) rearm(t *Task[R], now int64) {
	if k := t.key; k != nil {
		k.armed = false
		m.advance(k, now)
	} else if !m.arm(t, now) {
		m.done(t, now)
	}
}

// arm finds out what t waits for, which waits behind no other record. false: for nothing, it is skipped.
func (m *Machine[R]) arm(t *Task[R], now int64) bool {
	h := t.hold
	if t.kind == KindHandle && !t.counted && m.exhausted(t) {
		switch m.cfg.Last {
		case Skip:
			m.report(Skipped, t, t.cause)
			return false
		case Stop:
			t.state = parked
			if !m.halted {
				m.halted = true
				m.out.Stopped = &Report{Kind: Stopped, Info: m.info(t), Err: t.cause}
			}
			return true
		default:
			t.kind, t.nextAt, t.guarded = KindDeadLetter, 0, false
			m.ungate(t, now)
		}
	}
	switch {
	case t.nextAt > now:
		m.delay(t)
		m.ungateBehind(t, now)
	case t.guarded && !t.counted:
		t.state = uncounted
		h.uncounted = append(h.uncounted, t)
		m.nextGuarded(h, now)
	case h.gates > 0 && !t.guarded && t.kind == KindHandle: // a dead letter may have guarded ones behind it
		t.state = behind
		h.behind = append(h.behind, t)
	default:
		m.makeReady(t)
	}
	return true
}
