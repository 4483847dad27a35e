package inspect

import (
	"time"

	"github.com/tandem-kafka/tandem/client/internal/offsets"
	"github.com/tandem-kafka/tandem/keyrange"
)

// Group is how a group stands.
type Group struct {
	Name     string
	State    string // as Kafka calls it; "Dead": there is no such group, or only its offsets
	Assignor string
	Members  []Member
	// Partitions are those that the group has committed offsets of, or its members own; of views the partitions of their sources.
	Partitions []Partition
	// Notes say what could not be found out.
	Notes []string
}

// Member is a member of the group.
type Member struct {
	ID         string
	InstanceID string // of a static member
	ClientID   string
	Host       string // as the broker sees it: behind a gateway, the gateway's
	Parts      []Part
}

// Part is what a member owns of a partition.
type Part struct {
	Topic     string
	Partition int32
	Keys      keyrange.Set // none: all of it
	Base      int32        // of the positions of Keys

}

// OffsetRange is the offsets First to Last, both inclusive.
type OffsetRange = offsets.Range

// Partition is how the group stands in a partition that stores records.
type Partition struct {
	Topic     string
	Partition int32
	Stable    int64 // the stable offset: everything below it is done; -1: the group has committed nothing
	Start     int64 // of the log
	End       int64 // of the log
	// Open are the offset ranges from the stable offset to the end that are not done for all keys: the first of them, and how many there are.
	Open      []OffsetRange
	OpenCount int
	// Records are the oldest records that are not done, one for each key: the first of it; and those whose attempts are kept. By offset.
	Records []Record
	// Cut tells that the search for them ended early: there may be more.
	Cut   bool
	Views []View
}

// View is how the group stands in a view of a partition.
type View struct {
	Name       string
	Partitions []Virtual // that show the partition's records
}

// Virtual is a virtual partition.
type Virtual struct {
	Partition int32
	Committed int64 // where the group goes on; -1: not known
	End       int64
	Owner     *Member // nil: none
}

// Record is a record that is not done.
type Record struct {
	Offset    int64
	Key       []byte // nil: none
	Timestamp time.Time
	Owner     *Member // nil: none, or any of those that share by record
	// View and Virtual are where the owner has it, if it has it through a view.
	View    string
	Virtual int32

	// What members of package client keep of it; else all is zero.
	Attempts int       // that ended, or began where each might end the process
	NextAt   time.Time // of the next attempt; zero: as soon as possible
	Final    bool      // there is no further one
	Cause    string    // the last one's error
}
