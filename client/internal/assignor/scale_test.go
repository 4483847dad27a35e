package assignor

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// large is a group in which members came and went churn times.
func large(members int, topics map[string]Topic, churn int) (in Input, out Output, generation int32) {
	random := rand.New(rand.NewPCG(1, 2))
	var names []string
	for name := range topics {
		names = append(names, name)
	}
	join := func(n int) Member {
		return Member{ID: fmt.Sprintf("client-%08x-4b6c-4f0e-9d3e-%012x", random.Uint32(), n), Topics: names, Share: true, Version: 1, Generation: -1}
	}
	var list []Member
	for n := range members {
		list = append(list, join(n))
	}
	in = input(list, topics)
	out = Assign(in)
	for generation = 1; int(generation) <= churn; generation++ {
		in.Members = keep(in.Members, out, generation, false)
		if generation%2 == 0 {
			in.Members = append(in.Members, join(int(generation)+members))
		} else {
			i := random.IntN(len(in.Members))
			in.Members = append(in.Members[:i:i], in.Members[i+1:]...)
		}
		out = Assign(in)
	}
	in.Members = keep(in.Members, out, generation, true)
	return in, out, generation
}

func sizesOf(in Input, out Output) (joins, assignments, largest int) {
	for _, m := range in.Members {
		d := MemberData{Share: true, Holds: true, Generation: m.Generation, Owned: m.Owned}
		n := len(d.Append(nil))
		joins += n
		shared := Ranges{}
		for topic, partitions := range out.Assigned[m.ID] {
			for p, part := range partitions {
				if !part.Whole() {
					shared.Put(topic, p, part.Keys, part.Base)
				}
			}
		}
		a := AssignmentData{Generation: m.Generation, Shared: shared, Notes: out.Notes[m.ID]}
		largest = max(largest, n, len(a.Append(nil)))
		assignments += len(a.Append(nil))
	}
	return joins, assignments, largest
}

func manyTopics(n int, t Topic) map[string]Topic {
	topics := map[string]Topic{}
	for i := range n {
		topics[fmt.Sprintf("topic-%04d", i)] = t
	}
	return topics
}

// The coordinator keeps all user data of a group in one record, 1 MB by default.
func TestLargeGroups(t *testing.T) {
	for name, c := range map[string]struct {
		members int
		topics  map[string]Topic
		churn   int
		bytes   int // at most, of all members' user data and assignments together
	}{
		"100 members on one partition":               {100, manyTopics(1, sharedTopic(1)), 30, 40_000},
		"1000 members on one partition":              {1000, manyTopics(1, sharedTopic(1)), 30, 400_000},
		"200 members on 1000 partitions":             {200, manyTopics(1, sharedTopic(1000)), 30, 20_000},
		"200 members on 1000 topics of a partition":  {200, manyTopics(1000, Topic{Partitions: 1}), 4, 50_000},
		"200 members on 10 topics of 100 partitions": {200, manyTopics(10, sharedTopic(100)), 10, 200_000},
	} {
		t.Run(name, func(t *testing.T) {
			in, out, generation := large(c.members, c.topics, c.churn)
			joins, assignments, largest := sizesOf(in, out)
			in.Members = append(in.Members, sharers(1, in.Members[0].Topics...)...)
			in.Generation = generation + 1
			begin := time.Now()
			next := Assign(in)
			took := time.Since(begin)
			checkTarget(t, in, next)
			t.Logf("one more joins: %v; user data of all members %d bytes, of all assignments %d, the largest of one %d", took.Round(time.Millisecond/10), joins, assignments, largest)
			if joins+assignments > c.bytes {
				t.Errorf("%d bytes of user data, want at most %d", joins+assignments, c.bytes)
			}
			if took > time.Second && !testing.Short() {
				t.Errorf("it took %v, want less than a second", took)
			}
		})
	}
}

func BenchmarkJoin(b *testing.B) {
	for name, c := range map[string]struct{ members, partitions int }{"100on1": {100, 1}, "200on1000": {200, 1000}, "1000on1": {1000, 1}} {
		b.Run(name, func(b *testing.B) {
			in, _, generation := large(c.members, manyTopics(1, sharedTopic(int32(c.partitions))), 30)
			in.Members = append(in.Members, sharers(1, in.Members[0].Topics...)...)
			in.Generation = generation + 1
			for b.Loop() {
				Assign(in)
			}
		})
	}
}

// Ranges stay few over a long life, and what moves for that stays within its budget.
func TestRangesStayFew(t *testing.T) {
	const members, rounds = 40, 400
	in, out, generation := large(members, manyTopics(1, sharedTopic(1)), 0)
	random := rand.New(rand.NewPCG(3, 4))
	var ranges, shares int
	for round := range rounds {
		in.Members = keep(in.Members, out, generation+int32(round), false)
		left, joined := random.IntN(len(in.Members)), sharers(1, in.Members[0].Topics...)[0]
		joined.ID = fmt.Sprintf("%08x", random.Uint32())
		if in.Members = append(in.Members, joined); len(in.Members) > members/2 && random.IntN(2) == 0 || len(in.Members) > members*2 {
			in.Members = append(in.Members[:left:left], in.Members[left+1:len(in.Members)-1]...) // leaves instead
		}
		out = Assign(in)
		p := newProblem(&in)
		best := uint64(0)
		for _, m := range p.topics[0].sharers {
			best += min(p.topics[0].ownedBy(0, m).Len(), axis/uint64(len(in.Members)))
		}
		pl, _ := p.from(out.Target)
		if kept := p.kept(pl); kept+axis/32+axis/64 < best {
			t.Fatalf("round %d: %d positions stay, %d could", round, kept, best)
		}
		for _, r := range out.Target {
			for topic := range r {
				ranges += len(r.Set(topic, 0))
				shares++
			}
		}
	}
	if mean := float64(ranges) / float64(shares); mean > 16 {
		t.Errorf("%.1f ranges a share, want at most 16", mean)
	} else {
		t.Logf("%.1f ranges a share", mean)
	}
}
