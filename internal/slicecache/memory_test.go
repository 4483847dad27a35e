package slicecache

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// case V15: a consumer that stops reading its socket holds what it was given, no more, and the others go on as before.
func TestAStuckConsumerHoldsOnlyItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.latency = time.Millisecond
		value := strings.Repeat("x", 8<<10)
		for i := range 4000 {
			log.append(-1, rec{key: keyFor(four, int32(i%4)), value: value})
		}
		c := newCache(t, log, Config{MaxBytes: 8 << 20})
		read := func() time.Duration {
			start := time.Now()
			for pos := int64(0); pos < 3990; {
				var lease Lease
				req := ask(four, 1, pos)
				req.Lease = &lease
				res := fetchOne(c, req)
				for _, r := range decode(t, res.Data) {
					pos = r.offset + 1
				}
				lease.Release()
				if u := c.Usage(); u.Cached+u.InFlight+u.HandedOut > u.Max+4<<20 {
					t.Fatalf("memory: %+v", u)
				}
			}
			return time.Since(start)
		}
		alone := read()
		var stuck []*Lease
		for i := range int64(20) { // many of them, all over the log
			lease := new(Lease)
			req := ask(four, 0, i*200)
			req.Lease = lease
			if res := fetchOne(c, req); len(res.Data) == 0 {
				t.Fatalf("%+v", res)
			}
			stuck = append(stuck, lease)
		}
		if with := read(); with > alone*3/2 {
			t.Errorf("with stuck consumers %v, alone %v", with, alone)
		}
		if u := c.Usage(); u.HandedOut == 0 {
			t.Errorf("the stuck answers are not counted: %+v", u)
		}
		for _, l := range stuck {
			l.Release()
		}
		time.Sleep(time.Second) // what is read ahead comes in
		synctest.Wait()
		if u := c.Usage(); u.HandedOut != 0 || u.InFlight != 0 || u.Cached > u.Max {
			t.Errorf("memory at the end: %+v", u)
		}
	})
}

// Answers get small, not memory big, when much of it lies on connections that do not read.
func TestAnswersGetSmallWhenMemoryIsHandedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.fill(four, 0, 4000, 1, strings.Repeat("x", 8<<10))
		c := newCache(t, log, Config{MaxBytes: 4 << 20})
		size := 0
		for i := range int64(60) {
			req := ask(four, 0, i*60)
			req.Lease = new(Lease) // never released
			res := fetchOne(c, req)
			size = 0
			for _, d := range res.Data {
				size += len(d)
			}
			if size == 0 {
				t.Fatalf("%+v", res)
			}
		}
		if size > crowdedBytes {
			t.Errorf("the last answer had %d bytes", size)
		}
	})
}

func TestConcurrentFetchesShareALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.latency = 5 * time.Millisecond
		for slice := range eight.K {
			log.fill(eight, slice, 3, 1, "v")
		}
		c := newCache(t, log, Config{})
		var wg sync.WaitGroup
		for slice := range eight.K {
			for range 4 {
				wg.Go(func() {
					if res := fetchOne(c, ask(eight, slice, int64(slice))); len(res.Data) != 3 {
						t.Errorf("%+v", res)
					}
				})
			}
			synctest.Wait() // the lowest offset first: a load cannot serve what lies below it
		}
		wg.Wait()
		if log.fetches.Load() != 1 {
			t.Errorf("%d loads, want one for all", log.fetches.Load())
		}
	})
}

// The next block is loaded while the last one is sent.
func TestReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.latency = 10 * time.Millisecond
		log.fill(four, 0, 10_000, 1, strings.Repeat("x", 1000))
		c := newCache(t, log, Config{LoadBytes: 100_000})
		first := ask(four, 0, 0)
		first.Slices[0].MaxBytes = 10_000 // more would need further loads
		fetchOne(c, first)
		time.Sleep(50 * time.Millisecond)
		start := time.Now()
		req := ask(four, 0, 90)
		req.MaxWait = 0 // otherwise it waits a little for more than what is there
		// The slice's own end is not known, and the answer waits a little for that.
		if res := fetchOne(c, req); len(res.Data) < 100 || time.Since(start) > resolveDataWait {
			t.Errorf("%d batches after %v", len(res.Data), time.Since(start))
		}
		time.Sleep(time.Second)
		if log.fetches.Load() > 20 {
			t.Errorf("%d loads: it reads ahead without a bound", log.fetches.Load())
		}
	})
}

func TestPollsEndWhenNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		c := newCache(t, log, Config{})
		fetchOne(c, ask(four, 0, 0))
		before := log.fetches.Load()
		time.Sleep(time.Minute)
		if log.fetches.Load() > before+1 {
			t.Errorf("%d reads while nobody waits", log.fetches.Load()-before)
		}
	})
}

func TestIdlePartitionsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.fill(four, 0, 100, 1, "")
		c := newCache(t, log, Config{})
		fetchOne(c, ask(four, 0, 0))
		if c.Usage().Cached == 0 || c.Usage().Partitions != 1 {
			t.Fatal("nothing cached")
		}
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		if c.Usage().Partitions != 1 {
			t.Error("forgotten after 4 minutes")
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if u := c.Usage(); u.Cached != 0 || c.Usage().Partitions != 0 {
			t.Errorf("after 7 minutes: %+v, %d partitions", u, c.Usage().Partitions)
		}
	})
}

func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.hang = true
		c := New(log, Config{Logger: quiet()})
		done := make(chan SliceResult)
		for slice := range four.K {
			go func() {
				req := ask(four, slice, 0)
				req.MaxWait = time.Hour
				done <- fetchOne(c, req)
			}()
		}
		go func() { c.End(context.Background(), src, four, 0, false); done <- SliceResult{} }()
		synctest.Wait()
		c.Close()
		for range four.K + 1 {
			if res := <-done; len(res.Data) > 0 {
				t.Errorf("%+v", res)
			}
		}
		fetchOne(c, ask(four, 0, 0))
		if _, _, err := c.End(context.Background(), src, four, 0, false); err == nil {
			t.Error("End of a closed cache has no error")
		}
	})
}

func TestReservationsAreServedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		if err := b.reserve(t.Context(), 500); err != nil { // one always fits
			t.Fatal(err)
		}
		var order []int
		for i := range 3 {
			go func() {
				b.reserve(t.Context(), 30)
				order = append(order, i)
				b.release(30)
			}()
			synctest.Wait()
		}
		if b.tryReserve(1) {
			t.Error("a reservation overtook the waiting ones")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if b.reserve(ctx, 1) == nil {
			t.Error("reserve with a cancelled context")
		}
		b.release(500)
		synctest.Wait()
		if len(order) != 3 || order[0] != 0 || b.inFlight != 0 {
			t.Errorf("order %v, in flight %d", order, b.inFlight)
		}
	})
}

// A slice has a small share of each load. Where more is known to be there an answer collects several shares, but not for long, and not
// for what nobody knows to come.
func TestAnswersFillUpBehindTheEnd(t *testing.T) {
	for _, test := range []struct {
		name        string
		latency     time.Duration // of one load
		maxWait     time.Duration
		least, most int           // bytes of the answer to a fetch far behind the end
		longest     time.Duration // until it came
	}{
		{name: "quick broker", latency: time.Millisecond, maxWait: time.Second, least: fillBytes / 2, most: fillBytes + 100_000, longest: 30 * time.Millisecond},
		{name: "slow broker", latency: 100 * time.Millisecond, maxWait: time.Second, least: 1, most: 100_000, longest: 110*time.Millisecond + fillWait},
		{name: "client in a hurry", latency: time.Millisecond, maxWait: 0, least: 1, most: 60_000, longest: 10 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newFakeLog()
				log.latency = test.latency
				for i := range int64(20_000) {
					log.fill(four, int32(i%4), 1, 1, strings.Repeat("x", 1000))
				}
				c := newCache(t, log, Config{LoadBytes: 100_000})
				req := ask(four, 0, 0)
				req.MaxWait = test.maxWait
				start := time.Now()
				res := fetchOne(c, req)
				took, size := time.Since(start), 0
				for _, d := range res.Data {
					size += len(d)
				}
				if size < test.least || size > test.most || took > test.longest {
					t.Errorf("%d bytes after %v; want %d to %d within %v", size, took, test.least, test.most, test.longest)
				}
			})
		})
	}
}

func TestAnswersDoNotWaitAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.latency = time.Millisecond
		log.fill(four, 0, 5, 1, "v")
		c := newCache(t, log, Config{})
		start := time.Now()
		if res := fetchOne(c, ask(four, 0, 0)); len(res.Data) != 5 || time.Since(start) > 5*time.Millisecond {
			t.Errorf("%d batches after %v", len(res.Data), time.Since(start))
		}
	})
}
