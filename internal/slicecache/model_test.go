package slicecache

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"github.com/tandem-kafka/tandem/internal/split"
	"github.com/tandem-kafka/tandem/keyrange"
)

// consumer follows one slice, or the key ranges keys, and checks each answer against the log.
type consumer struct {
	s         split.Slicing
	slice     int32
	keys      keyrange.Set
	index     bool
	committed bool
	pos       int64
	end       int64 // the last one answered while known
	top       int64 // the highest position so far
}

func (k *consumer) holds(r rec) bool {
	if k.keys != nil {
		return k.keys.Contains(positionOf(r, k.s.Base))
	}
	return sliceOf(k.s, r) == k.slice
}

func (k *consumer) nextRecord(c *Cache) int64 {
	if k.keys != nil {
		return c.NextRecordIn(src, k.s.Base, k.keys, k.committed, k.pos)
	}
	return c.NextRecord(src, k.s, k.slice, k.committed, k.pos)
}

func (k *consumer) String() string {
	if k.keys != nil {
		return fmt.Sprint(k.keys)
	}
	return fmt.Sprintf("%d/%d", k.slice, k.s.K)
}

// drawKeys deals the key axis to n members: random intervals, each of one of them or of none.
func drawKeys(rt *rapid.T, n int) []keyrange.Set {
	sets := make([]keyrange.Set, n)
	cuts := rapid.IntRange(n, 12).Draw(rt, "intervals")
	for i := range uint64(cuts) {
		owner := rapid.IntRange(-1, n-1).Draw(rt, "owner")
		if int(i) < n {
			owner = int(i)
		}
		if owner >= 0 {
			sets[owner] = append(sets[owner], keyrange.Range{First: uint32(i << 32 / uint64(cuts)), Last: uint32((i+1)<<32/uint64(cuts) - 1)})
		}
	}
	return sets
}

// TestRandomHistories runs consumers of two views and members of two key-range groups that rebalance, over a log with transactions, holes, deleted records and small memory, against the
// log itself: each slice gets exactly its records in order, and ends are true.
func TestRandomHistories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubble{t}, randomHistory)
	})
}

