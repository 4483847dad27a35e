package balancer

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tandem-kafka/tandem/client/internal/assignor"
)

// ProtocolName names the assignor in JoinGroup.
const ProtocolName = "tandem-key-range-round-robin"

// Callback is told of key ranges that the member gets or loses. It runs on the goroutine that manages the group: the member keeps
// sending heartbeats meanwhile, but takes part in no rebalance, so a callback must return well within the rebalance timeout.
type Callback func(ctx context.Context, client *kgo.Client, ranges assignor.Ranges)

// Sharing says where sharing is allowed.
type Sharing struct {
	IndividualCommits bool            // the coordinator allows individual commits
	KeyRangeFetch     map[string]bool // topics that allow key-range fetch
}

// Config is what a Balancer needs. Callbacks and Sharing may be nil.
type Config struct {
	Share bool // this member opts in to sharing partitions

	// Cooperative members go on through a rebalance with what they have, and lose only what others are to get. Others give up
	// everything before each rebalance.
	Cooperative bool

	// Sharing is asked when this member leads the group, with all topics of the group, sorted. It may take some seconds; the others
	// wait. After an error the last answer counts, and what members share now is taken to be allowed. nil: nothing is allowed.
	// When its answer changes, the member that Leads must call the client's ForceRebalance; from others the coordinator ignores it.
	Sharing func(topics []string) (Sharing, error)

	// Revoked is called with what the member is about to lose: when it returns, the work on it must be over and committed. Others may
	// begin with it then. Assigned is called with what it gets, after that. Lost is called in place of Revoked when the member is no
	// longer in the group: others may have it already, and commits are refused.
	Revoked, Assigned, Lost Callback

	// Doubted is called with what the member has when it does not know any more whether it is in the group: nothing of that is to begin. It ends with
	// Lost or with Kept, which is called with what it still has once the group's next assignment is known, or with Revoked if it leaves.
	Doubted, Kept Callback

	// Others are assignors that the member also takes part with, in the order of preference behind this one, so that a running group
	// can change over member by member: first every member gets both, then the others are taken away. Partitions are not shared under them.
	// They cannot be combined with Cooperative: kgo would not make members give up key ranges before another assignor gives
	// a whole partition to one of them.
	Others []kgo.GroupBalancer

	Log *slog.Logger // nil: slog.Default()
}

// Balancer is one member's. It must not be used by two clients.
type Balancer struct {
	cfg Config

	mu    sync.Mutex
	now   state
	had   state           // what an eager member gave up last: it would like to have it again
	next  *state          // what the last sync brought, until it is taken over
	held  assignor.Ranges // what it said that it holds when it last joined
	doubt *doubt          // nil: it is a member, or has nothing
	lead  leadership
}

// state is what a member has, and the generation that gave it (-1: not known).
type state struct {
	ranges     assignor.Ranges
	generation int32
	notes      []assignor.Note
}

func none() state { return state{ranges: assignor.Ranges{}, generation: -1} }

// New returns a Balancer; it fails on Others together with Cooperative.
func New(cfg Config) (*Balancer, error) {
	if cfg.Cooperative && len(cfg.Others) > 0 {
		return nil, errors.New("other assignors cannot be combined with cooperative rebalances: change the group over to this one first")
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	for _, callback := range []*Callback{&cfg.Revoked, &cfg.Assigned, &cfg.Lost, &cfg.Doubted, &cfg.Kept} {
		if *callback == nil {
			*callback = func(context.Context, *kgo.Client, assignor.Ranges) {}
		}
	}
	return &Balancer{cfg: cfg, now: none(), had: none()}, nil
}

// Opts returns the options that make a client use the Balancer. They set the client's balancers and its callbacks on assigned,
// revoked and lost partitions, which must not be set again, and a hook; with that kgo no longer commits by itself when partitions are revoked.
func (b *Balancer) Opts() []kgo.Opt {
	balancers := []kgo.GroupBalancer{b}
	for _, other := range b.cfg.Others {
		balancers = append(balancers, &whole{other, b})
	}
	return []kgo.Opt{
		kgo.Balancers(balancers...),
		kgo.OnPartitionsRevoked(b.onRevoked),
		kgo.OnPartitionsAssigned(b.onAssigned),
		kgo.OnPartitionsLost(b.onLost),
		kgo.WithHooks(b),
	}
}

// Ranges returns what the member has now, and the generation that gave it (-1: not known). The result must not be changed.
func (b *Balancer) Ranges() (assignor.Ranges, int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now.ranges, b.now.generation
}

// Leads reports whether this member made the present assignment of the group.
func (b *Balancer) Leads() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lead.now
}

// Notes returns what the leader told this member with the last assignment: why it has less than it may expect.
func (b *Balancer) Notes() []assignor.Note {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now.notes
}

// ProtocolName implements kgo.GroupBalancer.
func (b *Balancer) ProtocolName() string { return ProtocolName }

// IsCooperative implements kgo.GroupBalancer.
func (b *Balancer) IsCooperative() bool { return b.cfg.Cooperative }

// JoinGroupMetadata implements kgo.GroupBalancer. What kgo believes the member to have is not used: it knows no key ranges.
func (b *Balancer) JoinGroupMetadata(topics []string, _ map[string][]int32, _ int32) []byte {
	b.checkMember()
	b.mu.Lock()
	defer b.mu.Unlock()
	from := b.now
	b.held, b.lead.now = b.now.ranges, false
	if len(b.held) == 0 && len(b.had.ranges) > 0 {
		from = b.had
	}
	data := assignor.MemberData{Share: b.cfg.Share, Holds: len(b.held) > 0, Owned: from.ranges, Generation: from.generation}
	// Not in OwnedPartitions: a partition has several owners here, and who does not read user data could not make sense of it.
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version = 3
	meta.Topics = topics
	meta.Generation = from.generation
	meta.UserData = data.Append(nil)
	return meta.AppendTo(nil)
}

// ParseSyncAssignment implements kgo.GroupBalancer.
func (b *Balancer) ParseSyncAssignment(assignment []byte) (map[string][]int32, error) {
	partitions, next, err := readAssignment(assignment)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next = &next
	return partitions, nil
}

// MemberBalancer implements kgo.GroupBalancer.
func (b *Balancer) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	g := newGroup(b, members)
	return g, g.topics, nil
}

// whole is another assignor: who is given a partition by it has all of it.
type whole struct {
	kgo.GroupBalancer
	b *Balancer
}

func (w *whole) ParseSyncAssignment(assignment []byte) (map[string][]int32, error) {
	partitions, err := w.GroupBalancer.ParseSyncAssignment(assignment)
	if err != nil {
		return nil, err
	}
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	w.b.next = &state{ranges: wholes(partitions), generation: -1}
	return partitions, nil
}
