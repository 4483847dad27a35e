package assignor

import "github.com/tandem-kafka/tandem/keyrange"

// holdBack returns what the members may work on in this generation: of its target each gets what it had already and what no other
// member holds. The rest is held back; the members that hold it see that they lose it, let go of it, and join again, and in
// that generation nobody holds it any more. waiting says from whom something is held back.
//
// What another member holds counts even if its claim is an old one that lost: that member may still be working. What a member holds itself
// is not held back, whoever else claims it: it is working on it already.
func (p *problem) holdBack(target plan) (assigned plan, waiting []bool) {
	assigned, waiting = make(plan, len(target)), make([]bool, len(p.members))
	for t := range target {
		topic := &p.topics[t]
		assigned[t] = make([][]share, len(target[t]))
		for partition, shares := range target[t] {
			if len(topic.held[partition]) == 0 {
				assigned[t][partition] = shares
				continue
			}
			for _, s := range shares {
				rest := p.without(topic, s, partition)
				if len(rest) > 0 {
					assigned[t][partition] = append(assigned[t][partition], share{s.member, rest})
				}
				waiting[s.member] = waiting[s.member] || rest.Len() < s.keys.Len()
			}
		}
	}
	return assigned, waiting
}

// without returns a share without what others hold, except what the member holds itself.
func (p *problem) without(t *topic, of share, partition int) keyrange.Set {
	rest := of.keys
	for _, h := range t.held[partition] {
		if h.member != of.member {
			rest = keyrange.AppendSubtract(nil, rest, h.keys)
		}
	}
	if rest.Len() == of.keys.Len() || !p.members[of.member].Holds {
		return rest
	}
	return keyrange.AppendUnion(nil, rest, keyrange.AppendIntersect(nil, of.keys, t.ownedBy(partition, of.member)))
}
