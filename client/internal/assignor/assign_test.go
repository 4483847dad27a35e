package assignor

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
)

// The proposal's own example.
func TestFiveConsumersOnThreePartitions(t *testing.T) {
	in := input(sharers(5, "tp"), map[string]Topic{"tp": sharedTopic(3)})
	out := Assign(in)
	checkTarget(t, in, out)
	if got, want := show("tp", out.Assigned), "M1:0[0/2] M2:1[0/2] M3:2 M4:0[1/2] M5:1[1/2]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if part, want := out.Assigned["M4"]["tp"][0], (Part{keyrange.Set{{First: 1 << 31, Last: 1<<32 - 1}}, 3}); !reflect.DeepEqual(part, want) {
		t.Errorf("M4 has %v, want the upper half with the base 3", part)
	}
	if part, ok := out.Assigned["M3"]["tp"][2]; !ok || !part.Whole() || part.Base != 0 {
		t.Errorf("M3 has %v, want an empty set for a whole partition", out.Assigned["M3"])
	}
	if out.Waiting || len(out.Notes["M1"]) != 0 {
		t.Errorf("waiting %v, notes %v; nothing stands in the way", out.Waiting, out.Notes)
	}
}

func TestFallsBackToWholePartitions(t *testing.T) {
	five := sharers(5, "tp")
	old := sharers(5, "tp")
	for i := range old {
		old[i].Version = 0
	}
	var none []Member
	for i := range 5 {
		none = append(none, plain(fmt.Sprintf("M%d", i+1), "tp"))
	}
	for name, c := range map[string]struct {
		in   Input
		want string
		note NoteCode // of M5
	}{
		"as many consumers as partitions":          {input(sharers(3, "tp"), map[string]Topic{"tp": sharedTopic(3)}), "M1:0 M2:1 M3:2", 0},
		"fewer consumers":                          {input(sharers(2, "tp"), map[string]Topic{"tp": sharedTopic(3)}), "M1:0,2 M2:1", 0},
		"the coordinator allows no shares":         {Input{Members: five, Topics: map[string]Topic{"tp": sharedTopic(3)}}, "M1:0 M2:1 M3:2", NoteCoordinator},
		"the topic allows no shares":               {input(five, map[string]Topic{"tp": {Partitions: 3}}), "M1:0 M2:1 M3:2", NoteTopic},
		"nobody opted in":                          {input(none, map[string]Topic{"tp": sharedTopic(3)}), "M1:0 M2:1 M3:2", NoteNotOptedIn},
		"nobody speaks user data":                  {input(old, map[string]Topic{"tp": sharedTopic(3)}), "M1:0 M2:1 M3:2", NoteNotOptedIn},
		"sharers are not more than the partitions": {input(append(sharers(3, "tp"), plain("A", "tp"), plain("M5", "tp")), map[string]Topic{"tp": sharedTopic(4)}), "A:0 M1:1 M2:2 M3:3", NoteNotOptedIn},
		"a topic that is not there":                {input(five, nil), "", NoteNoTopic},
	} {
		t.Run(name, func(t *testing.T) {
			out := Assign(c.in)
			checkTarget(t, c.in, out)
			if got := show("tp", out.Assigned); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			var want []Note
			if c.note != 0 {
				want = []Note{{c.note, []string{"tp"}, 0}}
			}
			if !reflect.DeepEqual(out.Notes["M5"], want) {
				t.Errorf("M5 is told %v, want %v", out.Notes["M5"], want)
			}
		})
	}
}

