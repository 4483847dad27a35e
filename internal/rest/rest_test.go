package rest

import (
	"context"
	"testing"
	"time"
)

const mib = 1 << 20

var sink [][]byte

func TestWatchGivesMemoryBack(t *testing.T) {
	for range 128 {
		sink = append(sink, make([]byte, mib))
	}
	before := look()
	sink = nil
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { Watch(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	for within := time.Now().Add(30 * time.Second); look().held+100*mib > before.held; time.Sleep(50 * time.Millisecond) { // poll
		if time.Now().After(within) {
			t.Fatalf("held are %d MiB, before %d", look().held/mib, before.held/mib)
		}
	}
}

func TestDue(t *testing.T) {
	var w watcher
	look := func(what string, want bool, allocated, live, held uint64) {
		t.Helper()
		if got := w.due(sample{allocated, live, held}); got != want {
			t.Errorf("%s: %t", what, got)
		}
	}
	look("the start", false, 100*mib, 0, 100*mib)
	look("a burst", false, 400*mib, 45*mib, 100*mib)
	look("the first look after it", false, 401*mib, 45*mib, 100*mib)
	look("at rest", true, 402*mib, 45*mib, 100*mib)
	for range pause - 1 {
		look("just done", false, 403*mib, 45*mib, 100*mib)
	}
	for range 2 * pause {
		look("nothing happened since", false, 403*mib, 45*mib, 100*mib)
	}
	look("something", false, 412*mib, 45*mib, 100*mib)
	look("again", true, 424*mib, 45*mib, 100*mib)
	for range 2 * pause {
		look("there is nothing to give back", false, 440*mib, 45*mib, 60*mib)
	}
	for i := range uint64(2 * pause) {
		look("busy", false, (500+50*i)*mib, 45*mib, 100*mib)
	}
}