func randomHistory(rt *rapid.T) {
	log := newFakeLog()
	log.latency = time.Duration(rapid.IntRange(0, 3).Draw(rt, "latency")) * time.Millisecond
	log.cut = rapid.Bool().Draw(rt, "cut")
	c := New(log, Config{Logger: quiet(), MaxBytes: rapid.SampledFrom([]int64{3000, 20000, 1 << 20}).Draw(rt, "budget"),
		LoadBytes: rapid.SampledFrom([]int32{200, 1000, 100000}).Draw(rt, "load")})
	defer c.Close()
	var consumers []*consumer
	for slice := range int32(4) {
		consumers = append(consumers, &consumer{s: four, slice: slice, committed: rapid.Bool().Draw(rt, "committed")})
	}
	for slice := range int32(2) {
		consumers = append(consumers, &consumer{s: eight, slice: slice * 5, committed: rapid.Bool().Draw(rt, "committed")})
	}
	views := len(consumers)
	var groups [][]*consumer
	for range rapid.IntRange(0, 2).Draw(rt, "groups") {
		var g []*consumer
		committed, index := rapid.Bool().Draw(rt, "committed"), rapid.Bool().Draw(rt, "index")
		for _, set := range drawKeys(rt, rapid.IntRange(1, 4).Draw(rt, "members")) {
			g = append(g, &consumer{s: split.Slicing{Base: 2}, keys: set, committed: committed, index: index})
		}
		groups, consumers = append(groups, g), append(consumers, g...)
	}
	keys := rapid.IntRange(1, 12).Draw(rt, "keys")
	n := 0
	settle := func() { time.Sleep(2*log.latency + freshFor); synctest.Wait() }
	rt.Repeat(map[string]func(*rapid.T){
		"append": func(rt *rapid.T) {
			for range rapid.IntRange(1, 5).Draw(rt, "batches") {
				var rs []rec
				for range rapid.IntRange(1, 8).Draw(rt, "records") {
					r := rec{value: fmt.Sprint("v", n)}
					n++
					if k := rapid.IntRange(-1, keys).Draw(rt, "key"); k >= 0 {
						r.key = []byte(fmt.Sprint("key", k))
					}
					rs = append(rs, r)
				}
				log.append(int64(rapid.IntRange(-1, 1).Draw(rt, "pid")), rs...)
			}
		},
		"finish": func(rt *rapid.T) {
			log.finish(int64(rapid.IntRange(0, 1).Draw(rt, "pid")), rapid.Bool().Draw(rt, "commit"))
		},
		"hole":   func(rt *rapid.T) { log.skip(3); log.append(-1, rec{key: []byte("key0"), value: "after hole"}) },
		"delete": func(rt *rapid.T) { log.deleteBefore(log.start + int64(rapid.IntRange(0, 10).Draw(rt, "n"))) },
		"fetch": func(rt *rapid.T) {
			rapid.SampledFrom(consumers).Draw(rt, "consumer").fetch(rt, c, log, time.Duration(rapid.SampledFrom([]int{0, 5, 500}).Draw(rt, "wait"))*time.Millisecond)
		},
		"fetch all": func(rt *rapid.T) {
			done := make(chan struct{})
			for _, k := range consumers {
				go func() { k.fetch(rt, c, log, 20*time.Millisecond); done <- struct{}{} }()
			}
			for range consumers {
				<-done
			}
		},
		"seek": func(rt *rapid.T) {
			k := rapid.SampledFrom(consumers).Draw(rt, "consumer")
			k.pos = rapid.Int64Range(log.start, max(k.pos, log.start)).Draw(rt, "to")
		},
		// Members get other key ranges, and begin where the slowest one was.
		"rebalance": func(rt *rapid.T) {
			if len(groups) == 0 {
				rt.Skip()
			}
			g := rapid.SampledFrom(groups).Draw(rt, "group")
			low := g[0].pos
			for _, k := range g {
				low = min(low, k.pos)
			}
			for i, set := range drawKeys(rt, len(g)) {
				if rapid.IntRange(0, 3).Draw(rt, "keeps its keys") > 0 {
					*g[i] = consumer{s: g[i].s, keys: set, committed: g[i].committed, index: g[i].index, pos: low}
				}
			}
		},
		"pass time": func(rt *rapid.T) {
			time.Sleep(rapid.SampledFrom([]time.Duration{time.Second, 11 * time.Second, 40 * time.Second}).Draw(rt, "for"))
		},
		"end": func(rt *rapid.T) {
			k := rapid.SampledFrom(consumers[:views]).Draw(rt, "consumer")
			end, known, err := c.End(context.Background(), src, k.s, k.slice, k.committed)
			want := log.ownEnd(k)
			if err != nil || !known || end != want {
				rt.Fatalf("End of %v: %d %v %v, want %d", k, end, known, err, want)
			}
		},
		"time": func(rt *rapid.T) {
			k := rapid.SampledFrom(consumers[:views]).Draw(rt, "consumer")
			ts := rapid.Int64Range(0, log.end*10+10).Draw(rt, "ts")
			want := int64(-1)
			for _, r := range log.visible(k.holds, k.committed) {
				if r.ts >= ts {
					want = r.offset
					break
				}
			}
			got, gotTs, err := c.AtTime(context.Background(), src, k.s, k.slice, k.committed, ts)
			if err != nil || got != want || want >= 0 && gotTs != want*10 {
				rt.Fatalf("AtTime(%d) of %v: %d %d %v, want %d", ts, k, got, gotTs, err, want)
			}
		},
		// Long polls under way get what was written before the next fetch; without this a fetch may be as old as a round trip.
		"": func(rt *rapid.T) {
			settle()
			for _, k := range consumers {
				next := k.nextRecord(c)
				for _, r := range log.visible(k.holds, k.committed) {
					if r.offset >= k.pos && r.offset < next {
						rt.Fatalf("NextRecord(%d) of %v is %d, but %d is a record", k.pos, k, next, r.offset)
					}
				}
			}
		},
	})
	// In the end everyone gets everything and knows its end.
	for pid := range int64(2) {
		log.finish(pid, pid == 0)
	}
	settle()
	for _, k := range consumers {
		for range 1000 {
			if k.fetch(rt, c, log, 10*time.Millisecond) {
				break
			}
		}
		rest := log.visible(k.holds, k.committed)
		if len(rest) > 0 && rest[len(rest)-1].offset >= k.pos {
			rt.Fatalf("%v stays at %d", k, k.pos)
		}
		if next := k.nextRecord(c); next != log.end {
			rt.Fatalf("NextRecord(%d) of %v is %d at the end, want %d (case V8)", k.pos, k, next, log.end)
		}
	}
	c.Close()
	if u := c.Usage(); u.InFlight != 0 || u.HandedOut != 0 || u.Cached > max(u.Max, 1<<20) {
		rt.Fatalf("memory at the end: %+v", u)
	}
}

