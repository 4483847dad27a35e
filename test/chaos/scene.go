package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kadm"
)

const (
	partitions = 4  // of the source
	virtual    = 16 // partitions of the view
	few        = 2  // partitions of a source that is shared by keys: less than members
	session    = 4 * time.Second
	slow       = 15 * time.Second // to tell what a scene waits for
	patience   = 2 * time.Minute  // for a group to get over a disturbance, on a busy machine: franz-go may take one to find the other gateway
)

// setting says what a scene has.
type setting struct {
	gateways int           // 0: a real topic of 16 partitions takes the view's place, which proves the judge
	rounds   int           // TANDEM_ROUNDS wins
	kinds    []string      // of members: consumers of the kit
	assignor string        // of the members, "" for each library's own
	members  int           // at the start
	aborts   bool          // producers write transactions, some of which abort, and members read read_committed
	program  *program      // the members are this one, which writes in transactions; nil: consumers
	lose     bool          // in the middle one of two gateways is killed for good
	shared   bool          // the members are Tandem's own client, and share the few partitions of the source itself by keys
	calm     bool          // nothing is killed but members
	byRecord time.Duration // > 0: they share by record, with this session timeout
}

// scene is a source, its view, the gateways, one group and its producers, and the ledger that judges.
type scene struct {
	testing.TB
	setting
	kafka               *harness.Kafka
	admin               *kadm.Client
	gates               []*harness.Gateway
	gone                []bool // gateways that were killed for good
	source, view, group string
	out                 string // topic of the transactions
	ledger              *harness.Ledger
	random              *rand.Rand
	members             []*member // alive
	past                []*member // killed, or gone
	roll                *roll
	loads               []*load
	resuming            chan struct{} // closed when the broker that was killed last is up
	caughtUp            func() error  // of what reads out
	watching            func()
	started             time.Time
}

// chance is the seed of a scene, from TANDEM_SEED or a new one.
func chance(t testing.TB) uint64 {
	t.Helper()
	n := rand.Uint64() % 1_000_000
	if s := os.Getenv("TANDEM_SEED"); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("TANDEM_SEED=%q: want a number", s)
		}
	}
	return n
}

// cluster is what all scenes share: three brokers, a copy of everything on each, that notice within seconds when one is dead.
func cluster(t testing.TB) *harness.Kafka {
	t.Helper()
	return harness.SharedKafka(t, harness.KafkaConfig{Brokers: 3, Heap: "288m", Properties: "broker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=500"})
}

// play runs a scene: its members start, producers write, and each round is a disturbance that the group has to get over. It ends with
// everything done, the members' leaving, and the judgement.
func play(t *testing.T, seed uint64, c setting) {
	t.Helper()
	harness.Need(t)
	if s := os.Getenv("TANDEM_ROUNDS"); s != "" {
		var err error
		if c.rounds, err = strconv.Atoi(s); err != nil {
			t.Fatalf("TANDEM_ROUNDS=%q: want a number", s)
		}
	}
	t.Logf("TANDEM_SEED=%d repeats the choices of this scene: %+v", seed, c)
	s := open(t, seed, c)
	s.settle("the start")
	actions := s.deck()
	for round := range c.rounds {
		s.moment()
		if c.lose && round == c.rounds/2 {
			s.loseGateway()
		} else {
			actions(round)
		}
		s.settle(fmt.Sprintf("round %d", round+1))
	}
	s.finish()
}

