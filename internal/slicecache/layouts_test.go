package slicecache

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tandem-kafka/tandem/internal/split"
	"github.com/tandem-kafka/tandem/keyrange"
)

func (c *Cache) partition(src Source) *partition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.partitions[src]
}

// enterAll asks once for each set and returns the partition.
func enterAll(c *Cache, sets ...keyrange.Set) *partition {
	for _, keys := range sets {
		req := askKeys(keys, 0)
		req.MaxWait = 0
		fetchOne(c, req)
	}
	return c.partition(src)
}

// held lists the sets that requests come to, by layout.
func (p *partition) held() (layouts [][]keyrange.Set) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.layouts {
		var sets []keyrange.Set
		for i := range l.slots {
			if l.slots[i].current(time.Now()) {
				sets = append(sets, l.slots[i].keys)
			}
		}
		if sets != nil {
			layouts = append(layouts, sets)
		}
	}
	return layouts
}

func TestDisjointSetsShareALayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, newFakeLog(), Config{})
		thirds, quarters := equalSets(3), equalSets(4)
		p := enterAll(c, thirds...)
		if l := p.held(); len(l) != 1 || len(l[0]) != 3 {
			t.Fatalf("%v, want one layout of thirds", l)
		}
		// The next generation, while the last one was there a moment ago.
		enterAll(c, quarters...)
		if l := p.held(); len(l) != 2 || len(l[0]) != 3 || len(l[1]) != 4 {
			t.Fatalf("%v, want thirds and quarters", l)
		}
		// Ranges that touch are the same set as one range.
		enterAll(c, keyrange.Set{{First: 0, Last: 9}, {First: 10, Last: 1<<30 - 1}})
		if l := p.held(); len(l) != 2 || len(l[1]) != 4 {
			t.Fatalf("%v, want the same", l)
		}
		time.Sleep(activeFor)
		enterAll(c, quarters...)
		if l := p.held(); len(l) != 1 || len(l[0]) != 4 {
			t.Fatalf("%v, want quarters only", l)
		}
	})
}

// A sticky rebalance: two of four members keep their keys, the others share those of one that left. Their new sets overlap old ones.
func TestSetsThatStayMoveToTheNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.spread(100, 100)
		c := newCache(t, log, Config{})
		q := equalSets(4)
		enterAll(c, q...)
		half := q[3][0].First + 1<<29
		after := []keyrange.Set{q[0], q[1], {q[2][0], {First: q[3][0].First, Last: half}}, {{First: half + 1, Last: 1<<32 - 1}}}
		p := enterAll(c, after...)
		if l := p.held(); len(l) != 2 {
			t.Fatalf("%v, want two layouts while the old sets are young", l)
		}
		own := map[int]int64{}
		for i, keys := range after {
			for own[i] = log.end; c.NextRecordIn(src, 1, keys, false, own[i]-1) == log.end; {
				own[i]--
			}
			if own[i] < log.end-20 {
				t.Fatalf("%v: no record from %d on", keys, own[i])
			}
		}
		for range 4 {
			time.Sleep(activeFor / 3)
			for _, keys := range after { // they poll at the end
				fetchOne(c, askKeys(keys, log.end))
			}
		}
		if l := p.held(); len(l) != 1 || len(l[0]) != 4 {
			t.Fatalf("%v, want one layout", l)
		}
		for i, keys := range after { // what was known came along
			if next := c.NextRecordIn(src, 1, keys, false, own[i]); next != log.end {
				t.Errorf("%v: from %d the next record is %d", keys, own[i], next)
			}
		}
	})
}

