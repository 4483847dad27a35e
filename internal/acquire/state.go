package acquire

import (
	"maps"
	"slices"
)

// State is what the log says of one group, topic partition and era. It is not safe for concurrent use.
type State struct {
	era    int64
	stable int64 // all below is done
	done   set   // and this
	marker int64 // all from here on was never given out

	spans    []span // sorted, disjoint
	entries  map[uint64]*entry
	sessions map[string]*entry // the last of each member
	over     map[string]bool   // members that the group has no more
	stale    []Entry           // deletions of entries of eras that are over
	gone     []gone            // the last deletions of acquisitions
	goneFrom int64             // older ones, up to this position, are forgotten
	doubtful bool
	now      int64 // of the last entry
	torn     bool  // an entry was deleted that was not read: the verdicts since are not sure
}

// span is a part of an acquisition that holds.
type span struct {
	Range
	of *entry
	// lost says that the member does not have it, as it says itself.
	lost bool
	// kept says that the member was not told of it yet, left that it does not come for it: the caller's own knowledge.
	kept, left bool
}

// entry is one that is in the log.
type entry struct {
	Entry
	position int64
	seen     int64 // when
	heard    int64 // when the caller planned it, if it did
	won      bool  // an acquisition that holds, or a member's last session entry
	took     bool  // it has offsets that were given out before
	left     int64 // offsets of its spans that are not done
	free     int64 // since when nobody needs it
	asked    int64 // when it was last given out to be deleted; 0: never
}

type gone struct {
	Range
	position int64
}

// maxGone bounds the deletions that are remembered.
const maxGone = 4096

// New returns a State without any entry. What is done is not known yet: see Doubtful.
func New(era int64) *State {
	s := &State{}
	s.begin(era)
	return s
}

func (s *State) begin(era int64) {
	for _, e := range s.entries {
		s.outlived(e.Entry)
	}
	*s = State{era: era, stale: s.stale, entries: map[uint64]*entry{}, sessions: map[string]*entry{}, over: map[string]bool{}, doubtful: true}
}

// maxStale bounds the entries of former eras that are remembered: others stay in the log until it is read again.
const maxStale = 10_000

func (s *State) outlived(e Entry) {
	if len(s.stale) < maxStale {
		s.stale = append(s.stale, deletion(e))
	}
}

func deletion(e Entry) Entry {
	return Entry{Kind: e.Kind, Era: e.Era, First: e.First, Last: e.Last, ID: e.ID, Delete: true}
}

// Era is the era of the entries that count.
func (s *State) Era() int64 { return s.era }

// Marker is the offset from which on nothing was given out in this era.
func (s *State) Marker() int64 { return max(s.marker, s.stable) }

// Begin tells of the era that the group's committed offsets are in. What is known of an earlier one no longer counts.
func (s *State) Begin(era int64) {
	if era > s.era {
		s.begin(era)
	}
}

// Restart tells of the era, too, also of one that is below that of the entries: then the committed offsets that they belonged to are gone, and the deletions that it returns are to be appended.
func (s *State) Restart(era int64) (deletions []Entry) {
	if era < s.era {
		for _, e := range slices.SortedFunc(maps.Values(s.entries), byPosition) {
			deletions = append(deletions, deletion(e.Entry))
		}
		stale := s.stale
		*s = *New(era)
		s.stale = stale
	}
	s.Begin(era)
	return deletions
}

// Anew says that the committed offsets may have been set back, or be gone: what was done may not be so any more. It has to be read.
func (s *State) Anew() {
	s.mend()
	s.stable, s.done, s.doubtful = 0, nil, true
	for _, e := range s.entries {
		e.left = 0
	}
	for _, p := range s.spans {
		p.of.left += p.Last - p.First + 1
	}
}

// Doubtful reports whether more may be done than the state knows: then what was given out before must not be given out again until somebody has read what is done, and
// says so with Settled.
func (s *State) Doubtful() bool { return s.doubtful }

// Settled says that all was told that is done.
func (s *State) Settled() { s.doubtful = false }

// Doubt says that what is done has to be read.
func (s *State) Doubt() { s.doubtful = true }

// Stable says that everything below an offset is done.
func (s *State) Stable(offset, now int64) {
	if offset > s.stable {
		s.Done(Range{s.stable, offset - 1}, now)
	}
}

// Done says that a range of offsets is done. In verdicts it counts for nothing: gateways hear of it at different times.
func (s *State) Done(r Range, now int64) {
	s.undone(r, func(r Range) {
		for i := s.at(r.First); i < len(s.spans) && s.spans[i].First <= r.Last; i++ {
			p := &s.spans[i]
			p.of.shrink(min(p.Last, r.Last)-max(p.First, r.First)+1, now)
		}
	})
	if r.First = max(r.First, s.stable); r.First <= r.Last {
		s.done.add(r)
		s.advance()
	}
}

// undone calls f for what is not done of a range, and returns how much that is.
func (s *State) undone(r Range, f func(Range)) (n int64) {
	if r.First = max(r.First, s.stable); r.First > r.Last {
		return 0
	}
	s.done.outside(r, func(r Range) {
		n += r.Last - r.First + 1
		if f != nil {
			f(r)
		}
	})
	return n
}

// advance takes what is done from the stable offset on into it.
func (s *State) advance() {
	if len(s.done) > 0 && s.done[0].First <= s.stable {
		s.stable = s.done[0].Last + 1
		s.done = slices.Delete(s.done, 0, 1)
	}
}

// at returns the index of the first span that ends at or behind an offset.
func (s *State) at(offset int64) int {
	i, _ := slices.BinarySearchFunc(s.spans, offset, func(p span, at int64) int {
		if p.Last < at {
			return -1
		}
		return 1
	})
	return i
}

// split makes a span begin at an offset that lies in one.
func (s *State) split(offset int64) {
	i := s.at(offset)
	if i == len(s.spans) || s.spans[i].First >= offset {
		return
	}
	p := s.spans[i]
	s.spans[i].Last = offset - 1
	p.First = offset
	s.spans = slices.Insert(s.spans, i+1, p)
}

// between cuts spans at the ends of r and returns the indexes of those within.
func (s *State) between(r Range) (from, to int) {
	s.split(r.First)
	s.split(r.Last + 1)
	from = s.at(r.First)
	to = from
	for to < len(s.spans) && s.spans[to].First <= r.Last {
		to++
	}
	return from, to
}

// clear removes the spans of a range.
func (s *State) clear(r Range, now int64) {
	from, to := s.between(r)
	for _, p := range s.spans[from:to] {
		p.of.shrink(s.undone(p.Range, nil), now)
	}
	s.spans = slices.Delete(s.spans, from, to)
}

func (e *entry) shrink(n, now int64) {
	if e.left -= n; n > 0 && e.left == 0 {
		e.free = now
	}
}
