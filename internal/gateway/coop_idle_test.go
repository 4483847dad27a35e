package gateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/tandemmsg"
	"github.com/twmb/franz-go/pkg/kgo"
)

// givenOf is what the answer to a fetch of several partitions gives, by partition.
func (r *raw) givenOf() (given map[int32][]tandemmsg.AcquiredRange) {
	r.t.Helper()
	given = make(map[int32][]tandemmsg.AcquiredRange)
	for _, p := range r.fetched().Topics[0].Partitions {
		if of := r.acquired(&p); len(of) > 0 {
			given[p.Partition] = of
		}
	}
	return given
}

// Places that wait at the end of their partitions hold no memory, and no reads: with many of them, in little memory, a record in one of them comes, and so does a backlog, and no read has
// to wait for memory.
func TestIdlePlacesHoldNothing(t *testing.T) {
	t.Parallel()
	const idle, backlog = 100, 40
	w := ranged(t, func(c *Config) { c.CooperativeFetch, c.Limits.CacheBytes = true, 4<<20 })
	topic, group := w.names()
	w.topic(topic, idle+1)
	m := w.cooperate(group, topic)
	m.fetch(0) // its group does not rebalance any more
	memory := w.gw.coop.memory
	var partitions []int32
	for p := range int32(idle) {
		partitions = append(partitions, p)
	}
	waits := func() bool {
		return !slices.ContainsFunc(partitions, func(partition int32) bool {
			p := w.gw.coop.known(factKey{group, topic, partition})
			if p == nil {
				return true
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			return !p.chunks.polling || len(p.waiters) == 0
		})
	}
	r := m.send(time.Minute, partitions...)
	w.until("all wait at the end", waits)
	if n := memory.usage(); n != 0 {
		t.Errorf("they hold %d bytes", n)
	}

	c := w.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	value := []byte(strings.Repeat("x", 10_000))
	for range backlog {
		if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: idle, Value: value}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	other := w.cooperate(group+"-other", topic)
	other.fetch(0)
	last := int64(-1)
	w.until("the backlog is read", func() bool {
		for _, r := range other.send(time.Second, idle).givenOf()[idle] {
			last = max(last, r.Last)
		}
		return last == backlog-1
	})

	if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: 57, Value: value}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if given := fmt.Sprint(r.givenOf()); given != "map[57:[0-0]]" {
		t.Errorf("given is %s", given)
	}
	if n := memory.waits.Load(); n != 0 {
		t.Errorf("%d reads waited for memory", n)
	}
}