// Members that did not opt in have whole partitions of their own, and those that get nothing are told so.
func TestWithMembersThatDidNotOptIn(t *testing.T) {
	for _, c := range []struct {
		name    string
		members []Member
		n       int32
		want    string
		notes   map[string]NoteCode
	}{
		{"first of the round robin", append(sharers(5, "tp"), plain("A", "tp")), 3, "A:0 M1:1[0/3] M2:2[0/2] M3:1[1/3] M4:2[1/2] M5:1[2/3]", nil},
		{"last of it", append(sharers(5, "tp"), plain("X", "tp")), 3, "M1:0[0/2] M2:1[0/2] M3:2 M4:0[1/2] M5:1[1/2]", map[string]NoteCode{"X": NoteNotOptedIn}},
		{"all that there is", append(sharers(3, "tp"), plain("A", "tp"), plain("B", "tp")), 2, "A:0 B:1",
			map[string]NoteCode{"M1": NoteNoneLeft, "M2": NoteNoneLeft, "M3": NoteNoneLeft}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := input(c.members, map[string]Topic{"tp": sharedTopic(c.n)})
			out := Assign(in)
			checkTarget(t, in, out)
			if got := show("tp", out.Assigned); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			for _, m := range c.members {
				var want []Note
				if code := c.notes[m.ID]; code != 0 {
					want = []Note{{code, []string{"tp"}, 0}}
				}
				if !reflect.DeepEqual(out.Notes[m.ID], want) {
					t.Errorf("%s is told %v, want %v", m.ID, out.Notes[m.ID], want)
				}
			}
		})
	}
}

func TestOrdinaryRoundRobinGoesOnAcrossTopics(t *testing.T) {
	members := []Member{plain("A", "a", "b", "c"), plain("B", "a", "b"), plain("C", "b", "c")}
	out := Assign(input(members, map[string]Topic{"a": {Partitions: 2}, "b": {Partitions: 2}, "c": {Partitions: 3}}))
	for topic, want := range map[string]string{"a": "A:0 B:1", "b": "A:1 C:0", "c": "A:1 C:0,2"} {
		if got := show(topic, out.Assigned); got != want {
			t.Errorf("%s: %s, want %s", topic, got, want)
		}
	}
}

// Of several topics it is not the same member that is alone on a partition.
func TestEachSharedTopicBeginsOneLater(t *testing.T) {
	topics := map[string]Topic{"a": sharedTopic(3), "b": sharedTopic(3), "c": sharedTopic(3), "d": sharedTopic(3), "e": sharedTopic(3)}
	out := Assign(input(sharers(5, "a", "b", "c", "d", "e"), topics))
	for id, ranges := range out.Assigned {
		whole := 0
		for topic := range topics {
			for _, part := range ranges[topic] {
				if part.Whole() {
					whole++
				}
			}
		}
		if whole != 1 {
			t.Errorf("%s is alone on %d partitions, want 1", id, whole)
		}
	}
}

// A static member has its place by its instance id, whatever member id it comes back with.
func TestStaticMembersKeepTheirPlace(t *testing.T) {
	members := sharers(5, "tp")
	for i := range members {
		members[i].InstanceID = fmt.Sprintf("i%d", 5-i)
	}
	out := Assign(input(members, map[string]Topic{"tp": sharedTopic(3)}))
	if got, want := show("tp", out.Assigned), "M1:1[1/2] M2:0[1/2] M3:2 M4:1[0/2] M5:0[0/2]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestTheOrderOfMembersDoesNotMatter(t *testing.T) {
	in := input(append(sharers(7, "a", "b"), plain("A", "a"), plain("Z", "b")), map[string]Topic{"a": sharedTopic(3), "b": {Partitions: 4}})
	want := fmt.Sprint(Assign(in))
	in.Members = append([]Member{in.Members[3], in.Members[3]}, in.Members...) // twice the same id
	slices.Reverse(in.Members)
	if got := fmt.Sprint(Assign(in)); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestNotesAreSentences(t *testing.T) {
	for code := NoteNotOptedIn; code <= NoteNoTopic+1; code++ {
		s := Note{code, []string{"orders", "refunds"}, 3}.String()
		if named := strings.Contains(s, "topics orders, refunds and 3 more"); len(s) < 30 || named == (code == NoteUserData || code == NoteWaiting) {
			t.Errorf("%d: %s", code, s)
		}
	}
	in := input([]Member{plain("A", "a", "b", "c", "d", "e", "f", "g"), plain("B", "a", "b", "c", "d", "e", "f", "g")}, nil)
	if got := Assign(in).Notes["B"]; len(got) != 1 || len(got[0].Topics) != maxNoteTopics || got[0].More != 2 {
		t.Errorf("seven topics that are not there: %v, want one note", got)
	}
}
