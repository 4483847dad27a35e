package slicecache

import (
	"context"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tandem-kafka/tandem/internal/split"
	"github.com/tandem-kafka/tandem/keyrange"
)

// equalSets deals the axis to n members.
func equalSets(n int) (sets []keyrange.Set) {
	for i := range uint64(n) {
		sets = append(sets, keyrange.Set{{First: uint32(i << 32 / uint64(n)), Last: uint32((i+1)<<32/uint64(n) - 1)}})
	}
	return sets
}

// crumbs are n key ranges of one position each.
func crumbs(n int) (set keyrange.Set) {
	for i := range uint32(n) {
		set = append(set, keyrange.Range{First: 1000 * i, Last: 1000 * i})
	}
	return set
}

func askKeys(keys keyrange.Set, offset int64) FetchRequest {
	req := ask(split.Slicing{Base: 1}, 0, offset)
	req.Slices[0].Keys = keys
	return req
}

// follow reads key ranges from pos on as a client does, until ctx ends, and gives each record to got.
func follow(ctx context.Context, t *testing.T, c *Cache, keys keyrange.Set, pos int64, got func(rec)) {
	for ctx.Err() == nil {
		res := c.Fetch(ctx, askKeys(keys, pos))[0]
		if res.Err != nil && ctx.Err() == nil {
			t.Errorf("%v at %d: %v", keys, pos, res.Err)
			return
		}
		for _, r := range decode(t, res.Data) {
			if r.offset < pos || !keys.Contains(positionOf(r, 1)) {
				t.Errorf("%v at %d: got offset %d, key %q", keys, pos, r.offset, r.key)
			}
			got(r)
		}
		pos = res.Scanned
	}
}

// spread appends n batches of two records, of 53 keys and of none.
func (l *fakeLog) spread(n, bytes int) {
	for i := range n {
		l.append(-1, rec{key: fmt.Append(nil, "k", (int(l.end)+i)%53), value: strings.Repeat("x", bytes)}, rec{value: "no key"})
	}
}

// ledger counts who got what.
type ledger struct {
	mu  sync.Mutex
	got map[int64]int
}

func (l *ledger) note(r rec) {
	l.mu.Lock()
	l.got[r.offset]++
	l.mu.Unlock()
}

func (l *ledger) check(t *testing.T, end int64, times int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for o := range end {
		if l.got[o] != times {
			t.Fatalf("offset %d was delivered %d times, want %d", o, l.got[o], times)
		}
	}
}

// The members of each group have one layout, whatever they fetch first, so the broker gives each byte once and it is split once for
// each group.
func TestMembersShareReadsAndSplits(t *testing.T) {
	for name, test := range map[string]struct {
		members [][]keyrange.Set // of the groups
		ratio   float64          // of blocks to loads
	}{
		"five members":         {members: [][]keyrange.Set{equalSets(5)}, ratio: 1.05},
		"two groups":           {members: [][]keyrange.Set{equalSets(3), equalSets(4)}, ratio: 2.1},
		"several ranges, hole": {members: [][]keyrange.Set{{{{First: 0, Last: 1 << 28}, {First: 1 << 30, Last: 1<<32 - 1}}, {{First: 1<<28 + 1, Last: 1<<30 - 1}}}}, ratio: 1.05},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newFakeLog()
				log.latency, log.cut = time.Millisecond, true
				log.spread(6000, 1000) // a backlog of 6 MB
				c := newCache(t, log, Config{})
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				ledgers := make([]*ledger, len(test.members))
				for g, sets := range test.members {
					ledgers[g] = &ledger{got: map[int64]int{}}
					for _, keys := range sets {
						wg.Go(func() { follow(ctx, t, c, keys, 0, ledgers[g].note) })
					}
				}
				time.Sleep(2 * time.Second)
				log.spread(1, 1000)
				synctest.Wait()
				blocks, loads := c.metrics.Blocks.Load(), c.metrics.Loads.Load()
				for range 1000 { // and then the tail
					time.Sleep(3 * time.Millisecond)
					log.spread(1, 1000)
				}
				time.Sleep(time.Second)
				cancel()
				wg.Wait()
				for _, l := range ledgers {
					l.check(t, log.end, 1)
				}
				if ratio := float64(log.bytes.Load()) / float64(log.size()); ratio > 1.05 {
					t.Errorf("the broker gave each byte %.2f times", ratio)
				}
				if ratio := float64(c.metrics.Blocks.Load()-blocks) / float64(c.metrics.Loads.Load()-loads); ratio > test.ratio {
					t.Errorf("each load was split %.2f times", ratio)
				}
				if n := len(c.partition(src).held()); n != len(test.members) {
					t.Errorf("%d layouts for %d groups", n, len(test.members))
				}
			})
		})
	}
}

// Members that poll at the end notice nothing of those who join or go to other key ranges: a record is there at once.
func TestTheTailIsQuickWhileLayoutsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.spread(1000, 100)
		c := newCache(t, log, Config{})
		fetchOne(c, askKeys(equalSets(2)[0], log.end)) // the log is warm
		read := log.bytes.Load()
		written := map[int64]time.Time{}
		var mu sync.Mutex
		slowest, n := time.Duration(0), 0
		got := func(r rec) {
			mu.Lock()
			defer mu.Unlock()
			slowest, n = max(slowest, time.Since(written[r.offset])), n+1
		}
		size := log.size()
		for round := range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for _, keys := range equalSets(2 + round%5) {
				wg.Go(func() { follow(ctx, t, c, keys, log.now(), got) })
			}
			synctest.Wait()
			for range 50 {
				time.Sleep(7 * time.Millisecond)
				mu.Lock()
				written[log.end], written[log.end+1] = time.Now(), time.Now()
				mu.Unlock()
				log.spread(1, 100)
				synctest.Wait()
			}
			cancel()
			wg.Wait()
		}
		if n != 2000 || slowest > 0 {
			t.Errorf("%d records, the slowest after %v; want 2000 at once", n, slowest)
		}
		if ratio := float64(log.bytes.Load()-read) / float64(log.size()-size); ratio > 1.1 {
			t.Errorf("the broker gave each byte %.2f times", ratio)
		}
	})
}

