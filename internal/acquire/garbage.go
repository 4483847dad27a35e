package acquire

import (
	"cmp"
	"maps"
	"slices"
)

// patience is how long others than the gateway that wrote an entry leave its deletion to that gateway, and for how long a deletion is
// not asked for again, in ms.
const patience = 10_000

// Garbage returns deletions of entries that nobody needs. They are to be appended in this order. mine says which were
// written by the caller, who deletes them at once.
func (s *State) Garbage(now int64, mine func(id uint64) bool) (deletions []Entry) {
	s.mend()
	var lost, over, ended []*entry
	any := false
	for _, e := range s.entries {
		due := e.left == 0 && (mine(e.ID) || now-e.free > patience) && (e.asked == 0 || now-e.asked > patience)
		switch {
		case e.Kind == Session && e.won:
			due = now-e.seen > 2*grace(e.Timeout)+patience && now-e.asked > patience && len(s.Holds(e.Member)) == 0
			fallthrough
		case e.Kind == Session:
			if due {
				ended = append(ended, e)
			}
		case !e.won:
			lost = append(lost, e)
		case due:
			over = append(over, e)
		}
		any = any || due
	}
	if any {
		slices.SortFunc(lost, byPosition)
		slices.SortFunc(ended, byPosition)
		for _, e := range slices.Concat(lost, s.withEarlier(over), ended) {
			e.asked = now
			deletions = append(deletions, deletion(e.Entry))
		}
	}
	deletions = append(deletions, s.stale...)
	s.stale = nil
	return deletions
}

// Remains returns deletions of all entries, to be appended in this order: the group is gone.
func (s *State) Remains() (deletions []Entry) {
	s.mend()
	rank := func(e *entry) int {
		switch {
		case e.Kind == Session:
			return 2
		case e.won:
			return 1
		}
		return 0
	}
	for _, e := range slices.SortedFunc(maps.Values(s.entries), func(a, b *entry) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), byPosition(a, b)) }) {
		deletions = append(deletions, deletion(e.Entry))
	}
	return append(deletions, s.stale...)
}

// withEarlier returns entries that have won, and those before them that they took offsets from, in the order of the log. It leaves out those that
// took some from an entry that is still needed: without them, that one would seem to hold these offsets again.
func (s *State) withEarlier(over []*entry) (all []*entry) {
	verdicts := map[*entry]bool{}
	var can func(*entry) bool
	can = func(e *entry) bool {
		if v, ok := verdicts[e]; ok {
			return v
		}
		verdicts[e] = e.left == 0
		if e.left > 0 || !e.took {
			return verdicts[e]
		}
		for _, o := range s.entries {
			if o.won && o.Kind == Acquisition && o.position < e.position && o.First <= e.Last && e.First <= o.Last && !can(o) {
				verdicts[e] = false
				break
			}
		}
		return verdicts[e]
	}
	for _, e := range over {
		can(e)
	}
	for e, ok := range verdicts {
		if ok {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, byPosition)
	return all
}

// Size is how many entries of the era the log holds, as far as is known.
func (s *State) Size() int { return len(s.entries) }
