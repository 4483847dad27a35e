package cases

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/client"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Members that share a partition by keys are at offset 10,000, and one of them has been at the record at 2,000 all the time. It dies: who gains its
// keys gets that record first, then those of its key that waited behind it, and nothing that was done (case V5).
func TestKeysTakenOverFarBehind(t *testing.T) {
	harness.Need(t)
	t.Parallel()
	e := onKafka(t, harness.GatewayConfig{})
	const members, records, stuck, keys = 4, 10_400, 2000, 100
	source, _ := e.source(t, 1, members)
	group, l, has := harness.Name(t, "group"), harness.NewLedger(), newAssignment(members)
	harness.WatchCommitted(t, e.kafka, group, source, l)

	var mu sync.Mutex
	var stuckMember string
	var died bool
	var after []int64 // offsets that came after the death
	hang := make(chan struct{})
	release := sync.OnceFunc(func() { close(hang) })
	defer release()
	all := map[string]*harness.Sharer{}
	for i := range members {
		c := e.consumer(group, fmt.Sprintf("member-%d", i), source)
		c.Handle = func(r *kgo.Record) {
			mu.Lock()
			hangs := r.Offset == stuck && !died
			if died {
				after = append(after, r.Offset)
			}
			if hangs {
				stuckMember = c.Member
			}
			mu.Unlock()
			if hangs {
				<-hang
			}
		}
		all[c.Member] = sharers.start(t, l, c, has).(*harness.Sharer)
	}
	has.awaitEach(t, members, 1)
	harness.Produce(t, e.gateway.Bootstrap, l, spread(source, records, keys))
	const waits = (records - stuck) / keys // the records of the stuck key from the stuck one on
	await(t, 20*time.Second, func() string {
		if n := l.Open(); n != waits {
			return fmt.Sprintf("%d records are open, not %d", n, waits)
		}
		return ""
	})
	for name, m := range all { // what was done is committed
		if err := m.Client().Flush(harness.Context(t, 10*time.Second)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	e.awaitCommitted(t, group, source, stuck)

	all[stuckMember].Cut()
	mu.Lock()
	died = true
	mu.Unlock()
	release()
	all[stuckMember].Crash()
	l.AwaitDone(t, 20*time.Second)
	e.awaitCommitted(t, group, source, records)
	for _, m := range all {
		m.Close()
	}
	if r := l.Check(t, sharers.where(1, members)); r.Duplicates > 0 {
		t.Errorf("%d duplicates", r.Duplicates)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(after) != waits || after[0] != stuck || !slices.IsSorted(after) {
		t.Errorf("after the death came the offsets %v, not %d from %d on", after, waits, stuck)
	}
}

// A key blocks its member for ever, and 200,000 more records of that key come. All other keys go on, the same member's too: 1,000 records behind
// those arrive within seconds, at members that were there and at a new group that starts from the beginning, though the blocked records fit neither
// into the gateway's memory nor into the members' (case V6).
func TestKeyThatBlocksForEver(t *testing.T) {
	const limit = 4 << 20
	harness.Need(t)
	e := onKafka(t, harness.GatewayConfig{YAML: fmt.Sprintf("limits: {max.bytes.key.range.hashing: %d}\n", limit)})
	const members, blocked, others = 4, 200_000, 1000
	source, _ := e.source(t, 1, members)
	keys := keysOf(members, 10)
	stuck, hang := string(keys[0]), make(chan struct{})
	release := sync.OnceFunc(func() { close(hang) })
	defer release()
	group := func(name string, l *harness.Ledger) {
		has := newAssignment(members)
		for i := range members {
			c := e.consumer(name, fmt.Sprintf("member-%d", i), source)
			c.Handle = func(r *kgo.Record) {
				if string(r.Key) == stuck {
					<-hang
				}
			}
			m := sharers.start(t, l, c, has, client.MaxBuffered(10_000, limit), client.DrainTimeout(time.Second))
			t.Cleanup(func() { release(); m.Close() })
		}
		has.awaitEach(t, members, 1)
	}
	l, name := harness.NewLedger(), harness.Name(t, "group")
	group(name, l)
	harness.Produce(t, e.gateway.Bootstrap, harness.NewLedger(), harness.Production{Topic: source, Records: blocked, Key: func(int) []byte { return keys[0] }})
	harness.Produce(t, e.gateway.Bootstrap, l, harness.Production{Topic: source, Records: others, Key: func(i int) []byte { return keys[1+i%(len(keys)-1)] }})
	at := time.Now()
	l.AwaitDone(t, 10*time.Second)
	t.Logf("members that were there: after %v", time.Since(at))
	if r := l.Check(t, sharers.where(1, members)); r.Duplicates > 0 {
		t.Errorf("%d duplicates", r.Duplicates)
	}
	if at := e.committed(t, name, source)[0]; at != 0 {
		t.Errorf("the stable offset is %d, and the record at 0 is not done", at)
	}

	cold := ledgerOf(t, slices.DeleteFunc(readAll(t, e.kafka, source), func(r *kgo.Record) bool { return string(r.Key) == stuck }))
	at = time.Now()
	group(harness.Name(t, "group"), cold)
	cold.AwaitDone(t, 20*time.Second)
	t.Logf("a new group: after %v", time.Since(at))
	cold.Check(t, sharers.where(1, members))
}
