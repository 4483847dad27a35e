package assignor

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
	"pgregory.net/rapid"
)

func bytesOf(t *testing.T, spaced string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(spaced), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var quarter = Part{keyrange.Set{{First: 0, Last: 1<<30 - 1}}, 12}

// The worked examples of docs/protocol.md.
const (
	goldenMember = "0001 03 00000007 03 07 6f7264657273 03 00 00 01 02 0c 02 00000000 3fffffff 08 726566756e6473 02 8001 00 01"
	goldenAssign = "0001 00000008 02 07 6f7264657273 02 02 0c 02 00000000 3fffffff 02 03 02 08 726566756e6473 00"
)

func TestTheExamplesOfTheDocumentation(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "<!-- checked by go test ./client/internal/assignor -->")
	text, _, _ := strings.Cut(rest, "<!-- end of checked -->")
	all := ""
	for line := range strings.Lines(text) {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			bytes, _, _ := strings.Cut(code, "  ")
			all += bytes
		}
	}
	if got, want := bytesOf(t, all), append(bytesOf(t, goldenMember), bytesOf(t, goldenAssign)...); !bytes.Equal(got, want) {
		t.Errorf("docs/protocol.md has %x, want %x", got, want)
	}
}

func TestGoldenUserData(t *testing.T) {
	member := MemberData{Version: 1, Share: true, Holds: true, Generation: 7, Owned: Ranges{"orders": {0: {}, 2: quarter}, "refunds": {128: {}}}}
	assignment := AssignmentData{Version: 1, Generation: 8, Shared: Ranges{"orders": {2: quarter}}, Notes: []Note{{NoteCoordinator, []string{"refunds"}, 0}}}
	if got, want := member.Append(nil), bytesOf(t, goldenMember); !bytes.Equal(got, want) {
		t.Errorf("member: %x, want %x", got, want)
	}
	if got, want := assignment.Append(nil), bytesOf(t, goldenAssign); !bytes.Equal(got, want) {
		t.Errorf("assignment: %x, want %x", got, want)
	}
	for _, later := range []string{"", "00", "ffffffffffff"} { // what a later version may append
		b := bytesOf(t, goldenMember+later)
		if later != "" {
			b[1] = 2
		}
		got, err := DecodeMember(b)
		want := member
		want.Version = int16(b[1])
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("member with %q: %+v, %v", later, got, err)
		}
		b = bytesOf(t, goldenAssign+later)
		if got, err := DecodeAssignment(b); err != nil || !reflect.DeepEqual(got, assignment) {
			t.Errorf("assignment with %q: %+v, %v", later, got, err)
		}
	}
	if got, err := DecodeAssignment(nil); err != nil || !reflect.DeepEqual(got, AssignmentData{Generation: -1}) {
		t.Errorf("no user data: %+v, %v; want whole partitions", got, err)
	}
}

