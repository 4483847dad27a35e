package slicecache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tandem-kafka/tandem/internal/split"
)

// fill appends n records of one slice, in batches of per.
func (l *fakeLog) fill(s split.Slicing, slice int32, n, per int, value string) {
	key := keyFor(s, slice)
	for n > 0 {
		rs := make([]rec, min(n, per))
		for i := range rs {
			rs[i] = rec{key: key, value: value}
		}
		l.append(-1, rs...)
		n -= len(rs)
	}
}

func (l *fakeLog) size() (n int64) {
	for _, b := range l.batches {
		n += int64(len(b.raw))
	}
	return n
}

func TestARecordReachesAWaitingFetchAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		c := newCache(t, log, Config{})
		start := time.Now()
		got := make(chan SliceResult)
		go func() {
			req := ask(four, 2, 0)
			req.MaxWait = 10 * time.Second // several long polls
			got <- fetchOne(c, req)
		}()
		go func() {
			time.Sleep(2345 * time.Millisecond)
			log.fill(four, 1, 1, 1, "other") // does not wake it
			time.Sleep(100 * time.Millisecond)
			log.fill(four, 2, 1, 1, "mine")
		}()
		res := <-got
		if rs := decode(t, res.Data); len(rs) != 1 || rs[0].value != "mine" {
			t.Fatalf("got %v %v", rs, res)
		}
		if d := time.Since(start); d != 2445*time.Millisecond {
			t.Errorf("delivered after %v, want 2.445s", d)
		}
		if res.End != 2 || !res.EndKnown {
			t.Errorf("end %d %v, want 2", res.End, res.EndKnown)
		}
	})
}

func TestAnEmptyFetchWaitsItsMaxWait(t *testing.T) {
	for _, wait := range []time.Duration{0, 30 * time.Millisecond, 1700 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			log := newFakeLog()
			log.fill(four, 1, 5, 1, "")
			c := newCache(t, log, Config{})
			req := ask(four, 2, 0)
			req.MaxWait = wait
			start := time.Now()
			res := fetchOne(c, req)
			if d := time.Since(start); d != wait {
				t.Errorf("took %v, want %v", d, wait)
			}
			if res.Err != nil || len(res.Data) > 0 || !res.EndKnown || res.End != 0 || res.Scanned != 5 {
				t.Errorf("got %+v, want nothing, scanned to 5, own end 0", res)
			}
		})
	}
}

// case V13: the broker gives each byte once, however many views, groups and slices read near the tail.
func TestEachByteIsReadOnceNearTheTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.latency = time.Millisecond
		c := newCache(t, log, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		counts := map[split.Slicing]int{}
		var mu sync.Mutex
		for _, s := range []split.Slicing{four, eight} {
			for range 3 { // groups
				for slice := range s.K {
					wg.Go(func() {
						for pos := int64(0); ctx.Err() == nil; {
							rs := decode(t, c.Fetch(ctx, ask(s, slice, pos))[0].Data)
							if len(rs) > 0 {
								pos = rs[len(rs)-1].offset + 1
							}
							mu.Lock()
							counts[s] += len(rs)
							mu.Unlock()
						}
					})
				}
			}
		}
		for i := range 1000 {
			log.append(-1, rec{key: fmt.Append(nil, "k", i%50), value: strings.Repeat("x", 1000)}, rec{key: fmt.Append(nil, "k", i%7), value: "y"})
			time.Sleep(3 * time.Millisecond)
		}
		time.Sleep(time.Second)
		cancel()
		wg.Wait()
		if counts[four] != 6000 || counts[eight] != 6000 {
			t.Fatalf("delivered %v, want 3 times 2000 each", counts)
		}
		if ratio := float64(log.bytes.Load()) / float64(log.size()); ratio > 1.05 {
			t.Errorf("the broker gave each byte %.2f times", ratio)
		}
	})
}