func open(t *testing.T, seed uint64, c setting) *scene {
	t.Helper()
	s := &scene{TB: t, setting: c, kafka: cluster(t), ledger: harness.NewLedger(), random: rand.New(rand.NewPCG(seed, 11)), started: time.Now()}
	s.admin, s.resuming = harness.AdminClient(t, s.kafka.Bootstrap), make(chan struct{})
	close(s.resuming)
	t.Cleanup(func() { <-s.resuming })
	s.source, s.group = harness.Name(t, "orders"), harness.Name(t, "group")
	s.view = fmt.Sprintf("%s.view%d", s.source, virtual)
	if s.byRecord > 0 {
		s.ledger.AnyOrder()
	}
	count := int32(partitions)
	switch {
	case c.shared:
		s.view, count = s.source, few
	case c.gateways == 0:
		s.view, count = s.source, virtual
	}
	harness.CreateTopic(t, s.kafka.Bootstrap, s.source, count)
	for range c.gateways {
		s.gates = append(s.gates, harness.StartGateway(t, harness.GatewayConfig{Kafka: s.kafka.Bootstrap}))
		s.gone = append(s.gone, false)
	}
	if c.program != nil {
		c.program.prepare(s)
	} else {
		s.watching = harness.WatchCommitted(t, s.kafka.Bootstrap, s.group, s.source, s.ledger)
		s.roll = call(t, s.admin, s.group)
	}
	for range c.members {
		s.add()
	}
	through := s.bootstrap(true)
	if c.aborts { // straight to Kafka: what is proven of producers through the gateway is not proven here
		through = s.kafka.Bootstrap
	}
	s.loads = []*load{
		startLoad(t, through, s.source, "a", c.aborts, s.ledger, seed),
		startLoad(t, s.kafka.Bootstrap, s.source, "b", c.aborts, s.ledger, seed+1),
	}
	return s
}

// bootstrap is a list for a client: of all gateways in a random order, or of one that lives.
func (s *scene) bootstrap(all bool) string {
	if len(s.gates) == 0 {
		return s.kafka.Bootstrap
	}
	var list []string
	for i, g := range s.gates {
		if all || !s.gone[i] {
			list = append(list, g.Bootstrap)
		}
	}
	s.random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	if !all {
		list = list[:1]
	}
	return strings.Join(list, ",")
}

// add starts a member. With several gateways each second member knows only one, so that the group is spread over them.
func (s *scene) add() {
	s.Helper()
	m := &member{bootstrap: s.bootstrap(s.random.IntN(2) == 0)}
	if s.byRecord > 0 || s.program != nil && s.program.worker {
		s.addWorker(m)
		s.members = append(s.members, m)
		s.say("member %s (%d), bootstrap %s", m.kind, m.Pid(), m.bootstrap)
		return
	}
	args := []string{"--bootstrap", m.bootstrap, "--topic", s.view, "--group", strings.TrimSuffix(s.group, "-eos"), "--work-ms", "3", "--session-ms", fmt.Sprint(session.Milliseconds())}
	if s.program != nil {
		m.kind = s.program.args[0]
		args = append(append(slices.Clone(s.program.args[1:]), args...), "--out", s.out)
	} else {
		if m.kind = s.kinds[s.random.IntN(len(s.kinds))]; m.kind == inProcess {
			m.bootstrap = s.kafka.Bootstrap
			args[1] = m.bootstrap
		}
		m.id = fmt.Sprintf("member-%d", len(s.members)+len(s.past))
		args = append(args, "--client-id", m.id)
		if s.assignor != "" {
			args = append(args, "--assignor", s.assignor)
		}
		if s.aborts {
			args = append(args, "--isolation", "read_committed")
		}
	}
	m.Process = harness.StartClient(s, m.kind, args...).Process
	s.members = append(s.members, m)
	s.say("member %s (%d), bootstrap %s", m.kind, m.Pid(), m.bootstrap)
}

// drop takes a member that has ended out of the scene.
func (s *scene) drop(i int) {
	s.Helper()
	m := s.members[i]
	s.members = slices.Delete(s.members, i, i+1)
	s.take(m)
	s.past = append(s.past, m)
}

func (s *scene) say(format string, args ...any) {
	s.Helper()
	s.Logf("%6.2f s  %s", time.Since(s.started).Seconds(), fmt.Sprintf(format, args...))
}

func (s *scene) take(m *member) {
	s.Helper()
	if s.program != nil {
		return // what counts is the output topic, which has a reader of its own
	}
	if s.byRecord > 0 {
		m.collectRuns(s, s.ledger)
		return
	}
	m.collect(s, s.ledger)
}

