package client

import (
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client/internal/executor"
)

// outputs are the records that the handler of a record writes, or its dead letter.
type outputs struct {
	largest int // bytes of a record

	mu      sync.Mutex
	over    bool // the handler has returned
	records []*kgo.Record
	size    int

	written bool // of transactions
}

// perOutput is about what a record takes in a batch beside its bytes, at most.
const perOutput = 100

// Produce writes records in the transaction that commits r, if the handler succeeds: see Transactional. If it fails they are forgotten. The records must not be changed any more. It
// returns an error for those that are too large for a batch (kgo.ProducerBatchMaxBytes), and ErrNotTransactional without Transactional, for records from Poll, and when the handler has returned.
func (r *Record) Produce(records ...*kgo.Record) error {
	if r.out == nil {
		return ErrNotTransactional
	}
	return r.out.add(records)
}

func (o *outputs) add(records []*kgo.Record) error {
	size := 0
	for _, r := range records {
		n := describe(r).Size - perRecord + perOutput
		if n > o.largest {
			return fmt.Errorf("client: a record of %d bytes for topic %s: %w", n, r.Topic, kerr.MessageTooLarge)
		}
		if r.Topic == "" {
			return fmt.Errorf("client: a record without a topic: %w", kerr.InvalidTopicException)
		}
		size += n + perRecord
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return ErrNotTransactional
	}
	o.records = append(o.records, records...)
	o.size += size
	return nil
}

// bring hands over what a handler has written.
func (o *outputs) bring(t *executor.Task[*kgo.Record]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	if len(o.records) > 0 {
		t.Bring(o, o.size)
	}
}
