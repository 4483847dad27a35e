package assignor

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
)

// sharers returns members M1, M2, ... that opted in.
func sharers(n int, topics ...string) []Member {
	var list []Member
	for i := range n {
		list = append(list, Member{ID: fmt.Sprintf("M%d", i+1), Topics: topics, Share: true, Version: 1, Generation: -1})
	}
	return list
}

func plain(id string, topics ...string) Member {
	return Member{ID: id, Topics: topics, Version: 1, Generation: -1}
}

func sharedTopic(partitions int32) Topic { return Topic{Partitions: partitions, KeyRangeFetch: true} }

func input(members []Member, topics map[string]Topic) Input {
	return Input{Members: members, Topics: topics, IndividualCommits: true}
}

// show prints who has what: "M1:0[0/2] M2:1 ...", where 0[0/2] is the first half of partition 0.
func show(topic string, assigned map[string]Ranges) string {
	out := ""
	for _, id := range slices.Sorted(maps.Keys(assigned)) {
		if len(assigned[id][topic]) == 0 {
			continue
		}
		if out += " " + id + ":"; out[0] == ' ' {
			out = out[1:]
		}
		for i, p := range slices.Sorted(maps.Keys(assigned[id][topic])) {
			if i > 0 {
				out += ","
			}
			out += fmt.Sprint(p)
			if set := assigned[id].Set(topic, p); !set.Covers(keyrange.Full) {
				parts := (axis + set.Len()/2) / set.Len()
				out += fmt.Sprintf("[%d/%d]", (uint64(set[0].First)*parts+axis/2)/axis, parts)
			}
		}
	}
	return out
}

// keep makes of an assignment what the members say when they join next.
func keep(members []Member, out Output, generation int32, holds bool) []Member {
	list := slices.Clone(members)
	for i := range list {
		if owned, ok := out.Assigned[list[i].ID]; ok {
			list[i].Owned, list[i].Generation, list[i].Holds = owned, generation, holds
		}
	}
	return list
}

// The dumb version of an assignment's checks: it counts positions of every partition.
func checkTarget(t interface{ Fatalf(string, ...any) }, in Input, out Output) {
	for topic, of := range in.Topics {
		anybody := slices.ContainsFunc(in.Members, func(m Member) bool { return slices.Contains(m.Topics, topic) })
		for p := range of.Partitions {
			var all keyrange.Set
			var n uint64
			for id, ranges := range out.Target {
				set := ranges.Set(topic, p)
				if err := set.Validate(); err != nil {
					t.Fatalf("%s of %s/%d: %v", id, topic, p, err)
				}
				all, n = keyrange.AppendUnion(nil, all, set), n+set.Len()
				if len(set) > mostRanges {
					t.Fatalf("%s has %d ranges of %s/%d", id, len(set), topic, p)
				}
				if now := out.Assigned[id].Set(topic, p); keyrange.AppendSubtract(nil, now, set) != nil {
					t.Fatalf("%s is assigned more of %s/%d than its target", id, topic, p)
				}
			}
			if anybody && (n != axis || all.Len() != axis) {
				t.Fatalf("%s/%d: %d positions are given, %d different ones", topic, p, n, all.Len())
			}
		}
	}
	for id, ranges := range out.Target {
		i := slices.IndexFunc(in.Members, func(m Member) bool { return m.ID == id })
		for topic := range ranges {
			if !slices.Contains(in.Members[i].Topics, topic) {
				t.Fatalf("%s did not subscribe to %s", id, topic)
			}
		}
	}
}

// moved is how much, in key axes, of what there is in the topics is with another member than before, or with one for the first time.
func moved(in Input, target map[string]Ranges) float64 {
	p := newProblem(&in)
	pl, ok := p.from(target)
	if !ok {
		panic("the target does not cover the topics")
	}
	all := uint64(0)
	for i := range p.topics {
		all += uint64(p.topics[i].partitions) * axis
	}
	return float64(all-p.kept(pl)) / float64(axis)
}

func naive(in Input) map[string]Ranges {
	in.Members = slices.Clone(in.Members)
	for i := range in.Members {
		in.Members[i].Owned, in.Members[i].Holds = nil, false
	}
	in.Last = nil
	return Assign(in).Target
}

func TestMembersMustNotBeChanged(t *testing.T) {
	in := input(sharers(3, "t"), map[string]Topic{"t": sharedTopic(2)})
	in.Members[0], in.Members[2] = in.Members[2], in.Members[0]
	Assign(in)
	if in.Members[0].ID != "M3" || in.Members[0].Topics[0] != "t" {
		t.Error("Assign changed its input")
	}
}
