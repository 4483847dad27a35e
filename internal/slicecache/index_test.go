package slicecache

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-kafka/tandem/keyrange"
)

func askIndex(keys keyrange.Set, offset int64) FetchRequest {
	req := askKeys(keys, offset)
	req.Slices[0].IndexOnly = true
	return req
}

// readIndex reads keys up to the log's end as of now.
func readIndex(t *testing.T, c *Cache, log *fakeLog, keys keyrange.Set) (rs []rec) {
	end := log.end
	for pos := int64(0); pos < end; {
		res := fetchOne(c, askIndex(keys, pos))
		if res.Err != nil {
			t.Fatal(res.Err)
		}
		rs = append(rs, decode(t, res.Data)...)
		pos = res.Scanned
	}
	return rs
}

// key.range.hashing.load=key: a member that comes after the others reads from the cluster again, but only where it has records, however
// many such places there are.
func TestIndexOnlyReadsAgainWhatASliceHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		sets := equalSets(4)
		many, few := keyIn(sets[1]), keyIn(sets[2])
		want := 0
		for i := range 20_000 { // 20 MB; every 100 kB one batch of the slow member's
			if i%100 == 50 {
				log.append(-1, rec{key: few, value: "mine"})
				want++
			}
			log.append(-1, rec{key: many, value: strings.Repeat("x", 1000)})
		}
		c := newCache(t, log, Config{LoadBytes: 10_000})
		for _, keys := range sets[2:] { // they make their slots
			req := askIndex(keys, log.end)
			req.MaxWait = 0
			fetchOne(c, req)
		}
		if n := len(readIndex(t, c, log, sets[1])); n != 20_000 {
			t.Fatalf("%d records", n)
		}
		if u := c.Usage(); u.Cached > 200_000 || u.Layouts > 100_000 {
			t.Errorf("memory of %d bytes read: %+v", log.size(), u)
		}
		before := log.bytes.Load()
		rs := readIndex(t, c, log, sets[2])
		if len(rs) != want {
			t.Errorf("%d records, want %d", len(rs), want)
		}
		if read := log.bytes.Load() - before; read > log.size()/20 {
			t.Errorf("%d bytes of %d were read for 1 %% of the batches", read, log.size())
		}
		if next := c.NextRecordIn(src, 1, sets[2], false, rs[10].offset+1); next != rs[11].offset {
			t.Errorf("after %d the next record is %d, want %d", rs[10].offset, next, rs[11].offset)
		}
	})
}

// Members that go side by side share what is read, with little memory, and who is slow gets on beside them.
func TestIndexOnlySharesReadsAtTheTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.latency = time.Millisecond
		c := newCache(t, log, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		l := &ledger{got: map[int64]int{}}
		for _, keys := range equalSets(20) {
			wg.Go(func() {
				for pos := int64(0); ctx.Err() == nil; {
					res := c.Fetch(ctx, askIndex(keys, pos))[0]
					for _, r := range decode(t, res.Data) {
						l.note(r)
					}
					pos = res.Scanned
				}
			})
		}
		for range 1000 {
			time.Sleep(3 * time.Millisecond)
			log.spread(1, 1000)
			if u := c.Usage(); u.Cached > 1<<20 {
				t.Fatalf("memory: %+v", u)
			}
		}
		time.Sleep(time.Second)
		cancel()
		wg.Wait()
		l.check(t, log.end, 1)
		if ratio := float64(log.bytes.Load()) / float64(log.size()); ratio > 1.1 {
			t.Errorf("the broker gave each byte %.2f times", ratio)
		}
	})
}

// Many members far apart, more than blocks stay in memory: each gets on.
func TestIndexOnlyManyPositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.latency = time.Millisecond
		if n := 4000; testing.Short() {
			log.spread(n/4, 500)
		} else {
			log.spread(n, 500)
		}
		c := newCache(t, log, Config{LoadBytes: 20_000})
		l := &ledger{got: map[int64]int{}}
		var wg sync.WaitGroup
		for i, keys := range equalSets(20) {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 17 * time.Millisecond)
				for _, r := range readIndex(t, c, log, keys) {
					l.note(r)
				}
			})
		}
		wg.Wait()
		l.check(t, log.end, 1)
		if ratio := float64(log.bytes.Load()) / float64(log.size()); ratio > 21 {
			t.Errorf("20 members read each byte %.2f times", ratio)
		}
	})
}

// Who waits for a load is given what it brought: the block may have left memory before the waiter comes for it.
func TestIndexOnlyGivesBlocksToThoseWhoWait(t *testing.T) {
	c := newCache(t, newFakeLog(), Config{})
	p := newPartition(c, src)
	l, slice, _, err := p.layoutFor(1, keyrange.Set{keyrange.Full})
	if err != nil {
		t.Fatal(err)
	}
	r := p.uncommitted
	sl := r.ofLayout(l)
	sl.setIndexOnly(true)
	bring := func(offset int64) *waiter {
		w := wakeful(sl, slice)
		w.pos = offset
		ld := &load{start: offset}
		w.attach(ld)
		raw := encodeBatch(logBatch{base: offset, last: offset, pid: -1, recs: []rec{{offset: offset}}})
		if err := r.split(ld, &job{sl: sl}, Fetched{Raw: raw}); err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := bring(5)
	for i := range int64(2 * indexBlocks) {
		bring(10 + i)
	}
	if b := w.block.at(5); sl.find(slice, 5) != nil || b == nil || len(b.Slices[slice]) != 1 {
		t.Errorf("in memory: %v, given: %v", sl.find(slice, 5), b)
	}
	if len(sl.blocks) != indexBlocks {
		t.Errorf("%d blocks in memory", len(sl.blocks))
	}
}
