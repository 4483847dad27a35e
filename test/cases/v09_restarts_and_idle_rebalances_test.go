package cases

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// One record, restart, one record, restart, ten times, with the record before or after the restart, twice of the gateway too: each is
// delivered once, none is skipped, and the group's offset on the source is after it (case V9; with members that share by record case C5).
func TestRecordThenRestart(t *testing.T) {
	kinds(t, harness.GatewayConfig{}, func(t *testing.T, e engine, of kind) {
		const rounds = 10
		source, view := e.source(t, 1, 4)
		group, l := harness.Name(t, "group"), of.ledger(harness.NewLedger())
		harness.WatchCommitted(t, e.kafka, group, source, l)
		keys := keysOf(4, 3)
		for i := range rounds {
			produce := func() {
				harness.Produce(t, e.gateway.Bootstrap, l, harness.Production{Topic: source, Records: 1, Key: func(int) []byte { return keys[i*5%len(keys)] }})
			}
			if i%2 == 0 {
				produce()
			}
			c := of.start(t, l, e.consumer(group, fmt.Sprintf("member-%d", i), of.reads(source, view)), nil)
			if i%2 == 1 {
				produce()
			}
			l.AwaitDone(t, 20*time.Second)
			c.Close()
			if i%4 == 2 {
				e.gateway.Kill()
				e.gateway.Start(t)
			}
			if at, want := e.committed(t, group, source)[0], l.Ends(source)[0]; at != want {
				t.Errorf("after record %d the group's offset on the source is %d, want %d", i, at, want)
			}
		}
		if r := l.Check(t, of.where(1, 4)); r.Duplicates > 0 {
			t.Errorf("%d duplicates", r.Duplicates)
		}
	}, recordSharers)
}

// The partition is idle and the group rebalances again and again, as members come and go: the committed offsets, of the view through the
// gateway and of the source on the cluster, stay inside the log and never go back, whichever reset policy the consumers have (case V9).
func TestIdleRebalances(t *testing.T) {
	kinds(t, harness.GatewayConfig{}, func(t *testing.T, e engine, of kind) {
		for _, policy := range []string{"earliest", "latest"} {
			t.Run(policy, func(t *testing.T) { idleRebalances(t, e, of, policy) })
		}
	})
}

func idleRebalances(t *testing.T, e engine, of kind, policy string) {
	const k, old, deleted, fresh, rounds = 4, 40, 10, 16, 3
	source, view := e.source(t, 1, k)
	group, has := harness.Name(t, "group"), newAssignment(k)
	keys := keysOf(k, 3)
	produce := func(n int) {
		harness.Produce(t, e.gateway.Bootstrap, harness.NewLedger(), harness.Production{Topic: source, Records: n, Key: func(i int) []byte { return keys[i%len(keys)] }})
	}
	produce(old)
	deleteBefore(t, e.kafka, source, deleted)

	var mu sync.Mutex
	got := map[int64]int{} // deliveries of each offset
	seen := map[int32]int64{}
	started := 0
	start := func() (string, harness.Member) {
		started++
		c := e.consumer(group, fmt.Sprintf("member-%d", started), of.reads(source, view))
		c.Latest = policy == "latest"
		c.Handle = func(r *kgo.Record) {
			mu.Lock()
			defer mu.Unlock()
			got[r.Offset]++
			if first, ok := seen[r.Partition]; !ok || r.Offset < first {
				seen[r.Partition] = r.Offset
			}
		}
		return c.Member, of.start(t, harness.NewLedger(), c, has)
	}
	stayed, stays := start()
	last := map[string]int64{}
	look := func() {
		t.Helper()
		offsets := map[string]map[int32]int64{"source": e.committed(t, group, source)}
		if !of.shared {
			offsets["view"] = harness.CommittedOffsets(t, e.gateway.Bootstrap, group, view)
		}
		end := logEnd(t, e.kafka, source)
		for topic, offsets := range offsets {
			for p, at := range offsets {
				id := fmt.Sprintf("%s/%d", topic, p)
				if at < deleted || at > end {
					t.Errorf("%s: committed offset %d is outside of the log, %d to %d", id, at, deleted, end)
				}
				if at < last[id] {
					t.Errorf("%s: the committed offset went back from %d to %d", id, last[id], at)
				}
				last[id] = at
			}
		}
	}
	rebalances := func() {
		t.Helper()
		for range rounds {
			name, c := start()
			for _, member := range []string{name, stayed} {
				await(t, 20*time.Second, func() string {
					look()
					if n := has.count(member); n != k/2 {
						return fmt.Sprintf("%s has %d partitions", member, n)
					}
					return ""
				})
			}
			c.Close()
			await(t, 20*time.Second, func() string {
				look()
				// As clients that commit on a timer: positions that have not moved too.
				if c, ok := stays.(*harness.Consumer); ok {
					c.Client().CommitOffsetsSync(harness.Context(t, 5*time.Second), c.Client().CommittedOffsets(), nil)
				}
				if n := has.count(stayed); n != k {
					return fmt.Sprintf("%s has %d partitions", stayed, n)
				}
				return ""
			})
		}
	}
	// show waits until so many virtual partitions have shown a record. Under latest one may come before the consumer has looked where the end is.
	show := func(n int) {
		t.Helper()
		await(t, 20*time.Second, func() string {
			look()
			mu.Lock()
			defer mu.Unlock()
			if len(seen) < n {
				produce(n)
				return fmt.Sprintf("%d of %d virtual partitions have shown a record", len(seen), n)
			}
			if _, ok := last["source/0"]; !ok {
				return "the group has no offset on the source"
			}
			return ""
		})
	}
	rebalances()
	show(1) // under latest nobody has committed for the others
	rebalances()
	if !of.shared {
		show(k)
	}
	produce(fresh)
	rebalances()

	// From the first record that a virtual partition showed, all of its records have come, each once.
	where := of.where(1, k)
	var all []*kgo.Record
	await(t, 20*time.Second, func() string {
		look()
		all = readAll(t, e.kafka, source)
		mu.Lock()
		defer mu.Unlock()
		for _, r := range all {
			p, _ := where(harness.Produced{Offset: r.Offset, Key: r.Key})
			if got[r.Offset] == 0 && r.Offset >= seen[p] {
				return fmt.Sprintf("offset %d of virtual partition %d, which began at %d, is not delivered", r.Offset, p, seen[p])
			}
		}
		return ""
	})
	stays.Close()
	look()
	for offset, n := range got {
		if n > 1 {
			t.Errorf("offset %d was delivered %d times", offset, n)
		}
		if policy == "latest" && offset < old {
			t.Errorf("offset %d, older than the group, was delivered", offset)
		}
	}
	if policy == "earliest" && len(got) != len(all) {
		t.Errorf("%d of %d records were delivered", len(got), len(all))
	}
	if at, end := last["source/0"], logEnd(t, e.kafka, source); at != end {
		t.Errorf("all is done and the group's offset on the source is %d of %d", at, end)
	}
}

// deleteBefore deletes the records of partition 0 below an offset.
func deleteBefore(t *testing.T, kafka, topic string, offset int64) {
	t.Helper()
	var to kadm.Offsets
	to.Add(kadm.Offset{Topic: topic, Partition: 0, At: offset})
	resp, err := harness.Admin(t, kafka).DeleteRecords(harness.Context(t, 20*time.Second), to)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}