func TestHostileUserData(t *testing.T) {
	member := bytesOf(t, goldenMember)
	for i := range member {
		if _, err := DecodeMember(member[:i]); err == nil {
			t.Errorf("a member cut after %d bytes is taken", i)
		}
	}
	assignment := bytesOf(t, goldenAssign)
	for i := 1; i < len(assignment); i++ {
		if _, err := DecodeAssignment(assignment[:i]); err == nil {
			t.Errorf("an assignment cut after %d bytes is taken", i)
		}
	}
	many := "0001 00 00000000 02 02 61 02 00 01 8208" + strings.Repeat("00000000 00000000", 1025)
	for name, c := range map[string]struct{ hex, want string }{
		"version 0":                {"0000 00 00000000 01", "version 0"},
		"version below 0":          {"ffff 00 00000000 01", "version -1"},
		"null":                     {"0001 00 00000000 00", "null"},
		"more topics than bytes":   {"0001 00 00000000 ffffffff0f 61", "announced"},
		"a length of 64 bits":      {"0001 00 00000000 ffffffffffffffff7f", "varint"},
		"topics out of order":      {"0001 00 00000000 03 02 62 01 02 61 01", "not after"},
		"a topic twice":            {"0001 00 00000000 03 02 61 01 02 61 01", "not after"},
		"a partition twice":        {"0001 00 00000000 02 02 61 03 01 00 01 01 00 01", "partition 1"},
		"a partition too large":    {"0001 00 00000000 02 02 61 02 ffffffff0f 00 01", "partition 4294967295"},
		"a reversed range":         {"0001 00 00000000 02 02 61 02 00 01 02 00000002 00000001", "ends before it begins"},
		"overlapping ranges":       {"0001 00 00000000 02 02 61 02 00 01 03 00000000 00000009 00000009 0000000a", "is not after"},
		"ranges without a base":    {"0001 00 00000000 02 02 61 02 00 00 02 00000000 00000009", "of the base 0"},
		"a base without ranges":    {"0001 00 00000000 02 02 61 02 00 07 01", "of the base 7"},
		"a base too large":         {"0001 00 00000000 02 02 61 02 00 8080808008 02 00000000 00000009", "of the base 2147483648"},
		"more ranges than allowed": {many, "at most 1024"},
	} {
		if _, err := DecodeMember(bytesOf(t, c.hex)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
}

func drawRanges(t *rapid.T) Ranges {
	r := Ranges{}
	for range rapid.IntRange(0, 3).Draw(t, "topics") {
		topic := map[int32]Part{}
		for range rapid.IntRange(0, 3).Draw(t, "partitions") {
			var list []keyrange.Range
			for range rapid.IntRange(0, 3).Draw(t, "ranges") {
				a, b := rapid.Uint32().Draw(t, "a"), rapid.Uint32().Draw(t, "b")
				list = append(list, keyrange.Range{First: min(a, b), Last: max(a, b)})
			}
			part := Part{}
			if len(list) > 0 {
				part = Part{keyrange.Normalize(list), rapid.Int32Range(1, 1<<31-1).Draw(t, "base")}
			}
			topic[rapid.Int32Range(0, 1<<31-1).Draw(t, "partition")] = part
		}
		r[rapid.String().Draw(t, "topic")] = topic
	}
	return r
}

func TestUserDataComesBackAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := MemberData{Version: 1, Share: rapid.Bool().Draw(t, "share"), Holds: rapid.Bool().Draw(t, "holds"), Generation: rapid.Int32().Draw(t, "generation"), Owned: drawRanges(t)}
		if got, err := DecodeMember(m.Append(nil)); err != nil || fmt.Sprint(got) != fmt.Sprint(m) {
			t.Fatalf("%v, %v, want %v", got, err, m)
		}
		a := AssignmentData{Version: 1, Generation: rapid.Int32().Draw(t, "generation"), Shared: drawRanges(t)}
		for range rapid.IntRange(0, 3).Draw(t, "notes") {
			a.Notes = append(a.Notes, Note{NoteCode(rapid.Uint32().Draw(t, "code")), rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "topics"), rapid.Uint32().Draw(t, "more")})
		}
		if got, err := DecodeAssignment(a.Append(nil)); err != nil || fmt.Sprint(got) != fmt.Sprint(a) {
			t.Fatalf("%v, %v, want %v", got, err, a)
		}
	})
}

func FuzzUserData(f *testing.F) {
	for _, s := range []string{goldenMember, goldenAssign, "0001 00 00000000 01", "0002 ff ffffffff 01 ff"} {
		b, _ := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bytes.Clone(b)
		if m, err := DecodeMember(b); err == nil {
			again, err := DecodeMember(m.Append(nil))
			again.Version = m.Version
			if err != nil || !reflect.DeepEqual(again, m) {
				t.Fatalf("%+v becomes %+v, %v", m, again, err)
			}
			// Whatever members say, an assignment covers every partition once.
			members := append(sharers(3, "a", "orders"), Member{ID: "F", Topics: []string{"a"}, Share: m.Share, Version: m.Version, Owned: m.Owned, Generation: m.Generation, Holds: m.Holds})
			group := input(members, map[string]Topic{"a": sharedTopic(2), "orders": {Partitions: 3}})
			checkTarget(t, group, Assign(group))
		}
		if a, err := DecodeAssignment(b); err == nil && len(b) > 0 {
			again, err := DecodeAssignment(a.Append(nil))
			again.Version = a.Version
			if err != nil || !reflect.DeepEqual(again, a) {
				t.Fatalf("%+v becomes %+v, %v", a, again, err)
			}
		}
		if !bytes.Equal(in, b) {
			t.Fatal("a decoder changed its input")
		}
	})
}