// The sets of two groups that arrive mixed are sorted out.
func TestPackMakesFewLayouts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newPartition(newCache(t, newFakeLog(), Config{}), src)
		now := time.Now()
		depth := rapid.IntRange(1, 3).Draw(rt, "groups")
		var all []keyrange.Set
		for range depth {
			all = append(all, equalSets(rapid.IntRange(1, 6).Draw(rt, "members"))...)
		}
		all = rapid.Permutation(all).Draw(rt, "order")
		for _, keys := range all {
			if l, _ := p.lookUp(1, keys); l == nil {
				if _, _, _, err := p.place(1, keys, now); err != nil {
					rt.Fatal(err)
				}
			}
		}
		p.pack(now)
		got := p.held()
		if len(got) > depth {
			rt.Fatalf("%d layouts for %d groups: %v", len(got), depth, got)
		}
		n := 0
		for _, sets := range got {
			if _, err := split.NewLayout(sets); err != nil {
				rt.Fatal(err)
			}
			n += len(sets)
		}
		slices.SortFunc(all, func(a, b keyrange.Set) int { return slices.CompareFunc(a, b, compareRanges) })
		if want := len(slices.CompactFunc(all, slices.Equal[keyrange.Set])); n != want {
			rt.Fatalf("%d sets, want %d: %v", n, want, got)
		}
	})
}

func compareRanges(a, b keyrange.Range) int {
	if a.First != b.First {
		return int(int64(a.First) - int64(b.First))
	}
	return int(int64(a.Last) - int64(b.Last))
}

// What was loaded for an offset is found there, by those who are in its version of the layout, whatever comes in which order.
func TestBlocksOfSeveralVersions(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newCache(t, newFakeLog(), Config{})
		sl := &sliced{r: newPartition(c, src).uncommitted, layout: &layout{}}
		sl.slot(0, 0)
		for range rapid.IntRange(1, 20).Draw(rt, "inserts") {
			if rapid.Bool().Draw(rt, "newcomer") {
				sl.layout.version++
				sl.slot(len(sl.slices), sl.layout.version)
			}
			version := rapid.IntRange(max(0, sl.layout.version-2), sl.layout.version).Draw(rt, "version")
			b := &split.Block{Start: rapid.Int64Range(0, 50).Draw(rt, "start"), Slices: make([][]split.Piece, version+1)}
			b.End = b.Start + rapid.Int64Range(1, 30).Draw(rt, "length")
			sl.insert(b, version)
			if got := sl.find(int32(version), b.Start); got == nil {
				rt.Fatalf("version %d of [%d, %d) is not found at its start", version, b.Start, b.End)
			}
			for i, x := range sl.blocks {
				if x.start >= x.end || x.start < x.Start || x.end > x.End || i > 0 && x.start < sl.blocks[i-1].end {
					rt.Fatalf("block %d is asked for [%d, %d) of [%d, %d)", i, x.start, x.end, x.Start, x.End)
				}
			}
			if got := sl.find(int32(len(sl.slices)-1), b.Start); got != nil && got.version < sl.layout.version {
				rt.Fatalf("slice %d came in version %d and has a block of version %d", len(sl.slices)-1, sl.layout.version, got.version)
			}
		}
	})
}

