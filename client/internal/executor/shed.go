package executor

import (
	"cmp"
	"slices"

	"github.com/tandem-kafka/tandem/keyrange"
)

// shed are the records of a key that are to be read again: behind those in memory, all that came since.
type shed[R any] struct {
	hold    *holding[R]
	offsets []int64 // rising
}

const (
	rereadKeys  = 256    // in one Reread
	rereadDelay = Second // after one that failed
)

// lowWater is how many records a key has left when those that were shed are read again.
func (m *Machine[R]) lowWater() int { return m.keep / 4 }

// relieve sheds what waits behind blocked keys, down to half of the memory, if workers have nothing to do and what they could
// do has no room: fetches that are paused, or records to be read again.
func (m *Machine[R]) relieve(now int64) {
	m.shedAt = 0
	if len(m.paused) == 0 && (len(m.needy) == 0 || m.hasRoom()) {
		return
	}
	m.shedAt = now + m.cfg.ShedAfter
	if m.ready > 0 || m.halted || len(m.running) >= m.cfg.Handlers || m.shed >= m.cfg.MaxShed {
		return
	}
	for keep := m.keep; m.used() > one/2; keep = max(1, keep/4) {
		m.keys.each(func(k *key[R]) {
			if k.waiting > keep && k.head.hold.stage == active {
				m.shedTail(k, keep, now)
			}
		})
		if keep == 1 {
			break
		}
	}
	// Nothing will become ready soon, so what is not full may as well fetch: here it is no use to wait for much room.
	for _, p := range slices.Clone(m.paused) {
		if !m.isFull(p) {
			m.resume(p)
		}
	}
}

// shedTail leaves the first keep records of k in memory.
func (m *Machine[R]) shedTail(k *key[R], keep int, now int64) {
	last := k.head
	for range keep - 1 {
		last = last.next
	}
	tail := last.next
	last.next, k.tail = nil, last
	k.waiting = keep
	k.name = slices.Clone(k.name) // the record whose memory it is in may be among those
	h := tail.hold
	var list []int64
	for tail != nil {
		next := tail.next
		list = append(list, tail.offset)
		m.ungate(tail, now)
		m.release(tail)
		tail = next
	}
	if k.shed == nil {
		k.shed = &shed[R]{hold: h}
	}
	k.shed.offsets = append(list, k.shed.offsets...)
	m.countShed(k.p, len(list))
}

// countShed counts n more shed offsets of p.
func (m *Machine[R]) countShed(p *partition[R], n int) {
	m.shed += n
	p.shed += n
	switch limit := m.cfg.MaxShed; {
	case n < 0:
		m.look = m.look || len(m.paused) > 0
		m.warned = m.warned && m.shed > limit/2
	case !m.warned && m.shed >= limit-limit/4:
		m.warned = true
		r := Report{Kind: ShedHigh, Info: Info{TP: p.tp}}
		if slow := m.Slow(1); len(slow) > 0 {
			r.Info = slow[0]
		}
		m.out.Reports = append(m.out.Reports, r)
	}
}

// need says that k will need what was shed.
func (m *Machine[R]) need(k *key[R]) {
	if k.needed || k.rereading {
		return
	}
	k.needed = true
	k.p.needy = append(k.p.needy, k)
	if !k.p.listed {
		k.p.listed = true
		m.needy = append(m.needy, k.p)
	}
	if m.shedAt == 0 && !m.hasRoom() {
		m.shedAt = m.now + m.cfg.ShedAfter
	}
}

func (m *Machine[R]) mayReread(p *partition[R]) bool {
	return p.reread == 0 && p.rereadAt <= m.now && len(p.needy) > 0
}

func (m *Machine[R]) hasRoom() bool { return m.used() < one/8*7 }

func (m *Machine[R]) wantsReread() bool {
	return len(m.needy) > 0 && m.hasRoom() && slices.ContainsFunc(m.needy, m.mayReread)
}

// askReread asks for the records of needy keys, as far as there is room.
func (m *Machine[R]) askReread() {
	if !m.wantsReread() {
		return
	}
	for _, p := range m.needy {
		if !m.mayReread(p) || !m.hasRoom() {
			continue
		}
		slices.SortFunc(p.needy, func(a, b *key[R]) int { return cmp.Compare(a.shed.offsets[0], b.shed.offsets[0]) })
		n := min(len(p.needy), rereadKeys, max(1, (m.cfg.MaxRecords/4*3-m.records)/m.keep))
		p.reading = append(p.reading[:0], p.needy[:n]...)
		p.needy = slices.Delete(p.needy, 0, n)
		ranges := make([]keyrange.Range, n)
		for i, k := range p.reading {
			k.needed, k.rereading = false, true
			position := keyrange.PositionOfHash(k.hash, p.base)
			ranges[i] = keyrange.Range{First: position, Last: position}
		}
		m.ids++
		p.reread, p.from = m.ids, p.reading[0].shed.offsets[0]
		m.out.Rereads = append(m.out.Rereads, Reread{ID: p.reread, TP: p.tp, From: p.from, Keys: keyrange.Normalize(ranges)})
	}
	m.needy = slices.DeleteFunc(m.needy, func(p *partition[R]) bool {
		p.listed = len(p.needy) > 0
		return !p.listed
	})
}

