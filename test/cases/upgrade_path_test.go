package cases

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/tandem-kafka/tandem/test/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A group goes the way of an upgrade: ordinary consumers on the topic; members that share its partitions by key ranges and commit individually;
// ordinary consumers on a view; and back to the topic. Nothing is lost and no key is out of order. Done again is nothing on the way to individual commits, and
// on the others only what was done above the first open record of its slice or partition.
func TestGroupMovesToIndividualCommitsAndBack(t *testing.T) {
	engines(t, harness.GatewayConfig{}, func(t *testing.T, e engine) {
		const partitions, records, keys = 2, 3000, 60
		source, view := e.source(t, partitions, 4)
		group, l := harness.Name(t, "group"), harness.NewLedger()
		harness.WatchCommitted(t, e.kafka, group, source, l)
		produce := func(n int, seed uint64) {
			harness.Produce(t, e.kafka, l, harness.Production{Topic: source, Records: n, Keys: keys, Batch: 100, Seed: seed})
		}
		ordinary := func(topic string, until func() bool) {
			var members []*harness.Consumer
			for m := range 2 {
				c := e.consumer(group, fmt.Sprintf("%s-%d", topic, m), topic)
				c.Work = 500 * time.Microsecond
				members = append(members, harness.Consume(t, l, c))
			}
			await(t, 30*time.Second, func() string {
				if !until() {
					return fmt.Sprintf("%d records are open", l.Open())
				}
				return ""
			})
			if topic == view {
				for _, m := range members {
					m.Client().PauseFetchTopics(view)
				}
				await(t, 20*time.Second, func() string { // heartbeats bring the stable offset up to the slowest slice
					at, slowest := e.committed(t, group, source), map[int32]int64{}
					for v, o := range harness.CommittedOffsets(t, e.gateway.Bootstrap, group, view) {
						if low, ok := slowest[v%partitions]; !ok || o < low {
							slowest[v%partitions] = o
						}
					}
					for p, o := range slowest {
						if at[p] < o {
							return fmt.Sprintf("the stable offsets are %v, the slowest slices are at %v", at, slowest)
						}
					}
					return ""
				})
			}
			for _, m := range members {
				m.Close()
				if errs := m.Errors(); len(errs) > 0 {
					t.Errorf("a member on %s: %v", topic, errs)
				}
			}
		}
		duplicates := func() int { return l.Report(nil).Duplicates }
		allDone := func() bool { return l.Open() == 0 }

		// The topic: all of the first third.
		produce(records/3, 1)
		ordinary(source, allDone)

		// Individual commits by three members. They leave the records of one key in ten undone, and those that are behind on its account.
		produce(records/3, 2)
		members := []*wire{e.wire(t, group), e.wire(t, group), e.wire(t, group)}
		places := joinAll(source, members...)
		if t.Failed() {
			t.FailNow()
		}
		slow := func(r *kgo.Record) bool { return harness.Murmur2(r.Key)>>8%10 == 3 }
		var wg sync.WaitGroup
		for i, w := range members {
			wg.Go(func() {
				m := individually{w, l, places[i].keys(), partitions, slow}
				for p := range int32(partitions) {
					m.work(source, p, l.Ends(source)[p])
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			t.FailNow()
		}
		if n := duplicates(); n > 0 {
			t.Errorf("%d records were done again after the move to individual commits", n)
		}
		first, above := l.FirstOpen(source)
		if above == 0 || len(first) != partitions {
			t.Fatalf("no individual commit is above an open record: %v, %d", first, above)
		}
		await(t, 10*time.Second, func() string { // they committed at the same time: heartbeats put the stable offset right
			for _, w := range members {
				if err := w.heartbeat(); err != nil {
					return err.Error()
				}
			}
			if at := e.committed(t, group, source); !maps.Equal(at, first) {
				return fmt.Sprintf("the stable offsets are %v, the first records that are not done %v", at, first)
			}
			return ""
		})
		for _, w := range members { // and a member that comes back finds all that is done
			for p := range int32(partitions) {
				for _, o := range w.open(source, p, partitions, whole, l.Ends(source)[p]) {
					if o < first[p] {
						t.Errorf("record %d of partition %d is done and given again", o, p)
					}
				}
			}
			w.leave()
		}

		// The view: what is open of the slow key, and more.
		produce(records/3, 3)
		ordinary(view, func() bool { return l.Open() < 300 })
		onView := duplicates()
		if onView > above {
			t.Errorf("%d records were done again after the move to the view, %d were done above an open one", onView, above)
		}

		// And back.
		again := doneFrom(t, e, l, group, source)
		ordinary(source, func() bool { return allDone() && maps.Equal(e.committed(t, group, source), l.Ends(source)) })
		if n := duplicates() - onView; n > again {
			t.Errorf("%d records were done again after the move back to the topic, %d were done above the stable offset", n, again)
		}
		r := l.Report(nil)
		if r.Split = 0; r.Bad() { // a record is seen under the source's number and the view's
			t.Errorf("ledger: %s", r)
		}
		t.Logf("done again: %d on the view, %d on the topic; ledger: %s", onView, r.Duplicates-onView, r)
	})
}

// doneFrom counts the records that are done and lie above the stable offset, and finds one that is not done below it.
func doneFrom(t *testing.T, e engine, l *harness.Ledger, group, source string) (n int) {
	t.Helper()
	at := e.committed(t, group, source)
	first, above := l.FirstOpen(source)
	for p, o := range first {
		if at[p] > o {
			t.Errorf("the stable offset of partition %d is %d, above record %d, which is not done", p, at[p], o)
		}
		above += int(o - at[p])
	}
	return above
}

// individually is a member that handles records of its key ranges and commits them one by one.
type individually struct {
	*wire
	l    *harness.Ledger
	keys keyrange.Set
	base int32
	slow func(*kgo.Record) bool // stays undone
}

// work does what is open of the key ranges up to end, and commits it: all offsets that were looked through but for those of records that stay
// undone, the later half of each answer first.
func (m individually) work(topic string, partition int32, end int64) {
	from, of := m.leader(topic, partition), m.committed(topic, partition, m.keys)
	for at := of.stable; at < end; {
		records, scanned := m.fetch(from, topic, partition, at, m.keys)
		var done []tandemmsg.OffsetRange
		for i := range records {
			r := &records[i]
			if m.slow(r) {
				if at < r.Offset {
					done = append(done, span(at, r.Offset-1))
				}
				at = r.Offset + 1
				continue
			}
			if of.done(keyrange.Position(r.Key, m.base), r.Offset) {
				continue
			}
			start := time.Now()
			m.l.Delivered(harness.Delivery{Member: m.member, Partition: partition, Offset: r.Offset, N: valueOf(m.t, r).N, Start: start, End: time.Now()})
		}
		if at < scanned {
			done = append(done, span(at, scanned-1))
		}
		for _, part := range [][]tandemmsg.OffsetRange{done[len(done)/2:], done[:len(done)/2]} {
			if len(part) == 0 {
				continue
			}
			c := rangesOf(m.keys, part...)
			c.Base = m.base
			if err := m.commit(topic, partition, c); err != nil {
				m.t.Errorf("commit by %s: %v", m.member, err)
				return
			}
		}
		at = max(at, scanned)
	}
}
