package gateway

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// memoryFor is a memory of so many bytes that counts what it tells the cache, and what it drops.
func memoryFor(most int64) (m *chunkMemory, charged, dropped *atomic.Int64) {
	charged, dropped = new(atomic.Int64), new(atomic.Int64)
	return &chunkMemory{max: most, charge: func(n int64) { charged.Add(n) }, drop: func(v []*chunk) { dropped.Add(int64(len(v))) }}, charged, dropped
}

// Chunks that are in no answer make way for reads, those that were used longest ago first; where all are in answers reads wait, in turn, until one was sent.
func TestMemoryOfChunks(t *testing.T) {
	m, charged, dropped := memoryFor(100)
	ctx := t.Context()
	read := func(bytes int64) *chunk {
		t.Helper()
		if err := m.reserve(ctx, bytes); err != nil {
			t.Fatal(err)
		}
		k := &chunk{bytes: bytes - 10} // it is smaller than was asked for
		m.list(k, bytes)
		m.unpin([]*chunk{k})
		return k
	}
	want := func(held, drops int64) {
		t.Helper()
		if m.usage() != held || charged.Load() != held || dropped.Load() != drops {
			t.Fatalf("%d bytes are held, and counted as %d, and %d chunks were dropped; want %d and %d", m.usage(), charged.Load(), dropped.Load(), held, drops)
		}
	}
	a, b := read(50), read(50)
	want(80, 0)
	m.pin(a)
	c := read(50) // takes the place of b
	want(80, 1)
	m.pin(c)
	if b.listed != nil || a.listed == nil {
		t.Error("the wrong one was dropped")
	}
	// Both are in answers: who reads waits.
	waiting := make(chan error, 2)
	for _, bytes := range []int64{40, 30} {
		before := m.waits.Load()
		go func() { waiting <- m.reserve(ctx, bytes) }()
		for m.waits.Load() == before {
			time.Sleep(time.Millisecond)
		}
	}
	short, cancel := context.WithCancel(ctx)
	cancel()
	if err := m.reserve(short, 30); err == nil {
		t.Error("there is room")
	}
	want(80, 1)
	m.unpin([]*chunk{a}) // it can go now
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	want(80, 2)
	m.giveUp([]*chunk{c}) // its answer still holds it
	want(80, 2)
	m.unpin([]*chunk{c})
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	want(70, 2)
	m.add(-70)
	want(0, 2)
	if m.pin(b) || !b.gone.Load() {
		t.Error("what has made way is still there")
	}
	if err := m.reserve(ctx, 500); err != nil { // whatever it is, one has room
		t.Fatal(err)
	}
	want(500, 2)
}
