package balancer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/client/internal/assignor"
	"github.com/tandem-kafka/tandem/keyrange"
)

// The proposal's example, and members that join and leave, with real clients.
func TestMembersComeAndGo(t *testing.T) {
	for _, cooperative := range []bool{false, true} {
		t.Run(fmt.Sprintf("cooperative %v", cooperative), func(t *testing.T) {
			c := newCluster(t, map[string]int32{"t": 3})
			cfg := Config{Share: true, Cooperative: cooperative, Sharing: allowed("t")}
			for i := range 5 {
				c.join(fmt.Sprintf("M%d", i+1), cfg)
			}
			c.until(3, 1, 2, 2)
			c.owners.moved()
			leaders := 0
			for _, cl := range c.clients {
				if cl.balancer.Leads() {
					leaders++
				}
			}
			if leaders != 1 {
				t.Errorf("%d members lead the group", leaders)
			}

			c.join("M6", cfg)
			c.until(3, 2, 2, 2)
			if moved := c.owners.moved(); cooperative && moved != 0.5 {
				t.Errorf("the sixth member made others give up %.3f partitions, want half a one", moved)
			}
			c.leave("M2")
			c.until(3, 1, 2, 2)
			c.leave("M3")
			c.leave("M1")
			c.until(3, 1, 1, 1)
			c.join("M7", cfg)
			c.until(3, 1, 1, 2)
		})
	}
}

// When the topic grows, the leader takes up the new count for key positions, and no key has two owners on the way.
func TestTheTopicGrows(t *testing.T) {
	c := newCluster(t, map[string]int32{"t": 2})
	cfg := Config{Share: true, Cooperative: true, Sharing: allowed("t")}
	for i := range 5 {
		c.join(fmt.Sprintf("M%d", i+1), cfg, kgo.MetadataMaxAge(50*time.Millisecond), kgo.MetadataMinAge(10*time.Millisecond))
	}
	c.until(2, 2, 3)
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "t", Count: 3}}
	if _, err := grow.RequestWith(t.Context(), c.clients["M1"].Client); err != nil {
		t.Fatal(err)
	}
	c.until(3, 1, 2, 2)
	for name, cl := range c.clients {
		ranges, _ := cl.balancer.Ranges()
		for p, part := range ranges["t"] {
			if !part.Whole() && part.Base != 3 {
				t.Errorf("%s has of partition %d %v, want it by the base 3", name, p, part)
			}
		}
	}
}

// Many come and go at once, eager and cooperative ones in one group, while others have not finished giving up.
func TestNeverTwoOwnersAtOnce(t *testing.T) {
	c := newCluster(t, map[string]int32{"t": 2})
	random := rand.New(rand.NewPCG(5, 6))
	cfg := func() Config {
		return Config{Share: true, Cooperative: random.IntN(4) > 0, Sharing: allowed("t")}
	}
	for i := range 4 {
		c.join(fmt.Sprintf("M%d", i), cfg())
	}
	for i := range 12 {
		if names := c.names(); len(names) > 3 && random.IntN(2) == 0 {
			c.leave(names[random.IntN(len(names))])
		} else {
			c.join(fmt.Sprintf("N%d", i), cfg())
		}
		time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond) // the next event comes at any point of the rebalance
	}
	n := len(c.clients)
	c.until(2, n/2, n-n/2)
}

// A member that did not opt in has a whole partition, and one for whom there is none is told so.
func TestMembersThatDidNotOptIn(t *testing.T) {
	c := newCluster(t, map[string]int32{"t": 1})
	first := c.join("A", Config{Sharing: allowed("t"), Cooperative: true})
	c.until(1, 1)
	second := c.join("B", Config{Sharing: allowed("t"), Cooperative: true})
	c.wait(func() error {
		for _, cl := range []*client{first, second} {
			if ranges, _ := cl.balancer.Ranges(); len(ranges) == 0 {
				if notes := cl.balancer.Notes(); len(notes) == 1 && notes[0].Code == assignor.NoteNotOptedIn {
					return nil
				}
			}
		}
		return fmt.Errorf("one of two members has nothing, and should be told why: %v, %v", first.balancer.Notes(), second.balancer.Notes())
	})
	c.until(1, 1)
}