// rereadOf is the partition of a Reread that is under way; nil: nobody waits for it any more.
func (m *Machine[R]) rereadOf(id int64) *partition[R] {
	for _, p := range m.order {
		if p.reread == id {
			p.reread = 0
			return p
		}
	}
	return nil
}

// RereadDone answers a Reread with all records that its key ranges have from its From on up to to, exclusive, or as well
// with all records of the partition. Records of others are ignored.
func (m *Machine[R]) RereadDone(id int64, to int64, records []R, now int64) {
	m.now = now
	p := m.rereadOf(id)
	if p == nil {
		return
	}
	for _, r := range records {
		meta := m.describe(r)
		to = max(to, meta.Offset+1)
		if meta.Key == nil {
			continue
		}
		hash := keyrange.Murmur2(meta.Key)
		k := m.keys.get(p, hash, meta.Key)
		if k == nil || !k.rereading || k.full {
			continue
		}
		m.missed(k, meta.Offset, now)
		if k.full = k.waiting >= m.keep; k.full || !k.shed.begins(meta.Offset) {
			continue
		}
		h := k.shed.hold
		k.shed.offsets = k.shed.offsets[1:]
		m.countShed(p, -1)
		m.enqueue(k, m.task(h, r, &meta, now), &meta, now)
	}
	m.endReread(p, to, now)
	if to <= p.from { // it brought nothing
		p.rereadAt = now + rereadDelay
	}
}

// RereadFailed answers a Reread that brought nothing. It comes again after a while.
func (m *Machine[R]) RereadFailed(id int64, now int64) {
	m.now = now
	if p := m.rereadOf(id); p != nil {
		m.endReread(p, 0, now)
		p.rereadAt = now + rereadDelay
	}
}

func (s *shed[R]) begins(offset int64) bool { return len(s.offsets) > 0 && s.offsets[0] == offset }

// endReread ends it, with everything up to to, exclusive, seen.
func (m *Machine[R]) endReread(p *partition[R], to, now int64) {
	keys := p.reading
	p.reading = nil
	for _, k := range keys {
		if !k.full {
			m.missed(k, to, now)
		}
		k.rereading, k.full = false, false
	}
	for _, k := range keys {
		switch {
		case len(k.shed.offsets) == 0:
			k.shed = nil
		case k.waiting <= m.lowWater():
			m.need(k)
		}
		m.advance(k, now)
	}
}

// missed says that shed records of k below offset are gone from the log: compacted, or deleted. That is as good as done.
func (m *Machine[R]) missed(k *key[R], offset, now int64) {
	n := 0
	for ; n < len(k.shed.offsets) && k.shed.offsets[n] < offset; n++ {
		h := k.shed.hold
		h.track.Done(k.shed.offsets[n])
		h.forgetRetry(k.shed.offsets[n])
	}
	if n > 0 {
		k.shed.offsets = k.shed.offsets[n:]
		m.countShed(k.p, -n)
		m.commitSoon(now)
	}
}

// LogStart says that a partition begins at offset now. Nothing is fetched from below it; records in memory stay.
func (m *Machine[R]) LogStart(tp TP, offset, now int64) {
	m.now = now
	p := m.parts[tp]
	if p == nil {
		return
	}
	var over []*key[R]
	m.keys.each(func(k *key[R]) {
		if k.p == p && k.shed != nil {
			if m.missed(k, offset, now); len(k.shed.offsets) == 0 && !k.rereading {
				k.shed = nil
				over = append(over, k)
			}
		}
	})
	m.unneed(p)
	for _, k := range over {
		m.advance(k, now)
	}
	for _, h := range p.holdings {
		h.track.Scanned(offset)
		if m.commitAt == 0 && h.track.Dirty() {
			m.commitSoon(now)
		}
	}
}

// unneed takes the keys of p from its lists that nothing is shed of any more.
func (m *Machine[R]) unneed(p *partition[R]) {
	over := func(k *key[R]) bool {
		if k.shed == nil {
			k.needed, k.rereading, k.full = false, false, false
		}
		return k.shed == nil
	}
	p.needy = slices.DeleteFunc(p.needy, over)
	p.reading = slices.DeleteFunc(p.reading, over)
}

// forgetShed forgets what was shed of a holding, and adds its keys to keys.
func (m *Machine[R]) forgetShed(h *holding[R], keys []*key[R]) []*key[R] {
	if h.p.shed == 0 {
		return keys
	}
	m.keys.each(func(k *key[R]) {
		if k.shed == nil || k.shed.hold != h {
			return
		}
		h.dropped += len(k.shed.offsets)
		m.countShed(h.p, -len(k.shed.offsets))
		if k.shed = nil; !k.dropping {
			k.dropping = true
			keys = append(keys, k)
		}
	})
	m.unneed(h.p)
	return keys
}

// splitShed moves what was shed of keys that s has now, and adds the offsets to moved, and those of the others to kept.
func (m *Machine[R]) splitShed(h, s *holding[R], moved, kept []int64) ([]int64, []int64) {
	if h.p.shed == 0 {
		return moved, kept
	}
	m.keys.each(func(k *key[R]) {
		switch {
		case k.shed == nil || k.shed.hold != h:
		case s.keys.Contains(keyrange.PositionOfHash(k.hash, h.p.base)):
			k.shed.hold = s
			moved = append(moved, k.shed.offsets...)
		default:
			kept = append(kept, k.shed.offsets...)
		}
	})
	return moved, kept
}
