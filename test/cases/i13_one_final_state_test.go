package cases

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/test/harness"
)

// Records are deleted beyond those that handlers have in hand; and members die at the moment at which others take their keys. Each record has one final
// state: what was deleted is gone, what is left is done, and the stable offset says so (case I13; with members that share by record case C10).
func TestOneFinalStateForEachRecord(t *testing.T) {
	t.Parallel()
	harness.Need(t)
	onKafkaAs(t, harness.GatewayConfig{}, oneFinalState, sharers, recordSharers)
}

func oneFinalState(t *testing.T, e engine, of kind) {
	t.Run("deleted", func(t *testing.T) {
		const records, deleted, end = 200, 150, 250
		source, _ := e.source(t, 1, 1)
		group := harness.Name(t, "group")
		harness.Produce(t, e.kafka, harness.NewLedger(), spread(source, records, 50))
		hang, began := make(chan struct{}), make(chan struct{}, end)
		var mu sync.Mutex
		times := map[int64]int{} // of each offset
		c := e.consumer(group, "member", source)
		c.Handle = func(r *kgo.Record) { // the first are in hand when all is deleted
			began <- struct{}{}
			<-hang
			mu.Lock()
			defer mu.Unlock()
			times[r.Offset]++
		}
		m := of.start(t, harness.NewLedger(), c, nil)
		<-began
		deleteBefore(t, e.kafka, source, deleted)
		harness.Produce(t, e.kafka, harness.NewLedger(), spread(source, end-records, 50))
		close(hang)
		await(t, 20*time.Second, func() string {
			if at := e.committed(t, group, source)[0]; at != end {
				return fmt.Sprintf("the stable offset is %d of %d", at, end)
			}
			return ""
		})
		m.Close()
		if at := e.committed(t, group, source)[0]; at != end {
			t.Errorf("after it left the stable offset is %d of %d", at, end)
		}
		for offset := range int64(end) {
			if n := times[offset]; n > 1 || n == 0 && offset >= deleted {
				t.Errorf("offset %d was handled %d times", offset, n)
			}
		}
	})
	t.Run("taken as it dies", func(t *testing.T) {
		source, _ := e.source(t, 1, 1)
		group, l := harness.Name(t, "group"), of.ledger(harness.NewLedger())
		harness.WatchCommitted(t, e.kafka, group, source, l)
		stop := load(t, e, l, harness.Production{Topic: source, Rate: 200, Keys: 50})
		member := func(i int) harness.Member {
			c := e.consumer(group, fmt.Sprintf("member-%d", i), source)
			if i%2 == 1 { // it dies
				c.Session = minSession
			}
			if of.byRecord {
				c.Work = 30 * time.Millisecond // so that all have something in hand
			}
			return of.start(t, l, c, nil)
		}
		stays := member(0)
		for i := range 4 {
			before := l.Deliveries()
			dies := member(2*i + 1)
			await(t, 20*time.Second, func() string {
				if l.Deliveries() < before+20 || l.Members()[fmt.Sprintf("member-%d", 2*i+1)] == 0 {
					return "nothing is delivered, or nothing to the one that is to die"
				}
				return ""
			})
			dies.Cut() // its session ends while the next one joins
			next := member(2*i + 2)
			dies.Crash()
			next.Close()
		}
		stop()
		l.AwaitDone(t, 20*time.Second)
		await(t, 20*time.Second, func() string { // what those who died had done and not committed is done again
			if at, end := e.committed(t, group, source)[0], l.Ends(source)[0]; at != end {
				return fmt.Sprintf("the stable offset is %d of %d", at, end)
			}
			return ""
		})
		stays.Close()
		if at, end := e.committed(t, group, source)[0], l.Ends(source)[0]; at != end {
			t.Errorf("the stable offset is %d of %d", at, end)
		}
		l.Check(t, sharers.where(1, 1))
	})
}
