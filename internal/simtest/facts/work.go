package facts

import (
	"slices"

	"github.com/tandem-kafka/tandem/internal/progress"
	"github.com/tandem-kafka/tandem/internal/region"
	"github.com/tandem-kafka/tandem/keyrange"
)

// whole is the whole key axis.
var whole = keyrange.Set{keyrange.Full}

// begin finds out where a share starts, and what of it is done.
func (m *member) begin(s *share) {
	w := m.w
	if m.waits(s) {
		w.stats.waits++
		return
	}
	s.skip, s.did, s.said = map[*record]bool{}, map[*record]bool{}, map[*record]bool{}
	w.stats.starts++
	switch {
	case s.plain():
		s.pos = max(w.broker.rows[source].Offset, 0)
	case s.view < 0:
		m.gw.follow(true)
		p := w.picture(s.base, true)
		attach(p, m.gw, s.base)
		w.checkAnswer("g"+string(rune('0'+m.gw.id)), s.base, p, m.gw.ledger, m.gw.next(s.base))
		stable, above, _ := w.answer(p, m.gw.ledger, s.base, m.gw.next(s.base))
		s.pos = stable
		for _, r := range w.records {
			if r.in(s.keys, s.base) && r.offset >= stable && above(r) {
				s.skip[r] = true
			}
		}
	default:
		m.gw.follow(true)
		p := w.picture(s.base, true)
		attach(p, m.gw, s.base)
		w.checkStarts("g"+string(rune('0'+m.gw.id)), s.base, p)
		s.pos = w.startOf(p, s)
		s.began = s.pos
		w.again(s)
	}
	s.from, s.committed, s.begun = s.pos, s.pos, true
	w.logf("%v begins %v at %d, without %d", m, s, s.pos, len(s.skip))
}

// startOf is an OffsetFetch of a slice.
func (w *world) startOf(p *progress.Picture, s *share) int64 {
	start := p.Start(w.local[s.view], s.slice, false)
	if start.FromLogStart || start.Offset < 0 {
		return 0 // the reset policy is earliest
	}
	if end := w.ownEnd(s.keys, s.base); !start.Own && w.chance(70) {
		if start.Uncommitted && end > start.Offset {
			return 0
		}
		return min(start.Offset, end)
	}
	return start.Offset
}

// do does some records: in their order where the member commits positions, otherwise in order by key.
func (m *member) do(s *share, n int) {
	w := m.w
	if !s.individually {
		for _, r := range w.records {
			if n == 0 {
				return
			}
			if r.offset >= s.pos && r.in(s.keys, s.base) {
				n--
				s.pos = r.offset + 1
				m.did(s, r)
			}
		}
		if n > 0 && w.chance(30) { // at the end: clients' positions move over what is empty
			s.pos = max(s.pos, w.ownEnd(s.keys, s.base))
		}
		return
	}
	for ; n > 0; n-- {
		var heads []*record // of each key
		seen := [grains]bool{}
		for _, r := range w.records {
			if s.todo(r) && !seen[r.grain[s.base]] {
				seen[r.grain[s.base]] = true
				heads = append(heads, r)
			}
		}
		if len(heads) == 0 {
			return
		}
		m.did(s, heads[w.rng.IntN(len(heads))])
	}
}

func (m *member) did(s *share, r *record) {
	r.done = r.done || m.producer == nil || s.plain() // in a transaction it is when that is committed
	if s.did != nil {
		s.did[r] = true
	}
	if m.rewind != nil && m.rewind.s == s {
		m.rewind.done[r] = true
	}
}

func (s *share) todo(r *record) bool {
	return r.offset >= s.from && r.in(s.keys, s.base) && !s.skip[r] && !s.did[r]
}

// claims are facts for what was done of a share, in one of the forms that clients have for it; nil: nothing is new.
func (w *world) claims(s *share) (facts []region.Fact) {
	keys := s.keys
	if w.chance(30) { // of a part of the key range
		first, last := int(keys.First>>grainBits), int(keys.Last>>grainBits)
		first += w.rng.IntN(last - first + 1)
		keys = grainsOf(first, first+w.rng.IntN(last-first+1))
	}
	var fresh []*record
	few := !w.quiet && w.chance(40)
	for _, r := range w.records {
		if s.did[r] && (!s.said[r] || w.chance(5)) && r.in(keys, s.base) && !(few && w.chance(50)) {
			fresh = append(fresh, r)
		}
	}
	end := w.end // looked through up to here
	for _, r := range w.records {
		if s.todo(r) && r.in(keys, s.base) {
			end = r.offset
			break
		}
	}
	if w.quiet || w.chance(25) { // a watermark
		if end == 0 {
			return nil
		}
		w.stats.watermarks++
		return []region.Fact{{Keys: keys, Last: end - 1}}
	}
	if len(fresh) == 0 {
		return nil
	}
	dense := w.chance(60)
	for _, r := range fresh {
		f := region.Fact{Keys: keys, First: r.offset, Last: r.offset}
		if dense { // up to what is not done
			f.First, f.Last = s.from, w.end-1
			for _, o := range w.records {
				if !s.todo(o) || !o.in(keys, s.base) {
					continue
				}
				if o.offset < r.offset {
					f.First = o.offset + 1
				} else {
					f.Last = o.offset - 1
					break
				}
			}
		}
		if !slices.Contains(facts, f) {
			facts = append(facts, f)
		}
	}
	return facts
}