func (l *fakeLog) ownEnd(k *consumer) int64 {
	rs := l.visible(k.holds, k.committed)
	if len(rs) == 0 {
		return l.start
	}
	return max(l.start, rs[len(rs)-1].offset+1)
}

// fetch reads once and checks the answer. It reports true when the slice is read to its end.
func (k *consumer) fetch(rt *rapid.T, c *Cache, log *fakeLog, wait time.Duration) bool {
	var lease Lease
	defer lease.Release()
	req := FetchRequest{ReadCommitted: k.committed, MaxWait: wait, MinBytes: 1, MaxBytes: 2000, Lease: &lease,
		Slices: []SliceRequest{{Source: src, Slicing: k.s, Slice: k.slice, Keys: k.keys, IndexOnly: k.index, Offset: k.pos, MaxBytes: 500}}}
	res := c.Fetch(context.Background(), req)[0]
	if res.Err == kerr.OffsetOutOfRange && k.pos < log.start {
		k.pos = log.start
		return false
	}
	if res.Err != nil {
		rt.Errorf("%v at %d: %v", k, k.pos, res.Err)
		return true
	}
	var want []rec
	for _, r := range log.visible(k.holds, k.committed) {
		if r.offset >= k.pos {
			want = append(want, r)
		}
	}
	got := decode(rt, res.Data)
	if len(got) > 0 && got[0].offset < log.start {
		k.pos = log.start // deleted a moment ago, but still in memory
		return false
	}
	for i, r := range got {
		if i >= len(want) || want[i].offset != r.offset || want[i].value != r.value || want[i].ts != r.ts {
			rt.Errorf("%v at %d: got %v, want a beginning of %v", k, k.pos, got, want)
			return true
		}
	}
	next := k.pos
	if len(got) > 0 {
		next = got[len(got)-1].offset + 1
	}
	more := want[len(got):]
	if res.Scanned < next || len(more) > 0 && res.Scanned > more[0].offset {
		rt.Errorf("%v at %d: scanned %d, next record %v", k, k.pos, res.Scanned, more)
	}
	if k.keys != nil {
		if res.EndKnown || res.End < next {
			rt.Errorf("%v at %d: end %d %v", k, k.pos, res.End, res.EndKnown)
		}
	} else {
		k.checkEnd(rt, log, res, next, len(got), more)
	}
	if hw, lso := res.HighWatermark, res.LastStableOffset; hw < next || hw > log.end || lso > hw || k.committed && len(got) > 0 && lso < next {
		rt.Errorf("%v at %d: high watermark %d, last stable offset %d, the log ends at %d", k, k.pos, hw, lso, log.end)
	}
	k.top = max(k.top, next)
	k.pos = next
	if k.keys != nil && len(got) == 0 {
		k.pos = res.Scanned // as clients do
		return k.pos == log.end
	}
	return len(got) == 0 && res.EndKnown && res.End == k.pos
}

func (k *consumer) checkEnd(rt *rapid.T, log *fakeLog, res SliceResult, next int64, n int, more []rec) {
	own := max(next, log.ownEnd(k))
	if k.pos < log.start {
		own = res.End // a position in what was deleted, but held nothing of the slice
	}
	switch {
	case res.End < next, res.EndKnown && len(more) > 0 && res.End <= next, res.EndKnown && res.End > own, len(more) == 0 && res.EndKnown && res.End != own:
		rt.Errorf("%v at %d: end %d %v, own end %d, %d records, more %v", k, k.pos, res.End, res.EndKnown, own, n, more)
	case res.EndKnown && res.End < k.end && k.pos >= k.top:
		rt.Errorf("%v at %d: end went back from %d to %d", k, k.pos, k.end, res.End)
	case res.EndKnown:
		k.end = res.End
	}
}

// bubble hides that t is a *testing.T: rapid would ask it for its deadline, which has no meaning where time is simulated.
type bubble struct{ *testing.T }
