package executor

import (
	"maps"
	"slices"

	"github.com/tandem-kafka/tandem/keyrange"
)

// revocation is a call of Revoke that is not over.
type revocation struct {
	Released
	pieces int
}

// Revoke gives key ranges of a partition back, nil: all: nothing of theirs starts any more, but for what catchUp wants, runs may end
// until deadline, and what is done is committed. Then Output.Released tells of the returned id. Key ranges that the process does not have are
// released at once.
func (m *Machine[R]) Revoke(tp TP, keys keyrange.Set, deadline, now int64) int64 {
	m.now = now
	m.ids++
	rv := &revocation{Released: Released{ID: m.ids, TP: tp}}
	pieces := m.pieces(tp, keys, now)
	rv.pieces = len(pieces)
	if rv.pieces == 0 {
		m.out.Released = append(m.out.Released, rv.Released)
	}
	for _, h := range pieces {
		h.revokes = append(h.revokes, rv)
		if h.stage == leaving {
			h.deadline = min(h.deadline, deadline)
		} else {
			h.stage, h.deadline, h.tries = leaving, deadline, 0
			m.draining = append(m.draining, h)
			h.until = m.catchUp(h, now)
			h.failed = h.until
			m.drop(h, h.until, now)
		}
		m.drain(h, now)
	}
	return rv.ID
}

// Lost says that key ranges of a partition, nil: all, belong to somebody else already: their runs are cancelled, and nothing
// is committed any more.
func (m *Machine[R]) Lost(tp TP, keys keyrange.Set, now int64) {
	m.now = now
	for _, h := range m.pieces(tp, keys, now) {
		m.drop(h, 0, now)
		m.cancel(h)
		m.leave(h)
	}
}

// Close revokes everything, and allows no further Assign.
func (m *Machine[R]) Close(deadline, now int64) (ids []int64) {
	m.closed = true
	for _, p := range slices.Clone(m.order) {
		if len(p.holdings) > 0 {
			ids = append(ids, m.Revoke(p.tp, nil, deadline, now))
		}
	}
	return ids
}

// Abandon says that everything is lost.
func (m *Machine[R]) Abandon(now int64) {
	for _, p := range slices.Clone(m.order) {
		m.Lost(p.tp, nil, now)
	}
}

// drain goes on with a revocation.
func (m *Machine[R]) drain(h *holding[R], now int64) {
	if m.halted || m.waits || now >= h.deadline {
		h.failed = 0
	}
	if h.failed < h.until {
		h.until = h.failed
		m.drop(h, h.until, now)
	}
	if h.tasks > 0 {
		if now < h.deadline {
			return
		}
		m.cancel(h)
	}
	if h.sent != nil || h.tries < commitTries && m.cut(h, now) {
		return
	}
	m.leave(h)
}

// commitTries is how often what is done is offered for commit once its holding is leaving.
const commitTries = 3

// cancel cancels the runs of h, once.
func (m *Machine[R]) cancel(h *holding[R]) {
	if h.cancelled {
		return
	}
	h.cancelled = true
	for _, t := range m.running {
		if t.hold == h {
			m.cancels = append(m.cancels, t)
		}
	}
}

// leave ends a holding.
func (m *Machine[R]) leave(h *holding[R]) {
	p := h.p
	h.stage = gone
	m.forget(h, func(Outputs) bool { return true })
	m.flushed(h.sent == nil && !h.dirty(), h.flushes...)
	h.flushes = nil
	p.orphans += h.handed
	p.holdings = slices.DeleteFunc(p.holdings, func(o *holding[R]) bool { return o == h })
	m.draining = slices.DeleteFunc(m.draining, func(o *holding[R]) bool { return o == h })
	var running []Info
	if len(h.revokes) > 0 && h.handed > 0 {
		for _, t := range m.running {
			if t.hold == h {
				running = append(running, m.info(t))
			}
		}
	}
	for _, rv := range h.revokes {
		rv.Keys = keyrange.AppendUnion(nil, rv.Keys, h.keys)
		rv.Running = append(rv.Running, running...)
		rv.Dropped += h.dropped
		rv.Uncommitted = rv.Uncommitted || h.sent != nil || h.dirty()
		if rv.pieces--; rv.pieces == 0 {
			m.out.Released = append(m.out.Released, rv.Released)
		}
	}
	m.reap(p)
}

// discard takes a task that is not handed out and not in its key's queue out of memory, not done.
func (m *Machine[R]) discard(t *Task[R]) {
	h := t.hold
	h.dropped++
	if t.counted { // for a run that did not begin
		if t.attempts--; t.attempts > 0 {
			m.setRetry(t, m.now)
		} else {
			h.forgetRetry(t.offset)
		}
	}
	m.release(t)
}

// catchUp is the offset below which h is to be done before it is given back. Where only the watermark is made durable, a record that was not begun
// has all that is done above it done again. So what lies below the last record that was begun is done first: as long as nothing of it is in the way that may take
// long, such as an attempt that has to wait.
func (m *Machine[R]) catchUp(h *holding[R], now int64) int64 {
	if !m.cfg.WatermarkOnly || m.halted || m.waits {
		return 0
	}
	until := h.top
	for _, t := range m.running {
		if t.hold == h {
			until = max(until, t.offset)
		}
	}
	m.each(func(t *Task[R]) {
		soon := t.state == handed || t.state == ready || t.state == queued && t.nextAt <= now && !t.guarded
		if t.hold == h && !soon {
			until = min(until, t.offset)
		}
	})
	if h.p.shed > 0 {
		m.keys.each(func(k *key[R]) {
			if k.shed != nil && k.shed.hold == h && len(k.shed.offsets) > 0 {
				until = min(until, k.shed.offsets[0])
			}
		})
	}
	return until
}

