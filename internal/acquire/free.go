package acquire

import "slices"

// Free is a range of offsets that can be given out.
type Free struct {
	Range
	Attempts int32 // how many times it was given out
	// Again says that it was given out before: read what is done, and ask again, before it is given out again.
	Again bool
	// Untold says that the one who has it was not told of it.
	Untold bool
	over   []Over
}

// Next returns the lowest range at or behind an offset that can be given out, whose records have all been given out equally often; the last one,
// which was never given out, ends at MaxOffset. It is false at the end of the offsets.
func (s *State) Next(from, now int64) (f Free, ok bool) {
	s.mend()
	from = max(from, s.stable)
	for from <= MaxOffset {
		if i := s.done.search(from); i < len(s.done) && s.done[i].First <= from {
			from = s.done[i].Last + 1
			continue
		}
		f = Free{Range: Range{from, MaxOffset}}
		if i := s.done.search(from); i < len(s.done) {
			f.Last = s.done[i].First - 1
		}
		i := s.at(from)
		if i < len(s.spans) && s.spans[i].First <= from {
			p := &s.spans[i]
			f.Last = min(f.Last, p.Last)
			if !s.isFree(p, now) {
				from = f.Last + 1
				continue
			}
			f.Attempts = p.attempts()
			// What was given back counts no attempt, but may have been given out and done, when that came late.
			f.Again, f.Untold = f.Attempts > 0 || p.of.Member == "" || p.lost, p.untold()
			if p.of.Member != "" {
				f.over = []Over{{p.of.Member, s.known(p.of)}}
			}
			return f, true
		}
		if i < len(s.spans) {
			f.Last = min(f.Last, s.spans[i].First-1)
		}
		if m := s.Marker(); from < m { // its entry is gone, and so should it be
			f.Last, f.Again = min(f.Last, m-1), true
		}
		return f, true
	}
	return f, false
}

// isFree reports whether a span can be taken.
func (s *State) isFree(p *span, now int64) bool {
	m := p.of.Member
	return m == "" || p.lost || p.left || s.over[m] || now-s.seen(p.of) > grace(p.of.Timeout)
}

// grace is for how long a member that is in time may not be seen: it is announced when it was seen after a quarter of its timeout, and the log takes time too.
func grace(timeout int32) int64 { return int64(timeout) * 4 / 3 }

// seen is when the member of an acquisition was last there.
func (s *State) seen(e *entry) int64 {
	if m := s.sessions[e.Member]; m != nil {
		return max(m.seen, e.seen)
	}
	return e.seen
}

// Expires is when the next member that holds something is over, if it is not seen before; false: nobody holds anything that is not free.
func (s *State) Expires(now int64) (at int64, ok bool) {
	for i := range s.spans {
		if p := &s.spans[i]; p.of.left > 0 && !s.isFree(p, now) {
			if t := s.seen(p.of) + grace(p.of.Timeout) + 1; !ok || t < at {
				at, ok = t, true
			}
		}
	}
	return at, ok
}

// Acquire returns the entry by which a member takes offsets r of f.
func (f *Free) Acquire(s *State, id uint64, r Range, member string, timeout int32) Entry {
	return Entry{Era: s.era, First: r.First, Last: r.Last, ID: id, Attempt: f.Attempts + 1, Over: f.over, Member: member, Timeout: timeout}
}

// GiveBack returns the entries by which a member gives back all that it holds. id gives each a number.
func (s *State) GiveBack(member string, id func() uint64) (entries []Entry) {
	s.mend()
	return s.giveBack(func(p *span) bool { return p.of.Member == member }, id)
}

// Renewal reports whether a session entry is due for a member that is there now. announced is when the caller has last written one; what others wrote tells it nothing:
// it may have read that long afterwards.
func (s *State) Renewal(member string, timeout int32, announced, now int64) bool {
	s.mend()
	return now-announced >= int64(timeout)/4 && slices.ContainsFunc(s.spans, func(p span) bool { return p.of.Member == member && p.of.left > 0 })
}

// Session returns the entry that says that a member is there.
func (s *State) Session(id uint64, member string, timeout int32) Entry {
	return Entry{Kind: Session, Era: s.era, ID: id, Member: member, Timeout: timeout}
}

// Holds returns what a member holds of what is not done.
func (s *State) Holds(member string) (ranges []Range) {
	s.mend()
	for i := range s.spans {
		if s.spans[i].of.Member == member {
			s.undone(s.spans[i].Range, func(r Range) { ranges = append(ranges, r) })
		}
	}
	return ranges
}

// Has says that a member is there, and what it has, sorted and disjoint, as it says itself: what else it is said to hold, and is not kept for it, it does not work on, so that it can be given out.
// It reports whether there is any.
func (s *State) Has(member string, has []Range, now int64) (lost bool) {
	s.mend()
	var all set
	for _, r := range has {
		all.add(r)
	}
	for i := 0; i < len(s.spans); i++ {
		p := s.spans[i]
		if p.of.Member != member {
			continue
		}
		p.of.seen = max(p.of.seen, now)
		if p.kept {
			continue
		}
		var out []Range
		all.outside(p.Range, func(r Range) { s.undone(r, func(r Range) { out = append(out, r) }) })
		if len(out) == 0 {
			s.spans[i].lost = false
			continue
		}
		lost = true
		var parts []span
		at := p.First
		for _, r := range out {
			if r.First > at {
				parts = append(parts, span{Range: Range{at, r.First - 1}, of: p.of})
			}
			parts = append(parts, span{Range: r, of: p.of, lost: true})
			at = r.Last + 1
		}
		if at <= p.Last {
			parts = append(parts, span{Range: Range{at, p.Last}, of: p.of})
		}
		s.spans = slices.Replace(s.spans, i, i+1, parts...)
		i += len(parts) - 1
	}
	return lost
}

// Members says who is in the group: others are over.
func (s *State) Members(is func(member string) bool) {
	s.mend()
	for i := range s.spans {
		if m := s.spans[i].of.Member; m != "" {
			s.over[m] = !is(m)
		}
	}
}
