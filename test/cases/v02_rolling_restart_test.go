package cases

import (
	"fmt"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
)

// Each of 8 consumers is restarted under load, one after the other. In order: every record is delivered once, and order per key holds. By
// kill: order per key holds, and what comes twice is no more than what a death leaves uncommitted (case V2). The same but for the order with members that share by record (case C2).
func TestRollingRestart(t *testing.T) {
	kinds(t, harness.GatewayConfig{}, func(t *testing.T, e engine, of kind) {
		for _, c := range []struct {
			name           string
			kip848, deaths bool
		}{{"classic", false, false}, {"kip848", true, false}, {"killed", false, true}} {
			if of.shared && c.kip848 {
				continue // its members assign themselves
			}
			t.Run(c.name, func(t *testing.T) { rollingRestart(t, e, of, c.kip848, c.deaths) })
		}
	}, recordSharers, pollers)
}

func rollingRestart(t *testing.T, e engine, of kind, kip848, deaths bool) {
	const members, rate = 8, 400
	source, view := e.source(t, 1, 16)
	group, l := harness.Name(t, "group"), of.ledger(harness.NewLedger())
	if kip848 {
		harness.ConsumerSession(t, e.kafka, group, 6*minSession, minSession/3)
	}
	harness.WatchCommitted(t, e.kafka, group, source, l)
	consumers := make([]harness.Member, members)
	started := 0
	start := func(i int) string {
		started++
		c := e.consumer(group, fmt.Sprintf("member-%d", started), of.reads(source, view))
		c.KIP848, c.Work = kip848, time.Millisecond
		if deaths { // the next one waits until it is out
			c.Session = minSession
		}
		consumers[i] = of.start(t, l, c, nil)
		return c.Member
	}
	working := func(member string) {
		t.Helper()
		await(t, 20*time.Second, func() string {
			if l.Members()[member] == 0 {
				return member + " gets nothing"
			}
			return ""
		})
	}
	stop := load(t, e, l, harness.Production{Topic: source, Rate: rate, Keys: 500})
	for i := range members {
		start(i)
	}
	await(t, 20*time.Second, func() string {
		if n := len(l.Members()); n < members {
			return fmt.Sprintf("%d of %d members work", n, members)
		}
		return ""
	})
	for i := range members {
		if deaths && i%2 == 1 {
			consumers[i].Crash()
		} else {
			consumers[i].Close()
		}
		working(start(i))
	}
	stop()
	l.AwaitDone(t, 20*time.Second)
	for i, m := range consumers {
		for _, err := range m.Errors() {
			t.Errorf("member %d: %v", i, err)
		}
		m.Close()
	}
	r := l.Check(t, of.where(1, 16))
	switch {
	case !deaths && r.Duplicates > 0:
		t.Errorf("%d duplicates after restarts in order", r.Duplicates)
	case r.Duplicates > members/2*100: // a poll's worth for each that was killed
		t.Errorf("%d duplicates after %d kills", r.Duplicates, members/2)
	}
}