// A newcomer reads on its own what was split without it. The others have their blocks still.
func TestANewcomerTakesNobodysBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.spread(5000, 1000)
		c := newCache(t, log, Config{})
		sets := equalSets(3)
		read := func(keys keyrange.Set) (n int) {
			for pos := int64(0); pos < log.end; {
				res := fetchOne(c, askKeys(keys, pos))
				n += len(decode(t, res.Data))
				pos = res.Scanned
			}
			return n
		}
		first := read(sets[0])
		before := log.bytes.Load()
		total := first + read(sets[1])
		if more := log.bytes.Load() - before; more < log.size()*9/10 || more > log.size()*11/10 {
			t.Errorf("the newcomer read %d bytes of %d", more, log.size())
		}
		before = log.bytes.Load()
		if again := read(sets[0]); again != first {
			t.Errorf("%d records, before %d", again, first)
		}
		if more := log.bytes.Load() - before; more > 0 {
			t.Errorf("%d bytes were read again", more)
		}
		if total += read(sets[2]); total != int(log.end) {
			t.Errorf("%d records of %d", total, log.end)
		}
	})
}

// A key-range client wants to know its true lag and how far it was looked for.
func TestWhatAKeyRangeFetchTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		keys := equalSets(2)
		mine, other := keyIn(keys[0]), keyIn(keys[1])
		log.append(-1, rec{key: mine}, rec{key: other}, rec{key: mine})
		log.append(-1, rec{key: other}, rec{key: other})
		log.append(1, rec{key: other}) // a transaction that stays open, at 5
		log.append(-1, rec{key: mine}, rec{key: other})
		c := newCache(t, log, Config{})
		for _, test := range []struct {
			committed            bool
			from                 int64
			records              int
			scanned, hw, lastEnd int64
		}{
			{false, 0, 3, 8, 8, 5},
			{false, 3, 1, 8, 8, 5},
			{false, 7, 0, 8, 8, 5},
			{true, 0, 2, 5, 8, 5},
			{true, 3, 0, 5, 8, 5},
		} {
			req := askKeys(keys[0], test.from)
			req.ReadCommitted = test.committed
			res := fetchOne(c, req)
			if n := len(decode(t, res.Data)); n != test.records || res.Scanned != test.scanned || res.HighWatermark != test.hw || res.LastStableOffset != test.lastEnd || res.EndKnown {
				t.Errorf("%+v: %d records, %+v", test, n, res)
			}
			if next := c.NextRecordIn(src, 1, keys[0], test.committed, 3); next != 6 {
				t.Errorf("%+v: the next record is at %d, want 6", test, next)
			}
		}
		if next := c.NextRecordIn(src, 1, keyrange.Set{keyrange.Full}, false, 3); next != 3 {
			t.Errorf("of all keys the next record is at %d, but half of them were never looked for", next)
		}
		quarter := keyrange.Set{{First: 0, Last: 1<<30 - 1}}
		if next := c.NextRecordIn(src, 1, quarter, false, 3); next < 6 {
			t.Errorf("a part of the keys has its next record at %d, before 6", next)
		}
		if next := c.NextRecordIn(src, 2, keys[0], false, 3); next != 3 {
			t.Errorf("with another base: next record %d", next)
		}
		for _, bad := range []SliceRequest{
			{Slicing: split.Slicing{Base: 0}, Keys: keys[0]},
			{Slicing: split.Slicing{Base: 1}, Keys: keyrange.Set{{First: 2, Last: 1}}},
			{Slicing: split.Slicing{Base: 1}, Keys: keyrange.Set{{First: 0, Last: 5}, {First: 5, Last: 9}}},
			{Slicing: split.Slicing{Base: 1}, Keys: crumbs(maxLayoutRanges + 1)},
		} {
			bad.Source = src
			if res := fetchOne(c, FetchRequest{Slices: []SliceRequest{bad}}); res.Err != kerr.InvalidRequest {
				t.Errorf("%d ranges: %v", len(bad.Keys), res.Err)
			}
		}
	})
}

// Members come and go, keep some of their keys and lose others, of two groups in any order: nobody misses a record, and the broker
// gives each byte about once.
func TestRebalancesUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.latency = time.Millisecond
		c := newCache(t, log, Config{})
		rng := rand.New(rand.NewSource(1))
		l := &ledger{got: map[int64]int{}}
		pos := int64(0)
		rounds := 30
		if testing.Short() {
			rounds = 8
		}
		for range rounds {
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			sets := append(equalSets(1+rng.Intn(6)), equalSets(1+rng.Intn(6))...)
			rng.Shuffle(len(sets), func(i, j int) { sets[i], sets[j] = sets[j], sets[i] })
			for _, keys := range sets {
				time.Sleep(time.Duration(rng.Intn(3)) * time.Millisecond)
				wg.Go(func() { follow(ctx, t, c, keys, pos, l.note) })
			}
			for range 300 {
				time.Sleep(time.Duration(rng.Intn(20)) * time.Millisecond)
				log.spread(1, 500)
			}
			time.Sleep(time.Second)
			cancel()
			wg.Wait()
			pos = log.end
		}
		l.check(t, log.end, 2)
		if ratio := float64(log.bytes.Load()) / float64(log.size()); ratio > 1.1 {
			t.Errorf("the broker gave each byte %.2f times", ratio)
		}
	})
}
