package cases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestMain(m *testing.M) { harness.Main(m, 2) }

// minSession is the shortest session that the engines here allow.
const minSession = time.Second

// engine is where the records are: the cluster behind a gateway, or the engine inside it.
type engine struct {
	name    string
	gateway *harness.Gateway
	kafka   string         // HOST:PORT list without a gateway in between; on the embedded engine the gateway's own
	cluster *harness.Kafka // nil on the embedded engine
}

// real says that Kafka can be asked without the gateway.
func (e engine) real() bool { return e.cluster != nil }

// cluster is the Kafka that the package's tests share.
func cluster(t testing.TB) *harness.Kafka {
	t.Helper()
	// The cleaner runs often, for compacted topics; each time it looks at all topics of all cases.
	return harness.SharedKafka(t, harness.KafkaConfig{Properties: "log.cleaner.backoff.ms=500"})
}

// onEmbedded starts a gateway with the embedded engine.
func onEmbedded(t testing.TB, c harness.GatewayConfig) engine {
	t.Helper()
	g := harness.StartGateway(t, c)
	// As the clusters of test/kafka: sessions as short as the tests want them. It has no heartbeat interval for each group.
	var set []kadm.AlterConfig
	for name, d := range map[string]time.Duration{"group.min.session.timeout.ms": minSession, "group.consumer.heartbeat.interval.ms": minSession / 4} {
		value := fmt.Sprint(d.Milliseconds())
		set = append(set, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	if _, err := harness.Admin(t, g.Bootstrap).AlterBrokerConfigs(harness.Context(t, 10*time.Second), set); err != nil {
		t.Fatal(err)
	}
	return engine{name: "embedded", gateway: g, kafka: g.Bootstrap}
}

// onKafka starts a gateway in front of the shared cluster.
func onKafka(t testing.TB, c harness.GatewayConfig) engine {
	t.Helper()
	k := cluster(t)
	c.Kafka = k.Bootstrap
	return engine{name: "kafka", gateway: harness.StartGateway(t, c), kafka: k.Bootstrap, cluster: k}
}

// engines runs a case on the embedded engine and on Kafka, each behind a gateway of its own, beside each other and other cases. The gateway starts when it is
// the case's turn: one that waits for it would ask the cluster for news all the time.
func engines(t *testing.T, c harness.GatewayConfig, run func(t *testing.T, e engine)) {
	t.Helper()
	t.Parallel()
	onEngines(t, c, true, run)
}

// enginesAlone is engines for a case that measures: no other one runs meanwhile.
func enginesAlone(t *testing.T, c harness.GatewayConfig, run func(t *testing.T, e engine)) {
	t.Helper()
	onEngines(t, c, false, run)
}

func onEngines(t *testing.T, c harness.GatewayConfig, parallel bool, run func(t *testing.T, e engine)) {
	t.Helper()
	harness.Need(t)
	on := func(name string, start func(testing.TB, harness.GatewayConfig) engine) {
		t.Run(name, func(t *testing.T) {
			if parallel {
				t.Parallel()
			}
			run(t, start(t, c))
		})
	}
	on("embedded", onEmbedded)
	on("kafka", onKafka)
}

// source creates a topic and returns its name and that of its view with so many virtual partitions.
func (e engine) source(t testing.TB, partitions, virtual int32, configs ...string) (source, view string) {
	t.Helper()
	source = harness.Name(t, "orders")
	harness.CreateTopic(t, e.kafka, source, partitions, configs...)
	return source, fmt.Sprintf("%s.view%d", source, virtual)
}

// consumer is the usual member of a group on a view. It learns of rebalances soon, but is not out of its group because the machine had no time for it or for the coordinator: what it had in hand
// would come twice then. Where a member dies and others wait for the end of its session, that is minSession.
func (e engine) consumer(group, member string, topics ...string) harness.ConsumerConfig {
	return harness.ConsumerConfig{
		Bootstrap: e.gateway.Bootstrap, Topics: topics, Group: group, Member: member, Session: 6 * time.Second,
		Opts: []kgo.Opt{kgo.FetchMaxWait(200 * time.Millisecond), kgo.HeartbeatInterval(minSession / 6)},
	}
}

// committed are the group's offsets, as the cluster itself has them; a partition without one is missing.
func (e engine) committed(t testing.TB, group, topic string) map[int32]int64 {
	t.Helper()
	return harness.CommittedOffsets(t, e.kafka, group, topic)
}

// keysOf returns n keys for each slice of a source with one partition and a view of k: key i is seen in virtual partition i mod k.
func keysOf(k int32, n int) [][]byte {
	out := make([][]byte, int(k)*n)
	found := make([]int, k)
	for i, full := 0, 0; full < int(k); i++ {
		key := fmt.Appendf(nil, "key-%d", i)
		s := int32(harness.Murmur2(key)&0x7fffffff) % k
		if found[s] == n {
			continue
		}
		out[found[s]*int(k)+int(s)] = key
		if found[s]++; found[s] == n {
			full++
		}
	}
	return out
}

// await is harness.Eventually with a condition that says what is missing by a text; "" ends the wait.
func await(t testing.TB, limit time.Duration, missing func() string) {
	t.Helper()
	harness.Eventually(t, limit, func() error {
		if m := missing(); m != "" {
			return errors.New(m)
		}
		return nil
	})
}

// assignment tells which partitions members have.
type assignment struct {
	mu   sync.Mutex
	now  map[string]map[int32]bool
	axis map[string]map[int32]keyrange.Set // of sharers
	k    uint64                            // slices of a partition of the view that others would read
}

func newAssignment(k uint64) *assignment {
	return &assignment{now: map[string]map[int32]bool{}, axis: map[string]map[int32]keyrange.Set{}, k: k}
}

// of returns the options that note what a member has.
func (a *assignment) of(member string) []kgo.Opt {
	change := func(has bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.now[member] == nil {
				a.now[member] = map[int32]bool{}
			}
			for _, partitions := range m {
				for _, p := range partitions {
					if has {
						a.now[member][p] = true
					} else {
						delete(a.now[member], p)
					}
				}
			}
		}
	}
	return []kgo.Opt{kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false))}
}

