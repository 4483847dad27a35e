package record

import (
	"fmt"
	"math"

	"github.com/tandem-kafka/tandem/keyrange"
)

// Fact says that in a key range the offsets First to Last, both inclusive, are done.
type Fact struct {
	Keys        keyrange.Range
	First, Last int64
}

// Record is one record of the topic: it adds a fact, or deletes one.
type Record struct {
	Group     string
	Topic     string // the source topic
	Partition int32  // of the source topic
	Fact      Fact
	TopicID   [16]byte // of the source topic, zero where the cluster has no ids; zero in a deletion
	Era       int64    // in which the fact counts, >= 0; 0 in a deletion
	Delete    bool
}

// Check says what makes r impossible to encode: a key range or offsets in the wrong order or out of bounds.
func (r *Record) Check() error {
	switch f := &r.Fact; {
	case r.Partition < 0:
		return fmt.Errorf("partition %d", r.Partition)
	case f.Keys.First > f.Keys.Last:
		return fmt.Errorf("key range %d-%d", f.Keys.First, f.Keys.Last)
	case f.First < 0 || f.Last < f.First || f.Last == math.MaxInt64: // the offset after Last is an offset, too
		return fmt.Errorf("offset range %d-%d", f.First, f.Last)
	case r.Era < 0:
		return fmt.Errorf("era %d", r.Era)
	}
	return nil
}
