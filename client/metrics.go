package client

import (
	"time"

	"github.com/tandem-kafka/tandem/client/internal/executor"
	"github.com/tandem-kafka/tandem/keyrange"
)

// Hook are functions that are told what happens, for counters and histograms. Each may be nil. They are called by
// several goroutines at once and must return at once.
type Hook struct {
	// Fetched: a fetch brought so many records. lag is how many offsets the partition has behind them, -1: not known.
	Fetched func(topic string, partition int32, records, bytes int, lag int64)
	// Handled: a handler returned.
	Handled func(topic string, partition int32, took time.Duration, err error)
	// Committed: what is done of key ranges of a partition is committed, or not: err. The commit had so many offset ranges above the watermark.
	Committed func(topic string, partition int32, keys keyrange.Set, offsetRanges int, took time.Duration, err error)
	// Event: something happened to a record that somebody may want to know of.
	Event func(Event)
}

// Metrics sets the functions that are told what happens.
func Metrics(h Hook) Option { return func(c *config) { c.hook = h } }

// EventKind says what an Event is about.
type EventKind uint8

// The kinds of events, in the order of executor.ReportKind.
const (
	Failed           EventKind = iota // an attempt failed; NextAt says when the next is, zero: it was the last
	DeadLettered                      // the dead letter is written
	DeadLetterFailed                  // the dead letter could not be written; it is tried again
	Skipped                           // the record was given up and counts as done
	Stopped                           // the record was given up and stops the client
	Overdue                           // a handler runs longer than its lease
	Backlog                           // three quarters of what may be left behind blocked keys is; the record is one that waits long
)

// RecordInfo says how a record fares.
type RecordInfo struct {
	Topic     string
	Partition int32
	Offset    int64
	Key       []byte
	Attempts  int       // ended ones
	Running   bool      // its handler runs
	Since     time.Time // when the handler began, else when the record came
	NextAt    time.Time // of the next attempt; zero: as soon as possible
	Cause     string    // the last attempt's error
}

// Event is something that happened to a record.
type Event struct {
	Kind EventKind
	RecordInfo
	Err error
}

// Stats is what a client holds now.
type Stats struct {
	Records, Ready, Delayed, Running int   // in memory: all; those that could start; those that wait for another attempt; those whose handlers run
	Shed                             int   // records behind blocked keys that are left to be read again
	Bytes                            int64 // of the records in memory
	PausedPartitions                 int   // whose fetch waits for memory
	FetchedBytes                     int64 // that wait to be taken in, as they were sent
}

func infoOf(i executor.Info) RecordInfo {
	r := RecordInfo{Topic: i.TP.Topic, Partition: i.TP.Partition, Offset: i.Offset, Key: i.Key, Attempts: int(i.Attempts), Running: i.Running, Cause: i.Cause}
	if i.Since != 0 {
		r.Since = time.Unix(0, i.Since)
	}
	if i.NextAt != 0 {
		r.NextAt = time.Unix(0, i.NextAt)
	}
	return r
}
