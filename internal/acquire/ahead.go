package acquire

// This file is about what is acquired for a member before there are records, or before it can be told: the caller keeps it for the member, and tells it later. In the log
// that is an acquisition as any other; that the member does not know of it is the caller's own knowledge.

// Heard says when the caller planned an entry of its own that was applied: whoever reads it has heard of its member then, or later.
func (s *State) Heard(id uint64, at int64) {
	if e := s.entries[id]; e != nil {
		e.heard = at
	}
}

// Keep says that the member of an acquisition that has won is not told of it yet. That is to be said before the member says what it has.
func (s *State) Keep(id uint64) {
	s.spansOf(id, Everything, func(p *span) { p.kept = p.kept || !p.lost })
}

// Untold says that an answer with a range of an acquisition that has won does not come to its member: others can have it. The log was known up to a position when the member
// was to be told, or when that was planned.
func (s *State) Untold(id uint64, r Range, since int64) {
	s.mend()
	s.spansOf(id, r, func(p *span) {
		if s.Disturbed(p.Range, since) { // others may have done it meanwhile: that is read first, as of what was given out
			p.lost = true
		} else {
			p.kept, p.left = true, true
		}
	})
}

// spansOf calls f for the spans of an acquisition within a range.
func (s *State) spansOf(id uint64, r Range, f func(*span)) {
	e := s.entries[id]
	if e == nil {
		return
	}
	from, to := s.between(Range{max(r.First, e.First), min(r.Last, e.Last)})
	for i := from; i < to; i++ {
		if s.spans[i].of == e {
			f(&s.spans[i])
		}
	}
}

// Kept is a range that is kept for a member. Timely says that the member can be told of it: others do not take it for over yet.
type Kept struct {
	Range
	ID      uint64 // of the acquisition
	Member  string
	Attempt int32
	Timely  bool
}

// Kept calls f for what is kept, and not done, lowest offset first, until f returns false.
func (s *State) Kept(now int64, f func(k Kept) bool) {
	s.mend()
	more := true
	for i := 0; i < len(s.spans) && more; i++ {
		p := s.spans[i]
		if !p.kept || p.left {
			continue
		}
		heard := p.of.heard
		if m := s.sessions[p.of.Member]; m != nil {
			heard = max(heard, m.heard)
		}
		timely := now-heard < int64(p.of.Timeout) && !s.over[p.of.Member]
		s.undone(p.Range, func(r Range) { more = more && f(Kept{r, p.of.ID, p.of.Member, p.of.Attempt, timely}) })
	}
}

// Tell says that the member is told now of what is kept for it of a range.
func (s *State) Tell(member string, r Range) {
	from, to := s.between(r)
	for i := from; i < to; i++ {
		if p := &s.spans[i]; p.of.Member == member {
			p.kept, p.left = false, false
		}
	}
}

// Leave says that the member does not come for what is kept for it of a range, which others can have. To get it after all it has to acquire it. It reports whether there is any.
func (s *State) Leave(member string, r Range) (any bool) {
	from, to := s.between(r)
	for i := from; i < to; i++ {
		if p := &s.spans[i]; p.of.Member == member && p.kept {
			p.left, any = true, true
		}
	}
	return any
}

// Release returns the entries by which what members did not come for, or say that they do not have, is given back. id gives each a number.
func (s *State) Release(id func() uint64) (entries []Entry) {
	s.mend()
	return s.giveBack(func(p *span) bool { return p.left || p.lost }, id)
}

// giveBack returns entries by which nobody has certain spans any more.
func (s *State) giveBack(of func(*span) bool, id func() uint64) (entries []Entry) {
	for i := range s.spans {
		p := &s.spans[i]
		if !of(p) || s.undone(p.Range, nil) == 0 {
			continue
		}
		if n := len(entries) - 1; n >= 0 && entries[n].Last+1 == p.First && entries[n].Attempt == p.attempts() && entries[n].Over[0].Member == p.of.Member {
			entries[n].Last = p.Last
			entries[n].Over[0].Position = max(entries[n].Over[0].Position, s.known(p.of))
			continue
		}
		entries = append(entries, Entry{Era: s.era, First: p.First, Last: p.Last, ID: id(), Attempt: p.attempts(), Over: []Over{{p.of.Member, s.known(p.of)}}})
	}
	return entries
}

// untold reports whether the member of the span is known not to have been told of it.
func (p *span) untold() bool { return p.of.Member != "" && (p.kept || p.lost) }

// attempts is how many times the span was given out to a member that was told.
func (p *span) attempts() int32 {
	if p.untold() {
		return p.of.Attempt - 1
	}
	return p.of.Attempt
}
