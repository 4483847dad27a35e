package assignor

import "github.com/tandem-kafka/tandem/keyrange"

// Assign makes the assignment of a generation. It is a function of its input alone; the order of Input.Members does not matter.
func Assign(in Input) Output {
	p := newProblem(&in)
	target := p.best(in.Last)
	assigned, waiting := p.holdBack(target)
	out := Output{Assigned: map[string]Ranges{}, Target: map[string]Ranges{}, Notes: map[string][]Note{}}
	notes := p.notes(target)
	for m := range p.members {
		id := p.members[m].ID
		if waiting[m] {
			out.Waiting = true
			notes[m] = append(notes[m], Note{Code: NoteWaiting})
		}
		out.Assigned[id], out.Target[id], out.Notes[id] = Ranges{}, Ranges{}, notes[m]
	}
	p.put(target, out.Target)
	p.put(assigned, out.Assigned)
	return out
}

func (p *problem) put(pl plan, into map[string]Ranges) {
	for t := range pl {
		for partition, shares := range pl[t] {
			for _, s := range shares {
				into[p.members[s.member].ID].Put(p.topics[t].name, int32(partition), s.keys, p.topics[t].base)
			}
		}
	}
}

// best returns the plan that keeps most: the last one, if it fits, the sticky one, or the proposal's own.
func (p *problem) best(last map[string]Ranges) plan {
	naive, best := p.plan(false), p.plan(true)
	if p.kept(best) < p.kept(naive) {
		best = naive
	}
	if before, ok := p.from(last); ok && p.kept(before) >= p.kept(best) && p.balanceOf(before).equal(p.balanceOf(naive)) {
		best = before
	}
	return best
}

// plan makes the proposal's own plan or the sticky one.
func (p *problem) plan(sticky bool) plan {
	var whole, shared []int
	for t := range p.topics {
		if p.topics[t].shared {
			shared = append(shared, t)
		} else {
			whole = append(whole, t)
		}
	}
	pl := make(plan, len(p.topics))
	for _, w := range []*wholes{newWholes(p, whole, false), newWholes(p, shared, true)} {
		owner := w.dealt()
		if sticky {
			owner = w.sticky()
		}
		for _, t := range w.topics {
			pl[t] = make([][]share, p.topics[t].partitions)
			for partition, m := range owner[t] {
				if m >= 0 {
					pl[t][partition] = []share{{m, keyrange.Set{keyrange.Full}}}
				}
			}
		}
	}
	for turn, t := range shared {
		p.topics[t].share(pl[t], turn, sticky)
	}
	return pl
}

// share gives the partitions that nobody has yet to the sharers.
func (t *topic) share(partitions [][]share, turn int, sticky bool) {
	var rest []int
	for partition, shares := range partitions {
		if shares == nil {
			rest = append(rest, partition)
		}
	}
	if len(rest) == 0 {
		return // the sharers are told
	}
	groups := t.deal(rest, turn)
	if sticky {
		groups = t.seat(rest, turn)
	}
	for i, partition := range rest {
		partitions[partition] = t.split(partition, groups[i], sticky)
	}
}

// from is an earlier assignment as a plan for the present problem; false if it does not cover each partition once, for present
// subscribers.
func (p *problem) from(last map[string]Ranges) (plan, bool) {
	if last == nil {
		return nil, false
	}
	pl := make(plan, len(p.topics))
	for t := range p.topics {
		topic := &p.topics[t]
		pl[t] = make([][]share, topic.partitions)
		for partition := range pl[t] {
			var all keyrange.Set
			var n uint64
			for _, m := range topic.subscribers {
				part, ok := last[p.members[m].ID][topic.name][int32(partition)]
				if !ok {
					continue
				}
				if part.Keys.Validate() != nil || !part.Whole() && part.Base != topic.base {
					return nil, false
				}
				keys := part.Set()
				pl[t][partition] = append(pl[t][partition], share{m, keys})
				all, n = keyrange.AppendUnion(nil, all, keys), n+keys.Len()
			}
			if n != axis || all.Len() != axis {
				return nil, false
			}
		}
	}
	return pl, true
}
