package executor

import (
	"fmt"

	"github.com/tandem-kafka/tandem/client/internal/done"
	"github.com/tandem-kafka/tandem/keyrange"
)

// storedCause is the cause of a failure in an earlier process.
type storedCause string

func (c storedCause) Error() string { return string(c) }

// Assign adds key ranges of a partition. They must not overlap those that the process has, which it still has while a
// revocation is not Released.
func (m *Machine[R]) Assign(tp TP, a Assignment, now int64) error {
	m.now = now
	keys := a.Keys
	if len(keys) == 0 {
		keys = keyrange.Set{keyrange.Full}
	}
	p := m.parts[tp]
	switch {
	case m.closed:
		return fmt.Errorf("%v: closed", tp)
	case a.Base < 1:
		return fmt.Errorf("%v: base %d: at least 1", tp, a.Base)
	case a.Start < 0 || a.Guard < 0:
		return fmt.Errorf("%v: start %d, guard %d: at least 0", tp, a.Start, a.Guard)
	case p != nil && p.base != a.Base && len(p.holdings) > 0:
		return fmt.Errorf("%v: base %d, but %d before", tp, a.Base, p.base)
	}
	if err := keys.Validate(); err != nil {
		return fmt.Errorf("%v: %w", tp, err)
	}
	if p != nil {
		for _, h := range p.holdings {
			if common := keyrange.AppendIntersect(nil, keys, h.keys); len(common) > 0 {
				return fmt.Errorf("%v: has key ranges %v already", tp, common)
			}
		}
	} else {
		m.ids++
		p = &partition[R]{tp: tp, salt: uint32(mix(0, m.ids, 0))}
		m.parts[tp] = p
		m.order = append(m.order, p)
	}
	p.base = a.Base
	h := &holding[R]{p: p, keys: keys, track: done.NewTracker(a.Start), filter: done.NewFilter(a.Committed), guard: a.Guard}
	h.full = keys.Covers(keyrange.Full)
	if len(a.Retries) > 0 {
		h.retries = make(map[int64]Retry, len(a.Retries))
		for _, r := range a.Retries {
			h.retries[r.Offset] = r
		}
	}
	p.holdings = append(p.holdings, h)
	return nil
}

// Fetched takes records in.
func (m *Machine[R]) Fetched(tp TP, f Fetch[R], now int64) {
	m.now = now
	p := m.parts[tp]
	if p == nil {
		return
	}
	live, placed := m.live[:0], false
	for _, h := range p.holdings {
		// What was fetched from behind Next would leave a hole: it belongs to a position that is not any more.
		if h.stage == active && f.From <= h.track.Next() && (f.Keys == nil || covers(f.Keys, h.keys)) {
			live = append(live, h)
			placed = placed || !h.full || h.filter != nil
		}
	}
	m.live = live
	if len(live) == 0 {
		return
	}
	to := f.To
	for _, r := range f.Records {
		meta := m.describe(r)
		to = max(to, meta.Offset+1)
		var hash, position uint32
		if meta.Key != nil {
			hash = keyrange.Murmur2(meta.Key)
		}
		h := live[0]
		if placed {
			if position = keyrange.NullPosition(meta.Offset); meta.Key != nil {
				position = keyrange.PositionOfHash(hash, p.base)
			}
			h = nil
			for _, l := range live {
				if l.full || l.keys.Contains(position) {
					h = l
					break
				}
			}
		}
		if h == nil || meta.Offset < h.track.Next() || h.filter.Has(position, meta.Offset) {
			continue
		}
		h.track.Give(meta.Offset)
		m.accept(h, r, &meta, hash, now)
	}
	for _, h := range live {
		h.track.Scanned(to)
		if h.filter.Empty() {
			h.filter = nil
		}
		if m.commitAt == 0 && h.track.Dirty() {
			m.commitSoon(now)
		}
	}
	m.checkFlow(p, now)
	if m.own != nil && m.keepAt == 0 && m.records > 0 {
		m.keepAt = now + keepAfter
	}
}

// accept takes in a record that has to be done.
func (m *Machine[R]) accept(h *holding[R], r R, meta *Meta, hash uint32, now int64) {
	p := h.p
	k := m.keyOf(p, meta, hash)
	if k != nil && k.shed != nil {
		k.shed.offsets = append(k.shed.offsets, meta.Offset)
		m.countShed(p, 1)
		return
	}
	t := m.task(h, r, meta, now)
	if h.guard > 0 {
		h.guard--
		h.gates++
		t.guarded, t.gates = true, true
	}
	if k == nil {
		m.rearm(t, now)
		return
	}
	m.enqueue(k, t, meta, now)
	if k.head != nil && k.head.state == delayed {
		m.ungateBehind(k.head, now)
	}
}

// keyOf is the key that a record is ordered by; nil: none.
func (m *Machine[R]) keyOf(p *partition[R], meta *Meta, hash uint32) *key[R] {
	switch {
	case m.cfg.Order == ByPartition:
		if p.all == nil {
			p.all = &key[R]{p: p}
		}
		return p.all
	case m.cfg.Order == Unordered || meta.Key == nil:
		return m.orphan(p, meta.Offset)
	}
	if k := m.keys.get(p, hash, meta.Key); k != nil {
		return k
	}
	return m.keys.insert(p, hash, meta.Key)
}

// orphan is a key for a record without one that still runs since before its key range was lost, so that it does not run
// twice at once; nil: it does not run.
func (m *Machine[R]) orphan(p *partition[R], offset int64) *key[R] {
	if p.orphans == 0 {
		return nil
	}
	for _, t := range m.running {
		if t.offset == offset && t.hold.p == p {
			if t.key == nil {
				t.key = &key[R]{p: p, single: true, handed: 1}
			}
			return t.key
		}
	}
	return nil
}

// task brings a record into memory.
func (m *Machine[R]) task(h *holding[R], r R, meta *Meta, now int64) *Task[R] {
	t := m.alloc()
	m.seq++
	t.Record, t.hold, t.offset, t.seq, t.arrived, t.size, t.state = r, h, meta.Offset, m.seq, now, int32(meta.Size), queued
	p := h.p
	h.tasks++
	p.records++
	p.bytes += int64(t.size)
	m.records++
	m.bytes += int64(t.size)
	if len(h.retries) > 0 {
		if retry, ok := h.retries[meta.Offset]; ok {
			t.attempts, t.nextAt, t.final = retry.Attempts, retry.NextAt, retry.Final
			if retry.Cause != "" {
				t.cause = storedCause(retry.Cause)
			}
		}
	}
	return t
}

func (m *Machine[R]) enqueue(k *key[R], t *Task[R], meta *Meta, now int64) {
	t.key = k
	k.name = meta.Key // the newest record's, so that no memory is held longer than that of a record which is there anyway
	k.pushBack(t)
	if k.handed == 0 && !k.armed {
		m.advance(k, now)
	}
}

// position is where a task lies on the key axis.
func (m *Machine[R]) position(t *Task[R]) uint32 {
	if meta := m.describe(t.Record); meta.Key != nil {
		return keyrange.Position(meta.Key, t.hold.p.base)
	}
	return keyrange.NullPosition(t.offset)
}

// covers reports whether all of b lies in a.
func covers(a, b keyrange.Set) bool {
	for _, r := range b {
		if !a.Covers(r) {
			return false
		}
	}
	return true
}
