package slicecache

import (
	"cmp"
	"slices"
	"time"

	"github.com/tandem-kafka/tandem/keyrange"
)

// A partition with several layouts looks whether fewer would do: when a rebalance seems to be over, because no new set has come for
// packAfter, and every packEvery, because old ones may no longer be asked for.
const (
	packAfter = time.Second
	packEvery = 10 * time.Second
)

func (p *partition) mayPack(now time.Time) bool {
	return now.Sub(p.packed) >= packEvery || !p.placed.Before(p.packed) && now.Sub(p.placed) >= packAfter
}

// packing is a slot on its way to another layout.
type packing struct {
	from *layout
	slot int
}

func (k packing) keys() keyrange.Set { return k.from.slots[k.slot].keys }

// pack puts the sets that are asked for into as few layouts as it can, so that a block is split no more often than needed. Sets get
// apart when some of a group's members keep theirs in a rebalance, while the new ones of the others overlap old ones, or when
// the members of two groups come in turn.
func (p *partition) pack(now time.Time) (victims []*entry) {
	p.packed = now
	byBase := map[int32][]packing{}
	layouts := map[int32]int{}
	for _, l := range p.layouts {
		n := len(byBase[l.base])
		for i := range l.slots {
			if l.slots[i].current(now) {
				byBase[l.base] = append(byBase[l.base], packing{l, i})
			}
		}
		if len(byBase[l.base]) > n {
			layouts[l.base]++
		}
	}
	for base, slots := range byBase {
		groups := colour(slots)
		if len(groups) >= layouts[base] {
			continue
		}
		for _, g := range groups {
			victims = append(victims, p.join(base, g, now)...)
		}
	}
	return victims
}

// colour deals the sets, from the lowest up, to groups that are disjoint in themselves. For sets of one range each that gives the
// smallest number of groups.
func colour(slots []packing) (groups [][]packing) {
	slices.SortStableFunc(slots, func(a, b packing) int { return cmp.Compare(a.keys()[0].First, b.keys()[0].First) })
	for _, k := range slots {
		fit := -1
		for i, g := range groups {
			if !fits(g, k) {
				continue
			}
			if fit < 0 || g[len(g)-1].from == k.from {
				fit = i
			}
		}
		if fit < 0 {
			fit, groups = len(groups), append(groups, nil)
		}
		groups[fit] = append(groups[fit], k)
	}
	return groups
}

func fits(group []packing, k packing) bool {
	ranges := len(k.keys())
	for _, other := range group {
		if overlap(other.keys(), k.keys()) {
			return false
		}
		ranges += len(other.keys())
	}
	return len(group) < maxSlots && ranges <= maxLayoutRanges
}

// home is the layout that the others of a group can go to: one that has no set of another group, with most of this one's. nil: there is
// none.
func home(group []packing, now time.Time) (best *layout) {
	most := 0
	for _, k := range group {
		n, foreign := 0, false
		for i := range k.from.slots {
			if k.from.slots[i].current(now) {
				n++
				foreign = foreign || !slices.Contains(group, packing{k.from, i})
			}
		}
		for _, other := range group { // what was moved away may still be in use
			foreign = foreign || other.from != k.from && !k.from.admits(other.keys(), now)
		}
		if !foreign && n > most {
			best, most = k.from, n
		}
	}
	return best
}

// join makes one layout of a group. What is known of the sets that move goes along; blocks do not.
func (p *partition) join(base int32, group []packing, now time.Time) (victims []*entry) {
	l := home(group, now)
	if l == nil {
		if !p.makeRoom(now) {
			return nil
		}
		l = p.newLayout(base, now)
	}
	moved := 0
	for _, k := range group {
		old := &k.from.slots[k.slot]
		if k.from == l || !l.admits(old.keys, now) {
			continue
		}
		i := l.take(old.keys, now)
		l.slots[i].used, l.again = old.used, l.again || k.from.again
		for _, r := range p.readers() {
			if from := r.layouts[k.from]; from != nil {
				to := &r.ofLayout(l).slices[i]
				to.last, to.gaps = from.slices[k.slot].last, slices.Clone(from.slices[k.slot].gaps)
			}
		}
		old.moved = true
		moved++
	}
	if moved > 0 {
		var err error
		if victims, err = l.renew(); err != nil { // cannot be: the sets are valid and disjoint
			p.evict(l)
		}
	}
	for _, k := range group {
		if k.from.idle() {
			p.evict(k.from)
		}
	}
	return victims
}
