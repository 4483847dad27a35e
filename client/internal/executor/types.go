package executor

import (
	"github.com/tandem-kafka/tandem/client/internal/done"
	"github.com/tandem-kafka/tandem/client/internal/offsets"
	"github.com/tandem-kafka/tandem/keyrange"
)

// TP names a partition.
type TP struct {
	Topic     string
	Partition int32
}

// Meta is what the machine has to know of a record.
type Meta struct {
	Offset int64
	Key    []byte // nil: no key. Its memory must not change
	Size   int    // bytes that count against Config.MaxBytes
}

// Assignment is what comes with new key ranges of a partition.
type Assignment struct {
	Keys  keyrange.Set // empty: the whole key axis
	Base  int32        // the partition count that places keys on the axis, >= 1
	Start int64        // the next offset to read: everything below it is done
	// Committed is what is done at or above Start.
	Committed []done.Committed
	// Retries are the attempts of records that are not done, from earlier commits.
	Retries []Retry
	// Guard is how many of the first records to come are guarded, 0 or more. See the package comment.
	Guard int
}

// Retry is a record that was attempted and is not done.
type Retry struct {
	Offset   int64
	Attempts int32 // ended, or, for a guarded record, begun
	NextAt   int64 // when its next attempt may begin
	Final    bool  // there is no further attempt: only its outcome is due
	Cause    string
	Hash     uint32 // keyrange.Murmur2 of its key
	Keyed    bool   // it has a key
}

// Position is where the record lies on the key axis.
func (r Retry) Position(base int32) uint32 {
	if r.Keyed {
		return keyrange.PositionOfHash(r.Hash, base)
	}
	return keyrange.NullPosition(r.Offset)
}

// Fetch is what a fetch of a partition brought.
type Fetch[R any] struct {
	// From is the offset that was asked for. Holdings that are to be fetched from below it take nothing.
	From int64
	// To is up to where the partition was looked through, exclusive. Less than behind the last record counts as that.
	To int64
	// Keys are the key ranges that were fetched. nil: all.
	Keys keyrange.Set
	// Records in rising order of offsets. Records of other key ranges are ignored, and so are those that were there before.
	Records []R
}

// Result is how a run of a Task ended.
type Result struct {
	Err   error // nil: done
	Delay int64 // with Err: how long to wait for the next attempt; 0: by the backoff
	Final bool  // with Err: no further attempt
}

// Output is what is to be done. Everything in it may be kept.
type Output struct {
	Flow     []Flow
	Commits  []Commit
	Rereads  []Reread
	Released []Released
	Flushed  []Flushed
	Reports  []Report
	Stopped  *Report // at most once
}

// Flow says that the fetch of a partition is to be paused or resumed.
type Flow struct {
	TP     TP
	Paused bool
}

// Commit is to be committed, and answered with CommitDone.
type Commit struct {
	ID        int64
	TP        TP
	Keys      keyrange.Set
	Watermark int64           // everything below it is done; -1: nothing to say
	Ranges    []offsets.Range // done above the watermark; sorted, disjoint
	Retries   []Retry         // all of the holding, by offset: they take the place of those committed before
	Outputs   []Outputs       // of records that the commit says are done, in the order in which their runs ended
}

// Reread asks for records that were shed: those of Keys from offset From on, as many as one fetch brings.
type Reread struct {
	ID   int64
	TP   TP
	From int64
	Keys keyrange.Set
}

// Released tells that key ranges that were revoked are free.
type Released struct {
	ID   int64 // of Revoke
	TP   TP
	Keys keyrange.Set
	// Running were not done in time. Their contexts are cancelled.
	Running []Info
	// Dropped is how many records in memory were not begun, or wait for another attempt.
	Dropped int
	// Uncommitted tells that something done could not be committed, and will be done again.
	Uncommitted bool
}

// Info is a record as people want to see it.
type Info struct {
	TP       TP
	Offset   int64
	Key      []byte
	Attempts int32 // ended ones
	Running  bool
	Since    int64 // when it was handed to a worker, or came into memory
	NextAt   int64 // of its next attempt; 0: as soon as possible
	Cause    string
}

// ReportKind says what a Report is about.
type ReportKind uint8

// The kinds of reports.
const (
	Failed           ReportKind = iota // an attempt failed; Info.NextAt says when the next is, 0: it was the last
	DeadLettered                       // the dead letter was accepted, the record is done
	DeadLetterFailed                   // the dead letter was not accepted, it is tried again
	Skipped                            // the record is done without success
	Stopped                            // the record stops everything
	Overdue                            // a run takes longer than its lease
	ShedHigh                           // three quarters of Config.MaxShed are reached; Info is a record that waits long
)

// Report is for logs and metrics.
type Report struct {
	Kind ReportKind
	Info
	Err error
}

// Position is where a holding is to be fetched from.
type Position struct {
	Keys keyrange.Set
	Next int64
}
