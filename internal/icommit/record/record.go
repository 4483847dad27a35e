package record

import (
	"fmt"

	"github.com/tandem-kafka/tandem/internal/region"
	"github.com/tandem-kafka/tandem/keyrange"
)

// Fact is what a record adds.
type Fact = region.Fact

// Record is one record of the topic: it adds a fact, or deletes one.
type Record struct {
	Group     string
	Topic     string // the source topic
	Partition int32  // of the source topic
	// Base is the partition count that key positions are worked out with, see package keyrange; 0: the fact is for the whole key
	// axis, on which every base agrees.
	Base    int32
	Fact    Fact
	Era     int64    // in which the fact counts, >= 0
	TopicID [16]byte // of the source topic, zero where the cluster has no ids; zero in a deletion
	Delete  bool
}

// Check says what makes r impossible to encode: a key range or offsets in the wrong order or out of bounds.
func (r *Record) Check() error {
	switch f := &r.Fact; {
	case r.Partition < 0:
		return fmt.Errorf("partition %d", r.Partition)
	case r.Base < 0 || r.Base == 0 && f.Keys != keyrange.Full:
		return fmt.Errorf("base %d with key range %d-%d", r.Base, f.Keys.First, f.Keys.Last)
	case !f.Keys.Valid():
		return fmt.Errorf("key range %d-%d", f.Keys.First, f.Keys.Last)
	case !f.Valid():
		return fmt.Errorf("offset range %d-%d", f.First, f.Last)
	case r.Era < 0:
		return fmt.Errorf("era %d", r.Era)
	}
	return nil
}