// collect takes what the members have printed. A member that has ended by itself is replaced; only programs with transactions may do
// that, when they are fenced.
func (s *scene) collect() {
	s.Helper()
	for i := len(s.members) - 1; i >= 0; i-- {
		m := s.members[i]
		s.take(m)
		switch {
		case !m.Running() || s.program != nil && s.program.died(m):
			log := m.Log()
			if s.program == nil || s.program.worker {
				s.Errorf("%s (%d) ended by itself:\n%s", m.kind, m.Pid(), log[max(0, len(log)-3000):])
			}
			s.say("%s (%d) ended: %q", m.kind, m.Pid(), log[max(0, len(log)-400):])
		case s.stuck(m):
			s.say("%s (%d) is stuck", m.kind, m.Pid())
		default:
			continue
		}
		s.kill(i)
		s.add()
	}
}

// await waits until nothing is missing any more.
func (s *scene) await(limit time.Duration, missing func() string) {
	s.Helper()
	deadline, tell := time.Now().Add(limit), time.Now().Add(slow)
	for {
		s.collect()
		m := missing()
		if m == "" {
			return
		}
		if time.Now().After(tell) {
			s.say("still waiting: %s", m)
			tell = time.Now().Add(slow)
		}
		if time.Now().After(deadline) {
			s.Errorf("not within %v: %s\n%s", limit, m, s.state())
			s.judgeLater()
			s.FailNow()
		}
		s.pass(50 * time.Millisecond)
	}
}

// pass lets time go by, for an outage or until the next look.
func (s *scene) pass(d time.Duration) {
	until := time.After(d)
	<-until
}

// moment waits for a random number of deliveries, so that what follows falls anywhere in the group's work.
func (s *scene) moment() {
	s.Helper()
	target, deadline := s.ledger.Deliveries()+s.random.IntN(2*rate), time.Now().Add(3*time.Second)
	for s.ledger.Deliveries() < target && time.Now().Before(deadline) {
		s.collect()
		s.pass(2 * time.Millisecond)
	}
}

// settle waits until the group works again: no more waits for it than producers write in a second, or on a busy machine it has got through
// as much as waited. Half of the times it also waits until the group has all its members; otherwise the next disturbance falls into what
// this one left.
func (s *scene) settle(after string) {
	s.Helper()
	start, before, waited := time.Now(), s.ledger.Deliveries(), s.ledger.Open()
	s.await(patience, func() string {
		if open, got := s.ledger.Open(), s.ledger.Deliveries()-before; open > 2*rate && got < waited || got < rate/10 {
			return fmt.Sprintf("after %s: %d records wait, %d deliveries since", after, open, got)
		}
		return ""
	})
	if s.random.IntN(2) == 0 {
		s.complete()
	}
	s.say("settled %.1f s after %s: %d deliveries", time.Since(start).Seconds(), after, s.ledger.Deliveries())
}

// finish ends the production, waits until everything is done, lets the members leave, and judges.
func (s *scene) finish() {
	s.Helper()
	<-s.resuming
	for _, l := range s.loads {
		l.Stop(s, patience)
	}
	if s.aborts {
		truth(s, s.kafka.Bootstrap, s.source, s.ledger)
	}
	s.await(patience, func() string {
		if n := s.ledger.Open(); n > 0 {
			return fmt.Sprintf("%d records are not delivered", n)
		}
		return ""
	})
	s.await(patience, func() string { // by members of the group
		s.outside()
		if r := s.ledger.Report(nil); r.Missing > 0 {
			return r.String()
		}
		return ""
	})
	defer s.holdBrokers()() // what is asked from here on is asked once
	s.say("all done")
	if !slices.Contains(s.kinds, "sarama") { // the kit's program commits its last records when it leaves
		s.reach(s.behind)
	}
	if s.caughtUp != nil {
		s.await(patience, func() string { return text(s.caughtUp()) })
	}
	for len(s.members) > 0 {
		s.dismiss(0)
	}
	if m := s.behind(); m != "" {
		s.Errorf("after the members left: %s", m)
	}
	s.judge()
	s.say("judged")
}