// A client that asks for ever new sets, many at once, drops its own layouts: a group that polls at the end goes on as before, and
// memory stays in its bounds.
func TestAHostileClientDropsItsOwnLayouts(t *testing.T) {
	for name, draw := range map[string]func(*rand.Rand) keyrange.Set{
		"overlapping the others": func(rng *rand.Rand) keyrange.Set {
			return keyrange.Set{{First: uint32(rng.Intn(1 << 20)), Last: 1<<31 + uint32(rng.Intn(1<<30))}}
		},
		"beside the others": func(rng *rand.Rand) keyrange.Set {
			first := 7<<29 + uint32(rng.Intn(1<<28))
			return keyrange.Set{{First: first, Last: first}}
		},
		"of many ranges": func(rng *rand.Rand) (set keyrange.Set) {
			for i := range uint32(1000) {
				first := i<<22 + uint32(rng.Intn(1<<20))
				set = append(set, keyrange.Range{First: first, Last: first + uint32(rng.Intn(1<<20))})
			}
			return set
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newFakeLog()
				log.spread(1000, 100)
				c := newCache(t, log, Config{MaxBytes: 16 << 20})
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				var mu sync.Mutex
				written := map[int64]time.Time{}
				slowest, n := time.Duration(0), 0
				for _, keys := range equalSets(8)[:7] {
					wg.Go(func() {
						follow(ctx, t, c, keys, log.now(), func(r rec) {
							mu.Lock()
							defer mu.Unlock()
							slowest, n = max(slowest, time.Since(written[r.offset])), n+1
						})
					})
				}
				synctest.Wait()
				before, size := log.bytes.Load(), log.size()
				for i := range 40 {
					rng := rand.New(rand.NewSource(int64(i)))
					wg.Go(func() {
						for ctx.Err() == nil {
							req := askKeys(draw(rng), log.now())
							req.MaxWait = time.Duration(rng.Intn(100)) * time.Millisecond
							c.Fetch(ctx, req)
						}
					})
				}
				want, layouts := 0, int64(0)
				for range 300 {
					time.Sleep(7 * time.Millisecond)
					mu.Lock()
					written[log.end], written[log.end+1] = time.Now(), time.Now()
					mu.Unlock()
					log.spread(1, 100)
					for _, b := range log.batches[len(log.batches)-1].recs {
						if positionOf(b, 1) < 7<<29 {
							want++
						}
					}
					synctest.Wait()
					u := c.Usage()
					layouts = max(layouts, u.Layouts)
					if n := len(c.partition(src).held()); n > maxLayouts {
						t.Fatalf("%d layouts", n)
					}
				}
				cancel()
				wg.Wait()
				if n != want || slowest > 0 {
					t.Errorf("%d records of %d, the slowest after %v", n, want, slowest)
				}
				if layouts > 1<<20 {
					t.Errorf("layouts took %d bytes", layouts)
				}
				if ratio := float64(log.bytes.Load()-before) / float64(log.size()-size); ratio > 1.5 {
					t.Errorf("the broker gave each byte %.2f times", ratio)
				}
			})
		})
	}
}

// More groups than a partition has layouts get everything all the same, only not as quickly.
func TestMoreGroupsThanLayouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.latency = time.Millisecond
		c := newCache(t, log, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		const groups = 2 * maxLayouts
		ledgers := make([]*ledger, groups)
		for g := range uint32(groups) {
			ledgers[g] = &ledger{got: map[int64]int{}}
			keys := keyrange.Set{{First: 0, Last: 1<<31 + g}}
			wg.Go(func() { follow(ctx, t, c, keys, 0, ledgers[g].note) })
			wg.Go(func() { follow(ctx, t, c, keyrange.Set{{First: 1<<31 + g + 1, Last: 1<<32 - 1}}, 0, ledgers[g].note) })
		}
		for range 200 {
			time.Sleep(20 * time.Millisecond)
			log.spread(1, 100)
		}
		time.Sleep(5 * time.Second)
		cancel()
		wg.Wait()
		for _, l := range ledgers {
			l.check(t, log.end, 1)
		}
		if n := log.fetches.Load(); n > 5000 {
			t.Errorf("%d reads of the cluster", n)
		}
	})
}

// The layouts of all partitions together have a bound, too, and go with their partition.
func TestLayoutsOfManyPartitionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.spread(10, 100)
		c := newCache(t, log, Config{MaxBytes: 4 << 20})
		for i := range int32(3000) {
			req := askKeys(equalSets(4)[i%4], 0)
			req.MaxWait = 0
			req.Slices[0].Source = Source{Topic: fmt.Sprint("t", i%300), Partition: i / 300}
			if res := fetchOne(c, req); res.Err != nil || res.Scanned != log.end {
				t.Fatalf("%+v", res)
			}
			if u := c.Usage(); u.Layouts > u.Max/layoutsPart+4096 || u.Cached+u.Layouts > u.Max {
				t.Fatalf("after %d partitions: %+v", i, u)
			}
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if u := c.Usage(); u.Layouts != 0 || u.Cached != 0 {
			t.Errorf("when all are idle: %+v", u)
		}
	})
}

// wide is the i-th of many sets that all overlap.
func wide(i int) keyrange.Set { return keyrange.Set{{First: 0, Last: 1<<31 + uint32(i)}} }

