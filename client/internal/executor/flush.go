package executor

import "slices"

// flush is a call of Flush that is not over.
type flush struct {
	id   int64
	open int // holdings and commits that it waits for
	over bool
}

// Flushed tells that what was done at a call of Flush is durable, or, without OK, that a part of it is not known to be.
type Flushed struct {
	ID int64 // of Flush
	OK bool
}

// Flush has everything committed at once that is done by now. Output.Flushed tells of the returned id when that is over.
func (m *Machine[R]) Flush(now int64) int64 {
	m.now = now
	m.ids++
	f := &flush{id: m.ids, open: 1}
	for _, p := range m.order {
		for _, h := range p.holdings {
			if h.sent != nil || h.dirty() {
				f.open++
				h.flushes = append(h.flushes, f)
				if h.sent == nil {
					m.goOnFlush(h, now)
				}
			}
		}
	}
	m.flushed(true, f)
	return f.id
}

// flushed takes off one of what flushes wait for. Those that fail are over, and tell so once.
func (m *Machine[R]) flushed(ok bool, flushes ...*flush) {
	for _, f := range flushes {
		if f.open--; !f.over && (f.open == 0 || !ok) {
			f.over = true
			m.out.Flushed = append(m.out.Flushed, Flushed{f.id, ok})
		}
	}
}

// goOnFlush commits more of a holding that flushes wait for and that has no commit under way.
func (m *Machine[R]) goOnFlush(h *holding[R], now int64) {
	if !m.cut(h, now) {
		m.flushed(true, h.flushes...)
		h.flushes = nil
	}
}

// carry hands the flushes of a holding to the commit that has all that they wait for. What a commit has no room for follows.
func (h *holding[R]) carry(s *sent[R]) {
	if !h.track.More() {
		s.flushes, h.flushes = h.flushes, nil
	}
}

// splitFlushes has the flushes of h wait for s, too, which was a part of it.
func (h *holding[R]) splitFlushes(s *holding[R]) {
	s.flushes = slices.Clone(h.flushes)
	for _, f := range s.flushes {
		f.open++
	}
}
