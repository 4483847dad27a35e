package icommit

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/icommit/record"
	"github.com/tandem-kafka/tandem/keyrange"
	"github.com/twmb/franz-go/pkg/kerr"
)

// fake is a cluster whose topic has one partition, and which does what a test says.
type fake struct {
	mu      sync.Mutex
	topic   Topic
	found   bool
	batches []batch
	stable  int64
	start   int64
	epochs  map[int32]int64 // leader epoch -> its end
	fetch   func(offset int64) error
	end     func() error
	ended   func() // called after the answer to End was found
	calls   int    // of Fetch
	wake    chan struct{}
}

type batch struct {
	first, last int64
	raw         []byte
}

func newFake() *fake {
	return &fake{topic: Topic{ID: [16]byte{1}, Partitions: 1}, found: true, wake: make(chan struct{}), epochs: map[int32]int64{}}
}

// change changes the log and wakes long polls.
func (u *fake) change(do func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	do()
	close(u.wake)
	u.wake = make(chan struct{})
}

// add appends a batch of epoch with one fact [n, n] for each n.
func (u *fake) add(epoch int32, facts ...int64) {
	u.change(func() {
		b := rawBatch(u.stable, epoch, facts)
		u.batches = append(u.batches, batch{u.stable, u.stable + int64(len(facts)) - 1, b})
		u.stable += int64(len(facts))
		u.epochs[epoch] = u.stable
	})
}

// cut makes the log end at offset.
func (u *fake) cut(offset int64) {
	u.batches = slices.DeleteFunc(u.batches, func(b batch) bool { return b.first >= offset })
	u.stable = offset
	for e, end := range u.epochs {
		u.epochs[e] = min(end, offset)
	}
}

func (u *fake) Topic(context.Context) (Topic, bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.found {
		return Topic{}, false, nil
	}
	return u.topic, true, nil
}

func (u *fake) Create(ctx context.Context) (Topic, error) {
	u.change(func() { u.found = true })
	t, _, err := u.Topic(ctx)
	return t, err
}

func (u *fake) Append(context.Context, Topic, int32, []Entry) error { return nil }

func (u *fake) Enlist(context.Context, Topic, int32, *Txn) error { return nil }

func (u *fake) AppendIn(context.Context, Topic, int32, *Txn, []Entry) (int64, error) { return 0, nil }

func (u *fake) Fetch(ctx context.Context, t Topic, _ int32, offset int64, maxWait time.Duration) (Fetched, error) {
	u.mu.Lock()
	u.calls++
	u.mu.Unlock()
	for {
		u.mu.Lock()
		wake := u.wake
		if !u.found || u.topic != t {
			u.mu.Unlock()
			return Fetched{}, kerr.UnknownTopicID
		}
		if u.fetch != nil {
			if err := u.fetch(offset); err != nil {
				u.mu.Unlock()
				return Fetched{}, err
			}
		}
		if offset > u.stable || offset < u.start {
			u.mu.Unlock()
			return Fetched{}, kerr.OffsetOutOfRange
		}
		got := Fetched{End: u.stable}
		for _, b := range u.batches {
			if b.last >= offset {
				got.Raw = append(got.Raw, b.raw...)
			}
		}
		u.mu.Unlock()
		if len(got.Raw) > 0 || maxWait <= 0 {
			return got, nil
		}
		select {
		case <-wake:
		case <-time.After(maxWait):
			maxWait = 0
		case <-ctx.Done():
			return Fetched{}, ctx.Err()
		}
	}
}

func (u *fake) Start(context.Context, Topic, int32) (int64, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.start, nil
}

func (u *fake) End(context.Context, Topic, int32) (int64, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.end != nil {
		if err := u.end(); err != nil {
			return 0, err
		}
	}
	end := u.stable
	if u.ended != nil {
		u.ended()
	}
	return end, nil
}

func (u *fake) EpochEnd(_ context.Context, _ Topic, _, epoch int32) (int32, int64, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for e := epoch; e >= 0; e-- {
		if end, ok := u.epochs[e]; ok {
			return e, end, nil
		}
	}
	return -1, -1, nil
}

func fact(n int64) record.Record {
	return record.Record{Group: "g", Topic: "orders", Fact: record.Fact{Keys: keyrange.Full, First: n, Last: n}}
}

// rawBatch is a record batch of magic 2.
func rawBatch(base int64, epoch int32, facts []int64) []byte {
	be := binary.BigEndian
	b := make([]byte, batchHead)
	for i, n := range facts {
		r := fact(n)
		key, value := record.AppendKey(nil, &r), record.AppendValue(nil, &r)
		body := []byte{0}
		body = binary.AppendVarint(body, 0)
		body = binary.AppendVarint(body, int64(i))
		body = append(binary.AppendVarint(body, int64(len(key))), key...)
		body = append(binary.AppendVarint(body, int64(len(value))), value...)
		body = binary.AppendVarint(body, 0)
		b = append(binary.AppendVarint(b, int64(len(body))), body...)
	}
	be.PutUint64(b, uint64(base))
	be.PutUint32(b[8:], uint32(len(b)-12))
	be.PutUint32(b[12:], uint32(epoch))
	b[16] = 2
	be.PutUint32(b[23:], uint32(len(facts)-1))
	for i := 43; i < 57; i++ { // no producer
		b[i] = 0xff
	}
	be.PutUint32(b[57:], uint32(len(facts)))
	be.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// facts is a handler that keeps the offsets done.
type facts struct {
	mu     sync.Mutex
	done   []int64
	resets int
	apply  func() // called by Apply
}

func (h *facts) Apply(_ int32, rs []record.Record) {
	if h.apply != nil {
		h.apply()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range rs {
		h.done = append(h.done, r.Fact.First)
	}
}

func (h *facts) Reset(int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = nil
	h.resets++
}

func newLog(t *testing.T, u *fake) (*Log, *facts) {
	h := &facts{}
	l := New(u, h, Config{Wait: 5 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), gap: 50 * time.Millisecond, backoff: time.Millisecond})
	t.Cleanup(l.Close)
	return l, h
}

// sees catches up, and checks what was handed over since the last reset and how many of them there were.
func sees(t *testing.T, l *Log, h *facts, resets int, want ...int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := l.CatchUp(ctx, "g"); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.done, want) || h.resets != resets {
		t.Fatalf("%v after %d resets, want %v after %d", h.done, h.resets, want, resets)
	}
}

func (h *facts) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprint(h.done)
}
