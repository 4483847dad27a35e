package acquire

import (
	"cmp"
	"maps"
	"slices"
)

// Apply takes in an entry of the log, at its position. It reports whether it is an acquisition that wins.
func (s *State) Apply(position int64, e Entry, now int64) (won bool) {
	if e.Era < s.era && len(s.entries) == 0 && !e.Delete { // the committed offsets that the era belonged to may be gone
		stale := s.stale
		s.begin(e.Era)
		s.stale = stale
	}
	if e.Era < s.era {
		if !e.Delete {
			s.outlived(e)
		} else {
			s.stale = slices.DeleteFunc(s.stale, func(o Entry) bool { return o.same(&e) })
		}
		return false
	}
	s.Begin(e.Era)
	s.now = now
	if e.Delete {
		s.deleted(e, position)
		return false
	}
	s.mend()
	n := &entry{Entry: e, position: position, seen: now, free: now}
	s.entries[e.ID] = n
	s.judge(n, now)
	return n.won && e.Kind == Acquisition
}

// Knows reports whether an entry was applied and is not deleted.
func (s *State) Knows(id uint64) bool { return s.entries[id] != nil }

func (e *Entry) same(o *Entry) bool { return e.Kind == o.Kind && e.Era == o.Era && e.ID == o.ID }

// judge takes in an entry that comes after all others.
func (s *State) judge(e *entry, now int64) {
	e.won, e.took, e.left = false, false, 0
	if e.Kind == Session {
		if m := s.sessions[e.Member]; m != nil {
			m.won, m.free = false, now
		}
		s.sessions[e.Member], e.won = e, true
		delete(s.over, e.Member)
		return
	}
	s.marker = max(s.marker, e.Last+1)
	for i := s.at(e.First); i < len(s.spans) && s.spans[i].First <= e.Last; i++ {
		if !s.yields(&s.spans[i], &e.Entry) {
			return
		}
		e.took = true
	}
	r := Range{e.First, e.Last}
	s.clear(r, now)
	s.spans = slices.Insert(s.spans, s.at(r.First), span{Range: r, of: e})
	e.won, e.left = true, s.undone(r, nil)
}

// mend judges all entries anew, if that is needed. A reader that is behind when the log is compacted misses entries that it would have
// read, until it comes to their deletions: the entries that are left then get the verdicts that everybody else has found.
func (s *State) mend() {
	if !s.torn {
		return
	}
	s.torn, s.spans = false, nil
	clear(s.sessions)
	for _, e := range slices.SortedFunc(maps.Values(s.entries), byPosition) {
		s.judge(e, s.now)
	}
}

func byPosition(a, b *entry) int { return cmp.Compare(a.position, b.position) }

// yields reports whether a span is free for an entry: it names the one who has it as over, and knows how often it was given out. Who writes it may also know that the one who has it was never told.
func (s *State) yields(p *span, e *Entry) bool {
	attempt := p.of.Attempt
	if e.Member != "" {
		attempt++
	}
	switch {
	case e.Attempt != attempt && (e.Attempt != attempt-1 || p.of.Member == ""):
		return false
	case p.of.Member == "":
		return true
	}
	i := slices.IndexFunc(e.Over, func(o Over) bool { return o.Member == p.of.Member })
	return i >= 0 && e.Over[i].Position >= s.known(p.of)
}

// known is the last position at which the member of an acquisition was there.
func (s *State) known(e *entry) int64 {
	if m := s.sessions[e.Member]; m != nil {
		return max(m.position, e.position)
	}
	return e.position
}

// deleted takes in that an entry was deleted. What is not known to be done of an acquisition, is read before Next gives it out again.
func (s *State) deleted(d Entry, position int64) {
	if d.Kind == Acquisition {
		if len(s.gone) >= maxGone {
			s.goneFrom = s.gone[maxGone/2-1].position
			s.gone = slices.Delete(s.gone, 0, maxGone/2)
		}
		s.gone = append(s.gone, gone{Range{d.First, d.Last}, position})
	}
	e := s.entries[d.ID]
	if e == nil {
		s.torn = len(s.entries) > 0
		return
	}
	delete(s.entries, d.ID)
	if e.Kind == Session {
		if s.sessions[e.Member] == e {
			delete(s.sessions, e.Member)
		}
		return
	}
	s.spans = slices.DeleteFunc(s.spans, func(p span) bool { return p.of == e })
}

// Disturbed reports whether any of a range was given out and done with by others, as far as the log says, at or behind a position: what was free there may be done by now, though an
// acquisition that was planned there wins.
func (s *State) Disturbed(r Range, since int64) bool {
	return since <= s.goneFrom && s.goneFrom > 0 || slices.ContainsFunc(s.gone, func(g gone) bool { return g.position >= since && g.First <= r.Last && r.First <= g.Last })
}

// Undone returns what is not known to be done of a range.
func (s *State) Undone(r Range) (left []Range) {
	s.undone(r, func(r Range) { left = append(left, r) })
	return left
}
