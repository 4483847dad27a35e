// Package executor is the heart of the client's handler mode: it decides which record runs when, and what is committed when.
//
// A Machine is a state machine without goroutines, locks and clocks. Events go in as method calls with the time as an
// argument: ranges were assigned or revoked, records were fetched, a worker asks for records (Take), a record's run ended
// (Finish), a commit was answered. What is to be done comes out of Output: pause or resume a partition, send commits, read
// records again, tell that a revocation is over; and of Cancelled: the runs to cancel. NextWake says when Tick is due.
//
//   - Holding: the key ranges of one partition that were assigned together. It has its own fetch position, its own done
//     Tracker, its own commits. Revoking a part of its key ranges splits it.
//   - Task: one record in memory. It is queued behind its key, ready, delayed until its next attempt, or handed to a worker.
//   - Key: exists while its records are in memory. While one of them is handed out none of the others becomes ready, also
//     when the holding was lost and came back meanwhile. Records without a key have no order.
//   - Ready tasks start in the order in which they arrived. So a key that lags behind goes first, and the hottest key, which
//     decides how long everything takes, never waits for its turn.
//
// Memory. Records and bytes in memory are bounded: a partition is paused when it holds more than four times of what is free,
// so that many can share the bound and none takes all. A blocked key would fill the memory in time, and then everybody would
// wait for it. So when a partition is paused, workers are idle and nothing is ready, the records that wait behind blocked
// keys are shed: only their offsets are kept, and they are read again when their key comes to them. The number of shed
// records is bounded, too; at that bound partitions stay paused.
//
// Retries. A failed record blocks its key until its next attempt. Its attempts and next attempt are part of the holding's
// commits (Retries), and come back with the next Assign, so that they survive the process.
//
// Handover. What was begun ends and is committed before key ranges are given back. Where only a watermark is durable, what lies below the last record that was begun is done
// first, too (catchUp).
//
// Outputs. What the runs of records brought stays with their holding until a commit says that they are done, and is part of that commit. It counts as memory.
//
// Guarded records are those that may have killed the process: they run one at a time, and each is counted durably before it
// starts, so that the one that kills is found and the others keep their counts.
//
// The package is pure: time is in nanoseconds since the Unix epoch, and comes as an argument. Durations are in nanoseconds.
// A Machine is not safe for concurrent use; package run makes it so.
package executor
