package assignor

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
	"pgregory.net/rapid"
)

// numbers are what the balance consists of, counted anew: of each shared topic the numbers of sharers of its partitions; of each
// topic the numbers of partitions that members get whole; and those of all topics that are not shared together.
func numbers(t *rapid.T, in Input, target map[string]Ranges) string {
	out, total := "", map[string]int{}
	for _, topic := range slices.Sorted(maps.Keys(in.Topics)) {
		of := in.Topics[topic]
		var subscribers []string
		opted := map[string]bool{}
		for _, m := range in.Members {
			if slices.Contains(m.Topics, topic) {
				subscribers = append(subscribers, m.ID)
				if m.Share {
					opted[m.ID] = true
				}
			}
		}
		shared := in.IndividualCommits && of.KeyRangeFetch && len(opted) > int(of.Partitions)
		var groups, wholes []int
		count := map[string]int{}
		for p := range of.Partitions {
			n := 0
			for _, id := range subscribers {
				if len(target[id].Set(topic, p)) > 0 && shared && opted[id] {
					n++
				}
			}
			if n > 0 {
				groups = append(groups, n)
			}
			for _, id := range subscribers {
				set := target[id].Set(topic, p)
				if len(set) == 0 {
					continue
				}
				size := axis
				if shared && opted[id] {
					size = axis / uint64(n)
				} else {
					count[id]++
					if !shared {
						total[id]++
					}
				}
				if got := set.Len(); got != size && got != size+1 {
					t.Fatalf("%s has %d positions of %s/%d, want %d", id, got, topic, p, size)
				}
			}
		}
		for _, id := range subscribers {
			if !shared || !opted[id] {
				wholes = append(wholes, count[id])
			}
		}
		slices.Sort(groups)
		slices.Sort(wholes)
		out += fmt.Sprintln(topic, groups, wholes)
	}
	return out + fmt.Sprintln(slices.Sorted(maps.Values(total)))
}

// world draws groups and what happens to them.
type world struct {
	in   Input
	next int
}

func drawWorld(t *rapid.T) *world {
	w := &world{in: Input{Topics: map[string]Topic{}, IndividualCommits: true}}
	for i := range rapid.IntRange(1, 4).Draw(t, "topics") {
		w.in.Topics[fmt.Sprintf("t%d", i)] = Topic{Partitions: int32(rapid.IntRange(1, 6).Draw(t, "partitions")), KeyRangeFetch: rapid.IntRange(0, 3).Draw(t, "fetch") > 0}
	}
	for range rapid.IntRange(1, 14).Draw(t, "members") {
		w.join(t)
	}
	return w
}

func (w *world) join(t *rapid.T) {
	w.next++
	m := Member{ID: fmt.Sprintf("%c%d", 'a'+rapid.IntRange(0, 25).Draw(t, "id"), w.next), Version: 1, Generation: -1, Owned: Ranges{}}
	m.Share = rapid.IntRange(0, 5).Draw(t, "share") > 0
	for _, topic := range slices.Sorted(maps.Keys(w.in.Topics)) {
		if rapid.IntRange(0, 7).Draw(t, "subscribe") > 0 {
			m.Topics = append(m.Topics, topic)
		}
	}
	w.in.Members = append(w.in.Members, m)
}

func (w *world) leave(t *rapid.T) {
	if i := rapid.IntRange(-1, len(w.in.Members)-1).Draw(t, "leaves"); i >= 0 && len(w.in.Members) > 1 {
		w.in.Members = slices.Delete(slices.Clone(w.in.Members), i, i+1)
	}
}

func (w *world) change(t *rapid.T) {
	switch rapid.IntRange(0, 9).Draw(t, "event") {
	case 0:
		topic := rapid.SampledFrom(slices.Sorted(maps.Keys(w.in.Topics))).Draw(t, "topic")
		of := w.in.Topics[topic]
		of.Partitions += int32(rapid.IntRange(0, 1).Draw(t, "growth"))
		of.KeyRangeFetch = rapid.Bool().Draw(t, "fetch")
		w.in.Topics[topic] = of
	case 1:
		w.in.IndividualCommits = !w.in.IndividualCommits
	case 2, 3, 4, 5:
		w.join(t)
	default:
		w.leave(t)
	}
}

