package assignor

import (
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
	"pgregory.net/rapid"
)

// group plays generations of members that work on what they were assigned.
type group struct {
	world
	t          *rapid.T
	generation int32
	eager      map[string]bool
	has        map[string]Ranges // by member id: what it is working on now
	since      map[string]int32  // the generation in which it was assigned that
	before     map[string]Ranges // of eager members: what they had before they let go of it
	away       []Member          // members that the coordinator took for dead, and that do not know it
}

// rebalance is one generation. Those of absent do not learn of their assignment and go on with what they have. It returns
// what everybody is to have, and whether everybody has it and had to give up nothing.
func (g *group) rebalance(absent map[string]bool, sameLeader bool) (target map[string]Ranges, settled bool) {
	t := g.t
	g.generation++
	g.in.Generation = g.generation
	for i := range g.in.Members {
		m := &g.in.Members[i]
		m.Owned, m.Generation, m.Holds = g.has[m.ID], g.generationOf(m.ID), true
		if g.eager[m.ID] {
			if g.has[m.ID] != nil {
				g.before[m.ID], g.has[m.ID] = g.has[m.ID], nil
			}
			m.Owned, m.Holds = g.before[m.ID], false
		}
	}
	if !sameLeader {
		g.in.Last = nil
	}
	out := Assign(g.in)
	checkTarget(t, g.in, out)
	g.in.Last = out.Target
	order := rapid.Permutation(g.in.Members).Draw(t, "order")
	settled = !out.Waiting
	for _, m := range order {
		if absent[m.ID] {
			settled = false
			continue
		}
		now := out.Assigned[m.ID]
		if lost := g.has[m.ID].Minus(now); len(lost) > 0 {
			settled = false
			g.has[m.ID] = g.has[m.ID].Minus(lost)
		}
		g.takes(m.ID, now.Minus(g.has[m.ID]))
		g.has[m.ID], g.since[m.ID] = now, g.generation
	}
	return out.Target, settled
}

func (g *group) generationOf(id string) int32 {
	if since, ok := g.since[id]; ok {
		return since
	}
	return -1
}

// takes checks that nobody else works on what a member begins to work on.
func (g *group) takes(id string, gained Ranges) {
	for _, other := range g.in.Members {
		if other.ID == id {
			continue
		}
		if both := gained.Overlap(g.has[other.ID]); len(both) > 0 {
			g.t.Fatalf("generation %d: %s begins to work on %v, and %s still does", g.generation, id, both, other.ID)
		}
	}
}

func (g *group) event() {
	t := g.t
	switch rapid.IntRange(0, 6).Draw(t, "what") {
	case 0: // a member goes away without knowing it
		if len(g.in.Members) > 1 {
			i := rapid.IntRange(0, len(g.in.Members)-1).Draw(t, "goes")
			g.away = append(g.away, g.in.Members[i])
			g.in.Members = slices.Delete(slices.Clone(g.in.Members), i, i+1)
		}
	case 1: // and comes back with what it had then
		if len(g.away) > 0 {
			g.in.Members = append(g.in.Members, g.away[0])
			g.away = g.away[1:]
		}
	case 2: // the coordinator forgets the group
		if rapid.IntRange(0, 4).Draw(t, "forgets") == 0 {
			g.generation = 0
		}
	default:
		g.change(t)
	}
	for _, m := range g.in.Members {
		if _, ok := g.eager[m.ID]; !ok {
			g.eager[m.ID] = rapid.IntRange(0, 4).Draw(t, "eager") == 0
		}
	}
}

// No position ever has two members that work on it, whatever happens, and when nothing happens any more the group comes to rest
// in the generation after the next, with what was planned in the next: some let go of something, others get it.
func TestNeverTwoOwnersAtOnce(t *testing.T) {
	play := func(t *rapid.T) {
		g := &group{world: *drawWorld(t), t: t, eager: map[string]bool{}, has: map[string]Ranges{}, since: map[string]int32{}, before: map[string]Ranges{}}
		for range 8 {
			for range rapid.IntRange(0, 2).Draw(t, "events") {
				g.event()
			}
			absent := map[string]bool{}
			for _, m := range g.in.Members {
				absent[m.ID] = rapid.IntRange(0, 7).Draw(t, "absent") == 0
			}
			g.rebalance(absent, rapid.IntRange(0, 3).Draw(t, "leader stays") > 0)
		}
		planned, _ := g.rebalance(nil, false)
		target, settled := g.rebalance(nil, true)
		if !settled || !reflect.DeepEqual(target, planned) {
			t.Fatalf("nothing happens, and something still moves in the second generation, or not as planned: %v, planned was %v", target, planned)
		}
	}
	for i := range 5 { // some mistakes show in one of several hundred histories
		t.Run(strconv.Itoa(i), rapid.MakeCheck(play))
	}
}

