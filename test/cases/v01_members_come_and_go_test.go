package cases

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A consumer is added in the middle of the load, and consumers drop 100 times: their network fails and returns, they leave and return, they
// die and are replaced. Nobody is ever stuck, with few keys and with many, or with members that share by record (cases V1 and C1).
func TestMembersComeAndGo(t *testing.T) {
	comeAndGoOnEngines(t, churn{outage: 50 * time.Millisecond, deaths: 4, until: func() bool { return true }})
}

// The same with outages of 3 s and many deaths (cases V1 and C1).
func TestSoakMembersComeAndGo(t *testing.T) {
	comeAndGoOnEngines(t, churn{outage: 3 * time.Second, deaths: 30, until: harness.Until(harness.Soak(t, 15))})
}

// churn is what happens to the members: at most 100 drops, begun while until is true.
type churn struct {
	outage time.Duration
	deaths int // of 100 drops
	until  func() bool
}

func comeAndGoOnEngines(t *testing.T, c churn) {
	t.Parallel()
	for keys, more := range map[int][]kind{2: nil, 10_000: {recordSharers, pollers}} { // for these it is all the same
		t.Run(fmt.Sprintf("%d keys", keys), func(t *testing.T) {
			kinds(t, harness.GatewayConfig{}, func(t *testing.T, e engine, of kind) { comeAndGo(t, e, of, keys, c) }, more...)
		})
	}
}

func comeAndGo(t *testing.T, e engine, of kind, keys int, ch churn) {
	const members, drops, rate = 4, 100, 500
	source, view := e.source(t, 1, 8)
	group, l := harness.Name(t, "group"), of.ledger(harness.NewLedger())
	harness.WatchCommitted(t, e.kafka, group, source, l)
	stop := load(t, e, l, harness.Production{Topic: source, Rate: rate, Keys: keys})

	type member struct {
		harness.Member
		link *link
		name string
	}
	var consumers [members]*member
	started := 0
	start := func(i int) {
		started++
		m := &member{link: newLink(), name: fmt.Sprintf("member-%d", started)}
		c := e.consumer(group, m.name, of.reads(source, view))
		c.Session = 2*time.Second + ch.outage // longer than an outage: the member stays one
		c.Opts = append(c.Opts, kgo.Dialer(m.link.Dial), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
		m.Member = of.start(t, l, c, nil)
		consumers[i] = m
	}
	flowing := func(what string) {
		t.Helper()
		backlog, before := l.Open(), l.Deliveries()
		await(t, 15*time.Second, func() string {
			if open, got := l.Open(), l.Deliveries()-before; got < rate/20 || open > max(rate, backlog) {
				return fmt.Sprintf("after %s: %d records delivered, %d wait", what, got, open)
			}
			return ""
		})
	}
	for i := range members - 1 {
		start(i)
	}
	flowing("the start")
	start(members - 1)
	await(t, 15*time.Second, func() string {
		if got := l.Members()["member-4"]; keys > 2 && got == 0 {
			return "the consumer that was added gets nothing"
		}
		return ""
	})
	random := rand.New(rand.NewPCG(2, uint64(keys)))
	for n := 0; n < drops && ch.until(); n++ {
		m := consumers[random.IntN(members)]
		i := 0
		for consumers[i] != m {
			i++
		}
		switch {
		case n%(drops/ch.deaths) == drops/ch.deaths-1:
			m.link.Down()
			m.Crash()
			start(i)
			flowing(fmt.Sprintf("drop %d, a death of %s", n, m.name))
		case n%4 == 1:
			m.Close()
			start(i)
			flowing(fmt.Sprintf("drop %d, %s leaving", n, m.name))
		default:
			m.link.Down()
			time.Sleep(ch.outage) // the outage itself
			m.link.Up()
			flowing(fmt.Sprintf("drop %d, %s off the network", n, m.name))
		}
	}
	stop()
	l.AwaitDone(t, 20*time.Second)
	for _, m := range consumers {
		m.Close()
	}
	if r := l.Check(t, of.where(1, 8)); r.Within > 0 {
		t.Errorf("%d times a member worked twice on a key at once", r.Within)
	}
}