func TestAsBalancedAsTheProposalsResultAndMovesNoMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for generation := range int32(12) {
			for range rapid.IntRange(0, 2).Draw(t, "events") {
				w.change(t)
			}
			w.in.Generation = generation + 1
			out, proposal := Assign(w.in), naive(w.in)
			checkTarget(t, w.in, out)
			if got, want := numbers(t, w.in, out.Target), numbers(t, w.in, proposal); got != want {
				t.Fatalf("balance\n%s, the proposal's is\n%s", got, want)
			}
			if got, most := moved(w.in, out.Target), moved(w.in, proposal); got > most {
				t.Fatalf("moves %.4f of the axes, the proposal's own result %.4f", got, most)
			}
			w.in.Members = keep(w.in.Members, out, generation+1, false)
			w.in.Last = nil
			if rapid.Bool().Draw(t, "same leader") {
				w.in.Last = out.Target
			}
			if again := Assign(w.in); moved(w.in, again.Target) != 0 {
				t.Fatalf("nothing changed, and %.4f of the axes move", moved(w.in, again.Target))
			}
		}
	})
}

// least is the optimum of one shared topic, by trying all places of all members: how much must move, in axes.
func least(in Input, topic string) float64 {
	p := newProblem(&in)
	of := &p.topics[slices.IndexFunc(p.topics, func(t topicOf) bool { return t.name == topic })]
	few, more := len(of.sharers)/of.partitions, len(of.sharers)%of.partitions
	count := make([][]uint64, of.partitions)
	best := uint64(0)
	var place func(i int)
	place = func(i int) {
		if i < len(of.sharers) {
			for j := range count {
				if len(count[j]) <= few {
					count[j] = append(count[j], of.ownedBy(j, of.sharers[i]).Len())
					place(i + 1)
					count[j] = count[j][:len(count[j])-1]
				}
			}
			return
		}
		kept, larger := uint64(0), 0
		for _, group := range count {
			if len(group) < few {
				return
			}
			larger += len(group) - few
			for _, n := range group {
				kept += min(n, axis/uint64(len(group)))
			}
		}
		if larger == more {
			best = max(best, kept)
		}
	}
	place(0)
	return float64(of.partitions) - float64(best)/float64(axis)
}

type topicOf = topic

func TestOneMemberMovesAsLittleAsThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(t, "partitions")
		w := &world{in: input(sharers(rapid.IntRange(n+1, 7).Draw(t, "members"), "t"), map[string]Topic{"t": sharedTopic(int32(n))})}
		out := Assign(w.in)
		for generation := int32(2); generation < 12; generation++ {
			w.in.Members = keep(w.in.Members, out, generation-1, false)
			if len(w.in.Members) < 8 && (len(w.in.Members) == n+1 || rapid.Bool().Draw(t, "joins")) {
				w.join(t)
				w.in.Members[len(w.in.Members)-1].Share = true
				w.in.Members[len(w.in.Members)-1].Topics = []string{"t"}
			} else {
				w.in.Members = slices.Delete(w.in.Members, 0, 1)
			}
			out = Assign(w.in)
			best, got := least(w.in, "t"), moved(w.in, out.Target)
			if got < best-1e-6 || got > best+float64(n)/32+1e-6 {
				t.Fatalf("%d members on %d partitions: %.5f move, the optimum is %.5f", len(w.in.Members), n, got, best)
			}
		}
	})
}

