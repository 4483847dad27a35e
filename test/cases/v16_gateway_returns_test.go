package cases

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// outage is how long the gateway is away.
const outage = 5 * time.Second

// noBootstrap lets clients dial the bootstrap port until it is shut: from then on they know the brokers' ports only.
type noBootstrap struct {
	bootstrap string
	shut      atomic.Bool
	mu        sync.Mutex
	dialled   map[string]int // addresses, after the port was shut
}

func (n *noBootstrap) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if n.shut.Load() {
		n.mu.Lock()
		n.dialled[address]++
		n.mu.Unlock()
		if address == n.bootstrap {
			return nil, errors.New("cases: nobody asks the bootstrap port")
		}
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// The gateway is killed under load and comes back 5 s later. Consumers and producers that know nothing but the brokers' ports go on: nothing
// is lost, nothing overlaps (case V16).
func TestGatewayKilledAndBack(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, e engine) {
		source, view := e.source(t, 1, 8)
		group, l := harness.Name(t, "group"), harness.NewLedger()
		network := &noBootstrap{bootstrap: e.gateway.Bootstrap, dialled: map[string]int{}}
		harness.WatchCommitted(t, e.kafka, group, source, l)
		for i := range 3 {
			c := e.consumer(group, fmt.Sprintf("member-%d", i), view)
			c.Session, c.Work = 10*time.Second, time.Millisecond // a session outlives the outage, as it does with the clients' defaults
			c.Opts = append(c.Opts, kgo.Dialer(network.Dial))
			harness.Consume(t, l, c)
		}
		awaitMembers(t, e.gateway.Bootstrap, group, view, 3, 8)
		produced := harness.ProduceInBackground(t, e.gateway.Bootstrap, l, harness.Production{Topic: source, Records: 4000, Keys: 200, Batch: 20, Rate: 500,
			Opts: []kgo.Opt{kgo.Dialer(network.Dial)}})
		awaitDeliveries(t, l, 300, 20*time.Second)
		network.shut.Store(true)
		e.gateway.Kill()
		time.Sleep(outage) // the case itself
		before := l.Deliveries()
		e.gateway.Start(t)
		back := time.Now()
		awaitDeliveries(t, l, before+1, 15*time.Second)
		t.Logf("the first record came %v after the gateway was back", time.Since(back))
		produced()
		l.AwaitDone(t, 30*time.Second)
		r := l.Check(t, harness.View(1, 8))
		if len(r.Members) != 3 {
			t.Errorf("only %v got work", r.Members)
		}
		network.mu.Lock()
		defer network.mu.Unlock()
		if len(network.dialled) == 0 {
			t.Error("nobody dialled a broker's port anew")
		}
	}
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		harness.Need(t)
		run(t, onEmbedded(t, harness.GatewayConfig{}))
	})
	t.Run("kafka", func(t *testing.T) {
		t.Parallel()
		run(t, front(t, threeBrokers(t), harness.GatewayConfig{}))
	})
}

// A broker's port is the same after a restart, at the same distance from the bootstrap port on every gateway, and stays when a broker with a
// lower id joins; the new broker has a port at once, and clients reach it (case V16).
func TestBrokerPortsNeverChange(t *testing.T) {
	k := threeBrokers(t)
	e := front(t, k, harness.GatewayConfig{})
	first := ports(t, e.gateway)
	if len(first) < 3 {
		t.Fatalf("ports %v", first)
	}
	e.gateway.Kill()
	e.gateway.Start(t)
	same := func(what string, now map[int32]int) {
		t.Helper()
		for id, port := range first {
			if now[id] != port {
				t.Errorf("%s: broker %d has port %+d from the bootstrap port, before %+d", what, id, now[id], port)
			}
		}
	}
	same("after a restart", ports(t, e.gateway))
	second := harness.StartGateway(t, harness.GatewayConfig{Kafka: k.Bootstrap})
	same("on another gateway", ports(t, second))

	// A client that stays, to see that nothing changes under it.
	source, view := e.source(t, 1, 4)
	group, l := harness.Name(t, "group"), harness.NewLedger()
	harness.Consume(t, l, e.consumer(group, "member", view))
	awaitMembers(t, e.gateway.Bootstrap, group, view, 1, 4)
	added := k.Add(t)
	harness.Eventually(t, 20*time.Second, func() error {
		if all := ports(t, e.gateway); len(all) != 4 {
			return fmt.Errorf("with the new broker at %s the ports are %v", added, all)
		}
		return nil
	})
	for _, g := range []*harness.Gateway{e.gateway, second} {
		same("when a broker with a lower id joined", ports(t, g))
	}
	// A gateway that starts only now, and finds the brokers in another order, gives all four the same ports.
	first = ports(t, e.gateway)
	second.Kill()
	second.Start(t)
	same("on a gateway that starts after the broker joined", ports(t, second))
	same("on a new gateway", ports(t, harness.StartGateway(t, harness.GatewayConfig{Kafka: k.Bootstrap})))
	// The new broker leads a topic of its own: produce and consume through its port.
	there := harness.Name(t, "there")
	create, topic, on := kmsg.NewPtrCreateTopicsRequest(), kmsg.NewCreateTopicsRequestTopic(), kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	create.TimeoutMillis, topic.Topic, topic.NumPartitions, topic.ReplicationFactor, on.Replicas = 10_000, there, -1, -1, []int32{1}
	topic.ReplicaAssignment = append(topic.ReplicaAssignment, on)
	create.Topics = append(create.Topics, topic)
	if resp, err := create.RequestWith(harness.Context(t, 20*time.Second), harness.Client(t, e.gateway.Bootstrap)); err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("create a topic on the new broker: %v, %+v", err, resp)
	}
	harness.Produce(t, e.gateway.Bootstrap, l, harness.Production{Topic: there, Records: 10, Keys: 5})
	if got := readAll(t, second.Bootstrap, there); len(got) != 10 {
		t.Errorf("%d of 10 records from the new broker", len(got))
	}
	harness.Produce(t, k.Bootstrap, l, harness.Production{Topic: source, Records: 100, Keys: 20})
	await(t, 10*time.Second, func() string {
		if n := l.Deliveries(); n < 100 {
			return fmt.Sprintf("%d of 100 records on the view", n)
		}
		return ""
	})
}

// ports returns the distance of each broker's port from a gateway's bootstrap port.
func ports(t *testing.T, g *harness.Gateway) map[int32]int {
	t.Helper()
	_, p, err := net.SplitHostPort(g.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	base, _ := strconv.Atoi(p)
	brokers, err := harness.AdminClient(t, g.Bootstrap).ListBrokers(harness.Context(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	out := map[int32]int{}
	for _, b := range brokers {
		out[b.NodeID] = int(b.Port) - base
	}
	return out
}
