// Package facts is a random model of groups that commit individually: members that own key ranges of a source partition or slices of
// its views, several gateways with old pictures, the group's rows in Kafka, and the fact log. It drives internal/progress,
// internal/region and internal/icommit/ledger with what can go wrong around them: commits that are late, repeated, overtaken
// or lost; facts that are lost after the primary has taken them in, or overtaken by a reset; appends of several gateways in any order, repeated and torn;
// tombstones that are late or lost; compaction; a log that is deleted; gateways that restart; plain commits, resets, expiry,
// rewinds through views, growth. A history follows from its seed alone.
//
// The judge knows which records are done: those that a commit which the primary accepted says are. After every change it checks
// the guarantees of the project (invariants in check.go).
package facts
