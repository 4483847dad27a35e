package balancer

import (
	"errors"
	"io"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/client/internal/assignor"
	"github.com/tandem-kafka/tandem/keyrange"
)

func newBalancer(t *testing.T, cfg Config) *Balancer {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func metadata(m kmsg.ConsumerMemberMetadata) []byte { return m.AppendTo(nil) }

func member(id string, metadata []byte) kmsg.JoinGroupResponseMember {
	return kmsg.JoinGroupResponseMember{MemberID: id, ProtocolMetadata: metadata}
}

// balance has b lead a group, and returns what each member reads.
func balance(t *testing.T, b *Balancer, generation int32, members []kmsg.JoinGroupResponseMember, partitions map[string]int32) map[string]state {
	t.Helper()
	mb, topics, err := b.MemberBalancer(members)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(slices.Sorted(maps.Keys(topics)), slices.Sorted(maps.Keys(partitions))) {
		t.Errorf("the group's topics are %v, want those of %v", topics, partitions)
	}
	mb.(kgo.GroupMemberBalancerInfo).SetBalanceInfo(kgo.BalanceInfo{Generation: generation})
	into, err := mb.(kgo.GroupMemberBalancerOrError).BalanceOrError(partitions)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]state{}
	for _, a := range into.IntoSyncAssignment() {
		_, s, err := readAssignment(a.MemberAssignment)
		if err != nil {
			t.Fatalf("%s cannot read its assignment: %v", a.MemberID, err)
		}
		got[a.MemberID] = s
	}
	return got
}

// One member that sends nonsense gets whole partitions, if any, and does not stop the group.
func TestMembersThatCannotBeRead(t *testing.T) {
	good := newBalancer(t, Config{Share: true}).JoinGroupMetadata([]string{"t"}, nil, -1)
	nonsense := kmsg.ConsumerMemberMetadata{Version: 1, Topics: []string{"t"}, UserData: []byte("nonsense"),
		OwnedPartitions: []kmsg.ConsumerMemberMetadataOwnedPartition{{Topic: "t", Partitions: []int32{1}}}}
	foreign := nonsense
	foreign.UserData = nil
	b := newBalancer(t, Config{Share: true, Sharing: allowed("t")})
	got := balance(t, b, 5, []kmsg.JoinGroupResponseMember{
		member("A", metadata(nonsense)), member("B", []byte{0}), member("C", good), member("D", good), member("E", good),
	}, map[string]int32{"t": 2})
	for id, want := range map[string]struct {
		ranges assignor.Ranges
		note   assignor.NoteCode
	}{
		"A": {assignor.Ranges{"t": {1: {}}}, assignor.NoteUserData},
		"B": {assignor.Ranges{}, assignor.NoteUserData},
		"C": {assignor.Ranges{"t": {0: {Keys: keyrange.Set{{Last: 1 << 32 / 3}}, Base: 2}}}, 0},
	} {
		s := got[id]
		if !reflect.DeepEqual(s.ranges, want.ranges) || s.generation != 5 {
			t.Errorf("%s has %v of generation %d, want %v", id, s.ranges, s.generation, want.ranges)
		}
		if codes := len(s.notes); want.note == 0 && codes > 0 || want.note != 0 && (codes != 1 || s.notes[0].Code != want.note) {
			t.Errorf("%s is told %v, want note %d", id, s.notes, want.note)
		}
	}
	got = balance(t, b, 6, []kmsg.JoinGroupResponseMember{member("A", metadata(foreign)), member("C", good)}, map[string]int32{"t": 2})
	if s := got["A"]; len(s.notes) > 0 || !reflect.DeepEqual(s.ranges, assignor.Ranges{"t": {1: {}}}) {
		t.Errorf("a member without user data keeps %v and is told %v, want the partition that it owns", s.ranges, s.notes)
	}
}