// case V13: also when the slices of two views go through a backlog together, and brokers cut the last batch off.
func TestEachByteIsReadOnceInABacklog(t *testing.T) {
	// What is read to find ends at the start is a fixed amount: the logs are long enough for it not to count.
	for record, size := range map[int]int{100: 20 << 20, 3000: 32 << 20, 50_000: 64 << 20, 400_000: 64 << 20} {
		if testing.Short() && record != 3000 {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			log := newFakeLog()
			log.latency, log.cut = time.Millisecond, true
			for i := range size / (record + 20) / 4 {
				var rs []rec
				for j := range 4 {
					rs = append(rs, rec{key: fmt.Append(nil, "k", (i*4+j)%31), value: strings.Repeat("x", record)})
				}
				log.append(-1, rs...)
			}
			c := newCache(t, log, Config{})
			var wg sync.WaitGroup
			for _, s := range []split.Slicing{four, eight} {
				for slice := range s.K {
					wg.Go(func() {
						for pos := int64(0); ; {
							res := c.Fetch(t.Context(), ask(s, slice, pos))[0]
							if res.Err != nil {
								t.Error(res.Err)
								return
							}
							for _, r := range decode(t, res.Data) {
								pos = r.offset + 1
							}
							if len(res.Data) == 0 && res.End == pos {
								return
							}
						}
					})
				}
			}
			wg.Wait()
			if ratio := float64(log.bytes.Load()) / float64(log.size()); ratio > 1.05 {
				t.Errorf("records of %d bytes: the broker gave each byte %.2f times, in %d reads; %d bytes for ends, %d evictions", record, ratio, log.fetches.Load(), c.metrics.ScanBytes.Load(), c.metrics.Evictions.Load())
			}
			if u := c.Usage(); u.Cached > u.Max {
				t.Errorf("memory: %+v", u)
			}
		})
	}
}

// case V6: 200,000 records of a key of another slice do not keep the next 1,000 from their consumer.
func TestRecordsOfOtherSlicesAreSkippedInSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.latency = 2 * time.Millisecond
		log.fill(four, 0, 200_000, 500, strings.Repeat("x", 200))
		log.fill(four, 1, 1000, 100, "mine")
		c := newCache(t, log, Config{})
		start, n := time.Now(), 0
		for pos := int64(0); n < 1000; {
			res := fetchOne(c, ask(four, 1, pos))
			for _, r := range decode(t, res.Data) {
				n, pos = n+1, r.offset+1
			}
			if time.Since(start) > 2*time.Second {
				t.Fatalf("%d records after 2 s, scanned to %d", n, res.Scanned)
			}
		}
	})
}

func TestAFetchOfAnEmptySliceInABigLogIsAnsweredInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.latency = 20 * time.Millisecond
		log.fill(four, 0, 100_000, 100, strings.Repeat("x", 300))
		c := newCache(t, log, Config{LoadBytes: 100_000, ReadAhead: 1, TailScanBytes: 1 << 20})
		start, scanned := time.Now(), int64(0)
		for range 3 {
			req := ask(four, 1, 0)
			req.MaxWait = 200 * time.Millisecond
			res := fetchOne(c, req)
			if res.Err != nil || len(res.Data) > 0 || res.Scanned <= scanned {
				t.Fatalf("%+v, want to have scanned further than %d", res, scanned)
			}
			if res.EndKnown || res.End != 100_000 {
				t.Errorf("end %d %v, want the source's, as not known", res.End, res.EndKnown)
			}
			scanned = res.Scanned
		}
		if d := time.Since(start); d > 3*(200+100)*time.Millisecond {
			t.Errorf("3 fetches with a max wait of 200 ms took %v", d)
		}
	})
}

// case V5: a slice far behind the others gets its oldest open record, and those at the tail are not held up by it.
func TestASliceThatIsBehindReadsOnItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		for range 1000 {
			log.append(-1, rec{key: keyFor(four, 0), value: strings.Repeat("x", 1000)})
		}
		log.append(-1, rec{key: keyFor(four, 1), value: "old"})
		log.fill(four, 0, 5000, 10, strings.Repeat("x", 1000))
		up := &slowBelow{fakeLog: log, below: 2000, delay: 3 * time.Second}
		c := newCache(t, up, Config{MaxBytes: 2 << 20, LoadBytes: 100_000})
		old := make(chan SliceResult, 1)
		go func() {
			req := ask(four, 1, 1000)
			req.MaxWait = 10 * time.Second
			old <- fetchOne(c, req)
		}()
		synctest.Wait()
		pos := log.end
		for range 20 {
			go func() { time.Sleep(5 * time.Millisecond); log.fill(four, 0, 1, 1, "new") }()
			start := time.Now()
			res := fetchOne(c, ask(four, 0, pos))
			if len(res.Data) != 1 || time.Since(start) > 6*time.Millisecond {
				t.Fatalf("at the tail: %d batches after %v", len(res.Data), time.Since(start))
			}
			pos++
		}
		if rs := decode(t, (<-old).Data); len(rs) != 1 || rs[0].value != "old" {
			t.Errorf("the slice behind got %v", rs)
		}
	})
}

// slowBelow is slow for what lies far back, as a cluster that has to read it from disk.
type slowBelow struct {
	*fakeLog
	below int64
	delay time.Duration
}