// reach waits until the stable offset is at the log end. It fails the test after a while, but not the rest of the judgement.
func (s *scene) reach(behind func() string) {
	s.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; s.pass(100 * time.Millisecond) {
		s.collect()
		m := behind()
		if m == "" {
			s.say("the stable offset is at the log end")
			return
		}
		if time.Now().After(deadline) {
			s.Errorf("all is done, but: %s\n%s", m, s.state())
			return
		}
	}
}

// behind says where the group's offset on the source, as the cluster has it, is not the log end: without a gateway, the end of its records.
func (s *scene) behind() string {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ends, err := s.admin.ListEndOffsets(ctx, s.source)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return err.Error()
	}
	offsets, err := s.admin.FetchOffsets(ctx, s.group)
	if err != nil {
		return err.Error()
	}
	records := s.ledger.Ends(s.source)
	var late []string
	for p, end := range ends[s.source] {
		if len(s.gates) == 0 {
			end.Offset = records[p]
		}
		if o, _ := offsets.Lookup(s.source, p); end.Offset > 0 && o.At != end.Offset {
			late = append(late, fmt.Sprintf("partition %d: stable offset %d (%q), log end %d", p, o.At, o.Metadata, end.Offset))
		}
	}
	slices.Sort(late)
	return strings.Join(late, "; ")
}

// outside tells the ledger which members were outside of their group, and when.
func (s *scene) outside() {
	s.Helper()
	if s.program != nil || s.byRecord > 0 { // what is done by record counts whenever it is committed
		return
	}
	for _, m := range append(slices.Clone(s.past), s.members...) {
		s.ledger.Outside(m.name, m.spans(s.roll.absences(m.id))...)
		if s.Failed() {
			s.say("%s was outside of the group: %+v; events %+v", m.name, m.spans(s.roll.absences(m.id)), m.events)
		}
	}
}

// judge checks the ledger.
func (s *scene) judge() {
	s.Helper()
	if s.watching != nil {
		s.watching()
	}
	s.outside()
	where := harness.View(partitions, virtual/partitions)
	if s.gateways == 0 || s.shared {
		where = func(p harness.Produced) (int32, bool) { return p.Partition, true }
	}
	if s.program != nil {
		where = nil // the partition is the output's
	}
	r := s.ledger.Check(s, where)
	if s.program != nil && r.Duplicates > 0 {
		s.Errorf("%d records are in the output twice", r.Duplicates)
	}
	switch {
	case s.byRecord > 0:
		s.judgeByRecord()
	case s.shared && s.program == nil:
		if r.Within > 0 {
			s.Errorf("%d times a member worked twice on a key at once", r.Within)
		}
		s.again()
	}
}

// judgeLater judges a scene that fails already: what is not delivered yet is shown too.
func (s *scene) judgeLater() {
	s.Helper()
	s.judge()
}

// state describes the group as the cluster has it.
func (s *scene) state() string {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var b strings.Builder
	groups, err := s.admin.DescribeGroups(ctx, s.group)
	if err != nil {
		fmt.Fprintf(&b, "group: %v\n", err)
	}
	for _, g := range groups {
		fmt.Fprintf(&b, "group %s: %s, %d members, coordinator %d, %v\n", g.Group, g.State, len(g.Members), g.Coordinator.NodeID, g.Err)
	}
	offsets, err := s.admin.FetchOffsets(ctx, s.group)
	if err != nil {
		fmt.Fprintf(&b, "offsets: %v\n", err)
	}
	for _, o := range offsets.Sorted() {
		fmt.Fprintf(&b, "%s/%d: %d %q\n", o.Topic, o.Partition, o.At, o.Metadata)
	}
	ends, err := s.admin.ListEndOffsets(ctx, s.source)
	if err != nil {
		fmt.Fprintf(&b, "ends: %v\n", err)
	}
	ends.Each(func(o kadm.ListedOffset) { fmt.Fprintf(&b, "end of %s/%d: %d\n", o.Topic, o.Partition, o.Offset) })
	return b.String()
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
