package run

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-kafka/tandem/client/internal/executor"
)

// throughput is how many records of keys that do not fail are done in a second, on a clock that only the handlers move: each takes 5 ms. Of 1,000 keys
// so many fail for ever. after is called when the others are done.
func throughput(t *testing.T, failing int, after func(h *host, attempts *int)) (rate float64) {
	synctest.Test(t, func(t *testing.T) {
		const records, keys, handlers, work = 100_000, 1000, 50, 5 * time.Millisecond
		names := make([]string, keys)
		for i := range names {
			if names[i] = fmt.Sprintf("key-%d", i); i%(keys/10) < failing/10 {
				names[i] = fmt.Sprintf("failing-%d", i)
			}
		}
		h, attempts := newHost(t, log(records, names...)), 0
		h.work = func(_ context.Context, r *record) error {
			time.Sleep(work)
			if strings.HasPrefix(string(r.key), "failing") {
				h.mu.Lock()
				defer h.mu.Unlock()
				attempts++
				return errFails
			}
			return nil
		}
		cfg := h.config(handlers)
		cfg.MaxAttempts, cfg.Report = 0, nil
		cfg.MaxRecords = 800 // fewer than there are behind the keys that fail
		cfg.Backoff = executor.Backoff{First: 100 * executor.Millisecond, Max: 30 * executor.Second, Jitter: 20}
		r := start(t, cfg)
		h.assign(t, r)
		begin := time.Now()
		go h.feed(r, 1000)
		others := records / keys * (keys - failing)
		until(t, "the others are done", func() bool { return h.count() == others })
		rate = float64(others) / time.Since(begin).Seconds()
		if after != nil {
			after(h, &attempts)
		}
		closed(t, r, time.Second)
		if h.count() != others || failing > 0 && h.watermark != 0 {
			t.Errorf("%d records are done, %d others; the watermark is %d", h.count(), others, h.watermark)
		}
	})
	return rate
}

// 1 % of the keys fail for ever: the others keep 95 % of their throughput, and an hour of retries takes no memory (case I6).
func TestKeysThatFailForEverCostTheOthersLittle(t *testing.T) {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	with := throughput(t, 10, func(h *host, attempts *int) {
		time.Sleep(5 * time.Minute) // all wait 30 s for their next attempt by then
		h.mu.Lock()
		before := *attempts
		h.mu.Unlock()
		from := heap()
		time.Sleep(time.Hour)
		grown := heap() - from
		h.mu.Lock()
		defer h.mu.Unlock()
		t.Logf("%d attempts in an hour, the heap grew by %d KiB", *attempts-before, grown>>10)
		if n := *attempts - before; n < 1000 || grown > 256<<10 {
			t.Errorf("%d attempts in an hour, the heap grew by %d bytes", n, grown)
		}
	})
	without := throughput(t, 0, nil)
	t.Logf("%.0f records/s of the others, %.0f where none fails: %.1f %%", with, without, 100*with/without)
	if with < 0.95*without {
		t.Errorf("%.0f records/s of the others, %.0f where none fails", with, without)
	}
}