func (s *slowBelow) Fetch(ctx context.Context, src Source, offset int64, rc bool, wait time.Duration, minBytes, maxBytes int32) (Fetched, error) {
	if offset < s.below {
		time.Sleep(s.delay)
	}
	return s.fakeLog.Fetch(ctx, src, offset, rc, wait, minBytes, maxBytes)
}

func TestMaxBytesAndMinBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.fill(four, 0, 20, 1, strings.Repeat("x", 1000))
		log.fill(four, 1, 20, 1, strings.Repeat("x", 1000))
		c := newCache(t, log, Config{})
		req := ask(four, 0, 0)
		req.Slices = append(req.Slices, SliceRequest{Source: src, Slicing: four, Slice: 1, Offset: 0, MaxBytes: 1 << 20})
		get := func(maxBytes, partMax, minBytes int32) (a, b int) {
			req.MaxBytes, req.MinBytes = maxBytes, minBytes
			req.Slices[0].MaxBytes = partMax
			res := c.Fetch(t.Context(), req)
			return len(res[0].Data), len(res[1].Data)
		}
		for range 2 { // cold, then out of memory
			if a, b := get(1, 1, 1); a+b != 1 { // of either: the load may end between the two
				t.Errorf("max bytes 1: %d and %d records, want one at all", a, b)
			}
			if a, b := get(1<<20, 3500, 1); a != 3 || b != 20 {
				t.Errorf("partition max bytes 3500: %d and %d records, want 3 and 20", a, b)
			}
			if a, b := get(25_000, 1<<20, 1); a != 20 || b > 3 {
				t.Errorf("max bytes 25000: %d and %d records", a, b)
			}
		}
		start := time.Now()
		if a, b := get(1<<20, 1<<20, 1<<19); a != 20 || b != 20 || time.Since(start) != req.MaxWait {
			t.Errorf("min bytes beyond what is there: %d and %d records after %v, want all after %v", a, b, time.Since(start), req.MaxWait)
		}
	})
}

func TestOutOfRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.fill(four, 0, 10, 1, "")
		log.fill(four, 1, 10, 1, "")
		log.deleteBefore(5)
		c := newCache(t, log, Config{})
		for pos, want := range map[int64]error{4: kerr.OffsetOutOfRange, 5: nil, 10: nil, 15: nil, 20: nil, 21: kerr.OffsetOutOfRange} {
			start := time.Now()
			res := fetchOne(c, ask(four, 0, pos))
			if res.Err != want || want != nil && time.Since(start) > 0 {
				t.Errorf("at %d: %v after %v, want %v", pos, res.Err, time.Since(start), want)
			}
			if want == nil && (res.End != max(pos, 10) || !res.EndKnown) {
				t.Errorf("at %d: end %d %v", pos, res.End, res.EndKnown)
			}
		}
	})
}

// A consumer that is at the end of a quiet slice when retention passes its position has lost nothing: a reset to latest would skip
// what comes meanwhile. case V14
func TestAQuietSliceOutlivesRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.fill(four, 1, 5, 1, "")
		log.fill(four, 0, 50, 1, "")
		c := newCache(t, log, Config{})
		if res := fetchOne(c, ask(four, 1, 5)); res.End != 5 || !res.EndKnown {
			t.Fatalf("%+v", res)
		}
		log.deleteBefore(40)
		if res := fetchOne(c, ask(four, 1, 5)); res.Err != nil || res.End != 5 {
			t.Fatalf("%+v", res)
		}
		log.fill(four, 1, 1, 1, "next")
		if rs := decode(t, fetchOne(c, ask(four, 1, 5)).Data); len(rs) != 1 || rs[0].value != "next" {
			t.Errorf("got %v", rs)
		}
		if res := fetchOne(c, ask(four, 0, 30)); res.Err != kerr.OffsetOutOfRange {
			t.Errorf("a slice whose records were deleted: %v", res.Err)
		}
		if end, _, _ := c.End(t.Context(), src, four, 2, false); end != 40 {
			t.Errorf("end of an empty slice %d, want the log start 40", end)
		}
	})
}

