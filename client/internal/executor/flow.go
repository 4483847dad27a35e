package executor

import "slices"

// one is all of the memory; used and share are parts of it.
const one = 1 << 20

func (m *Machine[R]) share(records int, bytes int64) int64 {
	return max(int64(records)*one/int64(m.cfg.MaxRecords), bytes*one/m.cfg.MaxBytes)
}

func (m *Machine[R]) used() int64 { return m.share(m.records, m.bytes) }

// A partition may use four times of what is free: one alone uses four fifths of the memory, many share it, and there is always
// something free for one that has nothing. It resumes at as much as is free: one alone at half.

func (m *Machine[R]) isFull(p *partition[R]) bool {
	return m.share(p.records, p.bytes) >= 4*(one-m.used()) || p.shed > 0 && m.shed >= m.cfg.MaxShed
}

func (m *Machine[R]) isRoomy(p *partition[R]) bool {
	free := one - m.used()
	return free > 0 && m.share(p.records, p.bytes) <= free && (p.shed == 0 || m.shed < m.cfg.MaxShed-m.cfg.MaxShed/8)
}

// checkFlow pauses p if it is full.
func (m *Machine[R]) checkFlow(p *partition[R], now int64) {
	if p.paused || len(p.holdings) == 0 || !m.isFull(p) {
		return
	}
	p.paused = true
	m.paused = append(m.paused, p)
	m.tell(p)
	if m.shedAt == 0 {
		m.shedAt = now + m.cfg.ShedAfter
	}
	m.lookBelow = m.used() - one/64
}

// resume resumes p.
func (m *Machine[R]) resume(p *partition[R]) {
	if !p.paused {
		return
	}
	p.paused = false
	m.paused = slices.DeleteFunc(m.paused, func(q *partition[R]) bool { return q == p })
	m.tell(p)
}

// settleFlow resumes the partitions that have room again.
func (m *Machine[R]) settleFlow() {
	if !m.look {
		return
	}
	m.look = false
	for i := 0; i < len(m.paused); {
		if p := m.paused[i]; m.isRoomy(p) {
			m.resume(p)
		} else {
			i++
		}
	}
	m.lookBelow = m.used() - one/64
}

func (m *Machine[R]) tell(p *partition[R]) {
	if !p.telling {
		p.telling = true
		m.told = append(m.told, p)
	}
}

// Paused reports whether the fetch of a partition is to be paused.
func (m *Machine[R]) Paused(tp TP) bool {
	p := m.parts[tp]
	return p != nil && p.paused
}
