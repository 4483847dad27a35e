package slicecache

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// case V18: lag as an autoscaler sums it is 0 when all is done, also for slices without records and with transaction
// markers at the end, and its answers agree with what consumers were told.
func TestLagIsZeroWhenAllIsDone(t *testing.T) {
	for _, committed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			log := newFakeLog()
			log.latency = time.Millisecond
			log.fill(eight, 1, 10, 3, "a")
			log.fill(eight, 2, 10, 3, "b")
			log.append(7, rec{key: keyFor(eight, 3), value: "c"})
			log.finish(7, true)
			log.append(7, rec{key: keyFor(eight, 4), value: "aborted"})
			log.finish(7, false)
			c := newCache(t, log, Config{})
			for slice := range eight.K {
				pos := int64(0)
				for {
					req := ask(eight, slice, pos)
					req.ReadCommitted = committed
					res := fetchOne(c, req)
					if len(res.Data) == 0 {
						if res.End != pos || !res.EndKnown {
							t.Errorf("slice %d at its end %d: %d %v", slice, pos, res.End, res.EndKnown)
						}
						break
					}
					for _, r := range decode(t, res.Data) {
						pos = r.offset + 1
					}
				}
				end, known, err := c.End(t.Context(), src, eight, slice, committed)
				if err != nil || !known || end != pos {
					t.Errorf("slice %d: latest %d %v %v, committed %d", slice, end, known, err, pos)
				}
				if next := c.NextRecord(src, eight, slice, committed, pos); next != log.end {
					t.Errorf("slice %d: the stable offset stays at %d, the log ends at %d (case V8)", slice, next, log.end)
				}
			}
		})
	}
}

func TestLatestSeesWhatWasWrittenBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		c := newCache(t, log, Config{})
		for i := range int64(20) {
			log.fill(four, int32(i%4), 1, 1, "")
			end, known, err := c.End(t.Context(), src, four, int32(i%4), false)
			if end != i+1 || !known || err != nil {
				t.Fatalf("%d %v %v, want %d", end, known, err, i+1)
			}
		}
	})
}

func TestManyEndsShareRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.latency = time.Millisecond
		log.fill(four, 0, 10, 1, "")
		c := newCache(t, log, Config{})
		done := make(chan error)
		for i := range 32 {
			go func() {
				_, _, err := c.End(t.Context(), src, eight, int32(i%8), false)
				done <- err
			}()
		}
		for range 32 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if log.lists.Load() > 6 || log.fetches.Load() > 2 {
			t.Errorf("32 questions made %d ListOffsets and %d Fetches", log.lists.Load(), log.fetches.Load())
		}
	})
}

func TestEndsOfABigColdLogAreFoundFromItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.fill(four, 1, 1, 1, "far")
		log.fill(four, 0, 100_000, 100, strings.Repeat("x", 300))
		log.fill(four, 2, 1, 1, "near")
		log.fill(four, 0, 1000, 100, strings.Repeat("x", 300))
		c := newCache(t, log, Config{TailScanBytes: 8 << 20})
		for _, slice := range []int32{0, 2} {
			if end, known, err := c.End(t.Context(), src, four, slice, false); err != nil || !known || end != log.ownEnd(&consumer{s: four, slice: slice}) {
				t.Errorf("slice %d: %d %v %v", slice, end, known, err)
			}
		}
		if log.bytes.Load() > 2<<20 {
			t.Errorf("%d bytes were read for ends within the last MiB", log.bytes.Load())
		}
		// The far one takes several calls, each bounded; none begins anew.
		for calls := 1; ; calls++ {
			before := log.bytes.Load()
			end, known, err := c.End(t.Context(), src, four, 1, false)
			if log.bytes.Load()-before > 12<<20 {
				t.Fatalf("one call read %d bytes", log.bytes.Load()-before)
			}
			if known {
				if end != 1 || calls < 2 {
					t.Errorf("%d %v after %d calls", end, err, calls)
				}
				break
			}
			if err != nil || end != log.end || calls > 8 {
				t.Fatalf("%d %v after %d calls", end, err, calls)
			}
		}
		if log.bytes.Load() > log.size()*5/4 {
			t.Errorf("%d bytes read of a log of %d", log.bytes.Load(), log.size())
		}
	})
}

func TestEndIsBoundedByItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.latency = 50 * time.Millisecond
		log.fill(four, 0, 100_000, 100, strings.Repeat("x", 300))
		c := newCache(t, log, Config{LoadBytes: 100_000})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		end, known, err := c.End(ctx, src, four, 1, false)
		if known || err != nil || end != 100_000 || time.Since(start) > 1100*time.Millisecond {
			t.Errorf("%d %v %v after %v", end, known, err, time.Since(start))
		}
		log.fail(kerr.UnknownTopicID)
		if _, _, err := c.End(t.Context(), src, four, 1, false); err != kerr.UnknownTopicID {
			t.Errorf("error %v", err)
		}
	})
}

func TestSpecialTimestamps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.append(-1, rec{key: keyFor(four, 0), ts: 500}, rec{key: keyFor(four, 1), ts: 900}, rec{key: keyFor(four, 0), ts: 600})
		log.append(-1, rec{key: keyFor(four, 1), ts: 100}, rec{key: keyFor(four, 2), ts: 700})
		log.deleteBefore(1)
		c := newCache(t, log, Config{})
		for _, q := range []struct {
			slice            int32
			ask, offset, got int64
		}{
			{0, -1, 3, -1}, {3, -1, 1, -1}, {0, -2, 1, -1},
			{1, -3, 1, 900}, {0, -3, 2, 600}, {3, -3, -1, -1},
			{1, 101, 1, 900}, {1, 901, -1, -1}, {0, 601, -1, -1}, {2, 0, 4, 700}, {3, 0, -1, -1},
		} {
			offset, ts, err := c.AtTime(t.Context(), src, four, q.slice, false, q.ask)
			if err != nil || offset != q.offset || ts != q.got {
				t.Errorf("slice %d at %d: %d %d %v, want %d %d", q.slice, q.ask, offset, ts, err, q.offset, q.got)
			}
		}
	})
}

func TestNextRecordDoesNoReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.fill(four, 0, 10, 5, "")
		log.fill(four, 1, 10, 5, "")
		c := newCache(t, log, Config{})
		if n := c.NextRecord(src, four, 1, false, 3); n != 3 || log.fetches.Load() > 0 {
			t.Errorf("nothing is known: %d after %d reads", n, log.fetches.Load())
		}
		fetchOne(c, ask(four, 0, 0))
		reads := log.fetches.Load()
		for q, want := range map[[2]int64]int64{{0, 3}: 3, {0, 10}: 20, {1, 0}: 10, {1, 12}: 12, {2, 0}: 20} {
			for _, committed := range []bool{false, true} { // empty read uncommitted is empty read committed too
				if n := c.NextRecord(src, four, int32(q[0]), committed, q[1]); n != want {
					t.Errorf("slice %d from %d: %d, want %d", q[0], q[1], n, want)
				}
			}
		}
		if log.fetches.Load() != reads {
			t.Errorf("NextRecord read")
		}
	})
}

// Consumers commit in the middle of a batch: the next record of the slice is known there too.
func TestNextRecordWithinABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		var batch []rec
		for i := range 12 {
			batch = append(batch, rec{key: keyFor(four, []int32{0, 1, 0, 1, 1, 1}[i%6])})
		}
		log.append(-1, batch...)
		c := newCache(t, log, Config{})
		fetchOne(c, ask(four, 0, 0))
		for q, want := range map[[2]int64]int64{{0, 0}: 0, {0, 1}: 2, {0, 3}: 6, {0, 9}: 12, {1, 2}: 3, {1, 6}: 7, {1, 8}: 9, {1, 11}: 11} {
			for _, committed := range []bool{false, true} {
				if n := c.NextRecord(src, four, int32(q[0]), committed, q[1]); n != want {
					t.Errorf("slice %d from %d: %d, want %d", q[0], q[1], n, want)
				}
			}
		}
	})
}

// What is empty read committed can hold an aborted record read uncommitted.
func TestGapsOfReadCommittedAreItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.append(1, rec{key: keyFor(four, 0), value: "aborted"})
		log.finish(1, false)
		c := newCache(t, log, Config{})
		req := ask(four, 0, 0)
		req.ReadCommitted = true
		if res := fetchOne(c, req); len(res.Data) > 0 || res.Scanned != 2 {
			t.Errorf("read committed: %+v", res)
		}
		if n := c.NextRecord(src, four, 0, false, 0); n != 0 {
			t.Errorf("read uncommitted: next record %d", n)
		}
		if res := fetchOne(c, ask(four, 0, 0)); len(res.Data) != 1 {
			t.Errorf("read uncommitted: %+v", res)
		}
	})
}

// All slices wait together at the last stable offset, also those that know that what lies above it is not theirs.
func TestAnOpenTransactionDoesNotSplitTheReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		c := newCache(t, log, Config{})
		log.append(1, rec{key: keyFor(four, 0), value: strings.Repeat("x", 1000)})
		fetchOne(c, ask(four, 1, 0)) // knows, read uncommitted, that nothing up to the high watermark is slice 1's
		before := log.bytes.Load()
		got := make(chan SliceResult, 2)
		for slice := range int32(2) {
			go func() {
				req := ask(four, slice, 0)
				req.ReadCommitted, req.MaxWait = true, 5*time.Second
				got <- fetchOne(c, req)
			}()
		}
		synctest.Wait()
		log.append(-1, rec{key: keyFor(four, 1), value: "after"})
		log.finish(1, true)
		for range 2 {
			if res := <-got; len(res.Data) != 1 {
				t.Errorf("%+v", res)
			}
		}
		if read := log.bytes.Load() - before; read > log.size() {
			t.Errorf("%d bytes were read of %d", read, log.size())
		}
	})
}

// The end that is not known at the moment of an answer is far only where much lies before it: a client's position must not be moved for less
// (case V18: it would commit more than the slice's own end).
func TestAnEndThatIsNotKnownIsFarOnlyBehindMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.latency = 50 * time.Millisecond // longer than an answer with records waits
		log.fill(four, 0, 10, 10, "a")
		c := newCache(t, log, Config{})
		both := func(from int64) []SliceResult {
			return c.Fetch(t.Context(), FetchRequest{
				Slices:  []SliceRequest{{Source: src, Slicing: four, Slice: 0, Offset: from, MaxBytes: 1 << 20}, {Source: src, Slicing: four, Slice: 1, MaxBytes: 1 << 20}},
				MaxWait: 500 * time.Millisecond, MinBytes: 1, MaxBytes: 1 << 20,
			})
		}
		both(0)
		time.Sleep(2 * time.Second) // the cluster's answer is old
		if res := both(0)[1]; res.EndKnown || res.Far || res.Scanned != 10 || res.End != 10 {
			t.Errorf("with all looked through: %+v", res)
		}
		log.fill(four, 0, 100_000, 100, strings.Repeat("x", 300))
		if res := both(10)[1]; res.EndKnown || !res.Far || res.Scanned >= res.End {
			t.Errorf("with 30 MB ahead: %+v", res)
		}
	})
}