// case V12: the leader moves while consumers wait.
func TestErrorsReachWaitingFetchesAndPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, fault := range []error{kerr.NotLeaderForPartition, io.ErrUnexpectedEOF, kerr.LeaderNotAvailable} {
			log := newFakeLog()
			c := newCache(t, log, Config{})
			go func() { time.Sleep(100 * time.Millisecond); log.fail(fault) }()
			start := time.Now()
			if res := fetchOne(c, ask(four, 0, 0)); res.Err != kerr.NotLeaderForPartition || res.Data != nil {
				t.Errorf("%v: %+v", fault, res)
			}
			if d := time.Since(start); d > 110*time.Millisecond {
				t.Errorf("the error came after %v", d)
			}
			for range 20 { // clients come again
				fetchOne(c, ask(four, 0, 0))
			}
			if log.fetches.Load() > 40 {
				t.Errorf("the failing cluster was asked %d times", log.fetches.Load())
			}
			log.fail(nil)
			go func() { time.Sleep(10 * time.Millisecond); log.fill(four, 0, 1, 1, "after") }()
			start = time.Now()
			for {
				if res := fetchOne(c, ask(four, 0, 0)); len(res.Data) > 0 {
					break
				}
			}
			if d := time.Since(start); d > 200*time.Millisecond {
				t.Errorf("the record came after %v", d)
			}
		}
	})
}

// case V12: a host dies without a word, its connections stay open.
func TestABrokerThatDoesNotAnswerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		c := newCache(t, log, Config{})
		fetchOne(c, ask(four, 0, 0))
		log.setHang(true)
		req := ask(four, 0, 0)
		req.MaxWait = time.Minute
		start := time.Now()
		if res := fetchOne(c, req); res.Err != kerr.NotLeaderForPartition || time.Since(start) > 6*time.Second {
			t.Errorf("%+v after %v", res, time.Since(start))
		}
		log.setHang(false)
		log.fill(four, 0, 1, 1, "")
		if res := fetchOne(c, req); len(res.Data) != 1 {
			t.Errorf("%+v", res)
		}
	})
}

func TestWhatIsAnsweredForErrors(t *testing.T) {
	for err, want := range map[error]error{
		kerr.UnknownTopicID: kerr.UnknownTopicID, kerr.OffsetOutOfRange: kerr.OffsetOutOfRange, kerr.TopicAuthorizationFailed: kerr.TopicAuthorizationFailed,
		kerr.RequestTimedOut: kerr.NotLeaderForPartition, context.Canceled: kerr.NotLeaderForPartition, kerr.InvalidRequest: kerr.UnknownServerError,
		fmt.Errorf("x: %w", kerr.UnknownTopicOrPartition): kerr.UnknownTopicOrPartition, &split.Error{Kind: split.ErrTooLarge}: kerr.CorruptMessage,
	} {
		if got := kafkaError(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

func TestADamagedBatchStopsOnlyThoseWhoReachIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.fill(four, 0, 3, 1, "good")
		log.fill(four, 0, 1, 1, "bad")
		log.fill(four, 0, 3, 1, "good")
		raw := log.batches[3].raw
		raw[len(raw)-2] ^= 1
		var out bytes.Buffer
		c := newCache(t, log, Config{Logger: slog.New(slog.NewTextHandler(&out, nil))})
		if res := fetchOne(c, ask(four, 0, 0)); len(res.Data) != 3 || res.Err != nil {
			t.Errorf("before: %+v", res)
		}
		if res := fetchOne(c, ask(four, 0, 3)); !errors.Is(res.Err, kerr.CorruptMessage) {
			t.Errorf("at the damaged batch: %v", res.Err)
		}
		if res := fetchOne(c, ask(four, 0, 4)); len(res.Data) != 3 || res.Err != nil {
			t.Errorf("after: %+v", res)
		}
		if s := out.String(); !strings.Contains(s, "offset=3") || !strings.Contains(s, "CRC") && !strings.Contains(s, "crc") {
			t.Errorf("the log names no offset or cause: %s", s)
		}
	})
}

// After an unclean leader election other records may stand at the offsets that were read.
func TestATruncatedLogIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.fill(four, 0, 100, 10, "lost")
		c := newCache(t, log, Config{})
		if res := fetchOne(c, ask(four, 1, 0)); res.Scanned != 100 {
			t.Fatalf("%+v", res)
		}
		log.truncate(50)
		if res := fetchOne(c, ask(four, 0, 100)); res.Err != kerr.OffsetOutOfRange {
			t.Errorf("beyond the new end: %v", res.Err)
		}
		log.fill(four, 1, 100, 10, "new")
		if rs := decode(t, fetchOne(c, ask(four, 1, 0)).Data); len(rs) != 100 || rs[0].offset != 50 {
			t.Errorf("got %d records", len(rs))
		}
		if end, known, err := c.End(t.Context(), src, four, 0, false); end != 50 || !known || err != nil {
			t.Errorf("end %d %v %v, want 50", end, known, err)
		}
	})
}
