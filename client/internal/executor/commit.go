package executor

import (
	"slices"

	"github.com/tandem-kafka/tandem/client/internal/done"
)

// sent is a commit that is not answered.
type sent[R any] struct {
	batch   done.Batch
	holds   []*holding[R] // more than one if the holding was split meanwhile
	retries bool          // they were not committed as they are
	flushes []*flush      // that wait for it
	counted *Task[R]      // guarded, its count is in it; nil: none
	seq     int64         // of counted
}

// cut commits what there is of h; false: nothing, or a commit is under way.
func (m *Machine[R]) cut(h *holding[R], now int64) bool {
	if h.sent != nil || h.stage == gone {
		return false
	}
	b, ok := h.track.Cut(m.cfg.MaxRanges)
	if !ok && !h.retryFresh {
		return false
	}
	s := &sent[R]{batch: b, holds: []*holding[R]{h}, retries: h.retryFresh}
	if h.store {
		s.counted, s.seq = h.counting, h.counting.seq
	}
	h.sent, h.retryFresh, h.store = s, false, false
	h.carry(s)
	m.ids++
	m.commits[m.ids] = s
	m.out.Commits = append(m.out.Commits, Commit{ID: m.ids, TP: h.p.tp, Keys: h.keys, Watermark: b.Watermark, Ranges: b.Ranges, Retries: h.list(), Outputs: m.ship(h, b)})
	m.lastCut = now
	return true
}

// commitSoon makes sure of a commit within the interval.
func (m *Machine[R]) commitSoon(now int64) {
	if m.commitAt == 0 {
		m.commitAt = now + m.cfg.CommitInterval
	}
}

// cutAll commits everything: one request can take it all.
func (m *Machine[R]) cutAll(now int64) {
	m.commitAt = 0
	for _, p := range m.order {
		for _, h := range p.holdings {
			m.cut(h, now)
		}
	}
}

// Wanted reports whether a commit is still to be made: all that it is of may have been lost, or given up, since it was cut.
func (m *Machine[R]) Wanted(id int64) bool {
	s := m.commits[id]
	return s != nil && slices.ContainsFunc(s.holds, func(h *holding[R]) bool { return h.stage != gone })
}

// CommitDone answers a commit. ok: it is durable. Otherwise, also if nobody knows, what it said comes again.
func (m *Machine[R]) CommitDone(id int64, ok bool, now int64) {
	m.now = now
	s := m.commits[id]
	if s == nil {
		return
	}
	delete(m.commits, id)
	m.flushed(ok, s.flushes...)
	for _, h := range s.holds {
		if h.stage == gone {
			continue
		}
		h.sent = nil
		m.shipped(h, ok)
		if ok {
			h.track.Committed(s.batch)
		} else {
			h.track.Failed(s.batch)
			h.retryFresh = h.retryFresh || s.retries
			h.tries++
		}
		if t := s.counted; t != nil && t == h.counting && t.seq == s.seq && t.state == storing {
			if ok {
				m.rearm(t, now)
			} else {
				h.store = true
			}
		}
		switch {
		case h.stage == leaving:
			m.drain(h, now)
			continue
		case !ok: // not at once again
			m.flushed(false, h.flushes...)
			h.flushes = nil
		case len(h.flushes) > 0:
			m.goOnFlush(h, now)
		case h.store || h.track.Reached(m.cfg.MaxRanges) || m.heavy(h):
			m.cut(h, now)
		}
		at := max(now, m.lastCut+m.cfg.CommitInterval)
		if !ok {
			at = now + m.cfg.CommitInterval
		}
		if h.dirty() && (m.commitAt == 0 || at < m.commitAt) {
			m.commitAt = at
		}
	}
}

// dirty reports whether there is something to commit.
func (h *holding[R]) dirty() bool { return h.sent == nil && (h.retryFresh || h.track.Dirty()) }
