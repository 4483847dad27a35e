// Package facts is a random model of groups that commit individually: members that own key ranges of a source partition or slices of
// its views, several gateways with old pictures, the group's rows in Kafka, and the fact log. It drives internal/progress,
// internal/region and internal/icommit/ledger with what can go wrong around them: commits that are late, repeated, overtaken
// or lost; facts that are lost after the primary has taken them in, or overtaken by a reset; appends of several gateways in any order, repeated and torn;
// tombstones that are late or lost; compaction; a log that is deleted; gateways that restart; plain commits, resets, expiry,
// rewinds through views, growth. A history follows from its seed alone.
//
// In some of the groups all members commit in transactions, in others some do: facts that are appended and whose rows are refused, lost or late; transactions that are
// decided late, in another order, aborted, or timed out; markers that reach the log and the group coordinator at different times, after the producer's next transaction began; clients that
// commit what was refused; readers that begin at the start of a log that was compacted with transactions in it. Where all do, what a committed transaction did is
// done once, and never handed out again.
//
// The judge knows which records are done: those that a commit which the primary accepted says are. After every change it checks
// the guarantees of the project (invariants in check.go).
package facts
