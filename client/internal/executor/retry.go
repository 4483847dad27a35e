package executor

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tandem-kafka/tandem/keyrange"
)

// exhausted reports whether t has no attempt left.
func (m *Machine[R]) exhausted(t *Task[R]) bool {
	return t.final || m.cfg.MaxAttempts > 0 && t.attempts >= m.cfg.MaxAttempts
}

// fail ends a run without success.
func (m *Machine[R]) fail(t *Task[R], res Result, now int64) {
	h := t.hold
	if t.kind == KindDeadLetter {
		t.tries++
		t.nextAt = now + m.wait(t, t.tries, res)
		m.report(DeadLetterFailed, t, res.Err)
	} else {
		if !t.counted {
			t.attempts++
		}
		t.counted, t.cause, t.final = false, res.Err, res.Final
		t.nextAt = 0
		if !m.exhausted(t) {
			t.nextAt = now + m.wait(t, t.attempts, res)
		}
		m.setRetry(t, now)
		m.report(Failed, t, res.Err)
		m.ungate(t, now)
	}
	switch k := t.key; {
	case h.stage != active:
		h.failed = min(h.failed, t.offset)
		m.discard(t)
	case k != nil:
		k.pushFront(t)
	default:
		m.rearm(t, now)
	}
}

func (m *Machine[R]) wait(t *Task[R], attempt int32, res Result) int64 {
	if res.Delay > 0 {
		return res.Delay
	}
	return m.cfg.Backoff.after(attempt, mix(m.cfg.Seed, t.offset, attempt))
}

// setRetry writes down t's attempts for the next commit.
func (m *Machine[R]) setRetry(t *Task[R], now int64) {
	h := t.hold
	if h.retries == nil {
		h.retries = map[int64]Retry{}
	}
	r := Retry{Offset: t.offset, Attempts: t.attempts, NextAt: t.nextAt, Final: t.final}
	if t.cause != nil {
		r.Cause = t.cause.Error()
	}
	if meta := m.describe(t.Record); meta.Key != nil {
		r.Hash, r.Keyed = keyrange.Murmur2(meta.Key), true
	}
	h.retries[t.offset] = r
	h.retriesChanged()
	m.commitSoon(now)
}

func (h *holding[R]) retriesChanged() { h.retryList, h.retryFresh = nil, true }

func (h *holding[R]) forgetRetry(offset int64) {
	if len(h.retries) == 0 {
		return
	}
	if _, ok := h.retries[offset]; ok {
		delete(h.retries, offset)
		h.retriesChanged()
	}
}

// list is the holding's retries, by offset.
func (h *holding[R]) list() []Retry {
	// Some may have come with Assign for records that are not there, or of other key ranges.
	maps.DeleteFunc(h.retries, func(offset int64, _ Retry) bool {
		if offset >= h.track.Next() || h.track.IsUndone(offset) {
			return false
		}
		h.retryList = nil
		return true
	})
	if h.retryList == nil && len(h.retries) > 0 {
		h.retryList = slices.SortedFunc(maps.Values(h.retries), func(a, b Retry) int { return cmp.Compare(a.Offset, b.Offset) })
	}
	return h.retryList
}

// nextGuarded lets the next guarded task of h be counted, if none is on its way.
func (m *Machine[R]) nextGuarded(h *holding[R], now int64) {
	if h.counting != nil || h.stage != active {
		return
	}
	var next *Task[R]
	h.uncounted = slices.DeleteFunc(h.uncounted, func(t *Task[R]) bool { return t.state != uncounted || t.hold != h })
	for _, t := range h.uncounted {
		if next == nil || t.seq < next.seq {
			next = t
		}
	}
	if next == nil {
		return
	}
	next.state, next.counted = storing, true
	next.attempts++
	h.counting, h.store = next, true
	m.setRetry(next, now)
	m.cut(h, now)
}

// ungate says that others need not wait for t any more.
func (m *Machine[R]) ungate(t *Task[R], now int64) {
	if !t.gates {
		return
	}
	t.gates = false
	h := t.hold
	if h.gates--; h.gates > 0 {
		return
	}
	waiting := h.behind
	h.behind = nil
	for _, w := range waiting {
		if w.state == behind && w.hold == h {
			m.rearm(w, now)
		}
	}
}

// ungateBehind does so for all that wait behind t, and for t: it is not to be run for long.
func (m *Machine[R]) ungateBehind(t *Task[R], now int64) {
	m.ungate(t, now)
	if k := t.key; k != nil && t.hold.gates > 0 {
		for u := k.head; u != nil; u = u.next {
			m.ungate(u, now)
		}
	}
}