// Sharing does not end because the leader cannot ask for a moment, nor because it is a new leader that cannot ask.
func TestSharingGoesOnWhenTheLeaderCannotAsk(t *testing.T) {
	half := assignor.MemberData{Share: true, Owned: assignor.Ranges{"t": {0: {Keys: keyrange.Set{{Last: 1<<31 - 1}}, Base: 1}}}}
	fresh := assignor.MemberData{Share: true, Generation: -1}
	say := func(d assignor.MemberData) []byte {
		return metadata(kmsg.ConsumerMemberMetadata{Topics: []string{"t"}, UserData: d.Append(nil)})
	}
	failing := errors.New("no answer")
	var log strings.Builder
	ask := func([]string) (Sharing, error) { return Sharing{}, failing }
	shared := func(b *Balancer, first assignor.MemberData) bool {
		got := balance(t, b, 2, []kmsg.JoinGroupResponseMember{member("A", say(first)), member("B", say(fresh))}, map[string]int32{"t": 1})
		return len(got["A"].ranges) == 1 && len(got["B"].ranges) == 1
	}
	b := newBalancer(t, Config{Share: true, Sharing: ask, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if shared(b, fresh) {
		t.Error("a leader that never had an answer shares")
	}
	if !shared(b, half) {
		t.Error("a new leader takes away what members share")
	}
	if !strings.Contains(log.String(), "no answer") {
		t.Errorf("the log does not say why: %s", log.String())
	}
	b.cfg.Sharing = allowed("t")
	if !shared(b, fresh) {
		t.Error("a leader does not share where that is allowed")
	}
	b.cfg.Sharing = ask
	if !shared(b, fresh) {
		t.Error("a leader forgets the last answer")
	}
	b.cfg.Sharing = func(topics []string) (Sharing, error) {
		if !slices.Equal(topics, []string{"t"}) {
			t.Errorf("asked for %v", topics)
		}
		return Sharing{IndividualCommits: true}, nil
	}
	if shared(b, half) {
		t.Error("a leader shares where that is not allowed any more")
	}
}

func TestAssignmentsThatCannotBeRead(t *testing.T) {
	b := newBalancer(t, Config{})
	if partitions, err := b.ParseSyncAssignment(nil); err != nil || len(partitions) != 0 {
		t.Errorf("no assignment: %v, %v, want no partitions", partitions, err)
	}
	whole := kmsg.ConsumerMemberAssignment{Topics: []kmsg.ConsumerMemberAssignmentTopic{{Topic: "t", Partitions: []int32{4, 4}}}}
	partitions, err := b.ParseSyncAssignment(whole.AppendTo(nil))
	if err != nil || !reflect.DeepEqual(partitions, map[string][]int32{"t": {4}}) || !reflect.DeepEqual(b.next.ranges, assignor.Ranges{"t": {4: {}}}) {
		t.Errorf("no user data: %v, %v, %v, want the whole partition", partitions, b.next, err)
	}
	whole.UserData = []byte("nonsense")
	if _, err := b.ParseSyncAssignment(whole.AppendTo(nil)); err == nil {
		t.Error("nonsense is taken for whole partitions")
	}
	if _, err := b.ParseSyncAssignment([]byte{0, 0, 0}); err == nil {
		t.Error("half a message is taken")
	}
}

// A member that joins again with nothing new must not begin a rebalance: the coordinator compares bytes.
func TestMetadataStaysTheSame(t *testing.T) {
	b := newBalancer(t, Config{Share: true})
	b.now.ranges = assignor.Ranges{"b": {1: {}, 2: {}, 3: {}}, "a": {4: {}}, "c": {5: {}}}
	first := string(b.JoinGroupMetadata([]string{"a", "b"}, nil, 7))
	for range 20 {
		if got := string(b.JoinGroupMetadata([]string{"a", "b"}, map[string][]int32{"a": {4}}, 8)); got != first {
			t.Fatalf("%q, before %q", got, first)
		}
	}
}

func FuzzMetadata(f *testing.F) {
	b, _ := New(Config{Share: true, Sharing: allowed("t"), Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	good := b.JoinGroupMetadata([]string{"t"}, nil, -1)
	f.Add(good)
	f.Add(encode(assignor.Ranges{"t": {0: {Keys: keyrange.Set{{Last: 9}}, Base: 5}, 1: {}}}, []assignor.Note{{Code: 1, Topics: []string{"t"}}}, 3))
	f.Fuzz(func(t *testing.T, data []byte) {
		g := newGroup(b, []kmsg.JoinGroupResponseMember{member("A", data), member("B", good), member("C", good)})
		g.SetBalanceInfo(kgo.BalanceInfo{Generation: 4})
		into, err := g.BalanceOrError(map[string]int32{"t": 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range into.IntoSyncAssignment() {
			if _, _, err := readAssignment(a.MemberAssignment); err != nil {
				t.Fatalf("%s cannot read what it is sent: %v", a.MemberID, err)
			}
		}
		readAssignment(data)
	})
}
