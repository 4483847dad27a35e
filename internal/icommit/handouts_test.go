package icommit_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/acquire"
	"github.com/tandem-kafka/tandem/internal/icommit"
	"github.com/tandem-kafka/tandem/internal/icommit/record"
)

// both keeps facts and handouts, in the order in which they come.
type both struct {
	mu   sync.Mutex
	seen []string
}

func (b *both) Apply(_ int32, records []record.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range records {
		b.seen = append(b.seen, show(r))
	}
}

func (b *both) ApplyHandouts(_ int32, records []record.Handout) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range records {
		b.seen = append(b.seen, fmt.Sprintf("@%d %s", r.Position, r.Entry.String()))
	}
}

func (b *both) Reset(int32) {}

func (b *both) sees() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.seen)
}

func acquisition(group string, id uint64, first, last int64) record.Handout {
	return record.Handout{Group: group, Topic: "orders", Partition: 2, TopicID: [16]byte{9}, Entry: acquire.Entry{Era: 1, ID: id, First: first, Last: last, Member: "m", Timeout: 1000, Attempt: 1}}
}

// Handouts come with their places in the log, in its order among facts; a handler that knows facts only gets those.
func TestHandoutsLieBetweenFacts(t *testing.T) {
	c := newCluster(t)
	a := c.gateway(icommit.Config{})
	facts := c.cluster.Facts()
	h := &both{}
	b := icommit.New(facts, h, icommit.Config{Logger: quiet}.Hasty())
	t.Cleanup(func() { b.Close(); facts.Close() })
	a.append("g", put("g", 1, 1))
	del := acquisition("g", 7, 2, 5)
	del.Entry = acquire.Entry{Era: 1, ID: 7, First: 2, Last: 5, Delete: true}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := b.AppendHandouts(ctx, "g", []record.Handout{acquisition("g", 7, 2, 5), del, acquisition("g", 8, 6, 6)}); err != nil {
		t.Fatal(err)
	}
	a.append("g", put("g", 3, 3))
	if err := b.CatchUp(ctx, "g"); err != nil {
		t.Fatal(err)
	}
	want := []string{"1..1", `@1 #7 "m" acquires 2-5, attempt 1, over []`, "@2 #7 deleted", `@3 #8 "m" acquires 6-6, attempt 1, over []`, "3..3"}
	if got := h.sees(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	a.sees("g", "1..1", "3..3")
	if err := b.AppendHandouts(ctx, "other", []record.Handout{acquisition("g", 9, 7, 7)}); err == nil {
		t.Error("a handout among those of another group")
	}
	if err := b.AppendHandouts(ctx, "g", []record.Handout{acquisition("g", 9, 7, 6)}); err == nil {
		t.Error("offsets in the wrong order")
	}
}
