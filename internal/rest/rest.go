// Package rest gives memory back to the system when a process comes to rest. Go's collector lets the heap grow to twice what is in use before it looks
// at it, and its background scavenger keeps a tenth more than that goal: after a burst, such as a million committed ranges that were read, that
// stays for as long as little happens.
package rest

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	every  = time.Second // between two looks
	quiet  = 16 << 20    // bytes that may be allocated between two looks of a process at rest
	spared = 16 << 20    // bytes that are not worth a collection
	pause  = 10          // looks from one time to the next
)

// sample is what there is at a look.
type sample struct {
	allocated uint64 // bytes, since the process began
	live      uint64 // bytes that the last collection found in use
	held      uint64 // bytes of the heap that the system counts as the process's
}

// watcher decides when it is time.
type watcher struct {
	last  sample
	calm  int    // looks without much allocation
	after int    // looks until it may be time again
	gave  uint64 // what was allocated when it was time last
}

// due takes in a look, and reports whether memory is to be given back.
func (w *watcher) due(s sample) bool {
	if w.calm++; s.allocated-w.last.allocated > quiet {
		w.calm = 0
	}
	w.last = s
	if w.after--; w.after > 0 || w.calm < 2 || s.held < s.live+s.live/8+spared || s.allocated < w.gave+spared {
		return false
	}
	w.after, w.gave = pause, s.allocated
	return true
}

// look takes a sample of this process.
func look() sample {
	list := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(list)
	v := func(i int) uint64 { return list[i].Value.Uint64() }
	return sample{allocated: v(0), live: v(1), held: v(2) + v(3) + v(4)}
}

// Watch looks until ctx ends.
func Watch(ctx context.Context) {
	t := time.NewTicker(every)
	defer t.Stop()
	for w := (watcher{}); ; {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if w.due(look()) {
			debug.FreeOSMemory()
		}
	}
}