// One that is asked for again and again is worth more than many that are new, also if it has the fewest fetches and the longest polls.
func TestALayoutInUseStaysAmongNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, newFakeLog(), Config{})
		p := enterAll(c, wide(0), wide(0))
		l := p.layouts[0]
		for i := range 50 {
			enterAll(c, wide(1+i))
		}
		if enterAll(c, wide(0)); l.gone {
			t.Error("it was dropped")
		}
		if n := len(p.held()); n != maxLayouts {
			t.Errorf("%d layouts, want %d", n, maxLayouts)
		}
	})
}

// A layout that somebody waits in is not dropped before its turn is over.
func TestLayoutsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, newFakeLog(), Config{})
		start := func(i int) (took chan time.Duration) {
			took = make(chan time.Duration, 1)
			go func() {
				before, req := time.Now(), askKeys(wide(i), 0)
				req.MaxWait = 10 * time.Second
				fetchOne(c, req)
				took <- time.Since(before)
			}()
			synctest.Wait()
			return took
		}
		for i := range maxLayouts {
			start(i)
		}
		first := slices.Clone(c.partition(src).layouts)
		if took := <-start(maxLayouts); took < noRoomWait/2 || took > 2*noRoomWait {
			t.Errorf("without room it was answered after %v", took)
		}
		time.Sleep(turn)
		start(maxLayouts)
		gone := 0
		for _, l := range first {
			if l.gone {
				gone++
			}
		}
		if l, _ := c.partition(src).lookUp(1, wide(maxLayouts)); l == nil || gone != 1 {
			t.Errorf("after a turn: it has a layout: %v, %d others were dropped, want one", l != nil, gone)
		}
	})
}

// Two groups that begin at the same time, in turn: a set goes to those that it completes.
func TestASetGoesWhereItFitsBest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, newFakeLog(), Config{})
		thirds, halves := equalSets(3), equalSets(2)
		p := enterAll(c, thirds[0], halves[0], halves[1], thirds[1], thirds[2])
		if l := p.held(); len(l) != 2 || len(l[0]) != 3 || len(l[1]) != 2 {
			t.Errorf("%v, want thirds and halves", l)
		}
	})
}

// A fetch may wait for longer than a set counts as asked for. Nobody takes its slot.
func TestALongPollKeepsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		c := newCache(t, log, Config{})
		halves := equalSets(2)
		got := make(chan SliceResult, 1)
		go func() {
			req := askKeys(halves[0], 0)
			req.MaxWait = 3 * activeFor
			got <- fetchOne(c, req)
		}()
		time.Sleep(2 * activeFor)
		enterAll(c, halves[1])
		log.spread(20, 10)
		for _, r := range decode(t, (<-got).Data) {
			if !halves[0].Contains(positionOf(r, 1)) {
				t.Errorf("got a record of the other half: %v", r)
			}
		}
	})
}

// A layout that had to go for others' memory while a fetch waits in it is made anew; the fetch notices nothing.
func TestALongPollOutlivesItsLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		c := newCache(t, log, Config{MaxBytes: 64 << 10})
		got := make(chan SliceResult, 1)
		go func() {
			req := askKeys(equalSets(2)[0], 0)
			req.MaxWait = time.Hour // however many others it takes
			got <- fetchOne(c, req)
		}()
		synctest.Wait()
		before := c.partition(src).layouts[0]
		dropped := func() bool {
			p := c.partition(src)
			p.mu.Lock()
			defer p.mu.Unlock()
			return before.gone
		}
		for i := int32(1); !dropped(); i++ {
			req := askKeys(equalSets(2)[0], 0)
			req.MaxWait, req.Slices[0].Source.Partition = 0, i
			fetchOne(c, req)
		}
		time.Sleep(time.Second)
		start := time.Now()
		log.append(-1, rec{key: keyIn(equalSets(2)[0])})
		if res := <-got; len(res.Data) != 1 || time.Since(start) > 0 {
			t.Errorf("%+v after %v", res, time.Since(start))
		}
	})
}

func keyIn(set keyrange.Set) []byte {
	for i := 0; ; i++ {
		if k := fmt.Append(nil, "k", i); set.Contains(keyrange.Position(k, 1)) {
			return k
		}
	}
}