func TestAPlainMemberCannotJoin(t *testing.T) {
	c := newCluster(t, map[string]int32{"t": 1})
	c.join("A", Config{Share: true, Sharing: allowed("t")})
	c.until(1, 1)
	failed := make(chan error, 100)
	cl, err := kgo.NewClient(append(c.options("plain"), kgo.Balancers(kgo.RangeBalancer()), kgo.WithHooks(manageErrors(failed)))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	select {
	case err := <-failed:
		if !errors.Is(err, kerr.InconsistentGroupProtocol) {
			t.Errorf("%v, want INCONSISTENT_GROUP_PROTOCOL", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the plain member was let in")
	}
}

type manageErrors chan error

func (m manageErrors) OnGroupManageError(err error) {
	select {
	case m <- err:
	default:
	}
}

// A group of plain members changes over member by member, and shares when the last plain one has left; and a KIP-848 option of the
// client makes no difference.
func TestAGroupChangesOver(t *testing.T) {
	c := newCluster(t, map[string]int32{"t": 2})
	var plain []*kgo.Client
	for i := range 2 {
		cl, err := kgo.NewClient(append(c.options(fmt.Sprint("plain", i)), kgo.Balancers(kgo.CooperativeStickyBalancer()))...)
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		plain = append(plain, cl)
	}
	both := Config{Share: true, Sharing: allowed("t"), Others: []kgo.GroupBalancer{kgo.CooperativeStickyBalancer()}}
	c.join("A", both)
	plain[0].Close()
	c.join("B", both)
	c.join("C", both)
	plain[1].Close()
	c.until(2, 1, 2)
	for _, name := range []string{"A", "B", "C"} { // the second round: without the other assignor, and cooperative
		c.leave(name)
		c.join(name+"2", Config{Share: true, Cooperative: true, Sharing: allowed("t")}, kgo.ServerSideBalancer())
		c.until(2, 1, 2)
	}
}

func TestOthersAreForEagerMembers(t *testing.T) {
	if _, err := New(Config{Cooperative: true, Others: []kgo.GroupBalancer{kgo.RangeBalancer()}}); err == nil {
		t.Error("other assignors beside a cooperative one are taken")
	}
}

// A static member that comes back in time has its share again, and the others keep theirs.
func TestAStaticMemberRestarts(t *testing.T) {
	c := newCluster(t, map[string]int32{"t": 1})
	cfg := Config{Share: true, Cooperative: true, Sharing: allowed("t")}
	for _, name := range []string{"A", "B", "C"} {
		c.join(name, cfg, kgo.InstanceID(name))
	}
	c.until(1, 3)
	before, _ := c.clients["B"].balancer.Ranges()
	c.leave("B")
	c.owners.moved()
	c.join("B", cfg, kgo.InstanceID("B"))
	c.until(1, 3)
	after, _ := c.clients["B"].balancer.Ranges()
	if moved := c.owners.moved(); moved != 0 || len(before.Minus(after)) > 0 {
		t.Errorf("B had %v and has %v; others gave up %.3f partitions", before, after, moved)
	}
}

// A member goes on with what it keeps while it gives up the rest: what stays is not revoked and assigned again.
func TestOnlyWhatMovesIsReported(t *testing.T) {
	b, err := New(Config{Share: true, Cooperative: true})
	if err != nil {
		t.Fatal(err)
	}
	var events []string
	b.cfg.Revoked = func(_ context.Context, _ *kgo.Client, r assignor.Ranges) {
		events = append(events, fmt.Sprint("revoked ", r))
	}
	b.cfg.Assigned = func(_ context.Context, _ *kgo.Client, r assignor.Ranges) {
		events = append(events, fmt.Sprint("assigned ", r))
	}
	cl, err := kgo.NewClient() // never connects
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	session := func(generation int32, ranges assignor.Ranges, lost map[string][]int32) {
		if _, err := b.ParseSyncAssignment(encode(ranges, nil, generation)); err != nil {
			t.Fatal(err)
		}
		if lost != nil {
			b.onRevoked(t.Context(), cl, lost)
		}
		b.onAssigned(t.Context(), cl, nil)
		b.onRevoked(t.Context(), cl, nil) // a cooperative session ends
	}
	lower, upper := assignor.Ranges{"t": {0: {Keys: keyrange.Set{{Last: 1<<31 - 1}}, Base: 1}}}, assignor.Ranges{"t": {0: {Keys: keyrange.Set{{First: 1 << 31, Last: 1<<32 - 1}}, Base: 1}}}
	session(1, assignor.Ranges{"t": {0: {}}, "u": {3: {}}}, nil)
	session(2, lower, map[string][]int32{"u": {3}})
	session(3, lower, nil)
	session(4, upper, nil)
	want := []string{
		fmt.Sprint("assigned ", assignor.Ranges{"t": {0: {}}, "u": {3: {}}}),
		fmt.Sprint("revoked ", assignor.Ranges{"t": upper["t"], "u": {3: {}}}),
		fmt.Sprint("revoked ", lower), fmt.Sprint("assigned ", upper),
	}
	if !slices.Equal(events, want) {
		t.Errorf("%q, want %q", events, want)
	}
}

// An eager member lets go of everything before it joins, and says what it would like to have again; but not of what the group took from it.
func TestEagerMembersAskForWhatTheyHad(t *testing.T) {
	b := newBalancer(t, Config{Share: true})
	cl, err := kgo.NewClient() // never connects
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	says := func(holds bool, generation int32, owned assignor.Ranges) {
		t.Helper()
		var meta kmsg.ConsumerMemberMetadata
		if err := meta.ReadFrom(b.JoinGroupMetadata([]string{"t"}, nil, 9)); err != nil {
			t.Fatal(err)
		}
		want := assignor.MemberData{Version: 1, Share: true, Holds: holds, Generation: generation, Owned: owned}
		if got, err := assignor.DecodeMember(meta.UserData); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the member says %+v (%v), want %+v", got, err, want)
		}
	}
	session := func(generation int32, ranges assignor.Ranges) {
		partitions, err := b.ParseSyncAssignment(encode(ranges, nil, generation))
		if err != nil {
			t.Fatal(err)
		}
		b.onAssigned(t.Context(), cl, partitions)
		says(len(ranges) > 0, generation, ranges) // as after a session without a revoke
		b.onRevoked(t.Context(), cl, partitions)
	}
	says(false, -1, assignor.Ranges{})
	half := assignor.Ranges{"t": {0: {Keys: keyrange.Set{{Last: 1<<31 - 1}}, Base: 1}}}
	session(3, half)
	says(false, 3, half)
	session(4, assignor.Ranges{})
	says(false, 4, assignor.Ranges{})
	session(5, half)
	b.onLost(t.Context(), cl, nil)
	says(false, -1, assignor.Ranges{})
}