func TestMovesTakeTwoGenerations(t *testing.T) {
	in := input(sharers(3, "t"), map[string]Topic{"t": sharedTopic(1)})
	in.Generation = 1
	first := Assign(in) // a third each
	in.Members = append(keep(in.Members, first, 1, true), Member{ID: "N", Topics: []string{"t"}, Share: true, Version: 1, Generation: -1, Holds: true})
	in.Generation, in.Last = 2, first.Target
	second := Assign(in)
	checkTarget(t, in, second)
	if !second.Waiting || len(second.Assigned["N"]) != 0 || !reflect.DeepEqual(second.Notes["N"], []Note{{Code: NoteWaiting}}) {
		t.Errorf("N has %v and is told %v: the others still hold its share", second.Assigned["N"], second.Notes["N"])
	}
	for _, id := range []string{"M1", "M2", "M3"} {
		if n := second.Assigned[id].Set("t", 0).Len(); n != axis/4 {
			t.Errorf("%s keeps %d positions, want a quarter", id, n)
		}
		if lost := second.Assigned[id].Minus(first.Assigned[id]); len(lost) > 0 {
			t.Errorf("%s gets %v in the generation in which others lose it", id, lost)
		}
	}
	in.Members = keep(in.Members, second, 2, true)
	in.Generation, in.Last = 3, second.Target
	third := Assign(in)
	if third.Waiting || third.Assigned["N"].Set("t", 0).Len() != axis/4 {
		t.Errorf("N has %v in the end, waiting %v", third.Assigned["N"], third.Waiting)
	}
}

// The last plan is carried on only where it moves no more than another one.
func TestTheLastPlanIsNoReasonToMove(t *testing.T) {
	in := input(sharers(2, "t"), map[string]Topic{"t": sharedTopic(1)})
	last := Assign(in)
	swapped := map[string]Ranges{"M1": last.Target["M2"], "M2": last.Target["M1"]}
	in.Members = keep(in.Members, Output{Assigned: swapped}, 1, false)
	in.Last = last.Target
	if got := moved(in, Assign(in).Target); got != 0 {
		t.Errorf("%.2f of the axis moves although all is balanced", got)
	}
}

func TestTheLatestGenerationWins(t *testing.T) {
	half := func(i int) Ranges {
		return Ranges{"t": {0: {keyrange.Set{{First: uint32(i) << 31, Last: uint32(i)<<31 + (1<<31 - 1)}}, 1}}}
	}
	claim := func(id string, owned Ranges, generation int32) Member {
		return Member{ID: id, Topics: []string{"t"}, Share: true, Version: 1, Owned: owned, Generation: generation, Holds: true}
	}
	for name, c := range map[string]struct {
		members []Member
		want    string
	}{
		"one that was away":            {[]Member{claim("A", half(0), 4), claim("B", half(0), 8), claim("C", half(1), 8)}, "B:0[0/3] C:0[2/3]"},
		"from an earlier life":         {[]Member{claim("A", half(0), 57), claim("B", half(0), 8), claim("C", half(1), 8)}, "B:0[0/3] C:0[2/3]"},
		"two of one generation":        {[]Member{claim("A", half(0), 8), claim("B", half(0), 8), claim("C", half(1), 8)}, "A:0[0/3] C:0[2/3]"},
		"of an unknown generation":     {[]Member{claim("A", half(0), -1), claim("B", half(0), 0), claim("C", half(1), 0)}, "B:0[0/3] C:0[2/3]"},
		"nobody else claims it":        {[]Member{claim("A", half(0), 2), claim("B", nil, 8), claim("C", half(1), 8)}, "A:0[0/3] C:0[2/3]"},
		"a partition that is not":      {[]Member{claim("A", Ranges{"t": {-1: {}, 7: {}}, "u": {0: {}}}, 8), claim("B", half(0), 8), claim("C", half(1), 8)}, "B:0[0/3] C:0[2/3]"},
		"ranges that are out of order": {[]Member{claim("A", Ranges{"t": {0: {keyrange.Set{{First: 9, Last: 8}}, 1}}}, 8), claim("B", half(0), 8), claim("C", half(1), 8)}, "B:0[0/3] C:0[2/3]"},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(c.members, map[string]Topic{"t": sharedTopic(1)})
			in.Generation = 9
			out := Assign(in)
			checkTarget(t, in, out)
			if got := show("t", out.Assigned); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// Keys have other positions when a topic has grown: everybody lets go of its part of a partition before anybody gets one by the
// new positions. Who has a whole partition has all its keys, and goes on.
func TestATopicGrows(t *testing.T) {
	in := input(sharers(3, "t"), map[string]Topic{"t": sharedTopic(2)}) // M1 and M3 share a partition, M2 has one
	in.Generation = 1
	out := Assign(in)
	in.Topics = map[string]Topic{"t": {Partitions: 2, KeyRangeFetch: true, Base: 4}}
	for _, want := range []string{"M2:1", "M1:0[0/2] M2:1 M3:0[1/2]"} {
		in.Members = keep(in.Members, out, in.Generation, true)
		in.Generation++
		in.Last = out.Target
		out = Assign(in)
		checkTarget(t, in, out)
		if got := show("t", out.Assigned); got != want {
			t.Errorf("generation %d: %s, want %s", in.Generation, got, want)
		}
	}
	if part := out.Assigned["M3"]["t"][0]; part.Base != 4 {
		t.Errorf("M3 has %v, want it by the new base", part)
	}
}