// Whatever sharers had of one partition each, they keep as much as the balance allows.
func TestSharersKeepAsMuchAsThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(t, "partitions")
		in := input(sharers(rapid.IntRange(n+1, 7).Draw(t, "members"), "t"), map[string]Topic{"t": sharedTopic(int32(n))})
		free := slices.Repeat([]uint64{0}, n)
		for i := range in.Members {
			p := rapid.IntRange(-1, n-1).Draw(t, "home")
			if p < 0 || free[p] == axis {
				continue
			}
			last := uint64(rapid.Uint32Range(uint32(free[p]), 1<<32-1).Draw(t, "last"))
			in.Members[i].Owned = Ranges{"t": {int32(p): {keyrange.Set{{First: uint32(free[p]), Last: uint32(last)}}, int32(n)}}}
			free[p] = last + 1
		}
		out := Assign(in)
		checkTarget(t, in, out)
		if best, got := least(in, "t"), moved(in, out.Target); got < best-1e-6 || got > best+1e-6 {
			t.Fatalf("%.5f move, the optimum is %.5f", got, best)
		}
	})
}

// Of topics that are not shared moves what a new member gets, and what one had that left, and hardly more.
func TestWholePartitionsStay(t *testing.T) {
	for _, c := range []struct{ topics, partitions, members, most int }{{1, 10, 3, 0}, {10, 1, 4, 0}, {1, 100, 20, 0}, {5, 7, 6, 1}, {20, 12, 10, 2}} {
		topics := manyTopics(c.topics, Topic{Partitions: int32(c.partitions)})
		in := input(sharers(c.members, slices.Collect(maps.Keys(topics))...), topics)
		all := float64(c.topics * c.partitions)
		for round := range int32(20) {
			in.Members = keep(in.Members, Assign(in), round, false)
			must := 0.0
			if i := int(round) * 7 % len(in.Members); round%2 == 0 {
				for _, partitions := range in.Members[i].Owned {
					must += float64(len(partitions))
				}
				in.Members = slices.Delete(in.Members, i, i+1)
			} else {
				in.Members = append(in.Members, Member{ID: fmt.Sprintf("%c%d", 'A'+round, round), Topics: in.Members[0].Topics, Share: true, Version: 1})
				must = math.Floor(all / float64(len(in.Members)))
			}
			if got := moved(in, Assign(in).Target); got < must || got > must+float64(c.most) {
				t.Errorf("%+v, round %d: %.0f partitions move, %.0f must", c, round, got, must)
			}
		}
	}
}

// A member that did not opt in is given the partition of which sharers lose least.
func TestWholePartitionsBesideShares(t *testing.T) {
	in := input(sharers(7, "t"), map[string]Topic{"t": sharedTopic(3)})
	in.Members = keep(in.Members, Assign(in), 1, false)
	in.Members = slices.DeleteFunc(in.Members, func(m Member) bool { return m.Owned.Set("t", 2) != nil })
	in.Members = append(in.Members, plain("A", "t")) // the first of the round robin
	if got := Assign(in).Target["A"]; len(got["t"]) != 1 || got.Set("t", 2) == nil {
		t.Errorf("A is given %v, and nobody has partition 2", got)
	}
}

// When consumers become as few as the partitions, or more, each keeps what it can.
func TestFromSharedToWholeAndBack(t *testing.T) {
	topics := map[string]Topic{"t": sharedTopic(3)}
	in := input(sharers(4, "t"), topics) // M1:0[0/2] M2:1 M3:2 M4:0[1/2]
	in.Members = keep(in.Members, Assign(in), 1, false)
	in.Members = slices.Delete(in.Members, 0, 1)
	out := Assign(in)
	if got, want := show("t", out.Assigned), "M2:1 M3:2 M4:0"; got != want {
		t.Errorf("M1 left: %s, want %s", got, want)
	}
	in.Members = append(keep(in.Members, out, 2, false), sharers(1, "t")...)
	if got, want := moved(in, Assign(in).Target), 0.5; got != want {
		t.Errorf("M1 came back: %.2f partitions move, want %.2f", got, want)
	}
	in.Members = keep(in.Members[:2], Assign(in), 3, false) // M2 and M3 are left, with a partition each
	if got, want := moved(in, Assign(in).Target), 1.0; got != want {
		t.Errorf("two are left: %.2f partitions move, want %.2f", got, want)
	}
}