// count is how many partitions a member has; of a sharer, slices.
func (a *assignment) count(member string) int { return len(a.list(member)) + a.slices(member, a.k) }

// awaitEach waits until each of the members member-0, member-1 and so on has so many.
func (a *assignment) awaitEach(t *testing.T, members, want int) {
	t.Helper()
	await(t, 20*time.Second, func() string {
		for i := range members {
			if n := a.count(fmt.Sprintf("member-%d", i)); n != want {
				return fmt.Sprintf("member %d of %d has %d partitions or slices, not %d", i, members, n, want)
			}
		}
		return ""
	})
}

func (a *assignment) list(member string) []int32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []int32
	for p := range a.now[member] {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// link is a consumer's network: it can be down for a while.
type link struct {
	mu    sync.Mutex
	down  bool
	conns map[net.Conn]bool
}

func newLink() *link { return &link{conns: map[net.Conn]bool{}} }

// Dial is for kgo.Dialer.
func (l *link) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	l.mu.Lock()
	down := l.down
	l.mu.Unlock()
	if down {
		return nil, errors.New("cases: the network is down")
	}
	c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		_ = c.Close()
		return nil, errors.New("cases: the network is down")
	}
	l.conns[c] = true
	return c, nil
}

// Down breaks all connections and allows no new ones until Up.
func (l *link) Down() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for c := range l.conns {
		_ = c.Close()
	}
	clear(l.conns)
}

// Up ends Down.
func (l *link) Up() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}

// load produces at p's rate, with keys chosen at random, until stop is called.
func load(t testing.TB, e engine, l *harness.Ledger, p harness.Production) (stop func()) {
	t.Helper()
	ended, done := make(chan struct{}), make(chan struct{})
	p.Records = max(1, int(p.Rate/4))
	to := e.kafka
	if e.gateway != nil {
		to = e.gateway.Bootstrap
	}
	go func() {
		defer close(done)
		for p.Seed = 1; ; p.Seed++ {
			select {
			case <-ended:
				return
			default:
				harness.ProduceInBackground(t, to, l, p)()
			}
		}
	}()
	stop = sync.OnceFunc(func() { close(ended); <-done })
	t.Cleanup(stop)
	return stop
}

// value is the part of a record's value that tests look at.
type value struct {
	Key json.RawMessage `json:"k"`
	N   int64           `json:"n"`
	Seq int64           `json:"seq"`
}

func valueOf(t testing.TB, r *kgo.Record) value {
	t.Helper()
	var v value
	if err := json.Unmarshal(r.Value, &v); err != nil {
		t.Errorf("value %q: %v", r.Value, err)
	}
	return v
}

// readAll reads a topic without a group up to the end of its log at the start of the call.
func readAll(t testing.TB, bootstrap, topic string, opts ...kgo.Opt) []*kgo.Record {
	t.Helper()
	ctx := harness.Context(t, 30*time.Second)
	ends, err := harness.Admin(t, bootstrap).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	open := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			open[o.Partition] = o.Offset
		}
	})
	c := harness.Client(t, bootstrap, append([]kgo.Opt{kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.KeepControlRecords(), kgo.FetchMaxWait(100 * time.Millisecond)}, opts...)...)
	defer c.Close()
	var all []*kgo.Record
	for len(open) > 0 {
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%s: not read to the end: %v are open", topic, open)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				all = append(all, r)
			}
			if r.Offset+1 >= open[r.Partition] {
				delete(open, r.Partition)
			}
		})
	}
	slices.SortFunc(all, func(a, b *kgo.Record) int {
		if a.Partition != b.Partition {
			return int(a.Partition - b.Partition)
		}
		return int(a.Offset - b.Offset)
	})
	return all
}

// ledgerOf makes a ledger in which these records were produced, and no others.
func ledgerOf(t testing.TB, records []*kgo.Record) *harness.Ledger {
	t.Helper()
	l := harness.NewLedger()
	for _, r := range records {
		v := valueOf(t, r)
		l.Acked(harness.Produced{N: v.N, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: r.Key, Seq: v.Seq})
	}
	return l
}