// commit commits some shares of one base.
func (m *member) commit() {
	w := m.w
	if m.busy != nil || m.rewind != nil || m.fenced() {
		return
	}
	r := &request{m: m, base: -1}
	var some []*share
	for _, s := range m.shares {
		if !s.begun || r.base >= 0 && (s.base != r.base || some[0].plain() != s.plain()) || !w.quiet && w.chance(40) {
			continue
		}
		if s.individually {
			facts := w.claims(s)
			if len(facts) == 0 {
				continue
			}
			r.facts = append(r.facts, facts...)
		}
		r.base = s.base
		some = append(some, s)
	}
	if len(some) > 0 {
		m.send(r, some)
	}
}

// send puts a commit on its way.
func (m *member) send(r *request, some []*share) {
	w := m.w
	if some[0].plain() {
		m.commitPlain(r, some[0])
		return
	}
	type at struct {
		s   *share
		pos int64
	}
	var ats []at
	first := false
	for _, s := range some {
		k := s.key
		if k == source {
			k.slice = int32(s.base)
		}
		first = first || !m.read[k]
		m.read[k] = true
		if s.individually {
			r.ofSource = r.ofSource || s.view < 0
			continue
		}
		pos, began := s.pos, s.began
		if m.rewind != nil { // perhaps once more, when it has done some records since
			pos, began = m.rewind.to, m.rewind.began
		}
		ats = append(ats, at{s, pos})
		words := "text"
		r.commits = append(r.commits, progress.Commit{View: w.local[s.view], Slice: s.slice, Offset: pos, LeaderEpoch: -1, Metadata: &words, Began: began})
	}
	if m.producer != nil {
		m.sendInTxn(r, some)
		return
	}
	if !m.gw.plan(r, first) {
		return
	}
	r.answer = func(ok, known bool) {
		m.busy = nil
		if !known {
			m.reconnect()
			return
		}
		if !ok {
			m.rewind = nil
			return
		}
		for _, a := range ats {
			if a.s.committed = a.pos; m.rewind == nil { // else once it is acknowledged
				a.s.began = a.pos
			}
		}
		for _, s := range some {
			for rec := range s.did {
				if s.individually && w.says(r, rec) {
					s.said[rec] = true
				}
			}
		}
		if m.rewind != nil {
			m.rewind.era, m.rewind.exposed = r.plan.Era, r.plan.Exposed
			m.rewound()
		}
	}
	m.busy = r
	for _, i := range r.plan.Back {
		w.stats.backs++
		if c := r.commits[i]; c.Began < 0 {
			// A reader that is behind another one and reconnected: nobody can tell it from one that went back.
			w.lower(keyrange.OfSlice(c.Slice, w.byBase[r.base][c.View].K), r.base, c.Offset)
		}
	}
	m.gw.send(r)
}

// commitPlain is a commit of the source itself, by a plain consumer.
func (m *member) commitPlain(r *request, s *share) {
	w := m.w
	pos, words := s.pos, ""
	r.member, r.generation, r.sent = m.id, m.generation, w.now
	r.writes = map[key]progress.Row{source: {Offset: pos, LeaderEpoch: -1, Metadata: &words}}
	r.answer = func(_, known bool) {
		m.busy = nil
		if !known {
			m.reconnect()
		}
	}
	r.did = func(*request) {
		w.stats.plain++
		w.logf("%v commits %d for all", m, pos)
		for _, rec := range w.records {
			switch {
			case rec.offset < pos && rec.done:
				rec.open, rec.lenient, rec.done = false, false, false
			case rec.offset < pos && rec.lenient: // a tool's wish for a view is nothing to a plain consumer
				rec.open = false
			case rec.offset >= pos && !w.mixed && !r.late: // it discards what was committed above it
				rec.open, rec.lenient = true, false
				w.reopened(rec)
			}
		}
		w.external("a plain commit")
		w.rows = [bases][grains]int64{}
	}
	if w.chance(50) { // through the gateway, which takes note
		clear(m.gw.pictures)
	}
	m.busy = r
	m.queue = append(m.queue, r)
}