// drops reports whether t is not to be done by h any more.
func (h *holding[R]) drops(t *Task[R]) bool {
	return h.stage == gone || h.stage == leaving && t.offset >= h.until
}

// drop takes all tasks of h from an offset on out of memory that are not handed out, and forgets what was shed.
func (m *Machine[R]) drop(h *holding[R], from, now int64) {
	h.uncounted, h.behind, h.gates, h.counting, h.store = nil, nil, 0, nil, false
	var keys []*key[R]
	m.each(func(t *Task[R]) {
		if t.hold != h || t.state == handed || t.offset < from {
			return
		}
		t.gates = false
		switch k := t.key; {
		case k == nil:
			m.discard(t)
		case !k.dropping:
			k.dropping = true
			keys = append(keys, k)
		}
	})
	keys = m.forgetShed(h, keys)
	for _, k := range keys {
		t := k.head
		if t != nil && t.hold == h && t.offset >= from {
			k.armed = false
		}
		for k.head, k.tail, k.waiting = nil, nil, 0; t != nil; {
			next := t.next
			if t.hold == h && t.offset >= from {
				m.discard(t)
			} else {
				k.pushBack(t)
			}
			t = next
		}
		k.dropping = false
		m.advance(k, now)
	}
}

// pieces are the holdings that make up what the process has of keys, nil: all. Those that reach beyond are split.
func (m *Machine[R]) pieces(tp TP, keys keyrange.Set, now int64) (pieces []*holding[R]) {
	p := m.parts[tp]
	if p == nil {
		return nil
	}
	for _, h := range slices.Clone(p.holdings) {
		common := h.keys
		if keys != nil {
			common = keyrange.AppendIntersect(nil, h.keys, keys)
		}
		switch common.Len() {
		case 0:
		case h.keys.Len():
			pieces = append(pieces, h)
		default:
			pieces = append(pieces, m.split(h, common, now))
		}
	}
	return pieces
}

// split makes a part of a holding's key ranges a holding of its own.
func (m *Machine[R]) split(h *holding[R], keys keyrange.Set, now int64) *holding[R] {
	s := &holding[R]{p: h.p, keys: keys, stage: h.stage, filter: h.filter.Clone(), sent: h.sent, guard: h.guard, top: h.top, until: h.until, failed: h.failed,
		revokes: slices.Clone(h.revokes), deadline: h.deadline, tries: h.tries, cancelled: h.cancelled}
	h.keys, h.full = keyrange.AppendSubtract(nil, h.keys, keys), false
	if s.sent != nil {
		s.sent.holds = append(s.sent.holds, s)
	}
	for _, rv := range s.revokes {
		rv.pieces++
	}
	if s.stage == leaving {
		m.draining = append(m.draining, s)
	}
	// Retries of records that have not come yet may belong to either.
	var moved, kept []int64
	m.each(func(t *Task[R]) {
		switch {
		case t.hold != h:
		case !keys.Contains(m.position(t)):
			kept = append(kept, t.offset)
		default:
			moved = append(moved, t.offset)
			t.hold = s
			h.tasks--
			s.tasks++
			if t.state == handed {
				h.handed--
				s.handed++
			}
			if t.gates {
				h.gates--
				s.gates++
			}
		}
	})
	moved, kept = m.splitShed(h, s, moved, kept)
	// What a holding that is leaving has dropped is in neither, and stays undone in both.
	s.track = h.track.Split(moved, kept)
	if len(h.retries) > 0 || h.retryFresh {
		s.retries = splitRetries(h.retries, moved, kept)
		h.retriesChanged()
		s.retriesChanged()
		m.commitSoon(now)
	}
	for _, t := range h.uncounted {
		if t.hold == s {
			s.uncounted = append(s.uncounted, t)
		}
	}
	for _, t := range h.behind {
		if t.hold == s {
			s.behind = append(s.behind, t)
		}
	}
	if h.counting != nil && h.counting.hold == s {
		s.counting, s.store = h.counting, h.store
		h.counting, h.store = nil, false
	}
	h.p.holdings = append(h.p.holdings, s)
	h.splitOutputs(s)
	h.splitFlushes(s)
	m.afterSplit(h, now)
	m.afterSplit(s, now)
	return s
}

// afterSplit lets go on what waited for a guarded task that the other part has now.
func (m *Machine[R]) afterSplit(h *holding[R], now int64) {
	if h.gates == 0 {
		waiting := h.behind
		h.behind = nil
		for _, t := range waiting {
			if t.state == behind && t.hold == h {
				m.rearm(t, now)
			}
		}
	}
	m.nextGuarded(h, now)
}

// splitRetries takes those of moved out of retries, and copies those that are neither among them nor among kept.
func splitRetries(retries map[int64]Retry, moved, kept []int64) map[int64]Retry {
	out := maps.Clone(retries)
	for _, o := range moved {
		delete(retries, o)
	}
	for _, o := range kept {
		delete(out, o)
	}
	return out
}
